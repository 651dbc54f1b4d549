"""Open questions, compared with their answers by a metric: DocVQA, TextVQA, ChartQA and tables of one's own.

A row has the columns of its TSV file (`answer` may be a list or its literal) and its `score`. Percentages.
"""

from collections.abc import Iterable
from functools import partial

from eyechart.metrics.answers import open_score
from eyechart.metrics.cells import Row, as_text, is_missing
from eyechart.scorers.scorer import UNDECIDED, Score, Scorer
from eyechart.scorers.tables import by_column, mean, need


def vqa(rows: Iterable[Row]) -> dict[str, float]:
    """Return the mean score of open questions: per split, or else per category, and `Overall`."""
    found = need(rows)
    column = "split" if any(not is_missing(row.get("split")) for row in found) else "category"
    groups = {name: 100 * mean(members) for name, members in by_column(found, column)}
    return groups | {"Overall": 100 * mean(found)}


class OpenScorer(Scorer):
    """Open questions, compared with their answers by the benchmark's metric."""

    binary = False

    def score(self, row: Row, answer: object) -> Score:
        """Compare; nothing is a wrong answer, even where normalising leaves nothing of the right one ("A")."""
        metric, text = self.benchmark.metric, as_text(answer)
        score = open_score(text, row.get("answer"), metric)
        return Score(text, metric, score) if text.strip() else Score(text, UNDECIDED, 0.0)

    def means(self) -> tuple[str, ...]:
        """Give the mean the name of its metric as well."""
        return (self.benchmark.metric,)


OPEN = partial(OpenScorer, arrange=vqa)
