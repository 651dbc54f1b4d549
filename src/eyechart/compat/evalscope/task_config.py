"""EvalScope's task configs: both generations of field names, shorthands, and the checked `TaskConfig`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

_QUESTIONS = "to ask a generative model questions, run `eyechart eval --dataset NAME --model_type api` instead"
_AUTOMATIC = "determined automatically; remove it"
_NO_SANDBOX = "model output is never executed; remove it"
_JUDGE = f"set the judge with --judge; {_QUESTIONS}"

ELSEWHERE = {
    "model": "models are entries of eval_config: models (MTEB) or eval.models (clip_benchmark)",
    "model_id": "results are named after model_name; remove it",
    "model_args": "set precision, device and revision in the model's entry in eval_config",
    "model_task": _AUTOMATIC,
    "api_url": "set api_base in the model's entry in eval_config",
    "api_key": "set api_key, or better api_key_variable, in the model's entry in eval_config",
    "timeout": "use eval_config.eval.timeout",
    "stream": "responses are not streamed; remove it",
    "chat_template": "defined by the server or the model's folder; remove it",
    "template_type": "defined by the server or the model's folder; remove it",
    "datasets": f"use eval_config.eval.dataset_name, or task_names for MTEB; {_QUESTIONS}",
    "dataset_args": f"set splits, prompts and limits in eval_config.eval; {_QUESTIONS}",
    "dataset_dir": "use eval_config.eval.cache_dir for downloads, data_dir for local data",
    "dataset_hub": "use eval_config.eval.hub: modelscope or huggingface",
    "limit": "use eval_config.eval.limit (or limits)",
    "repeats": _QUESTIONS,
    "generation_config": "set temperature, max_tokens and extra_body in the model's entry in eval_config",
    "eval_type": "a model with api_base is called over HTTP, any other runs locally; remove it",
    "eval_batch_size": "use eval_config.eval.batch_size, or eval_config.eval.concurrency for parallel requests",
    "stage": "captioning and retrieval are separate tasks (image_caption, CustomRetrieval); remove it",
    "output_type": _AUTOMATIC,
    "mem_cache": "model outputs are always cached, in EYECHART_CACHE; remove it",
    "rerun_review": "cached answers are reused and scores always recomputed; remove it",
    "outputs": "use work_dir",
    "dry_run": "use eval_config.eval.dry_run",
    "ignore_errors": "use eval_config.eval.on_error: skip",
    "enable_progress_tracker": _AUTOMATIC,
    "judge_strategy": _JUDGE,
    "judge_worker_num": _JUDGE,
    "judge_model_args": _JUDGE,
    "analysis_report": "`eyechart report FOLDER` creates a report of the results",
    "use_sandbox": _NO_SANDBOX,
    "sandbox_type": _NO_SANDBOX,
    "sandbox_manager_config": _NO_SANDBOX,
    "sandbox": _NO_SANDBOX,
    "agent_config": "agents are not evaluated; use EvalScope",
    "judge": _JUDGE,
    "collect_perf": "`eyechart bench-api` measures a server; remove it",
}
"""Top-level keys of EvalScope's TaskConfig, and their replacements."""
WRITTEN: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("model", "model_id", "model_task"), ("text_generation", "dummy")),
    "api_key": ("EMPTY", "**********"),
    "dataset_hub": ("modelscope",),
    "repeats": (1,),
    "generation_config": ({"batch_size": 1},),
    "eval_type": ("mock_llm", "llm_ckpt", "checkpoint"),
    "eval_batch_size": (1,),
    "stage": ("all",),
    "judge_strategy": ("auto",),
    "judge_worker_num": (1,),
    "judge": (
        {
            "aggregation": "mean",
            "contract": {"score_type": "pattern"},
            "min_valid_judges": 1,
            "position_swap": "auto",
            "repeats": 1,
            "strategy": "auto",
        },
    ),
    "collect_perf": (True,),
    "sandbox": ({"engine": "docker"},),
    "sandbox_type": ("docker",),
}
"""What EvalScope writes to its task_config.yaml for keys that were not set; empty values are left out."""
ELSEWHERE_IN_EVAL = {
    **dict.fromkeys(("metrics", "metric"), "all metrics of a task are computed; recall_k sets the k of retrieval"),
    **dict.fromkeys(("k", "recall_at_k"), "use recall_k"),
    **dict.fromkeys(("prompt", "api_base", "api_key"), "set it in the model's entry in eval_config"),
}
"""Keys commonly misplaced in ``eval``."""
ELSEWHERE_BACKENDS = {
    "native": "The Native backend is for LLM benchmarks. "
    "To ask a generative model questions, run `eyechart eval --dataset NAME --model_type api`.",
    "vlmevalkit": "Run VLMEvalKit's benchmarks with `eyechart eval --dataset MMBench_DEV_EN --model MODEL`, "
    "and its scripts with `eyechart as vlmeval`.",
    "opencompass": "OpenCompass is for LLM benchmarks; use it directly.",
    "thirdparty": "For third-party benchmarks of agents and tools, use EvalScope.",
}
"""Unsupported backends of EvalScope, and their replacements."""
ELSEWHERE_TOOLS = {
    "ragas": "RAGAS scores the answers of a whole RAG system with an LLM; use ragas for that. "
    "To evaluate its retrieval, use tool: MTEB with custom_tasks.",
    "vlmevalkit": ELSEWHERE_BACKENDS["vlmevalkit"],
    "native": ELSEWHERE_BACKENDS["native"],
}


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
        whole["eval_backend"] = _known("eval_backend", whole["eval_backend"], BACKENDS, ELSEWHERE_BACKENDS)
    whole = {key: value for key, value in whole.items() if not _says_nothing(key, value)}
    _refuse_elsewhere(whole, ELSEWHERE)
    inner = whole.get("eval_config")
    if isinstance(inner, BaseModel):
        return whole  # already typed
    if not isinstance(inner, Mapping):
        raise UsageError(
            "The config has no eval_config.", advice="Add it with tool, models and eval; see docs/run-task.md."
        )
    if not isinstance(inner.get("tool"), str):
        raise UsageError("eval_config has no tool.", advice="Known: {names}.", names=", ".join(TOOLS))
    tool = _known("tool", inner["tool"], TOOL_ALIASES, ELSEWHERE_TOOLS)
    if not isinstance(inner.get("eval"), Mapping):
        raise UsageError(
            "eval_config has no eval.", advice="Add the datasets or tasks to evaluate; see docs/run-task.md."
        )
    _refuse_elsewhere(inner["eval"], ELSEWHERE_IN_EVAL, "eval_config.eval.")
    return {**whole, "eval_config": {**inner, "tool": tool}}


def _known(kind: str, name: str, table: Mapping[str, str], elsewhere: Mapping[str, str]) -> str:
    """Look a name up case-insensitively; an unsupported name of EvalScope is rejected with its replacement."""
    if name.lower() in elsewhere:
        raise UsageError("{kind}: {name} is not supported.", advice=elsewhere[name.lower()], kind=kind, name=name)
    if name.lower() not in table:
        raise unknown_name(kind, name, table.values())
    return table[name.lower()]


def _says_nothing(key: str, value: object) -> bool:
    """True for a key of another backend that holds the value which EvalScope writes by default."""
    if key == "dataset_dir":
        return str(value).replace("\\", "/").endswith("modelscope/hub/datasets")
    given = _without_empty(value)
    return key == "evalscope_version" or (key in ELSEWHERE and (not given or given in WRITTEN.get(key, ())))


def _without_empty(value: object) -> object:
    """Drop empty values of a mapping, at any depth."""
    if not isinstance(value, Mapping):
        return value
    return {key: kept for key, one in value.items() if (kept := _without_empty(one))}


def _refuse_elsewhere(values: Iterable[str], elsewhere: Mapping[str, str], where: str = "") -> None:
    """Reject unsupported keys of EvalScope, each with its replacement."""
    lines = [
        UserMessage("{key}: {hint}.", key=f"{where}{name}", hint=elsewhere[name])
        for name in values
        if name in elsewhere
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
