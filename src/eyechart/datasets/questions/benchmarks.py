"""The catalogue of question benchmarks, read from the folder ``benchmarks``, one file per kind.

A new benchmark is an entry there; a new way of scoring is a function in `eyechart.scorers`. The keys of a family, which
the table ``defaults`` of a file may set for all of its families:

class       the dataset class of VLMEvalKit; sets the defaults for kind and prompt (classes.toml)
kind        the question type: MCQ, Y/N, VQA, Caption or MT
prompt      the name of a shared prompt template (classes.toml)
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
    """A name of `prompts`, or ``dialogue``."""
    rule: FunctionSpec = OPEN_RULE
    aggregate: FunctionSpec = ""
    """Empty: the rule's default aggregate."""
    asking: PromptTemplate | None = None
    """Prompt template that overrides ``prompt``."""


@cache
def _shared() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("classes.toml").read_text(encoding="utf-8"))


@cache
def prompts() -> Mapping[str, PromptTemplate]:
    """Return the shared prompt templates by name."""
    return {name: PromptTemplate(**template) for name, template in _shared()["prompts"].items()}


@cache
def class_forms() -> Mapping[str, ClassForm]:
    """Return the forms of VLMEvalKit's dataset classes, and of those of user tables (``Custom...``)."""
    classes = _shared()["classes"]
    asking = {name: PromptTemplate(**form["asking"]) if "asking" in form else None for name, form in classes.items()}
    return {name: ClassForm(**form | {"asking": asking[name]}) for name, form in classes.items()}


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
    folder = files(__package__).joinpath("benchmarks")
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
            form = class_forms().get(dataset_class, class_forms()["ImageBaseDataset"])
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
