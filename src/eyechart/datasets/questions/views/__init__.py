"""What the words of a prompt need that is no cell of the row, made from its cells: a benchmark names its view."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eyechart.datasets.questions.views import cells
from eyechart.datasets.questions.views.competitions import olympiad
from eyechart.metrics.cells import Row

VIEWS: dict[str, Callable[[Row], Mapping[str, object]]] = {
    "by_turns": cells.by_turns,
    "by_index": cells.by_index,
    "long_document": cells.long_document,
    "tagged": cells.tagged,
    "thinking": cells.thinking,
    "asked": cells.asked,
    "olympiad": olympiad,
}
"""Views by the name that ``parameters.view`` gives."""
