"""Rules that compare one answer with its row; the catalogue names them, with their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eyechart.plugins import Registry


@dataclass(frozen=True, slots=True)
class Reading:
    """What a rule took for the answer, and how right it is."""

    extracted: str | None
    score: float
    grades: Mapping[str, float] = field(default_factory=dict)
    """How right it is in other respects, from 0 to 1."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else the table needs to know of the row and the answer."""


_FILES = {
    "words": "metric contains equals marked count lettered stated biased niah",
    "documents": "table_answer photographed chart_answer",
    "exercises": "solution boxed_answer short_answer stated_value stated_letter competition points "
    "mathematics final_number",
    "chinese": "chinese_exam",
    "places": "centre click box_overlap referred in_mask pointed",
    "lists": "ranking steps ratings",
    "measures": "observed travelled tagged_value safety refusal behaviour compliance harmless spar",
    "pages": "page_answer page_text long_context",
    "graphs": "graph_answer",
    "structures": "chart_structure ocr_part",
    "fields": "json_field named_answer pair_counts",
}
RULES = Registry(
    "rules", "rule", {name: f"{__name__}.{file}:{name}" for file, names in _FILES.items() for name in names.split()}
)
"""Rules by the name that the catalogue gives."""
