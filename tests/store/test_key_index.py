"""The index of a table of vectors: what a dictionary would say, with few sorted runs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eyechart.store import vector_store
from eyechart.store.vector_store import KeyIndex


def keys(numbers):
    """Make keys of 16 bytes that differ in the first eight."""
    return np.array([np.frombuffer(f"{n:08d}{n:08d}".encode(), np.uint8) for n in numbers], np.uint8).reshape(-1, 16)


@given(st.lists(st.lists(st.integers(0, 40), max_size=6, unique=True), max_size=12), st.sets(st.integers(0, 11)))
def test_it_finds_what_a_dictionary_finds(parts, forgotten):
    index = KeyIndex()
    for number, part in enumerate(parts):
        index.add([keys(part)], number)
    index.forget(forgotten)
    places = {}
    for number, part in enumerate(parts):
        for row, key in enumerate(part):
            if number not in forgotten:
                places.setdefault(key, (number, row))

    found, rows = index.find(keys(range(41)))

    assert {key: (found[key], rows[key]) for key in range(41) if found[key] >= 0} == places


def test_half_a_key_is_no_key():
    index = KeyIndex()
    index.add([np.frombuffer(b"headheadtailtail", np.uint8).reshape(1, 16)], 0)
    wanted = np.frombuffer(b"headheadtailtailheadheadtailTAILHEADheadtailtail", np.uint8).reshape(3, 16)

    assert index.find(wanted)[0].tolist() == [0, -1, -1]


def test_parts_added_one_by_one_or_together_are_found_alike():
    parts = [keys(range(10 * i, 10 * i + 10)) for i in range(100)]
    one_by_one, together = KeyIndex(), KeyIndex()
    for number, part in enumerate(parts):
        one_by_one.add([part], number)
    together.add(parts, 0)

    wanted = keys(range(1001))
    assert [a.tolist() for a in one_by_one.find(wanted)] == [a.tolist() for a in together.find(wanted)]


def test_there_are_few_runs_and_a_key_is_moved_rarely(monkeypatch):
    """n log n: with one sorted list it would be a million moves for these 1,000 parts."""
    moved = []
    real = vector_store._Run.take
    monkeypatch.setattr(vector_store._Run, "take", lambda run, chosen: moved.append(len(run)) or real(run, chosen))
    index = KeyIndex()
    for number in range(1000):
        index.add([keys([2 * number, 2 * number + 1])], number)

    assert len(index._runs) <= 10
    assert 2000 <= sum(moved) <= 2000 * 11
