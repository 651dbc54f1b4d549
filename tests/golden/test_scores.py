"""Every scored VLM benchmark gives the stored table, metrics and records on the stored predictions."""

import pytest

from support.golden_scores import cases_of, facts_of, row_sets, scored_names, stored_scores


@pytest.mark.parametrize("rows", row_sets(), ids=lambda rows: " ".join([rows.names[0], rows.edges]).strip())
def test_scores_are_unchanged(rows):
    changed = {}
    for case in cases_of(rows):
        for name in rows.names:
            found, stored = facts_of(name, case), stored_scores()[name, case.title]
            different = {key: (value, stored[key]) for key, value in found.items() if value != stored[key]}
            changed |= {f"{name}, {case.title}, {key}": pair for key, pair in different.items()}

    assert changed == {}


def test_every_scored_benchmark_is_stored():
    stored = {name for name, _ in stored_scores()}

    assert stored == scored_names()
