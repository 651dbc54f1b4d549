"""Measure Eyechart against CLIP_benchmark 1.6.2, alternating, with the same thread settings, in one run.

    make bench                     the full size: 2000 images, 2000 prompts; an hour or more
    make bench SCALE=0.1           a tenth of the images

An absolute time means nothing on a shared machine; the ratios do. Metrics of both sides must agree. The table goes to
benchmarks/results/ as Markdown and JSON; `--only` measures some parts again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from growth_plot import growth_plot
from peer import FOLDER, MODEL, PEER, Cost, make_checkpoint, make_peer, run, run_ours, run_peer
from speed_alone import ALONE, growth_row
from speed_data import CLASSES, OTHER_TEMPLATES, TEMPLATES, write_classification, write_retrieval
from speed_table import write_table

HERE = Path(__file__).parent
Row = dict[str, object]


def main() -> None:
    """Run the selected parts and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the images")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side runs")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), help="which comparisons")
    args = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not ALONE.keys() >= set(args.only):
        make_peer()
        make_checkpoint()
    for name in args.only:
        rows = PARTS[name](args.scale, args.rounds)
        write_table(list(PARTS), name, {"scale": args.scale, "rounds": args.rounds, "rows": rows})


def flags(root: Path, output: str, *extra: str) -> list[str]:
    """Return the flags that both sides accept."""
    words = ["eval", "--dataset", f"wds/{root.name}", "--dataset_root", str(root), "--model", MODEL]
    return [
        *words,
        "--pretrained",
        str(make_checkpoint()),
        "--output",
        str(FOLDER / output),
        "--num_workers",
        "2",
        *extra,
    ]


def alternate(rounds: int, sides: dict[str, Callable[[], Cost]]) -> dict[str, Cost]:
    """Run the sides in turn and return their medians."""
    costs: dict[str, list[Cost]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            costs[name].append(side())
            print(f"  {name}: {costs[name][-1]}", flush=True)
    return {
        name: Cost(*(statistics.median(getattr(cost, key) for cost in found) for key in ("wall", "cpu", "peak_mb")))
        for name, found in costs.items()
    }


def compare(title: str, wanted: float, peer: Cost, ours: Cost) -> Row:
    """Make a row of the table."""
    row = {
        "what": title,
        "peer wall s": round(peer.wall, 2),
        "ours wall s": round(ours.wall, 2),
        "wall ratio": round(peer.wall / ours.wall, 2),
        "cpu ratio": round(peer.cpu / ours.cpu, 2),
        "wanted": wanted,
    }
    print(row, flush=True)
    return row


def fresh(name: str) -> Path:
    """Return an empty cache folder."""
    folder = FOLDER / "caches" / name
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def same_metrics(first: str, second: str, n: int) -> None:
    """Stop if the two sides do not agree to within one sample."""
    one, two = (json.loads((FOLDER / name).read_text())["metrics"] for name in (first, second))
    for key in one:
        if key in two and abs(one[key] - two[key]) > 1 / n + 1e-6:
            raise SystemExit(f"{key}: {one[key]} and {two[key]} differ")


def classification(scale: float, rounds: int) -> list[Row]:
    """End to end; then with other templates; then the same again."""
    n = max(20, int(2000 * scale))
    root = write_classification(FOLDER / "data" / f"classes{n}", n)
    other = FOLDER / "other_templates.txt"
    other.write_text("\n".join(OTHER_TEMPLATES))
    warm = fresh("warm")
    command = flags(root, "ours.json", "--no_amp")
    costs = alternate(
        rounds,
        {
            "peer": lambda: run_peer(flags(root, "peer.json", "--no_amp")),
            "ours": lambda: run_ours(command, fresh("warm")),
            "other templates": lambda: run_ours(
                [*flags(root, "other.json", "--no_amp"), "--custom_template_file", str(other)], warm
            ),
            "again": lambda: run_ours(flags(root, "again.json", "--no_amp"), warm),
        },
    )
    same_metrics("peer.json", "ours.json", n)
    title = f"zero-shot classification, {n} images, 2000 prompts, fp32"
    return [
        compare(title, 1.5, costs["peer"], costs["ours"]),
        compare("the same images with other templates", 6, costs["peer"], costs["other templates"]),
        compare("the same again", 50, costs["peer"], costs["again"]),
        other_work(),
    ]


def other_work() -> Row:
    """Print the share of our wall time outside the model's forward pass and start-up."""
    profile = json.loads((FOLDER / "ours.json").read_text())["provenance"]["profile"]
    model = profile.get("encode images", 0) + profile.get("encode texts", 0)
    working = profile["total"] - profile.get("load", 0)
    share = f"{1 - model / working:.1%}"
    return {"what": "share of ours that is not the model's work, start-up aside", "value": share, "wanted": "< 5%"}


def default_precision(scale: float, rounds: int) -> list[Row]:
    """Compare defaults at a fifth of both sizes: the peer's is bfloat16, which this kind of CPU has to emulate."""
    n = max(20, int(400 * scale))
    root = write_classification(FOLDER / "data" / f"fifth{n}", n, classes=20)
    sides = {
        "peer": lambda: run_peer(flags(root, "peer_amp.json")),
        "ours": lambda: run_ours(flags(root, "ours_default.json"), fresh("default")),
    }
    costs = alternate(rounds, sides)
    return [compare(f"defaults of both, {n} images, 400 prompts", 5, costs["peer"], costs["ours"])]


def retrieval(scale: float, rounds: int) -> list[Row]:
    """Compare retrieval end to end."""
    n = max(20, int(1000 * scale))
    root = write_retrieval(FOLDER / "data" / f"captions{n}", n)
    extra = ["--no_amp", "--task", "zeroshot_retrieval", "--recall_k", "1", "5", "10"]
    sides = {
        "peer": lambda: run_peer(flags(root, "peer_r.json", *extra)),
        "ours": lambda: run_ours(flags(root, "ours_r.json", *extra), fresh("retrieval")),
    }
    costs = alternate(rounds, sides)
    same_metrics("peer_r.json", "ours_r.json", n)
    return [compare(f"retrieval, {n} images x 5 captions, fp32", 1.5, costs["peer"], costs["ours"])]


def scripts(name: str, rounds: int, *arguments: str) -> dict[str, dict[str, float]]:
    """Run a script of both sides alternately; each prints JSON; return the medians."""
    found: dict[str, list[dict[str, float]]] = {"peer": [], "ours": []}
    for _ in range(rounds):
        for side, python in (("peer", str(PEER / "bin" / "python")), ("ours", sys.executable)):
            command = [python, str(HERE / "sides" / f"{name}_{side}.py"), *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[side].append(json.loads(done.stdout.strip().splitlines()[-1]))
            print(f"  {name} {side}: {found[side][-1]}", flush=True)
    return {side: {key: statistics.median(row[key] for row in rows) for key in rows[0]} for side, rows in found.items()}


def text_side(scale: float, rounds: int) -> list[Row]:
    """Compare the text tower alone: one forward per class at full length, against distinct, sorted, cut texts."""
    classes = str(max(3, int(100 * scale)))
    costs = scripts("text", rounds, str(make_checkpoint()), classes)
    peer, ours = (Cost(costs[side]["wall"], costs[side]["cpu"], 0) for side in ("peer", "ours"))
    return [compare(f"text side alone, {classes} classes x 20 templates", 5, peer, ours)]


def scores(scale: float, rounds: int) -> list[Row]:
    """Compare recall@{1,5,10} in both directions on given vectors, and its memory."""
    n = str(max(100, int(5000 * scale)))
    costs = scripts("recall", rounds, n)
    peer, ours = costs["peer"], costs["ours"]
    for key in peer:
        if "recall" in key and abs(peer[key] - ours[key]) > 1.01 / int(n):
            raise SystemExit(f"{key}: {peer[key]} and {ours[key]} differ")
    row = compare(
        f"recall@1,5,10 both ways, {n} x {5 * int(n)}", 20, *(Cost(c["wall"], c["cpu"], 0) for c in (peer, ours))
    )
    memory = {
        "what": "its extra memory, MB",
        "peer wall s": round(peer["extra_mb"], 1),
        "ours wall s": round(ours["extra_mb"], 1),
        "wall ratio": round(peer["extra_mb"] / max(ours["extra_mb"], 1), 1),
        "wanted": 50,
    }
    return [row, memory]


def large(scale: float, rounds: int) -> list[Row]:  # noqa: ARG001 - one run is enough for a peak
    """Score 30,000 images against 150,000 captions, where the peer needs more than 22 GB."""
    n = str(int(30_000 * scale))
    done = subprocess.run([sys.executable, str(HERE / "sides" / "recall_ours.py"), n], capture_output=True, check=True)
    found = json.loads(done.stdout.decode().strip().splitlines()[-1])
    value = f"{found['peak_mb']:.0f} MB peak, {found['wall']:.0f} s"
    return [{"what": f"recall both ways, {n} x {5 * int(n)}, ours alone", "value": value, "wanted": "< 2000 MB"}]


def growth(scale: float, rounds: int) -> list[Row]:  # noqa: ARG001 - one run per size
    """Show how a cold command scales with images and prompts, with the embedded model."""
    thousands = [int(1000 * times * scale) for times in (1, 2, 4, 8, 16)]
    images = [(n, *_cold(write_classification(FOLDER / "data" / f"classes{n}", n))) for n in thousands]
    few = write_classification(FOLDER / "data" / "classes100", 100)
    prompts = [(n, *_cold(few, "--custom_template_file", str(_templates(n // len(CLASSES))))) for n in thousands]
    rows: list[Row] = []
    for what, points in {"images": images, "prompts": prompts}.items():
        (HERE / "results" / f"growth_{what}.svg").write_text(growth_plot(points, what))
        peaks = ", ".join(f"{peak:.0f}" for _, _, peak in points)
        row = growth_row(f"a cold command, {what}", [(n, cpu) for n, cpu, _ in points])
        rows += [row, {"what": f"its peak memory, {what}", "value": f"{peaks} MB"}]
    return rows


def _cold(root: Path, *extra: str) -> tuple[float, float]:
    """Return the CPU seconds and the peak in MB of an evaluation with an empty store."""
    words = ["eval", "--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained", "eyechart-tiny"]
    words += ["--dataset", "wds/x", "--dataset_root", str(root), "--output", str(FOLDER / "growth.json"), *extra]
    command = [sys.executable, str(HERE / "sides" / "peak.py"), *words, "--quiet"]
    cost = run(command, EYECHART_CACHE=str(fresh("growth")))
    peak = float((FOLDER / "peak_mb.txt").read_text())
    print(f"  {root.name} {' '.join(extra)}: {cost.cpu:.1f} cpu s, {peak:.0f} MB", flush=True)
    return cost.cpu, peak


def _templates(n: int) -> Path:
    """Write this many templates, once."""
    path = FOLDER / "data" / f"templates{n}.txt"
    path.write_text("\n".join(f"{TEMPLATES[i % len(TEMPLATES)]} It is number {i}." for i in range(n)))
    return path


def store(scale: float, rounds: int) -> list[Row]:  # noqa: ARG001 - one run is enough
    """Open a store of a million vectors of 512 numbers, look up all keys, read all vectors."""
    n = max(1000, int(1_000_000 * scale))
    command = [sys.executable, str(HERE / "sides" / "store_ours.py"), str(n), str(FOLDER)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    value = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in found.items())
    return [{"what": f"store of {n} vectors", "value": value, "wanted": "seconds"}]


def start_up(scale: float, rounds: int) -> list[Row]:  # noqa: ARG001 - small enough as it is
    """Measure help, the demo, and the peer's imports."""
    help_ = alternate(rounds, {"help": lambda: run([sys.executable, "-m", "eyechart", "--help"])})["help"]
    words = ["eval", "--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained", "eyechart-tiny"]
    words += ["--dataset", "demo/garments", "--output", str(FOLDER / "first.json")]
    first = alternate(rounds, {"first": lambda: run_ours(words, fresh("first"))})["first"]
    demo = alternate(rounds, {"demo": lambda: run_ours(["demo", "--output", str(FOLDER / "demo")], fresh("demo"))})[
        "demo"
    ]
    peer = alternate(rounds, {"peer": lambda: run([str(PEER / "bin" / "clip_benchmark"), "--help"])})["peer"]
    return [
        {"what": "eyechart --help", "value": f"{help_.cpu:.2f} cpu s", "wanted": "< 0.3"},
        {"what": "the demo's first result", "value": f"{first.cpu:.2f} cpu s", "wanted": "< 5"},
        {"what": "eyechart demo, eight results and the page", "value": f"{demo.cpu:.2f} cpu s"},
        {"what": "clip_benchmark --help", "value": f"{peer.cpu:.2f} cpu s"},
    ]


PARTS: dict[str, Callable[[float, int], list[Row]]] = {
    "start_up": start_up,
    "text_side": text_side,
    "scores": scores,
    "classification": classification,
    "retrieval": retrieval,
    "default_precision": default_precision,
    "large": large,
    "growth": growth,
    "store": store,
    **ALONE,
}


if __name__ == "__main__":
    main()
