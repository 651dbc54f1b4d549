"""Generators and judges behind the store of answers, as benchmarks use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from eyechart import plugins
from eyechart.api import Secret
from eyechart.inference.answers import StoredAnswers
from eyechart.io.files import cache_root
from eyechart.models.generators.family import Access, GeneratorFamily, LazyGenerator
from eyechart.store.answers import ResponseStore
from eyechart.types import Answer, ModelSpec, Prompt
from eyechart.vlm.judges import Judge

JUDGE_SETTINGS = {"temperature": 0, "max_tokens": 2048}


def open_generator(spec: ModelSpec, access: Access) -> StoredAnswers:
    """Prepare a generator; it is loaded when the first question has no stored answer."""
    family: GeneratorFamily = plugins.load("generators", spec.family)()
    family.check(spec)
    store = ResponseStore(cache_root() / "responses")
    return StoredAnswers(LazyGenerator(spec, family, access), store, good=_is_answer)


def _is_answer(answer: Answer) -> bool:
    """Keep whatever the model said, even nothing: it is its answer. Failures are asked again."""
    return not answer.error


def stored_judge(spec: ModelSpec, access: Access) -> Judge:
    """Make a judge of a generator; its verdicts are stored by prompt, answer, judge and settings."""
    answers = open_generator(spec, access)

    def ask(prompts: Iterable[Prompt], attempt: int) -> Iterable[tuple[str, Answer]]:
        return answers.ask(prompts, attempt)

    return Judge(spec.name.replace("/", "_"), ask)


def api_judge(name: str, settings: Mapping[str, Any]) -> Judge:
    """Make a judge from the keyword arguments of ``evaluate``: api_base, key, nproc, temperature, max_tokens."""
    options = {
        "api_base": settings.get("api_base"),
        "settings": JUDGE_SETTINGS | {key: settings[key] for key in JUDGE_SETTINGS if key in settings},
    }
    key = settings.get("key")
    access = Access(
        key=Secret(str(key)) if key else None,
        concurrency=int(settings.get("nproc", 4)),
        tries=int(settings.get("retry", 6)),
    )
    return stored_judge(ModelSpec("api", name, options=options), access)
