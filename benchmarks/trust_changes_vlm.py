"""Changes of question tables: options under other names, and answers that were released in a file of their own."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from trust_edits import ASK, Change, Fault, replace

RELEASED = ["--model", "python:own_vlm:Looker", "--dataset", "MMMU_TEST"]
KEYS = "lmu/MMMU_TEST_answers.json"
TABLE_DIGEST = Fault(
    "datasets/questions/question_dataset.py",
    "files = [*self.table.files, *self.table.image_files()]",
    "files = self.table.image_files()",
)


def renamed(first: str, second: str, world: Path) -> None:
    """Give the options other column names, and answer with their texts."""
    text = (world / "asks.tsv").read_text().replace("\tA\tB\t", f"\t{first}\t{second}\t")
    text = text.replace("\tyes\tno\tA\t", "\tyes\tno\tyes\t").replace("\tyes\tno\tB\t", "\tyes\tno\tno\t")
    (world / "asks.tsv").write_text(text)


def listed(world: Path) -> None:
    """Put the options of each row into one column."""
    head, *lines = (world / "asks.tsv").read_text().splitlines()
    rows = [line.replace("\tyes\tno\t", "\t['yes', 'no']\t") for line in lines]
    (world / "asks.tsv").write_text("\n".join([head.replace("\tA\tB\t", "\toptions\t"), *rows]) + "\n")


def released(world: Path) -> None:
    """Make a benchmark whose table has no answers, and the file with its answers."""
    head, *lines = (world / "asks.tsv").read_text().splitlines()
    place = head.split("\t").index("answer")
    rows, keys = [head.replace("\tanswer\t", "\tid\t") + "\tsplit"], {}
    for number, line in enumerate(lines):
        cells = line.split("\t")
        keys[f"test_{number}"] = {"question_type": "multiple-choice", "ground_truth": cells[place]}
        rows.append("\t".join([*cells[:place], f"test_{number}", *cells[place + 1 :], "test"]))
    (world / "lmu").mkdir()
    (world / "lmu/MMMU_TEST.tsv").write_text("\n".join(rows) + "\n")
    (world / KEYS).write_text(json.dumps(keys))


def _swap(first: str, second: str) -> Change:
    return Change(
        f"options: columns {first} and {second}, one row in another order",
        ASK,
        partial(replace, "asks.tsv", "\tyes\tno\t", "\tno\tyes\t"),
        prepare=partial(renamed, first, second),
        defence=(TABLE_DIGEST,),
    )


CHANGES = [
    _swap("a", "b"),
    _swap("option_A", "option_B"),
    _swap("choice 1", "choice 2"),
    Change(
        "options: of a list, one row in another order",
        ASK,
        partial(replace, "asks.tsv", "['yes', 'no']", "['no', 'yes']"),
        prepare=lambda world: (listed(world), replace("asks.tsv", "\tA\t", "\tyes\t", world)),
        defence=(TABLE_DIGEST,),
    ),
    Change(
        "answers: one of a file of their own",
        RELEASED,
        partial(replace, KEYS, '"ground_truth": "A"', '"ground_truth": "B"'),
        prepare=released,
        defence=(Fault("datasets/questions/question_reader.py", "    table.answer_files.append(path)\n", ""),),
    ),
]
