"""Judge models at work, and the judge prompts of VLMEvalKit."""

import importlib
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from eyechart.errors import DataError, ModelError, UsageError, first_line, unknown_name
from eyechart.io.digests import digest_bytes
from eyechart.metrics.cell_values import Row, as_text, options_of
from eyechart.scorers.judging.judge_forms import READERS, TRIES_APART, JudgeForm, option_block
from eyechart.scorers.rule import JudgeExchange, RuleResult
from eyechart.types import Answer, Message, Prompt, digest_json

OURS = "eyechart"
_NEEDS = {"grades": "names", "word": "words", "label": "labels", "marks": "column"}
"""The parameter each parser requires."""
_KNOWN: Mapping[str, Callable[[Any], bool]] = {
    "highest": lambda value: type(value) in {int, float} and value > 0,
    "longest": lambda value: type(value) is int and value > 0,
    "names": lambda value: isinstance(value, list) and value != [] and all(isinstance(name, str) for name in value),
    "words": lambda value: _is_table(value) and all(type(v) in {int, float} and 0 <= v <= 1 for v in value.values()),
    "labels": lambda value: _is_table(value) and all(isinstance(words, str) for words in value.values()),
    "column": lambda value: isinstance(value, str),
}
"""The parameters of parsers, and whether a value is valid."""
_GRADES = {"number", "word"}
"""Kinds of reply that may replace each other: both are a share of the highest grade."""


@dataclass(frozen=True)
class JudgePrompts:
    """The forms of a judge; forms that a file lacks are built in."""

    source: str = OURS
    """Their origin, for display: built in, a file's name, another tool."""
    forms: Mapping[str, JudgeForm] = field(default_factory=dict)
    """By the name of the form, or of the benchmark it is for."""

    def form(self, name: str, benchmark: str = "") -> JudgeForm:
        """Return a form: the benchmark's own if there is one."""
        found = self.forms.get(benchmark) or self.forms.get(name)
        return found or _ours()[name]

    def source_of(self, form: JudgeForm) -> str:
        """Return the origin of a form."""
        return self.source if form in self.forms.values() else OURS

    @property
    def digest(self) -> str:
        """Digest of all forms."""
        return digest_json({name: form.digest for name, form in {**_ours(), **self.forms}.items()})


def load_prompts(name: str) -> JudgePrompts:
    """Return the judge prompts of a setting: built-in (empty), of an installed VLMEvalKit, or from a file.

    Raises:
        UsageError: If the file does not exist or is invalid, or VLMEvalKit is not installed.
    """
    if not name:
        return JudgePrompts()
    if name == VLMEVAL:
        _folder()
        for package in (VLMEVAL, "ms-vlmeval"):
            try:
                return VlmevalPrompts(f"{VLMEVAL} {version(package)}")
            except PackageNotFoundError:
                continue
        return VlmevalPrompts(VLMEVAL)  # a folder on the path: identified by the digest of its code
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "{--judge_prompts={path}}: {reason}", advice="Use a TOML file, or vlmeval.", path=name, reason=error
        ) from error
    return JudgePrompts(Path(name).name, _parse(text, name))


@cache
def _ours() -> Mapping[str, JudgeForm]:
    return _parse((files(__package__) / "prompts.toml").read_text(encoding="utf-8"), "prompts.toml", complete=True)


def _parse(text: str, name: str, *, complete: bool = False) -> dict[str, JudgeForm]:
    try:
        entries = tomllib.loads(text)
        return {key: _form(key, entry, complete=complete) for key, entry in entries.items()}
    except (tomllib.TOMLDecodeError, DataError) as error:
        raise UsageError(
            "{name} is not a valid file of judge prompts: {reason}",
            advice='An entry is [form] with template = "..." and reads = ... (docs/judges.md).',
            name=name,
            reason=error,
        ) from error


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value)


def _form(name: str, entry: Any, *, complete: bool) -> JudgeForm:
    """Build a form from an entry; an entry that overrides a built-in form inherits what it omits."""
    if not isinstance(entry, Mapping):
        raise DataError("{name} is not a table", name=name)
    base = None if complete else _ours().get(str(entry.get("form", name)))
    unknown = entry.keys() - {"form", "template", "reads", "tries", *_KNOWN}
    if unknown:
        raise DataError("[{name}] has unknown keys: {unknown}", name=name, unknown=", ".join(sorted(unknown)))
    template, reads = entry.get("template"), entry.get("reads", base.reads if base else None)
    if not isinstance(template, str) or "{prediction}" not in template:
        raise DataError("[{name}] has no template with {{prediction}}", name=name)
    if base is None and (reads is None or (not complete and "form" not in entry)):
        raise DataError(
            "[{name}] is not one of the forms {ours}; an entry for a benchmark needs the key form",
            name=name,
            ours=", ".join(_ours()),
        )
    tries = entry.get("tries", base.tries if base else 3)
    _check_values(name, {**entry, "reads": reads, "tries": tries}, base)
    known = {key: entry[key] for key in _KNOWN if key in entry}
    if base is not None and base.reads == reads:
        known = {**base.known, **known}
    if reads in _NEEDS and _NEEDS[reads] not in known:
        raise DataError("[{name}]: reads = {reads} requires {needs}", name=name, reads=reads, needs=_NEEDS[reads])
    return JudgeForm(name, template, reads, tries, known)


def _check_values(name: str, entry: Mapping[str, Any], base: JudgeForm | None) -> None:
    reads, tries = entry["reads"], entry["tries"]
    if not isinstance(reads, str) or reads not in READERS:
        raise unknown_name("kind of reply", str(reads), READERS)
    if base is not None and reads != base.reads and not {reads, base.reads} <= _GRADES:
        raise DataError(
            "[{name}]: reads = {reads} cannot replace {base_reads} in this form",
            name=name,
            reads=reads,
            base_reads=base.reads,
        )
    if type(tries) is not int or not 1 <= tries < TRIES_APART:
        raise DataError(
            "[{name}]: tries = {tries!r} is not an integer from 1 to {tries_apart}",
            name=name,
            tries=tries,
            tries_apart=TRIES_APART - 1,
        )
    wrong = [key for key, is_one in _KNOWN.items() if key in entry and not is_one(entry[key])]
    if wrong:
        raise DataError(
            "[{name}]: {first} = {entry!r} is not a valid value", name=name, first=wrong[0], entry=entry[wrong[0]]
        )


Ask = Callable[[Iterable[Prompt], int], Iterable[tuple[str, Answer]]]
"""Answers prompts; the number distinguishes repeated attempts at the same prompt."""
JUDGE_SETTINGS = {"temperature": 0, "max_tokens": 2048}
"""Generation settings of a judge."""
WARMER, WARMEST = 0.5, 1.0
"""Step and maximum of the temperature over the attempts: a repeated request at 0 would get the same reply."""


@dataclass(frozen=True)
class Judge:
    """A generator used as a judge."""

    name: str
    ask: Ask
    prompts: JudgePrompts = field(default_factory=JudgePrompts)
    repeats: int = 1
    """Number of verdicts on each answer."""
    on_error: str = "fail"
    """Whether a failing judge aborts the run (``fail``) or its verdict counts as unreadable (``skip``)."""

    def judge(self, form: JudgeForm, rows: Sequence[tuple[str, Row]], repeat: int = 0) -> dict[str, JudgeExchange]:
        """Ask about each row, again if a reply cannot be parsed; return the exchanges by the ids of the rows.

        The last attempt is not cached unless its reply can be parsed, so that the next run repeats it.

        Raises:
            ModelError: If a request fails and ``on_error`` is fail.
        """
        found = {name: JudgeExchange(form.question(row)) for name, row in rows}
        left = dict(rows)
        for attempt in range(form.tries):
            if not left:
                break
            warmth, last = min(WARMEST, WARMER * attempt) or None, attempt == form.tries - 1
            prompts = [
                Prompt(
                    name,
                    (Message("user", (found[name].question,)),),
                    warmth,
                    partial(form.is_readable, row) if last else None,
                )
                for name, row in left.items()
            ]
            for name, answer in list(self.ask(prompts, TRIES_APART * repeat + attempt)):
                if answer.error and self.on_error == "fail":
                    raise ModelError(
                        "The judge {name} did not answer: {error}",
                        advice="Its verdicts so far are cached: rerun the same command when it is available "
                        "again, or use {--on_error=skip} to count the others as wrong.",
                        name=self.name,
                        error=answer.error,
                    )
                replies = (*found[name].replies, answer)
                found[name] = replace(found[name], replies=replies, verdict=form.verdict(answer, left[name]))
            left = {name: row for name, row in left.items() if found[name].verdict is None}
        return found


def majority(runs: Sequence[Sequence[RuleResult]]) -> list[RuleResult]:
    """Return for each answer the score given by the majority of verdicts; a tie never helps.

    The median decides, of an even number of verdicts the lower one: for right or wrong this is the majority. Among
    results with that score, the most frequent one is returned.
    """
    if len(runs) == 1:
        return list(runs[0])
    return [_middle(scores) for scores in zip(*runs, strict=True)]


def _middle(scores: Sequence[RuleResult]) -> RuleResult:
    ordered = sorted(scores, key=lambda score: score.score or 0.0)
    middle = ordered[(len(ordered) - 1) // 2].score
    same = [score for score in scores if score.score == middle]
    often = Counter((score.extracted, score.rule) for score in same)
    return max(same, key=lambda score: often[score.extracted, score.rule])


# The judge prompts of an installed VLMEvalKit, built by its own functions on demand.

VLMEVAL = "vlmeval"
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
"""Module and public function by our form and the prefix of the benchmark's name."""
_IDEOGRAPH = re.compile(r"[\u4e00-\u9fff]")


@dataclass(frozen=True)
class _FunctionForm(JudgeForm):
    """A form built by a function of VLMEvalKit, which its template names."""

    code: str = ""
    """Digest of the function's module."""

    def question(self, row: Row) -> str:
        """Build the prompt with the function."""
        name = self.template
        if self.name == "choice" and name == _FUNCTIONS["choice", ""] and _IDEOGRAPH.search(as_text(row["question"])):
            name = _FUNCTIONS["choice", _CHINESE]
        line = {column: as_text(cell) for column, cell in row.items()}
        arguments = [line["question"], option_block(options_of(row)), line["prediction"]]
        try:
            return str(_load(name)(*arguments) if self.name == "choice" else _load(name)(line))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(
                "VLMEvalKit's {name} failed to build the judge prompt: {reason!r}", name=name, reason=error
            ) from error

    @property
    def digest(self) -> str:
        """Digest of the function's name and its module's code."""
        return digest_json([self.template, self.code, self.reads, self.tries])


def _load(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(f"{_UTILS}.{module}"), function)
    except (ImportError, AttributeError, OSError, RuntimeError) as error:
        raise UsageError(
            "{--judge_prompts={vlmeval}}: {utils}.{name} cannot be imported ({reason}).",
            advice="Install VLMEvalKit with its dependencies in this environment, or omit {--judge_prompts}.",
            vlmeval=VLMEVAL,
            utils=_UTILS,
            name=name,
            reason=first_line(error),
        ) from error
    return found


class VlmevalPrompts(JudgePrompts):
    """The forms of an installed VLMEvalKit; a benchmark it has no function for is rejected."""

    def form(self, name: str, benchmark: str = "") -> JudgeForm:
        """Return the form built by the function for this benchmark."""
        fitting = [key for form, key in _FUNCTIONS if form == name and key != _CHINESE and benchmark.startswith(key)]
        if not fitting:
            raise UsageError(
                "VLMEvalKit has no judge prompt for {benchmark}.",
                advice="Omit {--judge_prompts} for the built-in prompts, or write your own file.",
                benchmark=benchmark,
            )
        function = _FUNCTIONS[name, max(fitting, key=len)]
        _load(function)
        ours = super().form(name)
        return _FunctionForm(name, function, ours.reads, ours.tries, ours.known, self.codes[function.partition(":")[0]])

    def source_of(self, form: JudgeForm) -> str:
        """Return the tool and its version."""
        return self.source

    @cached_property
    def codes(self) -> dict[str, str]:
        """The digest of each module with prompts."""
        modules = sorted({function.partition(":")[0] for function in _FUNCTIONS.values()})
        paths = {module: _folder() / "dataset" / "utils" / f"{module}.py" for module in modules}
        return {module: digest_bytes(path.read_bytes()).hex() for module, path in paths.items() if path.is_file()}

    @property
    def digest(self) -> str:
        """Digest of the code of all prompts."""
        return digest_json([self.source, self.codes])


def _folder() -> Path:
    found = find_spec(VLMEVAL)
    if found is None or found.origin is None:
        raise UsageError(
            "{--judge_prompts={vlmeval}}: VLMEvalKit is not installed.",
            advice="Install it (pip install ms-vlmeval, or from its repository), or omit {--judge_prompts} for "
            "the built-in prompts.",
            vlmeval=VLMEVAL,
        )
    return Path(found.origin).parent
