"""`TaskConfig`: one call of ``run_task``. However it is built, its names are brought up to date and its keys hidden."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from eyechart.compat.evalscope import schema
from eyechart.compat.evalscope.names import normalise
from eyechart.compat.evalscope.secrets import refuse_misplaced
from eyechart.config import explain
from eyechart.errors import UsageError
from eyechart.io.configs.files import is_json, read_inner


class TaskConfig(schema.Settings):
    """One call of ``run_task``, with the names of either generation of EvalScope."""

    eval_backend: Literal["RAGEval"] = "RAGEval"
    eval_config: Annotated[schema.ClipConfig | schema.MtebConfig, Field(discriminator="tool")]
    work_dir: str | None = None
    no_timestamp: bool = True
    """EvalScope puts results into a folder named by the time unless told not to; here it must be asked for."""
    use_cache: str | None = None
    """An earlier run's folder to go on in; it replaces ``work_dir``."""
    seed: int = 42
    debug: bool = False
    """Write into the log what is planned, in full, and where errors come from."""

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, values: Any, handler: ModelWrapValidatorHandler[TaskConfig]) -> TaskConfig:
        """Read settings of either generation; what is wrong is told in our words, which repeat no value."""
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
        """Return where results go: ``use_cache``, else ``work_dir``, else the tool's ``output_dir``."""
        return Path(self.use_cache or self.work_dir or self.eval_config.eval.output_dir or "outputs").expanduser()


def _names_in(path: list[str]) -> Iterable[str]:
    """Return the names that are known in a part of a config."""
    tool = next((part for part in path if part in TOOLS), "")
    container = next((part for part in reversed(path) if not part.isdigit() and part not in TOOLS), "")
    return _FIELDS.get((tool, container), TaskConfig).model_fields


TOOLS = ("clip_benchmark", "mteb")
_FIELDS: dict[tuple[str, str], type[BaseModel]] = {
    ("clip_benchmark", "eval_config"): schema.ClipConfig,
    ("clip_benchmark", "eval"): schema.ClipEval,
    ("clip_benchmark", "models"): schema.VisionModel,
    ("clip_benchmark", "caption_models"): schema.VisionModel,
    ("clip_benchmark", "text_models"): schema.TextModel,
    ("mteb", "eval_config"): schema.MtebConfig,
    ("mteb", "eval"): schema.MtebEval,
    ("mteb", "models"): schema.TextModel,
    ("mteb", "custom_tasks"): schema.CustomTask,
}
"""What may stand in which part of a config."""

__all__ = ["TaskConfig"]
