"""The defaults of other evaluations (``--like``): a table that fills what the user left open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

OWN: Final = "eyechart"
STYLES: Mapping[str, Mapping[str, Any]] = {
    OWN: {},
    "clip_benchmark": {
        "output": "{dataset}_{pretrained}_{model}_{language}_{task}.json",
        "precision": "amp",
        "thumbnails": 0,
        "task_options": {"fewshot_draw": "clip_benchmark", "empty_classes": "zero"},
    },
    "internvl": {
        "output": "result.json",
        "recall_k": [1, 5, 10],
        "caption_cleaning": {"flickr30k": "internvl", "mscoco_captions": "internvl"},
        "precision": "half",
        "append": True,
        "thumbnails": 0,
    },
}
"""Settings by the evaluation whose defaults they are, where ours differ (see docs/results.md)."""
BESIDE = ("output", "thumbnails")
"""Settings on which no number depends: they say where results go, and what else is kept."""
IMPLIED = {"internvl": "internvl"}
"""Model families, whose models carry their name, that are evaluated like this unless the user says otherwise."""


def filled(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fill settings that were not given with the defaults of the evaluation that is meant."""
    like = values.get("like") or _implied(values)
    style = STYLES.get(like, {})
    options = {**style.get("task_options", {}), **(values.get("task_options") or {})}
    return {**style, **values, "like": like, **({"task_options": options} if options else {})}


def _implied(values: Mapping[str, Any]) -> str:
    family = values.get("model_type")
    if family is None:
        named = [*_texts(values.get("pretrained_model")), *_texts(values.get("model"))]
        families = {next((one for one in IMPLIED if name.startswith(f"{one}_")), None) for name in named}
        family = families.pop() if len(families) == 1 else None
    return IMPLIED.get(str(family), OWN)


def _texts(value: object) -> Iterable[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list | tuple) else []


def changes(like: str, settings: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """Say which settings are as another evaluation has them and not as ours would be.

    Args:
        like: Whose defaults were asked for.
        settings: The settings in effect.
        ours: Our own defaults.
    """
    style = {**STYLES[like], **STYLES[like].get("task_options", {})}
    for name in ("task_options", *BESIDE):
        style.pop(name, None)
    known = {**settings, **settings["task_options"]}
    return [
        f"{name} {_words(value)}" + (f" instead of {_words(ours[name])}" if ours.get(name) else "")
        for name, value in style.items()
        if known.get(name) == value
    ]


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{item} for {name}" for name, item in value.items())
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "on" if value is True else str(value)
