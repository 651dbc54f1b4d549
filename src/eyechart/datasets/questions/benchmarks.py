"""The benchmarks that are known by name, read from the folder ``benchmarks``, one file per kind.

A new benchmark is a line there; a new rule of scoring is a file in `eyechart.scorers`. The keys of a family:

class       the dataset class of VLMEvalKit; it says how a row is asked and scored (`CLASS_FORMS`) ...
kind        ... unless this names another kind
prompt      ... this another form of prompt (PROMPTS in prompts.py)
asking      ... or words of its own: text, option, join, options, images, unmarked, by, cases (`Asking`)
scorer      ... or this another scorer (SCORERS in eyechart/scorers)
metric      for the scorer "open": which metric of eyechart.metrics.answers.OPEN_METRICS
parameters  what else the scorer or the prompt needs to know
judge       no: never asked; optional: asked about answers that no rule can read; required: nothing is scored without
answers     false: the file has no answers, its owner scores predictions
columns     columns of ours, and those of the file that hold them (several: a list is made of them)
by_hand     where there is no table to download: how to make one of what is at the address
datasets    the name, and the MD5 digest of {url}/{name}.tsv, or [digest, address]; "" where no digest is published

``joined.toml`` names the benchmarks that are made of others. ``refused.toml`` names those of VLMEvalKit that are not
scored, and why.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from eyechart.datasets.questions.asking import Asking

Judging = Literal["no", "optional", "required"]
_JUDGING: tuple[Judging, ...] = get_args(Judging)
PART, PART_INDEX = "SUB_DATASET", "original_index"
"""Columns of a joined table: the part that a row comes from, and its index there; as VLMEvalKit calls them."""
OWN_EVALUATE = "evaluate"
"""In place of a scorer: the dataset class scores its predictions itself."""
IGNORE_CASE = "ignore_case"
"""As the metric of yes/no questions: ``yes`` and ``Yes`` are the same answer (VLMEvalKit tells them apart)."""


@dataclass(frozen=True, slots=True)
class ClassForm:
    """What the benchmarks of a dataset class have in common, unless the catalogue says otherwise."""

    kind: str
    """As VLMEvalKit calls it: MCQ, Y/N, VQA, Caption or MT."""
    prompt: str
    """One of `eyechart.datasets.questions.prompts.PROMPTS`."""
    scorer: str
    """One of `eyechart.scorers.SCORERS`."""
    asking: Asking | None = None
    """Words of its own, in place of a form of prompt."""


MUIR = Asking(
    "${question}\n[[${options}\nAnswer with the option's letter from the given choices directly.]]",
    option="${letter}. ${option}",
    join="\n",
    images="in_place",
)
NATURAL = Asking(
    "",
    by="type",
    cases={
        "yes_no": "${question} Please answer Yes or No.",
        "multiple_choice": "${question} Please output the letter corresponding to the correct option.",
    },
)

CLASS_FORMS: Mapping[str, ClassForm] = {
    "ImageBaseDataset": ClassForm("VQA", "question", "open"),
    "ImageMCQDataset": ClassForm("MCQ", "choice", "choice"),
    "MMMUDataset": ClassForm("MCQ", "numbered_images", "mmmu"),
    "MUIRDataset": ClassForm("MCQ", "choice", "choice", MUIR),
    "HRBenchDataset": ClassForm("MCQ", "choice", "hrbench"),
    "NaturalBenchDataset": ClassForm("MCQ", "question", "naturalbench", NATURAL),
    "ImageYORNDataset": ClassForm("Y/N", "question", "yes_no"),
    "ImageVQADataset": ClassForm("VQA", "short_answer", "open"),
    "MTVQADataset": ClassForm("VQA", "own_language", "mtvqa"),
    "OCRBench": ClassForm("VQA", "question", "ocrbench"),
    "MathVista": ClassForm("VQA", "question", "mathvista"),
    "MathVision": ClassForm("VQA", "question", "mathvision"),
    "LLaVABench": ClassForm("VQA", "question", "llavabench"),
    "MMVet": ClassForm("VQA", "question", "mmvet"),
    "VCRDataset": ClassForm("VQA", "question", "vcr"),
    "ImageCaptionDataset": ClassForm("Caption", "question", "caption"),
    "ImageMTDataset": ClassForm("MT", "dialogue", "dialogue"),
    "MMDUDataset": ClassForm("MT", "dialogue", "dialogue"),
    "CustomMCQDataset": ClassForm("MCQ", "choice", "choice"),
    "CustomTextMCQDataset": ClassForm("MCQ", "choice", "choice"),
    "CustomVQADataset": ClassForm("VQA", "question", "open"),
    "CustomCaptionDataset": ClassForm("Caption", "question", "caption"),
}
"""VLMEvalKit's dataset classes, and those of tables of one's own (``Custom...``)."""
_NO_FORM = ClassForm("VQA", "question", "open")
"""Of a class that one family uses: the family says all."""


@dataclass(frozen=True, slots=True)
class QuestionBenchmark:
    """What is known of a benchmark before its file is there."""

    name: str
    dataset_class: str
    scorer: str
    judge: Judging
    prompt: str = "question"
    kind: str = "VQA"
    url: str = ""
    md5: str = ""
    metric: str = ""
    """For open questions: the metric that compares an answer with the right ones."""
    answers: bool = True
    about: str = ""
    parts: tuple[str, ...] = ()
    """The benchmarks that it is made of, where it has no table of its own."""
    by_hand: str = ""
    """How to make its table, where there is none to download."""
    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """Columns of ours that stand under other names in its file."""
    asking: Asking | None = None
    """Words of its own, in place of a form of prompt."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What else its scorer or its prompt needs to know."""

    @property
    def needs_judge(self) -> bool:
        """Tell whether nothing can be scored without a judge."""
        return self.judge == "required"

    @property
    def is_dialogue(self) -> bool:
        """Tell whether a row is a conversation of several turns."""
        return self.kind == "MT"


@cache
def known_benchmarks() -> Mapping[str, QuestionBenchmark]:
    """Return all benchmarks by name."""
    families = (family for table in _tables() for family in table.get("family", ()))
    single = {entry.name: entry for family in families for entry in _members(family)}
    joined = {name: parts for name, parts in _joined().items() if all(part in single for part in parts)}
    return single | {name: _of_parts(name, [single[part] for part in parts]) for name, parts in joined.items()}


@cache
def refused_benchmarks() -> Mapping[str, str]:
    """Return the benchmarks of VLMEvalKit that are not scored, by name, and why."""
    groups = (group for table in _tables() for group in table.get("refused", ()))
    refused = {name: str(group["reason"]) for group in groups for name in group["names"]}
    known = known_benchmarks()
    return refused | {name: "its parts are not scored" for name in _joined() if name not in known}


def _joined() -> dict[str, list[str]]:
    return {name: parts for table in _tables() for name, parts in table.get("joined", {}).items()}


def _of_parts(name: str, parts: Sequence[QuestionBenchmark]) -> QuestionBenchmark:
    """Return a benchmark that is made of others, all of one kind."""
    about = f"{len(parts)} benchmarks in one: {', '.join(part.name for part in parts)}"
    return replace(
        parts[0],
        name=name,
        dataset_class="ConcatDataset",
        scorer="parts",
        md5="",
        about=about,
        columns={},
        parts=tuple(part.name for part in parts),
    )


@cache
def _tables() -> tuple[Mapping[str, Any], ...]:
    folder = files("eyechart.datasets.questions").joinpath("benchmarks")
    paths = sorted(folder.iterdir(), key=lambda path: path.name)
    return tuple(tomllib.loads(path.read_text(encoding="utf-8")) for path in paths)


def _members(family: Mapping[str, Any]) -> Iterator[QuestionBenchmark]:
    form = CLASS_FORMS.get(family["class"], _NO_FORM)
    judge: Judging = next(word for word in _JUDGING if word == family["judge"])
    for name, entry in family["datasets"].items():
        md5, url = entry if isinstance(entry, list) else (entry, f"{family['url']}/{name}.tsv")
        yield QuestionBenchmark(
            name=name,
            dataset_class=family["class"],
            scorer=family.get("scorer", form.scorer),
            judge=judge,
            prompt=family.get("prompt", form.prompt),
            asking=Asking(**family["asking"]) if "asking" in family else form.asking,
            kind=family.get("kind", form.kind),
            url=url,
            md5=md5.lower(),
            metric=family.get("metric", ""),
            answers=family.get("answers", True),
            about=family.get("about", ""),
            by_hand=family.get("by_hand", ""),
            columns=family.get("columns", {}),
            parameters=family.get("parameters", {}),
        )
