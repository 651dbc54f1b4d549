"""The catalogue of question benchmarks, read from the folder ``benchmarks``, one file per kind.

A new benchmark is an entry there; a new way of scoring is a function in `eyechart.scorers`. The keys of a family, which
the table ``defaults`` of a file may set for all of its families:

class       the dataset class of VLMEvalKit; sets the defaults for kind and prompt (`CLASS_FORMS`)
kind        the question type: MCQ, Y/N, VQA, Caption or MT
prompt      the name of a shared prompt template (PROMPTS in question_dataset.py)
asking      a prompt template: text, option, join, options, images, unmarked, by, cases (`PromptTemplate`)
rule        how answers are parsed: module:function, or { function = module:function, keyword arguments ... }
aggregate   how the score table is computed, in the same form; rules.* and aggregates.* are in `eyechart.scorers`
metric      for open questions: a metric of eyechart.metrics.answers.OPEN_METRICS
judge       no: never used; optional: used for answers that no rule can parse; required: nothing is scored without it
judge_form  the judge prompt, an entry of eyechart/scorers/judging/prompts.toml; default: the rule's
reference   the column with the reference answer; default: the rule's
primary     the headline number of the score table; default: the aggregate's
points      true: that number is in points or per cent
parameters  further inputs of the prompt: view, image_size
max_tokens  the maximum length of an answer that its publisher uses; default: 2048
published   "judge": published numbers are scored with a judge model, even where rules can score answers
quirk       an oddity of VLMEvalKit's scoring or prompt that published numbers rest on and that is reproduced
deviation   what is scored differently from VLMEvalKit, and why; both are listed in docs/deviations.md
exported    how VLMEvalKit's prediction files differ: index = "position" (from 1) or "prefixed"; question = a fixed text
answers     false: the file has no answers; its publisher scores predictions, unless you add them
answer_file where the publisher released the answers later, as JSON; read from $LMUData/{name}_answers.json
columns     our columns by the columns of the file that fill them (several: joined as a list)
by_hand     if no table can be downloaded: how to build it from the files at the URL
url         the folder of the tables; default: OpenCompass's, like VLMEvalKit
datasets    the name, and the MD5 digest of {url}/{name}.tsv, or [digest, URL]; "" if no digest is published

``joined.toml`` lists benchmarks that join others. ``refused.toml`` lists unsupported benchmarks of VLMEvalKit, with the
reason.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from eyechart.datasets.questions.prompt_templates import PromptTemplate

Judging = Literal["no", "optional", "required"]
PART, PART_INDEX = "SUB_DATASET", "original_index"
"""Columns of a joined table, named as in VLMEvalKit: the source benchmark of a row and its index there."""
OWN_EVALUATE = "evaluate"
"""Used in place of a rule: the dataset class scores its predictions itself."""
OPENCOMPASS = "https://opencompass.openxlab.space/utils/VLMEval"
IGNORE_CASE = "ignore_case"
"""Metric of yes/no questions under which ``yes`` and ``Yes`` are the same answer (VLMEvalKit distinguishes them)."""


FunctionSpec = str | Mapping[str, Any]
"""A function reference: ``module:function``, or a table with that as ``function`` and keyword arguments."""
CHOICE_RULE = "rules.choices:letter"
YES_NO_RULE = "rules.yes_no:yes_no"
OPEN_RULE = "rules.texts:open_answer"
CIRCULAR = "aggregates.choices:mmbench"
"""The aggregate for multiple choice with rotated options (CircularEval)."""


@dataclass(frozen=True, slots=True)
class ClassForm:
    """How a dataset class prompts and scores; the catalogue may override each."""

    kind: str
    """VLMEvalKit's question type: MCQ, Y/N, VQA, Caption or MT."""
    prompt: str
    """A key of `eyechart.datasets.questions.question_dataset.PROMPTS`."""
    rule: FunctionSpec = OPEN_RULE
    aggregate: FunctionSpec = ""
    """Empty: the rule's default aggregate."""
    asking: PromptTemplate | None = None
    """Prompt template that overrides ``prompt``."""


MUIR = PromptTemplate(
    "${question}\n[[${options}\nAnswer with the option's letter from the given choices directly.]]",
    option="${letter}. ${option}",
    join="\n",
    images="in_place",
)
NATURAL = PromptTemplate(
    "",
    by="type",
    cases={
        "yes_no": "${question} Please answer Yes or No.",
        "multiple_choice": "${question} Please output the letter corresponding to the correct option.",
    },
)

CAPTION_RULE = {"function": "rules.texts:whole_text", "one": True}
CAPTIONS = "aggregates.documents:captions"
CLASS_FORMS: Mapping[str, ClassForm] = {
    "ImageBaseDataset": ClassForm("VQA", "question"),
    "ImageMCQDataset": ClassForm("MCQ", "choice", CHOICE_RULE),
    "MMMUDataset": ClassForm("MCQ", "numbered_images", {"function": CHOICE_RULE, "close_open": True}),
    "MUIRDataset": ClassForm("MCQ", "choice", CHOICE_RULE, asking=MUIR),
    "HRBenchDataset": ClassForm("MCQ", "choice", CHOICE_RULE, "aggregates.choices:hrbench"),
    "NaturalBenchDataset": ClassForm(
        "MCQ", "question", "rules.yes_no:first_word", "aggregates.yes_no:naturalbench_groups", NATURAL
    ),
    "ImageYORNDataset": ClassForm("Y/N", "question", YES_NO_RULE),
    "ImageVQADataset": ClassForm("VQA", "short_answer"),
    "MTVQADataset": ClassForm("VQA", "own_language", "rules.texts:mtvqa", "aggregates.documents:mtvqa"),
    "OCRBench": ClassForm("VQA", "question", "rules.texts:ocrbench", "aggregates.documents:ocrbench"),
    "MathVista": ClassForm("VQA", "question", "rules.mathematics:mathvista", "aggregates.exercises:mathvista"),
    "MathVision": ClassForm("VQA", "question", "rules.mathematics:mathvision", "aggregates.exercises:mathvision"),
    "LLaVABench": ClassForm("VQA", "question", "rules.judged:compared"),
    "MMVet": ClassForm("VQA", "question", "rules.judged:graded", "aggregates.verdicts:mmvet"),
    "VCRDataset": ClassForm("VQA", "question", "rules.texts:whole_text", "aggregates.documents:vcr"),
    "ImageCaptionDataset": ClassForm("Caption", "question", CAPTION_RULE, CAPTIONS),
    "ImageMTDataset": ClassForm("MT", "dialogue", "rules.judged:dialogue"),
    "MMDUDataset": ClassForm("MT", "dialogue", "rules.judged:dialogue"),
    "CustomMCQDataset": ClassForm("MCQ", "choice", CHOICE_RULE),
    "CustomTextMCQDataset": ClassForm("MCQ", "choice", CHOICE_RULE),
    "CustomVQADataset": ClassForm("VQA", "question"),
    "CustomCaptionDataset": ClassForm("Caption", "question", CAPTION_RULE, CAPTIONS),
}
"""VLMEvalKit's dataset classes, and those of user tables (``Custom...``)."""
_NO_FORM = ClassForm("VQA", "question")
"""For classes used by a single family, which specifies everything."""


@dataclass(frozen=True, slots=True)
class QuestionBenchmark:
    """The catalogue entry of a benchmark, available without its file; the module describes the keys."""

    name: str
    dataset_class: str
    rule: FunctionSpec
    judge: Judging
    prompt: str = "question"
    kind: str = "VQA"
    url: str = ""
    md5: str = ""
    metric: str = ""
    answers: bool = True
    about: str = ""
    parts: tuple[str, ...] = ()
    """For a joined benchmark: the benchmarks it consists of."""
    by_hand: str = ""
    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    asking: PromptTemplate | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    aggregate: FunctionSpec = ""
    judge_form: str = ""
    reference: str = ""
    primary: str = ""
    points: bool = False
    max_tokens: int | None = None
    published: str = ""
    quirk: str = ""
    deviation: str = ""
    exported: Mapping[str, str] = field(default_factory=dict)
    answer_file: str = ""
    needs_options: bool = False
    """For a user table: all answers are letters, but no columns hold options."""

    @property
    def scorer(self) -> str:
        """Name of the function that parses answers."""
        return self.rule if isinstance(self.rule, str) else str(self.rule["function"])

    @property
    def needs_judge(self) -> bool:
        """True if nothing can be scored without a judge."""
        return self.judge == "required"

    @property
    def is_dialogue(self) -> bool:
        """True if a row is a multi-turn conversation."""
        return self.kind == "MT"


def known_benchmarks() -> Mapping[str, QuestionBenchmark]:
    """Return all benchmarks by name."""
    return _catalogue()[0]


def refused_benchmarks() -> Mapping[str, str]:
    """Return the unsupported benchmarks of VLMEvalKit, with the reason."""
    return _catalogue()[1]


def is_listed(name: str) -> bool:
    """False if no table of benchmarks contains the name: a text search, since parsing them takes longer."""
    return name in "\n".join(_texts())


@cache
def _texts() -> list[str]:
    folder = files("eyechart.datasets.questions").joinpath("benchmarks")
    return [path.read_text(encoding="utf-8") for path in sorted(folder.iterdir(), key=str)]


@cache
def _catalogue() -> tuple[dict[str, QuestionBenchmark], dict[str, str]]:
    known: dict[str, QuestionBenchmark] = {}
    refused: dict[str, str] = {}
    joined: dict[str, list[str]] = {}
    for table in map(tomllib.loads, _texts()):
        joined |= table.get("joined", {})
        for group in table.get("refused", ()):
            refused |= dict.fromkeys(group["names"], group["reason"])
        for family in table.get("family", ()):
            values = table.get("defaults", {}) | family
            dataset_class, datasets = values.pop("class"), values.pop("datasets")
            url, asking = values.pop("url", OPENCOMPASS), values.pop("asking", None)
            form = CLASS_FORMS.get(dataset_class, _NO_FORM)
            shared = {"kind": form.kind, "prompt": form.prompt, **values}
            template = PromptTemplate(**asking) if asking else form.asking
            for name, entry in datasets.items():
                md5, file = entry if isinstance(entry, list) else (entry, f"{url}/{name}.tsv")
                known[name] = QuestionBenchmark(
                    name, dataset_class, url=file, md5=md5.lower(), asking=template, **shared
                )
    for name, parts in joined.items():
        if not known.keys() >= set(parts):
            refused[name] = "its parts are not supported"
            continue
        known[name] = replace(
            known[parts[0]],
            name=name,
            dataset_class="ConcatDataset",
            rule="parts",
            md5="",
            about=f"{len(parts)} benchmarks in one: {', '.join(parts)}",
            columns={},
            parts=tuple(parts),
        )
    return known, refused
