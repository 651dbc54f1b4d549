"""From class names and templates to the texts of each class, and from their vectors to one vector per class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError
from eyechart.metrics.vectors import Vectors, mean_of_units
from eyechart.types import DatasetInfo, Notice

PLACEHOLDERS = ("{c}", "{}")


def fill(template: str, classname: str) -> str:
    """Put a class name into a template. Plain replacement: nothing in a template is ever evaluated."""
    for placeholder in PLACEHOLDERS:
        if placeholder in template:
            return template.replace(placeholder, classname)
    raise DataError(f"The template {template!r} has no {{c}}.", advice="Write {c} where the class name goes.")


def check_template(template: str, source: str) -> None:
    """Refuse a template without a place for the class name, or with stray braces."""
    if not any(placeholder in template for placeholder in PLACEHOLDERS):
        raise DataError(
            f"{source}: the template {template!r} has no {{c}}.", advice="Write {c} where the class name goes."
        )
    rest = template
    for placeholder in PLACEHOLDERS:
        rest = rest.replace(placeholder, "")
    if "{" in rest or "}" in rest:
        raise DataError(
            f"{source}: the template {template!r} has stray braces.",
            advice="Only {c} is replaced; remove the other braces.",
        )


def class_texts(info: DatasetInfo) -> list[tuple[str, ...]]:
    """Return the texts of each class: its own prompts if it has some, else every template with its name."""
    texts = []
    for name in info.classnames:
        own = info.class_prompts.get(name)
        if own is None and not info.templates:
            raise DataError(
                f"{info.name}: there are no prompts for class {name!r}.",
                advice="Give templates (zeroshot_classification_templates.txt or --custom_template_file).",
            )
        texts.append(own if own is not None else tuple(fill(template, name) for template in info.templates))
    return texts


def prompts_of(info: DatasetInfo) -> dict[str, Any]:
    """Return class names and templates for the details of a result."""
    return {"classnames": list(info.classnames), "templates": list(info.templates)}


def class_vectors(units: Vectors, texts: Sequence[Sequence[str]]) -> Vectors:
    """Average the unit vectors of each class's texts and renormalise."""
    sizes = [len(group) for group in texts]
    starts = np.array([0, *accumulate(sizes)][:-1], np.int64)
    return mean_of_units(units, starts)


def merge_duplicates(info: DatasetInfo) -> tuple[DatasetInfo, NDArray[np.int64]]:
    """Make one class of all that have the same name; also return the new number of each old class."""
    names = tuple(dict.fromkeys(info.classnames))
    place = {name: i for i, name in enumerate(names)}
    return replace(info, classnames=names), np.array([place[name] for name in info.classnames], np.int64)


def duplicate_classes(info: DatasetInfo) -> Notice | None:
    """Report class names that occur more than once: only the first of them can be predicted."""
    twice = {name: count for name, count in Counter(info.classnames).items() if count > 1}
    if not twice:
        return None
    shown = ", ".join(f"{name!r} x{count}" for name, count in list(twice.items())[:5])
    extra = sum(twice.values()) - len(twice)
    return Notice(
        "duplicate_classes",
        extra,
        f"Class names occur more than once: {shown}. Only the first can be right; "
        "--merge-duplicate-classes joins them.",
    )
