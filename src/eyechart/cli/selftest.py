"""``eyechart selftest``: repeat published numbers on this machine, and measure a device against the CPU."""

import argparse
import sys
from pathlib import Path
from typing import Any, TextIO

from eyechart.cli.result_arguments import save
from eyechart.errors import EyechartError
from eyechart.io.progress import choose_progress
from eyechart.io.secrets import redact_message
from eyechart.io.terminal import write_message
from eyechart.messages import UserMessage

MODEL, DATASETS, TABLES = "ViT-B-32:openai", ("cifar10", "mnist"), ("clip_benchmark", "open_clip")
COULD_NOT_RUN = 2
ANSWERS = {
    "equal": "The published numbers are repeated.\n",
    "within precision": "Rounding and precision explain the differences to the published numbers.\n",
    "different": "Different: rounding and precision do not explain it.\n",
}
PASSED = {True: UserMessage("passed"), False: UserMessage("failed"), None: UserMessage("measured")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    add("model", nargs="?", default=MODEL, help="model to evaluate (default: ViT-B-32:openai)")
    add("--dataset", nargs="+", default=DATASETS, metavar="NAME", help="datasets (default: cifar10 mnist)")
    add("--dataset-root", help="dataset folder; {dataset} is replaced; without it, data are downloaded")
    add("--published-as", metavar="MODEL", help="name of the model in the tables, for weights in a file")
    about = "published tables, or JSON files (default: clip_benchmark open_clip)"
    add("--reference", nargs="+", default=TABLES, metavar="NAME", help=about)
    add("--device", help="also measure this device against the CPU: cuda, mps, cpu; comma-separated for several")
    add("--output", "-o", metavar="FILE", help="write all figures as JSON, to attach to an issue")


def run(args: argparse.Namespace) -> int:
    """Repeat the numbers and print one line each: 0 repeated, 1 different, 2 could not run."""
    from eyechart.io.safe_parse import to_json
    from eyechart.python_api.selftest import SelfTest
    from eyechart.report.reference import load_publication, names, read_publication

    try:
        known = names()
        tables = [load_publication(name) if name in known else read_publication(Path(name)) for name in args.reference]
        listed_as = args.published_as or args.model.replace(",", ":")
        progress = choose_progress(quiet=False)
        test = SelfTest(args.model, args.dataset, listed_as, tables, args.dataset_root, args.device, progress)
        body = test.run()
    except EyechartError as error:
        error.exit_code = COULD_NOT_RUN
        raise
    _show(body, sys.stdout)
    if args.output:
        home = str(Path.home()).rstrip("/")  # "/" in some containers
        text = redact_message(to_json(body, indent=1)).replace(home or "\0", "~")
        save(args.output, f"{text}\n".encode())
    return int(body["verdict"] == "different")


def _show(body: dict[str, Any], out: TextIO) -> None:
    for row in body["numbers"]:
        said = row | {"state": UserMessage(row["verdict"])}
        write_message("{dataset} {metric}: {measured:.5f}, published {published:g} ({source}): {state}\n", out, **said)
        explained = UserMessage(
            "difference {difference:.5f}, explained up to {explained:.5f}: rounding {rounding:g}; {near} of "
            "{samples} samples within the drift of half precision ({drift:.1g})",
            **said,
        )
        for line in (explained, *row["causes"]):
            write_message("  - {line}\n", out, line=line)
    for name, part in body["hardware"].items():
        figures = [
            f"{key} {value:.6g}" for key, value in part.items() if isinstance(value, int | float) and key != "passed"
        ]
        said = ", ".join(part.get("names") or figures or [part["error"]])
        write_message("{name}: {state} ({said})\n", out, name=name, state=PASSED[part["passed"]], said=said)
    write_message(ANSWERS[body["verdict"]], out)
