"""A model that always says the same gets chance or less, and the core needs no table library."""

import subprocess
import sys

import pytest

from eyechart import vlm
from eyechart.datasets.questions.conversion import make_circular
from eyechart.scorers.scoring import score_rows
from support.vlm_data import benchmark_of_kind, write_benchmark


def accuracy(dataset, said):
    rows = [{**row.without("image"), "prediction": said} for row in dataset.questions.rows]
    scored = score_rows(rows, dataset.benchmark)
    return sum(scored.units.values()) / len(scored.units), scored.scorer.chance(scored.rows)


@pytest.mark.parametrize("said", ["A", "B", "", "Z", "A B C D", "I cannot say"])
def test_a_constant_answer_gets_chance_on_multiple_choice(lmu_data, said):
    options = dict(zip("ABCD", ["cat", "dog", "cow", "hen"], strict=True))
    rows = [{"index": i, "question": "q", **options, "answer": "ABCD"[i % 4]} for i in range(8)]
    write_benchmark(lmu_data / "Pets.tsv", rows)
    make_circular(lmu_data / "Pets.tsv", lmu_data / "Pets_circular.tsv")

    plain, chance = accuracy(vlm.build_dataset("Pets"), said)
    circular, circular_chance = accuracy(vlm.build_dataset("Pets_circular"), said)

    assert plain <= chance == 0.25
    assert circular == 0
    assert circular_chance == pytest.approx(0.25**4)


@pytest.mark.parametrize("said", ["yes", "no", "", "yes and no"])
def test_a_constant_answer_gets_chance_on_yes_no(lmu_data, said):
    rows = [{"index": i, "question": "q", "answer": ("Yes", "No")[i % 2]} for i in range(8)]
    write_benchmark(lmu_data / "Facts.tsv", rows)

    found, chance = accuracy(vlm.build_dataset("Facts"), said)

    assert found <= chance == 0.5


@pytest.mark.parametrize(
    ("scorer", "metric", "answer"),
    [
        ("open", "normalized_exact", "A"),
        ("open", "vqa_score", "['the', 'a', 'an', 'A']"),
        ("ocrbench", "", "['']"),
        ("mtvqa", "", "."),
    ],
)
def test_an_empty_answer_is_not_right_where_nothing_is_left_of_the_right_one(scorer, metric, answer):
    row = {"index": 0, "category": "Doc-oriented VQA", "answer": answer, "prediction": ""}

    [score] = score_rows([row], benchmark_of_kind(scorer, "no", metric=metric)).scores

    assert score.score == 0


WITHOUT = """
import sys
for name in ("pandas", "openpyxl", "torch", "transformers"):
    sys.modules[name] = None
from eyechart import vlm
from eyechart import evaluate
class Model:
    def generate(self, message, dataset=None):
        return "A"
import types
sys.modules["models"] = types.SimpleNamespace(Model=Model)
[result] = evaluate(dataset=["Pets"], model=["python:models:Model"], output=sys.argv[1] + "/r.json")
assert result.metrics["accuracy"] == 1.0
assert [notice["kind"] for notice in result.notices] == ["model_note", "no_spreadsheet"]
assert vlm.load(sys.argv[1] + "/r.jsonl")["prediction"] == ["A"]
"""


def test_the_core_runs_without_a_table_library(lmu_data, tmp_path):
    write_benchmark(lmu_data / "Pets.tsv", [{"index": 0, "question": "q", "A": "x", "B": "y", "answer": "A"}])

    done = subprocess.run([sys.executable, "-c", WITHOUT, str(tmp_path)], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
