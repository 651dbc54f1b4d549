"""What EvalScope has and this tool has elsewhere or not at all: one answer for each name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eyechart.errors import UsageError

_MODEL = "it belongs to an entry of eval_config's models"
_QUESTIONS = "questions to a generative model are `eyechart eval --dataset NAME --model_type api`, not run_task"
_WORKS_ALONE = "there is nothing to set: remove it"
_NO_SANDBOX = "nothing that a model writes is ever executed: remove it"

TOP_LEVEL = {
    "model": "the models are entries of eval_config: models (MTEB) or eval.models (clip_benchmark)",
    "model_id": "results are named by model_name; remove it",
    "model_args": "precision, device and revision are keys of the model's entry in eval_config",
    "model_task": _WORKS_ALONE,
    "api_url": f"{_MODEL}, as api_base",
    "api_key": f"{_MODEL}, as api_key, or better api_key_variable",
    "timeout": "it is eval_config.eval.timeout",
    "stream": "answers are read whole: remove it",
    "chat_template": "the server, or the model's folder, has it: remove it",
    "template_type": "the server, or the model's folder, has it: remove it",
    "datasets": f"they are eval_config.eval.dataset_name, or task_names for MTEB; {_QUESTIONS}",
    "dataset_args": f"splits, prompts and limits are keys of eval_config.eval; {_QUESTIONS}",
    "dataset_dir": "it is eval_config.eval.cache_dir for what is fetched, data_dir for what is there",
    "dataset_hub": "it is eval_config.eval.hub: modelscope or huggingface",
    "limit": "it is eval_config.eval.limit (or limits)",
    "repeats": _QUESTIONS,
    "generation_config": "temperature, max_tokens and extra_body are keys of the model's entry in eval_config",
    "eval_type": "a model with api_base is asked over HTTP, any other one runs here: remove it",
    "eval_batch_size": "it is eval_config.eval.batch_size; requests at a time are eval_config.eval.concurrency",
    "stage": "captions and their search are tasks of their own (image_caption, CustomRetrieval): remove it",
    "output_type": _WORKS_ALONE,
    "mem_cache": "what was computed is always kept; EYECHART_CACHE says where: remove it",
    "rerun_review": "what is stored is not asked again, scores are always computed anew: remove it",
    "outputs": "it is work_dir",
    "dry_run": "it is eval_config.eval.dry_run",
    "ignore_errors": "it is eval_config.eval.on_error: skip",
    "enable_progress_tracker": _WORKS_ALONE,
    "judge_strategy": f"{_QUESTIONS}; a judge is --judge",
    "judge_worker_num": f"{_QUESTIONS}; a judge is --judge",
    "judge_model_args": f"{_QUESTIONS}; a judge is --judge",
    "analysis_report": "`eyechart report FOLDER` makes a page of results",
    "use_sandbox": _NO_SANDBOX,
    "sandbox_type": _NO_SANDBOX,
    "sandbox_manager_config": _NO_SANDBOX,
    "evalscope_version": "remove it",
}
"""Top-level keys of EvalScope's TaskConfig, and what to write here instead."""
IN_EVAL = {
    "metrics": "all metrics of a task are computed; recall_k chooses the k of retrieval",
    "metric": "all metrics of a task are computed; recall_k chooses the k of retrieval",
    "k": "it is recall_k",
    "recall_at_k": "it is recall_k",
    "prompt": f"{_MODEL}",
    "api_base": f"{_MODEL}",
    "api_key": f"{_MODEL}",
}
"""Keys that people look for in ``eval``."""
BACKENDS = {
    "native": f"The Native backend is for LLM benchmarks. Here {_QUESTIONS}.",
    "vlmevalkit": "Here VLMEvalKit's benchmarks are `eyechart eval --dataset MMBench_DEV_EN --model MODEL`; "
    "its scripts run by `eyechart as vlmeval`.",
    "opencompass": "OpenCompass is for LLM benchmarks, which are not here; use OpenCompass itself.",
    "thirdparty": "Third-party benches of agents and tools are not here; use EvalScope itself.",
}
"""Backends of EvalScope that are not here, and what is."""
TOOLS = {
    "ragas": "RAGAS scores answers of a whole RAG system with an LLM. Here its retrieval can be measured: tool: MTEB "
    "with custom_tasks; for the answers, use ragas itself.",
    "vlmevalkit": BACKENDS["vlmevalkit"],
    "native": BACKENDS["native"],
}


def refuse_foreign(values: Iterable[str], answers: Mapping[str, str], where: str = "") -> None:
    """Answer for every key that is known from EvalScope and not taken here."""
    lines = [f"{where}{name}: {answers[name]}." for name in values if name in answers]
    if lines:
        raise UsageError("\n".join(lines))
