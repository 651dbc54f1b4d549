"""Numbers in whatever an evaluation returns: dicts, lists, tables and arrays, named by the path to each."""

import numpy as np
import pandas as pd
import pytest

from eyechart.tasks.question_metrics import flatten


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        ({"a": 1, "b": {"c": 2.5, "d": True, "e": "x"}}, {"a": 1.0, "b|c": 2.5}),
        ([1, 2], {"0": 1.0, "1": 2.0}),
        ([{"a": 1}], {"a": 1.0}),
        ({"a": [1, {"b": 2}]}, {"a|0": 1.0, "a|1|b": 2.0}),
        (np.float32(0.5), {"value": 0.5}),
        (pd.DataFrame({"split": ["dev", "test"], "Overall": [0.5, 1.0]}), {"dev|Overall": 0.5, "test|Overall": 1.0}),
        (pd.DataFrame({"Overall": [0.5, 1.0]}), {"0|Overall": 0.5, "1|Overall": 1.0}),
        (pd.DataFrame({"Overall": [0.5]}), {"Overall": 0.5}),
        ({"by": pd.DataFrame({"split": ["dev"], "acc": [0.5]})}, {"by|dev|acc": 0.5}),
    ],
)
def test_numbers_are_named_by_their_path(value, numbers):
    assert dict(flatten(value)) == numbers
