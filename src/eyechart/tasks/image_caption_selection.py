"""Selection: match captions and images among a few hard candidates."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eyechart import stats
from eyechart.errors import DataError
from eyechart.manifest import Entry
from eyechart.metrics.selection import chance_choice, chance_jaccard, choose, jaccard, pair_scores
from eyechart.metrics.vectors import Ints, Vectors
from eyechart.settings.tasks import PromptedSettings
from eyechart.tasks.base import (
    Prediction,
    Task,
    TaskContext,
    counted,
    encode_images,
    encode_pairs,
    make_metric,
    need_samples,
)
from eyechart.types import Fact, MeanOf, Metric, Outcome

SIZES = {"jaccard_score_5-6": range(2, 7), "jaccard_score_10-12": range(10, 1000)}
"""DataComp's metrics for WinoGAViL: questions with few candidates, and with many (its main metric)."""


@dataclass(frozen=True)
class SelectionPrediction(Prediction):
    """Unit vectors of images and candidate texts."""

    rows = ("images",)

    images: Vectors
    texts: Vectors
    owner: Ints
    """For each text, the position of the image whose sample contains it."""

    def only(self, keep: Ints) -> Self:
        """Return the prediction for some images and their texts."""
        place = np.full(len(self.entries), -1)
        place[keep] = np.arange(len(keep))
        kept = place[self.owner] >= 0
        return replace(super().only(keep), texts=self.texts[kept], owner=place[self.owner[kept]])


class ImageCaptionSelection(Task):
    """image_acc (caption to image), text_acc (image to caption) and acc (both), per question.

    A question is all samples with the same ``meta["question"]``, or one sample. Right candidates must score strictly
    higher than wrong ones; ties are wrong and are reported. A direction without a choice (SugarCrepe has one image) is
    not a metric; in the file it is 1, as in CLIP_benchmark. If a caption has several right images, the Jaccard index is
    added.
    """

    name = "image_caption_selection"
    Settings = PromptedSettings
    version = 2
    kinds = frozenset({"selection"})
    inputs = ("image", "text")
    measures = "selection"
    records = "question"

    def predict(self, context: TaskContext, settings: PromptedSettings) -> SelectionPrediction:
        """Embed images and candidates; a question with a failed image is dropped entirely."""
        images = encode_images(context, prompt=settings.query_prompt)
        found = Counter(map(_question_of, images.entries))
        lost = {
            entry.id: f"question {_question_of(entry)} lacks another image"  # it failed, or ``--limit`` cut it off
            for entry in images.entries
            if found[_question_of(entry)] < entry.meta.get("images", 1)
        }
        return SelectionPrediction(**encode_pairs(context, images.without(lost), settings.document_prompt))

    def score(self, prediction: SelectionPrediction, settings: PromptedSettings) -> Outcome:  # noqa: ARG002
        """Score every question in both directions."""
        need_samples(prediction)
        answers = [_answer(*question) for question in _questions(prediction)]
        names = ["image_acc", "text_acc", "acc"]
        if any(answer.get("wanted", 0) > 1 for answer in answers):  # with one right image it equals the accuracy
            names += ["jaccard_score", *SIZES]
        metrics: dict[str, Metric] = {}
        for name in names:
            judged = [answer for answer in answers if name in answer]
            if judged:
                values = [answer[name] for answer in judged]
                levels = [answer["chance"].get(name) for answer in judged]
                is_share = name.endswith("acc")
                metrics[name] = make_metric(
                    float(np.mean(values)),
                    stats.proportion(sum(values), len(values)) if is_share else stats.mean_interval(values),
                    chance=float(np.mean(levels)) if None not in levels else None,
                    n=len(judged),
                    primary=name == "acc",
                    mean_of=MeanOf(name),
                )
        facts: dict[str, Fact] = {name: 1.0 for name in ("image_acc", "text_acc") if name not in metrics}
        tied = sum(answer["tied"] for answer in answers)
        ties = "{n} questions are wrong only because of a tie; ties never count as right."
        alone = "{name} is always 1: no question has a choice in this direction."
        return Outcome(
            metrics=metrics,
            facts=facts,
            records=[{key: value for key, value in answer.items() if key != "chance"} for answer in answers],
            notices=(
                *prediction.notices,
                *counted("ties", tied, ties),
                *(notice for name in facts for notice in counted("nothing_to_choose", 1, alone, name=name)),
            ),
            details={"questions": len(answers), "ties": tied},
        )


def _questions(prediction: SelectionPrediction) -> Iterator[tuple[str, Vectors, NDArray[np.bool_]]]:
    """Yield the name of each question, the scores of its images (rows) and texts (columns), and which pairs match.

    The first text of an image is its right one, and every other text of the question is wrong. Images with the same
    ``meta["text"]`` share their right text; texts that merely read alike are different ones, and tie.
    """
    groups: dict[str, list[int]] = {}
    for i, entry in enumerate(prediction.entries):
        groups.setdefault(_question_of(entry), []).append(i)
    starts = np.searchsorted(prediction.owner, np.arange(len(prediction.entries)))
    for name, images in groups.items():
        columns: dict[object, int] = {}
        pairs: list[tuple[int, int]] = []
        rows: list[int] = []
        for row, i in enumerate(images):
            meta = prediction.entries[i].meta
            for j in range(len(prediction.entries[i].texts)):
                key = meta["text"] if j == 0 and "text" in meta else (i, j)
                if key not in columns:
                    columns[key] = len(rows)
                    rows.append(int(starts[i]) + j)
                if j == 0:
                    pairs.append((row, columns[key]))
        right = np.zeros((len(images), len(rows)), bool)
        right[tuple(np.array(pairs).T)] = True
        yield name, pair_scores(prediction.images[images], prediction.texts[rows]), right


def _question_of(entry: Entry) -> str:
    return str(entry.meta.get("question", entry.id))


def _answer(question: str, scores: Vectors, right: NDArray[np.bool_]) -> dict[str, Any]:
    directions = {"text_acc": (choose(scores, right), right), "image_acc": (choose(scores.T, right.T), right.T)}
    judged = {name: choice for name, (choice, _) in directions.items() if choice is not None}
    if not judged:
        raise DataError(
            "Question {name} has nothing to choose from.",
            advice="It needs a wrong text for its image, or a wrong image for its text.",
            name=question,
        )
    chance = {name: chance_choice(pairs) for name, (choice, pairs) in directions.items() if choice is not None}
    if len(judged) == 1:
        chance["acc"] = next(iter(chance.values()))
    elif right.shape == (2, 2):
        chance["acc"] = 1 / 6
    correct = all(choice.correct for choice in judged.values())
    tied = not correct and all(choice.correct or choice.tied for choice in judged.values())
    answer: dict[str, Any] = {"id": question, "correct": correct, "tied": tied}
    answer |= {name: choice.correct for name, choice in judged.items()} | {"acc": correct, "chance": chance}
    if right.shape[1] == 1:
        own = right[:, 0]
        index = jaccard(scores[:, 0], own)
        answer |= {"jaccard_score": index, "candidates": len(own), "wanted": int(own.sum())}
        names = ["jaccard_score", *(name for name, sizes in SIZES.items() if len(own) in sizes)]
        answer |= dict.fromkeys(names, index)
        chance |= dict.fromkeys(names, chance_jaccard(len(own), int(own.sum())))
    return answer | {"scores": [[round(float(score), 6) for score in row] for row in scores]}
