"""``eyechart vlm``: tools for question tables."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from eyechart.errors import UsageError
from eyechart.io.terminal import visible, write_message

KINDS = {
    "CustomMCQDataset": "multiple choice",
    "CustomTextMCQDataset": "multiple choice without images",
    "CustomVQADataset": "open or yes/no questions",
    "CustomCaptionDataset": "captions",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the tools and their arguments."""
    tools = parser.add_subparsers(dest="tool", required=True, metavar="TOOL")
    circular = tools.add_parser("circular", help="make a circular set: every question once per rotation of its options")
    circular.add_argument("table", type=Path, help="TSV file with the columns index, question, A, B, ..., answer")
    about = "default: the table's name with _circular, in the same folder"
    circular.add_argument("--output", "-o", type=Path, help=about)
    convert = tools.add_parser("convert", help="convert JSON, CSV or Hugging Face data to a question table for eval")
    add = convert.add_argument
    add(
        "source",
        type=Path,
        help="JSON, JSON lines, CSV, TSV or Parquet file; a folder with images and one such file; a dataset saved by "
        "Hugging Face datasets, or a folder of Parquet files",
    )
    add("--output", "-o", type=Path, help="TSV file; default: the source's name, in this folder")
    add("--images", type=Path, metavar="FOLDER", help="base folder of image paths; default: the source")
    add("--split", default="", help="split, if the dataset has several")
    add(
        "--column",
        action="append",
        default=[],
        metavar="OURS=THEIRS",
        help="source column of index, image, question, options, A, B, ..., answer, hint, category, l2-category or "
        "split, if its name differs; empty after = omits it; repeatable",
    )
    about = "form of the answers: letter, text, or positions from 0 or 1; default: detected"
    add("--answers", default="", metavar="HOW", help=about)
    about = "inside the table, or as separate files"
    add("--keep-images", choices=("base64", "paths"), default="base64", help=about)


def run(args: argparse.Namespace) -> int:
    """Run a tool."""
    write_message(TOOLS[args.tool](args), sys.stdout)
    return 0


def _circular(args: argparse.Namespace) -> str:
    from eyechart.datasets.questions.conversion import make_circular

    output = args.output or args.table.with_name(f"{args.table.stem}_circular.tsv")
    made = make_circular(args.table, output)
    return f"{made.questions} questions, {made.rows} rows, {made.kept} not rotated -> {output}\n"


def _convert(args: argparse.Namespace) -> str:
    from eyechart.datasets.questions.conversion import Conversion, convert

    output = args.output or Path(f"{args.source.resolve().stem}.tsv")
    if output.resolve() == args.source.resolve():
        raise UsageError(
            "{path} would overwrite its source.", advice="Choose another name: {--output} FILE.tsv", path=output
        )
    columns = {}
    for pair in args.column:
        ours, mark, theirs = pair.partition("=")
        if not ours or not mark:
            raise UsageError(
                "--column {pair!r} is not OURS=THEIRS.", advice="For example: --column question=their_name", pair=pair
            )
        columns[ours] = theirs
    made = convert(Conversion(args.source, output, args.images, args.split, columns, args.answers, args.keep_images))
    taken = ", ".join(f"{ours} from {' and '.join(theirs)}" for ours, theirs in made.taken.items() if [ours] != theirs)
    note = f"{visible(taken)}\n" if taken else ""
    return f"{made.rows} rows of {KINDS[made.dataset_class]} -> {output}\n{note}"


TOOLS: dict[str, Callable[[argparse.Namespace], str]] = {"circular": _circular, "convert": _convert}
