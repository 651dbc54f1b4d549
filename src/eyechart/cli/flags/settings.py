"""From parsed flags to the settings of `eyechart.config.Config`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from eyechart.errors import UsageError


def option_of(text: str) -> tuple[str, Any]:
    """Read ``key=value``; true, false and numbers are meant as such."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"{text!r} is not KEY=VALUE.", advice="Write --model-option and --task-option like that.")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


CLIP_BENCHMARK = "clip_benchmark"
"""The program under whose name its own defaults hold."""
_NOT_SETTINGS = {
    "command",
    "program",
    "config",
    "dry_run",
    "targets",
    "profile",
    "quiet",
    "verbose",
    "negated",
    "amp",
    "no_amp",
    "distributed",
    "feature_root",
    "skip_load",
    "engine",
    "ray_address",
    "ray_workers",
    "processes",
}
"""What is for this command alone."""


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """Turn parsed flags into the settings of `eyechart.config.Config`."""
    from eyechart.config import Config, QuestionSettings
    from eyechart.like import BESIDE, STYLES, filled

    given = {key: value for key, value in vars(args).items() if key not in _NOT_SETTINGS}
    model_options = dict(option_of(text) for text in given.pop("model_option"))
    own_options = dict(option_of(text) for text in given.pop("task_option"))
    questions = {key: given.pop(key) for key in QuestionSettings.model_fields}
    values = {key: given.pop(key) for key in Config.model_fields if key in given}
    values |= {"model_options": model_options, "questions": questions, "task_options": given | own_options}
    if args.program == CLIP_BENCHMARK:
        style = {**STYLES[CLIP_BENCHMARK], **STYLES[filled(values)["like"]]}
        values = {name: style[name] for name in BESIDE} | values
    if args.amp or args.no_amp:
        values["precision"] = "amp" if args.amp else "fp32"
    return values
