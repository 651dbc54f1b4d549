"""Presets (``--preset``): the defaults of other evaluation tools, applied where the user sets nothing."""

from collections.abc import Mapping
from typing import Any, Final

OWN: Final = "eyechart"
PRESETS: Mapping[str, Mapping[str, Any]] = {
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
"""Defaults that differ from ours, by preset (see docs/presets.md)."""
NOT_NUMBERS = ("output", "thumbnails")
"""Preset settings without effect on metrics."""
IMPLIED = {"internvl": "internvl"}
"""Default preset by model family; the family's models are named ``<family>_...``."""


def filled(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the preset's defaults for settings that are not given."""
    preset = values.get("preset")
    if not preset:
        family = values.get("model_type")
        if family is None:
            named = [values.get(name) for name in ("pretrained_model", "model")]
            texts = [text for names in named if isinstance(names, list | tuple) for text in names]
            prefixes = {text[: text.find("_") + 1] for text in texts if isinstance(text, str)}
            family = prefixes.pop().removesuffix("_") if len(prefixes) == 1 else None
        preset = IMPLIED.get(str(family), OWN)
    defaults = PRESETS.get(preset, {})
    options = {**defaults.get("task_options", {}), **(values.get("task_options") or {})}
    return {**defaults, **values, "preset": preset, **({"task_options": options} if options else {})}


def changes(preset: str, settings: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """List the settings in effect that take the preset's default instead of ours."""
    defaults = {**PRESETS[preset], **PRESETS[preset].get("task_options", {})}
    for name in ("task_options", *NOT_NUMBERS):
        defaults.pop(name, None)
    known = {**settings, **settings["task_options"]}
    return [
        f"{name} {_words(value)}" + (f" instead of {_words(ours[name])}" if ours.get(name) else "")
        for name, value in defaults.items()
        if known.get(name) == value
    ]


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{item} for {name}" for name, item in value.items())
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "on" if value is True else str(value)
