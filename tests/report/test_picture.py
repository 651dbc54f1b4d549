"""The README's picture shows what was published: it is what its script draws, and its front is the Pareto front."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("quality_against_cost", ROOT / "scripts" / "quality_against_cost.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def points(script):
    return script.points()


def test_the_picture_is_what_the_script_draws(script, points):
    assert script.TARGET.read_text(encoding="utf-8") == script.draw(points)


def test_every_published_model_is_counted(points):
    assert len(points) == 121


def test_no_model_beats_one_of_the_front_at_its_cost(script, points):
    front = script.front(points)

    for point in points:
        beaten_by = [best for best in front if best.cost <= point.cost and best.quality >= point.quality]
        assert (point in front) == (beaten_by == [point])


def test_source_and_date_are_in_it(script, points):
    drawn = script.draw(points)

    assert "Source: docs/openclip_results.csv of mlfoundations/open_clip, copied 20" in drawn
    assert "prefers-color-scheme: dark" in drawn
