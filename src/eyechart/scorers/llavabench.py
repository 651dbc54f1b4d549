"""LLaVABench: a judge compares the answer with one of GPT-4."""

from collections.abc import Iterable
from functools import partial

from eyechart.metrics.cells import Row, as_text
from eyechart.scorers.graded import GradedScorer
from eyechart.scorers.scorer import JUDGE, Score, pick
from eyechart.scorers.tables import Rows, by_column, mean, need


def llavabench(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """Return LLaVABench's numbers, overall and per category: the model's score relative to GPT-4's, and both times 10.

    Rounded to one decimal.
    """
    found = need(rows, "category", "score", "gpt4_score")
    groups: list[tuple[str, Rows]] = [("overall", found), *by_column(found, "category")]
    return {name: _llavabench_numbers(members) for name, members in groups}


def _llavabench_numbers(rows: Rows) -> dict[str, float]:
    own, other = mean(rows), mean(rows, "gpt4_score")
    relative = {"Relative Score (main)": round(100 * own / other, 1)} if other else {}
    return relative | {"VLM Score": round(10 * own, 1), "GPT4 Score": round(10 * other, 1)}


class LlavabenchScorer(GradedScorer):
    """LLaVABench: grades, and their sum relative to GPT-4's."""

    form = "compare"
    answer_column = "gpt4_ans"

    def judged(self, row: Row, verdict: tuple[float, float]) -> Score:
        """Take a tenth of the second grade as the score."""
        other, own = verdict
        return Score(as_text(row.get("prediction")), JUDGE, own / 10, {"score": own, "gpt4_score": other})

    def assume(self, row: Row, rule: str, *, right: bool = False) -> Score:
        """Assume the lowest grade beside the highest of GPT-4, or the other way round: the number is their ratio."""
        grades = {"score": 10.0 * right, "gpt4_score": 10.0 * (not right)}
        return Score(as_text(row.get("prediction")), rule, float(right), grades)

    def columns(self, score: Score) -> dict[str, object]:
        """Give both grades."""
        return dict(score.grades or {})


LLAVABENCH = partial(
    LlavabenchScorer,
    arrange=llavabench,
    numbers=pick("Relative Score (main)", within="overall"),
    points=True,
)
