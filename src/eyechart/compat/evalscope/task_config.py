"""EvalScope's task configs: both generations of field names, shorthands, and the checked `TaskConfig`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from eyechart.compat.evalscope import schema
from eyechart.errors import UsageError, unknown_name
from eyechart.io.config_files import is_json, read_inner
from eyechart.io.secrets import refuse_misplaced
from eyechart.messages import UserMessage, join
from eyechart.settings.declare import explain

__all__ = ["EvalBackend", "EvalType", "HubType", "TaskConfig"]

TOOLS: dict[str, type[BaseModel]] = {"clip_benchmark": schema.ClipConfig, "mteb": schema.MtebConfig}
TOOL_ALIASES = {**{name: name for name in TOOLS}, "cmteb": "mteb"}
BACKENDS = {"rageval": "RAGEval"}


@cache
def elsewhere(part: str) -> Mapping[str, Any]:
    """Return a table of ``elsewhere.toml``: advice on what is given elsewhere here, or what EvalScope writes."""
    text = files(__package__).joinpath("elsewhere.toml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = tomllib.loads(text)[part]
    return found


class EvalBackend:
    """Names for ``eval_backend``; only RAGEval is supported, the others are rejected with a hint."""

    NATIVE = "Native"
    OPEN_COMPASS = "OpenCompass"
    VLM_EVAL_KIT = "VLMEvalKit"
    RAG_EVAL = "RAGEval"
    THIRD_PARTY = "ThirdParty"


class EvalType:
    """Names for ``eval_type``, which is rejected with a hint."""

    SERVICE = "openai_api"
    CHECKPOINT = "llm_ckpt"


class HubType:
    """Names for ``hub``."""

    MODELSCOPE = "modelscope"
    HUGGINGFACE = "huggingface"


def normalise(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with canonical backend and tool. Unknown keys are left for the schema to reject."""
    whole = dict(config)
    if "tool" in whole and "eval_config" not in whole:
        whole = {"eval_config": whole}  # a file with the inner part only, as EvalScope's command line accepts
    if isinstance(whole.get("eval_backend"), str):
        whole["eval_backend"] = _known("eval_backend", whole["eval_backend"], BACKENDS, elsewhere("backends"))
    whole = {key: value for key, value in whole.items() if not _says_nothing(key, value)}
    _refuse_elsewhere(whole, elsewhere("keys"))
    inner = whole.get("eval_config")
    if isinstance(inner, BaseModel):
        return whole  # already typed
    if not isinstance(inner, Mapping):
        raise UsageError(
            "The config has no eval_config.", advice="Add it with tool, models and eval; see docs/run-task.md."
        )
    if not isinstance(inner.get("tool"), str):
        raise UsageError("eval_config has no tool.", advice="Known: {names}.", names=", ".join(TOOLS))
    tool = _known("tool", inner["tool"], TOOL_ALIASES, elsewhere("tools"))
    if not isinstance(inner.get("eval"), Mapping):
        raise UsageError(
            "eval_config has no eval.", advice="Add the datasets or tasks to evaluate; see docs/run-task.md."
        )
    _refuse_elsewhere(inner["eval"], elsewhere("eval"), "eval_config.eval.")
    return {**whole, "eval_config": {**inner, "tool": tool}}


def _known(kind: str, name: str, table: Mapping[str, str], refused: Mapping[str, str]) -> str:
    """Look a name up case-insensitively; an unsupported name of EvalScope is rejected with its replacement."""
    if name.lower() in refused:
        raise UsageError("{kind}: {name} is not supported.", advice=refused[name.lower()], kind=kind, name=name)
    if name.lower() not in table:
        raise unknown_name(kind, name, table.values())
    return table[name.lower()]


def _says_nothing(key: str, value: object) -> bool:
    """True for a key of another backend that holds the value which EvalScope writes by default."""
    if key == "dataset_dir":
        return str(value).replace("\\", "/").endswith("modelscope/hub/datasets")
    given = _without_empty(value)
    return key == "evalscope_version" or (
        key in elsewhere("keys") and (not given or given in elsewhere("written").get(key, ()))
    )


def _without_empty(value: object) -> object:
    """Drop empty values of a mapping, at any depth."""
    if not isinstance(value, Mapping):
        return value
    return {key: kept for key, one in value.items() if (kept := _without_empty(one))}


def _refuse_elsewhere(values: Iterable[str], advice: Mapping[str, str], where: str = "") -> None:
    """Reject unsupported keys of EvalScope, each with its replacement."""
    lines = [
        UserMessage("{key}: {hint}.", key=f"{where}{name}", hint=advice[name]) for name in values if name in advice
    ]
    if lines:
        raise UsageError(join(lines, "\n"))


class TaskConfig(schema.Settings):
    """Arguments of ``run_task``, with the names of either generation of EvalScope."""

    ALIASES: ClassVar[Mapping[str, str]] = {"output_dir": "work_dir"}

    eval_backend: Literal["RAGEval"] = "RAGEval"
    eval_config: Annotated[schema.ClipConfig | schema.MtebConfig, Field(discriminator="tool")]
    work_dir: str | None = None
    no_timestamp: bool = True
    """EvalScope writes to a folder named by the time by default; here that is opt-in."""
    use_cache: str | None = None
    """Folder of an earlier run to resume; replaces ``work_dir``."""
    seed: int = schema.ours("seed", default=42)
    debug: bool = False
    """Log the full plan, and tracebacks of errors."""

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, values: Any, handler: ModelWrapValidatorHandler[TaskConfig]) -> TaskConfig:
        """Read settings of either generation; errors are reworded, without quoting values."""
        if not isinstance(values, Mapping):
            return handler(values)
        whole = dict(values)
        inner = whole.get("eval_config")
        if isinstance(inner, str):
            if not is_json(inner):
                refuse_misplaced({"eval_config": inner})
            whole["eval_config"] = read_inner(inner)
        refuse_misplaced(whole)
        try:
            return handler(normalise(whole))
        except ValidationError as error:
            raise UsageError(explain(error, _names_in, hidden=TOOLS)) from None

    @property
    def folder(self) -> Path:
        """The output folder: ``use_cache``, else ``work_dir``, else the tool's ``output_dir``."""
        return Path(self.use_cache or self.work_dir or self.eval_config.eval.output_dir or "outputs").expanduser()


def _names_in(path: list[str]) -> Iterable[str]:
    """Return the settings of the section that a path leads to."""
    section: type[BaseModel] = TaskConfig
    for part in path:
        if part in TOOLS:
            section = TOOLS[part]
        elif part in section.model_fields:
            kind = section.model_fields[part].annotation
            inner = next(iter(get_args(kind)), kind)  # the first member of a union, or of a list
            section = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else section
    return section.model_fields
