"""LLaVABench: a judge compares the answer with one of GPT-4."""

import math
from collections.abc import Iterable
from functools import partial

from eyechart.metrics.cells import Row, as_score, as_text, is_missing
from eyechart.scorers.graded import GradedScorer
from eyechart.scorers.judges import JudgeForm
from eyechart.scorers.scorer import JUDGE, Score, pick
from eyechart.scorers.tables import Rows, by_column, mean, need


def llavabench_pair(review: object) -> tuple[float, float] | None:
    """Read a judge's two scores from the first line of its review ("8 9" or "8,9"); None when they are not there."""
    parts = as_text(review).split("\n")[0].replace(",", " ").split(" ")
    try:
        first, second = map(float, parts)
    except ValueError:
        return None
    return (first, second) if math.isfinite(first) and math.isfinite(second) else None


def llavabench(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """Return LLaVABench's numbers, overall and per category: the model's score relative to GPT-4's, and both times 10.

    Rounded to one decimal. A row without both scores (or with -1, VLMEvalKit's mark for an unreadable
    review) is left out and counted under `unscored`.
    """
    found = need(rows, "category")
    scored = [row for row in found if _is_rated(row.get("score")) and _is_rated(row.get("gpt4_score"))]
    groups: list[tuple[str, Rows]] = [("overall", scored), *by_column(scored, "category")] if scored else []
    table = {name: _llavabench_numbers(members) for name, members in groups}
    return table | ({"unscored": {"rows": len(found) - len(scored)}} if len(scored) < len(found) else {})


def _is_rated(value: object) -> bool:
    return not is_missing(value) and as_score(value) >= 0


def _llavabench_numbers(rows: Rows) -> dict[str, float]:
    own, other = mean(rows), mean(rows, "gpt4_score")
    relative = {"Relative Score (main)": round(100 * own / other, 1)} if other else {}
    return relative | {"VLM Score": round(10 * own, 1), "GPT4 Score": round(10 * other, 1)}


class CompareForm(JudgeForm):
    """How good are these two answers, each from 1 to 10?"""

    def question(self, row: Row) -> str:
        """Write what is in the image, the question and both answers."""
        return (
            "Below are a description of an image, a question about it and the answers of two assistants. Grade each "
            "answer from 1 to 10 for helpfulness, relevance, accuracy and detail. Reply first with one line that "
            "holds the two grades alone, separated by a space, the first assistant's first; then explain.\n"
            f"Description: {as_text(row.get('caption'))}\nQuestion: {as_text(row.get('question'))}\n"
            f"Assistant 1: {as_text(row.get('gpt4_ans'))}\nAssistant 2: {as_text(row.get('prediction'))}\n"
        )

    def parse(self, reply: str, row: Row) -> tuple[float, float] | None:
        """Return both grades; only numbers from 0 to 10 are grades."""
        pair = llavabench_pair(reply)
        return pair if pair and all(0 <= grade <= 10 for grade in pair) else None


class LlavabenchScorer(GradedScorer):
    """LLaVABench: grades, and their sum relative to GPT-4's."""

    form = CompareForm()
    answer_column = "gpt4_ans"

    def judged(self, row: Row, verdict: tuple[float, float]) -> Score:
        """Take a tenth of the second grade as the score."""
        other, own = verdict
        return Score(as_text(row.get("prediction")), JUDGE, own / 10, {"score": own, "gpt4_score": other})

    def columns(self, score: Score) -> dict[str, object]:
        """Give both grades."""
        return dict(score.grades or {})


LLAVABENCH = partial(
    LlavabenchScorer,
    arrange=llavabench,
    numbers=pick("Relative Score (main)", within="overall"),
    points=True,
    keeps_unscored=True,
)
