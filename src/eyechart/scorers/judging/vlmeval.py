"""The judge prompts of an installed VLMEvalKit, written by its own functions when they are needed."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from eyechart.errors import DataError, UsageError, first_line
from eyechart.io.digests import digest_bytes
from eyechart.metrics.cells import Row, as_text, options_of
from eyechart.scorers.judging.forms import JudgeForm, option_block
from eyechart.scorers.judging.prompts import JudgePrompts
from eyechart.types import digest_json

VLMEVAL = "vlmeval"
_PACKAGES = (VLMEVAL, "ms-vlmeval")
"""The names under which it is published."""
_UTILS = f"{VLMEVAL}.dataset.utils"
_CHINESE = "Chinese"
_FUNCTIONS: Mapping[tuple[str, str], str] = {
    ("choice", ""): "multiple_choice:build_prompt",
    ("choice", _CHINESE): "multiple_choice:build_prompt_cn",
    ("choice", "BLINK"): "multiple_choice:build_prompt_blink",
    ("choice", "WeMath"): "multiple_choice:build_prompt_wemath",
    ("yes_no", ""): "yorn:YOrN_match_prompt",
    ("grade", "MMVet"): "mmvet:build_mmvet_gpt4_prompt",
    ("extract", "MathVista"): "mathvista:build_mathvista_gpt4_prompt",
    ("extract", "MathVision"): "mathv:build_mathv_gpt4_prompt",
    ("compare", "LLaVABench"): "llavabench:build_prompt",
    ("compare", "LLaVABench_KO"): "llavabench:build_prompt_ko",
}
"""Module and function by our form and the benchmark (what its name begins with); a public name each."""
_IDEOGRAPH = re.compile(r"[\u4e00-\u9fff]")


@dataclass(frozen=True)
class _FunctionForm(JudgeForm):
    """A form whose words are another tool's: its template names the function."""

    code: str = ""
    """The digest of the module that the function is in."""

    def question(self, row: Row) -> str:
        """Let the function write the question."""
        name = self.template
        if self.name == "choice" and name == _FUNCTIONS["choice", ""] and _IDEOGRAPH.search(as_text(row["question"])):
            name = _FUNCTIONS["choice", _CHINESE]
        line = {column: as_text(cell) for column, cell in row.items()}
        arguments = [line["question"], option_block(options_of(row)), line["prediction"]]
        try:
            return str(_load(name)(*arguments) if self.name == "choice" else _load(name)(line))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"VLMEvalKit's {name} cannot write the judge's prompt: {error!r}") from error

    @property
    def digest(self) -> str:
        """Tell these words from others: the function's name and its module's code."""
        return digest_json([self.template, self.code, self.reads, self.tries])


def _load(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(f"{_UTILS}.{module}"), function)
    except (ImportError, AttributeError, OSError, RuntimeError) as error:
        raise UsageError(
            f"--judge_prompts {VLMEVAL}: {_UTILS}.{name} cannot be imported ({first_line(error)}).",
            advice="Install VLMEvalKit with what it needs into this environment, or leave the flag out.",
        ) from error
    return found


class VlmevalPrompts(JudgePrompts):
    """The forms of an installed VLMEvalKit. What it has no function for is refused, never asked in other words."""

    def form(self, name: str, benchmark: str = "") -> JudgeForm:
        """Return the form that its function for this benchmark writes."""
        fitting = [key for form, key in _FUNCTIONS if form == name and key != _CHINESE and benchmark.startswith(key)]
        if not fitting:
            raise UsageError(
                f"VLMEvalKit has no function that writes the judge's prompt for {benchmark}.",
                advice="Leave --judge_prompts out for ours, or write your own file.",
            )
        function = _FUNCTIONS[name, max(fitting, key=len)]
        _load(function)
        ours = super().form(name)
        return _FunctionForm(name, function, ours.reads, ours.tries, ours.known, self.codes[function.partition(":")[0]])

    def source_of(self, form: JudgeForm) -> str:
        """Name the tool and its version."""
        return self.source

    @cached_property
    def codes(self) -> dict[str, str]:
        """Return the digest of each module that holds prompts."""
        modules = sorted({function.partition(":")[0] for function in _FUNCTIONS.values()})
        files = {module: _folder() / "dataset" / "utils" / f"{module}.py" for module in modules}
        return {module: digest_bytes(path.read_bytes()).hex() for module, path in files.items() if path.is_file()}

    @property
    def digest(self) -> str:
        """Change with the code of the prompts."""
        return digest_json([self.source, self.codes])


def vlmeval_prompts() -> VlmevalPrompts:
    """Return the judge prompts of the VLMEvalKit that is installed.

    Raises:
        UsageError: If there is none.
    """
    _folder()
    for name in _PACKAGES:
        try:
            return VlmevalPrompts(f"{VLMEVAL} {version(name)}")
        except PackageNotFoundError:
            continue
    return VlmevalPrompts(VLMEVAL)  # a folder on the path: its code tells which it is


def _folder() -> Path:
    found = find_spec(VLMEVAL)
    if found is None or found.origin is None:
        raise UsageError(
            f"--judge_prompts {VLMEVAL}: VLMEvalKit is not installed.",
            advice="Install it (pip install ms-vlmeval, or its repository), or leave the flag out for ours.",
        )
    return Path(found.origin).parent
