"""Eyechart: the vision test for vision-language models."""

from importlib import import_module
from typing import Any

__version__ = "0.3.0"

_PUBLIC = {
    "compare": "eyechart.python_api.compare",
    "load_results": "eyechart.report.loader",
    "write_report": "eyechart.report.page",
    "evaluate": "eyechart.python_api.evaluate",
    "load_model": "eyechart.python_api.load_model",
    "score": "eyechart.python_api.score",
    "run_task": "eyechart.compat.evalscope.main",
    "TaskConfig": "eyechart.compat.evalscope",
    "read_result": "eyechart.results",
    "Result": "eyechart.results",
    "EyechartError": "eyechart.errors",
    "Encoder": "eyechart.types",
    "ModelCard": "eyechart.types",
    "ModelSpec": "eyechart.types",
    "Sample": "eyechart.types",
}
"""Public names by module, imported on first use so that ``import eyechart`` is instant."""

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        import_module("eyechart.errors").check_platform()
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'eyechart' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*(name for name in globals() if name.startswith("__")), *_PUBLIC])
