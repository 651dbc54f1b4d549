"""Compare the speed of two checkouts of Eyechart, alternating in one run.

    python benchmarks/versions.py ../eyechart-0.2      ratios of this checkout's time to the other's, by part

Parts: a cold evaluation, the same images with other templates (the text side), the same again (all cached), and
recall in both directions on given vectors.
"""

from __future__ import annotations

import argparse
import compileall
import json
import statistics
import subprocess
import sys
from pathlib import Path

from peer import FOLDER, ROOT, Cost, run
from speed import flags, fresh
from speed_data import OTHER_TEMPLATES, write_classification


def main() -> None:
    """Run each part of each checkout in turn; print the median CPU and wall times and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="a checkout of another version")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--vectors", type=int, default=5000)
    args = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    root = write_classification(FOLDER / "data" / f"classes{args.images}", args.images)
    templates = FOLDER / "other_templates.txt"
    templates.write_text("\n".join(OTHER_TEMPLATES))
    checkouts = {"this": ROOT, "other": args.other.absolute()}
    costs: dict[tuple[str, str], list[Cost]] = {}
    for checkout in checkouts.values():
        compileall.compile_dir(checkout / "src", quiet=1)
    for number in range(args.rounds):
        sides = list(checkouts.items())
        for name, checkout in sides if number % 2 else reversed(sides):
            cache = fresh(name)
            (FOLDER / f"{name}.json").unlink(missing_ok=True)
            command = [*flags(root, f"{name}.json", "--no_amp"), "--quiet"]
            parts = {
                "cold": command,
                "other templates": [*command, "--custom_template_file", str(templates)],
                "again": command,
            }
            environment = {"PYTHONPATH": str(checkout / "src"), "EYECHART_CACHE": str(cache)}
            for part, words in parts.items():
                cost = run([sys.executable, "-m", "eyechart", *words], **environment)
                costs.setdefault((part, name), []).append(cost)
            costs.setdefault(("recall", name), []).append(recall(checkout, args.vectors))
    for part in dict.fromkeys(part for part, _ in costs):
        this, other = (
            [statistics.median(getattr(cost, kind) for cost in costs[part, name]) for kind in ("cpu", "wall")]
            for name in checkouts
        )
        ratios = [mine / theirs for mine, theirs in zip(this, other, strict=True)]
        print(
            f"{part:16} cpu {this[0]:7.2f} / {other[0]:7.2f} s = {ratios[0]:.3f}   wall = {ratios[1]:.3f}", flush=True
        )


def recall(checkout: Path, vectors: int) -> Cost:
    """Time the checkout's ranking of images and texts, without start-up."""
    command = [sys.executable, str(checkout / "benchmarks" / "sides" / "recall_ours.py"), str(vectors)]
    environment = {"PYTHONPATH": str(checkout / "src"), "OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return Cost(found["wall"], found["cpu"], 0)


if __name__ == "__main__":
    main()
