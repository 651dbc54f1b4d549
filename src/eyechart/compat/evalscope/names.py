"""Both generations of field names, and the few places where a shorthand stands for more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from eyechart.compat.evalscope import answers
from eyechart.errors import UsageError, nearest, unknown_name

Dict = dict[str, Any]

TOOLS = {"clip_benchmark": "clip_benchmark", "mteb": "mteb", "cmteb": "mteb"}
BACKENDS = {"rageval": "RAGEval"}

TOP = {"output_dir": "work_dir"}
TOOL = {"model": "models"}
CLIP_EVAL = {"model": "models", "datasets": "dataset_name", "dataset": "dataset_name", "limits": "limit"}
MTEB_EVAL = {
    "tasks": "task_names",
    "topk": "top_k",
    "limits": "limit",
    "output_folder": "output_dir",
    "dataset_path": "data_path",
}
TEXT_MODEL = {"model_name": "model_name_or_path", "dimension": "dimensions"}
CUSTOM_TASK = {"dataset_path": "data_path", "path": "data_path"}
CUSTOM = "CustomRetrieval"
CUSTOM_TASKS = (CUSTOM, "CustomReranking")


def normalise(config: Mapping[str, Any]) -> Dict:
    """Bring a config of either generation to today's names. Anything unknown is left for the schema to refuse."""
    whole = dict(config)
    if "tool" in whole and "eval_config" not in whole:
        whole = {"eval_config": whole}  # a file that holds the inner part only, as EvalScope's command line takes it
    if isinstance(whole.get("eval_backend"), str):
        whole["eval_backend"] = _known("eval_backend", whole["eval_backend"], BACKENDS, answers.BACKENDS)
    answers.refuse_foreign(whole, answers.TOP_LEVEL)
    whole = rename(whole, TOP, "the config")
    if isinstance(whole.get("eval_config"), BaseModel):
        return whole  # typed already
    if not isinstance(whole.get("eval_config"), Mapping):
        raise UsageError(
            "The config has no eval_config.", advice="It holds tool, models and eval; see docs/run-task.md."
        )
    whole["eval_config"] = _tool(dict(whole["eval_config"]))
    return whole


def rename(values: Dict, table: Mapping[str, str], where: str) -> Dict:
    """Replace old names by new ones; both at once with different values is an error."""
    out = {key: value for key, value in values.items() if key not in table}
    for old, new in table.items():
        if old in values:
            if new in out and out[new] != values[old]:
                raise UsageError(f"{where} has both {old} and {new}.", advice=f"They mean the same: keep {new}.")
            out[new] = values[old]
    return out


def _tool(inner: Dict) -> Dict:
    if not isinstance(inner.get("tool"), str):
        raise UsageError("eval_config has no tool.", advice=f"Known: {', '.join(sorted(set(TOOLS.values())))}.")
    inner["tool"] = _known("tool", inner["tool"], TOOLS, answers.TOOLS)
    inner = rename(inner, TOOL, "eval_config")
    eval_ = inner.get("eval")
    if not isinstance(eval_, Mapping):
        raise UsageError("eval_config has no eval.", advice="It says on what to evaluate; see docs/run-task.md.")
    answers.refuse_foreign(eval_, answers.IN_EVAL, "eval_config.eval.")
    return _clip(inner, dict(eval_)) if inner["tool"] == "clip_benchmark" else _mteb(inner, dict(eval_))


def _clip(inner: Dict, eval_: Dict) -> Dict:
    eval_ = rename(eval_, CLIP_EVAL, "eval")
    if "models" in inner:
        eval_ = rename({**eval_, "_": inner.pop("models")}, {"_": "models"}, "eval_config and eval")
    eval_["models"] = _entries(eval_.get("models"), {})
    if "caption_models" in eval_:
        eval_["caption_models"] = _entries(eval_["caption_models"], {})
    if "text_models" in eval_:
        eval_["text_models"] = _entries(eval_["text_models"], TEXT_MODEL)
    return {**inner, "eval": eval_}


def _mteb(inner: Dict, eval_: Dict) -> Dict:
    if "models" in eval_ or "model" in eval_:
        inner = rename({**inner, "_": eval_.pop("models", None) or eval_.pop("model")}, {"_": "models"}, "eval_config")
    inner["models"] = _entries(inner.get("models"), TEXT_MODEL)
    eval_ = rename(eval_, MTEB_EVAL, "eval")
    eval_["custom_tasks"] = [_custom_task(task) for task in eval_.get("custom_tasks") or []]
    # The first generation names a custom task among the others and its folder beside them.
    names = [_custom_name(name) for name in _listed(eval_.get("task_names"))]
    custom = [name for name in names if name in CUSTOM_TASKS]
    if "data_path" in eval_:
        folder = eval_.pop("data_path")
        eval_["custom_tasks"] += [{"name": name, "data_path": folder} for name in custom or [CUSTOM]]
    elif custom and not eval_["custom_tasks"]:
        raise UsageError(
            f"The task {custom[0]} has no data.",
            advice="Give the folder as eval_config.eval.custom_tasks: [{data_path}].",
        )
    if names:
        eval_["task_names"] = [name for name in names if name not in CUSTOM_TASKS]
    return {**inner, "eval": eval_}


def _custom_task(task: object) -> object:
    if isinstance(task, str):
        return {"data_path": task}
    if not isinstance(task, Mapping):
        return task
    named = rename(dict(task), CUSTOM_TASK, "custom_tasks")
    return {**named, "name": _custom_name(named["name"])} if "name" in named else named


def _custom_name(name: object) -> object:
    """Return the usual spelling of a custom task; one that is nearly called so is asked about."""
    if not isinstance(name, str) or name.startswith(CUSTOM_TASKS):
        return name
    plain = name.replace("_", "").replace("-", "").lower()
    known = next((task for task in CUSTOM_TASKS if task.lower() == plain), None)
    if known is None and nearest(plain, CUSTOM_TASKS, cutoff=0.85):
        raise unknown_name("task", name, CUSTOM_TASKS)
    return known or name


def _entries(models: object, table: Mapping[str, str]) -> object:
    """Take one model for a list of one, and bring the entries' names up to date."""
    return [
        rename(dict(model), table, f"model {number}") if isinstance(model, Mapping) else model
        for number, model in enumerate(_listed(models), 1)
    ]


def _listed(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


def _known(kind: str, name: str, table: Mapping[str, str], elsewhere: Mapping[str, str]) -> str:
    """Look a name up, in any case; for one that EvalScope has and this tool has not, say what there is instead."""
    if name.lower() in elsewhere:
        raise UsageError(f"{kind}: {name} is not here.", advice=elsewhere[name.lower()])
    if name.lower() not in table:
        raise unknown_name(kind, name, table.values())
    return table[name.lower()]
