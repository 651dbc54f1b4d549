"""The tables of benchmarks scored by a rule, in the form that VLMEvalKit gives them."""

from __future__ import annotations

from collections.abc import Callable

from eyechart.scorers.shapes import documents, exercises, general, places, space, verdicts
from eyechart.scorers.tables import Table

SHAPES: dict[str, Callable[..., Table]] = {
    "groups": general.groups,
    "records": general.records,
    "per_group": general.per_group,
    "counted": general.counted,
    "tallied": general.tallied,
    "whole_groups": general.whole_groups,
    "in_fours": general.in_fours,
    "scored_parts": documents.scored_parts,
    "photographed": documents.photographed,
    "ocr_parts": documents.ocr_parts,
    "chart_parts": documents.chart_parts,
    "texts": documents.texts,
    "evidence": documents.evidence,
    "in_languages": documents.in_languages,
    "page_kinds": documents.page_kinds,
    "with_reasoning": exercises.with_reasoning,
    "worst_case": exercises.worst_case,
    "competitions": exercises.competitions,
    "points": exercises.points,
    "clicks": places.clicks,
    "referrals": places.referrals,
    "overlaps": places.overlaps,
    "pointing": places.pointing,
    "levels": space.levels,
    "pairs_and_counts": space.pairs_and_counts,
    "rankings": space.rankings,
    "observations": space.observations,
    "weighted": space.weighted,
    "typed": space.typed,
    "spar_levels": space.spar_levels,
    "graph_groups": space.graph_groups,
    "biases": verdicts.biases,
    "step_scores": verdicts.step_scores,
    "rated": verdicts.rated,
    "attacks": verdicts.attacks,
    "refusals": verdicts.refusals,
    "behaviours": verdicts.behaviours,
    "compliances": verdicts.compliances,
    "harms": verdicts.harms,
}
"""Forms of tables by the name that ``parameters.table.form`` gives."""
