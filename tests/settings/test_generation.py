"""Settings of generation: temperatures, and how old a stored answer may be."""

import time

import pytest

from eyechart.errors import UsageError
from eyechart.settings.generation import QuestionSettings


@pytest.mark.parametrize(
    ("age", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("15m", 900),
        ("15 min", 900),
        ("12h", 43_200),
        ("30d", 2_592_000),
        ("1.5d", 129_600),
        ("2w", 1_209_600),
        (7, 7),
        (0, 0),
    ],
)
def test_the_age_of_answers_is_a_duration(age, seconds):
    before = time.time()

    since = QuestionSettings(max_age=age).since

    assert before - seconds <= since <= time.time() - seconds


@pytest.mark.parametrize("age", ["", "d", "-1d", "1y", "1d12h", "inf", "soon", -1, 1e999, "٣d"])
def test_what_is_not_a_duration_is_refused(age):
    with pytest.raises(UsageError, match="--max-age"):
        QuestionSettings(max_age=age)


def test_stored_answers_may_have_any_age_by_default_and_a_longer_one_than_time_itself():
    assert QuestionSettings().since is None
    assert QuestionSettings(max_age="999999999w").since == 0


@pytest.mark.parametrize("temperature", [0, 0.7, "default", None])
def test_temperatures(temperature):
    assert QuestionSettings(temperature=temperature).temperature == temperature


@pytest.mark.parametrize("temperature", [-0.1, float("nan"), float("inf"), "warm"])
def test_what_is_no_temperature_is_refused(temperature):
    with pytest.raises(UsageError, match="temperature"):
        QuestionSettings(temperature=temperature)
