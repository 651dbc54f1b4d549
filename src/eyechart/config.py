"""Settings of a run, typed and checked. Flags, files and dicts all become this."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Literal, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from eyechart.errors import UsageError, nearest
from eyechart.like import OWN, changes, filled
from eyechart.types import Notice, OnError


class QuestionSettings(BaseModel):
    """Settings of generative benchmarks: how the model is reached, how answers are read, who judges."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["all", "infer", "eval"] = "all"
    """Ask and score, only ask, or only score the predictions that are there."""
    api_base: str = ""
    api_key_variable: str | None = None
    concurrency: int = Field(default=8, ge=1)
    timeout: float = Field(default=300.0, gt=0)
    tries: int = Field(default=6, ge=1)
    prices: str = ""
    """A file with the prices of tokens: see `eyechart.api.prices`."""
    temperature: float | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=1)
    system_prompt: str = ""
    extractor: Literal["vlmeval", "strict"] = "vlmeval"
    metric: str = ""
    """For open questions in a table of one's own."""
    repeats: int = Field(default=1, ge=1)
    blind: Literal["", "no_images", "swapped"] = ""
    """Ask everything once more without the images, or with those of other questions."""
    judge: list[str] = Field(default=["exact_matching"], min_length=1)
    """Who reads what no rule can read; of several the majority decides."""
    judge_type: list[str] = Field(default=["api"], min_length=1)
    """One family for all judges, or one for each."""
    judge_api_base: list[str] = Field(default=[""], min_length=1)
    judge_key_variable: str | None = None
    judge_prompts: str = ""
    """A file of judge prompts, or ``vlmeval``; empty: ours."""
    judge_repeats: int = Field(default=1, ge=1)
    """How often each judge judges each answer."""
    judge_temperature: float = Field(default=0.0, ge=0)
    human_verdicts: str = ""
    """A file with what people say of some answers."""
    judge_fallback: Literal["", "exact_matching"] = ""
    """What scores when the judge does not answer; empty: nobody, it is an error."""
    xlsx: bool = True
    """Whether predictions are also written as a spreadsheet."""

    @field_validator("*", mode="before")
    @classmethod
    def _one(cls, value: object, info: ValidationInfo) -> object:
        return _listed(cls, value, info)


class Config(BaseModel):
    """What to evaluate, on what, and where the results go. Names and defaults are those of ``clip_benchmark eval``."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    like: Literal["eyechart", "clip_benchmark", "internvl"] = OWN
    """Whose defaults hold for what is not given; by default InternVL's for its models, else our own."""
    dataset: list[str] = Field(default=["cifar10"], min_length=1)
    dataset_root: str = "root"
    split: str = "test"
    model: list[str] = []
    pretrained: list[str] = []
    """Empty: the family's own default; without any model, open_clip's ViT-B-32-quickgelu and laion400m_e32."""
    pretrained_model: list[str] = []
    model_type: str | None = None
    """None: found out from the model's name or files."""
    model_options: dict[str, Any] = {}
    revision: str | None = None
    hub: Literal["huggingface", "modelscope"] | None = None
    trust_remote_code: bool = False
    compile: bool | str = False
    task: list[str] = Field(default=["auto"], min_length=1)
    language: list[str] = Field(default=["en"], min_length=1)
    output: str | None = None
    """A file, or a folder if it ends with a slash or is one; a template of paths. By default the folder results."""
    append: bool = False
    """Whether a result is added to its output as a line, so that several jobs may have one."""
    recall_k: list[int] = [5]
    metrics: Literal["default", "full"] = "default"
    group_by: list[str] = []
    batch_size: int = Field(default=64, ge=1)
    num_workers: int = Field(default=4, ge=0)
    decode_processes: int | None = Field(default=None, ge=0)
    """Processes that decode images; 0: threads do, None: processes where a GPU and many cores make them worth it."""
    precision: Literal["auto", "fp32", "fp16", "bf16", "amp", "half"] = "auto"
    """auto: fp32; half: fp16 on a GPU, fp32 elsewhere."""
    store_precision: Literal["fp32", "fp16"] = "fp32"
    """How vectors are stored, and so also how they are scored."""
    device: str = "auto"
    on_error: OnError = "fail"
    min_success: float | None = Field(default=None, ge=0, le=1)
    """The share of the samples that must not be lost; by default the task's own."""
    limit: int | None = Field(default=None, ge=1)
    seed: int = 0
    skip_existing: bool = False
    custom_classname_file: Path | None = None
    custom_template_file: Path | None = None
    allow_blank_classnames: bool = False
    dump_classnames: bool = False
    dump_templates: bool = False
    thumbnails: int | None = Field(default=None, ge=0)
    """Small images that a result keeps; by default some of data of one's own and none of benchmarks."""
    save_clf: str | None = None
    load_clfs: list[str] = []
    model_cache_dir: str | None = None
    wds_cache_dir: str | None = None
    offline: bool = False
    dataset_hub: Literal["huggingface", "modelscope"] | None = None
    """Where named datasets come from; like ``hub`` unless it is set."""
    catalogue: list[str] = []
    """TOML files that add datasets and collections to the catalogue."""
    caption_cleaning: str | dict[str, str] | None = None
    """For all datasets, or by name; ``none`` for none."""
    annotation_file: str = ""
    encoding: str = ""
    """How the text files of a dataset of one's own are encoded; empty for UTF-8, or UTF-16 with its mark."""
    image_column: str = ""
    """The columns of a table of one's own, where their names are not known ones."""
    label_column: str = ""
    caption_column: list[str] = []
    id_column: str = ""
    split_column: str = ""
    delimiter: str = ""
    """What divides the cells of a table; empty: comma, tab, semicolon or bar, found out from its first line."""
    task_options: dict[str, Any] = {}
    """Settings of single tasks that no other task has."""
    questions: QuestionSettings = QuestionSettings()
    reranker: str = ""
    """A second model for text retrieval: it orders anew what the encoder found."""

    @field_validator("*", mode="before")
    @classmethod
    def _one(cls, value: object, info: ValidationInfo) -> object:
        return _listed(cls, value, info)

    def notes(self) -> tuple[Notice, ...]:
        """Say what is otherwise than by our own defaults because of another evaluation's."""
        ours = {name: field.get_default() for name, field in Config.model_fields.items()}
        found = changes(self.like, self.model_dump(), ours)
        text = f"Defaults are those of {self.like} (--like): {'; '.join(found)}."
        return (Notice("like", len(found), text),) if found else ()


def _listed(model: type[BaseModel], value: object, info: ValidationInfo) -> object:
    """Take a single name or number for a list of one."""
    annotation = model.model_fields[str(info.field_name)].annotation
    return [value] if get_origin(annotation) is list and isinstance(value, str | int | float) else value


def make_config(values: dict[str, Any]) -> Config:
    """Check a dict of settings; each problem becomes a line that names the setting."""
    try:
        return Config(**filled(values))
    except ValidationError as error:
        raise UsageError(explain(error, lambda _: Config.model_fields, hidden=["questions"], flags=True)) from error


def explain(
    error: ValidationError,
    known: Callable[[list[str]], Iterable[str]],
    hidden: Collection[str] = (),
    *,
    flags: bool = False,
) -> str:
    """Write a pydantic error for people, with the nearest name for an unknown key. Values are not repeated.

    Args:
        error: The problems.
        known: Returns the names that are known in the part of the settings to which a path leads.
        hidden: What no path shows, as it is not among the settings' own names.
        flags: Known settings are named as flags, as all errors name them (`eyechart.io.wording`).
    """
    lines = []
    for problem in error.errors(include_input=False, include_url=False, include_context=False):
        path = [str(part) for part in problem["loc"]]
        where = ".".join(part for part in path if part not in hidden)
        if problem["type"] == "extra_forbidden":
            near = nearest(path[-1], known(path[:-1]))
            lines.append(f"{where}: unknown setting" + (f"; did you mean {' or '.join(near)}?" if near else ""))
        else:
            named = f"--{where.partition('.')[0].replace('_', '-')}" if flags else where
            lines.append(f"{named}: {problem['msg'].removeprefix('Value error, ')}")
    return "\n".join(lines)
