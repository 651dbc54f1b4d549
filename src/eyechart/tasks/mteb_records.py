"""Records and metrics of MTEB's image tasks, by the rules of our own tasks: with intervals, chance, and ties as wrong.

The library evaluates a task subset by subset. Each subset that it has evaluated becomes a part, made from the labels in
its data, the vectors that the encoder returned, and the library's own predictions where it trains or searches.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from eyechart import stats
from eyechart.errors import DataError
from eyechart.manifest import Entry
from eyechart.metrics.classification import rank_labels
from eyechart.metrics.retrieval import RelevantRanks
from eyechart.metrics.vectors import Floats, Vectors, unit, zero_rows
from eyechart.settings.evaluation import MetricSettings
from eyechart.settings.tasks import ClusteringSettings, PromptedSettings
from eyechart.tasks import ranked_queries
from eyechart.tasks.base import Prediction, drop_constant_embeddings, make_metric
from eyechart.tasks.image_caption_selection import ImageCaptionSelection, SelectionPrediction
from eyechart.tasks.image_similarity import Clustering, ClusteringPrediction, similarity_outcome
from eyechart.tasks.label_metrics import label_outcome
from eyechart.types import DatasetInfo, Document, MeanOf, Metric, Notice, Outcome, TextCollection

BLOCK = 512
"""Queries ranked at a time."""
PART = "part"
"""Record field with the split and subset, in tasks with several."""


@dataclass(frozen=True)
class Evaluated:
    """A subset that the library has evaluated."""

    task: Any
    data: Any
    split: str
    info: DatasetInfo
    name: str
    """Its split and subset if the task has several, else empty."""
    vectors: Sequence[Vectors]
    """Vectors by call of the encoder; none for retrieval."""
    predictions: Sequence[Any]
    """What the library predicted, for task types that need it; for several labels, truth and scores by draw."""

    def entries(self, rows: Iterable[Mapping[str, Any]]) -> tuple[Entry, ...]:
        """Return entries whose ids are the row numbers, prefixed with the name of the part."""
        prefix = f"{self.name}/" if self.name else ""
        return tuple(Entry(f"{prefix}{i}", row.get("label"), (), (), {}) for i, row in enumerate(rows))


@dataclass
class Parts:
    """Collects the parts of a task while the library evaluates it."""

    info: DatasetInfo
    vectors: list[Vectors] = field(default_factory=list)
    """Vectors by call of the encoder, until the subset is evaluated."""
    encoded: int = 0
    """Inputs of the encoder so far."""
    notices: tuple[Notice, ...] = ()
    found: dict[str, Outcome] = field(default_factory=dict)

    def take(self, vectors: Vectors, role: str) -> Vectors:
        """Keep the vectors of a call, or zero out those of queries or documents that are all alike: then all tie."""
        if not role:
            self.vectors.append(vectors)
            return vectors
        usable, notices = _usable(vectors, "queries" if role == "query" else "documents")
        self.notices += notices
        return usable if zero_rows(usable).all() else vectors

    def watch(self, task: Any, *, several: bool) -> None:
        """Score each subset of a task with images; the scores of tasks on text alone are the library's."""
        kinds = (kind.__name__ for kind in type(task).__mro__) if "image" in task.metadata.modalities else ()
        reader = next((READERS[kind] for kind in kinds if kind in READERS), None)
        if reader is None:
            return
        evaluate, kept = task._evaluate_subset, []

        def keep(predictions: Any, *_: Any, **__: Any) -> None:
            kept.append(predictions)

        def evaluate_subset(model: Any, data: Any, *, hf_split: str, hf_subset: str, **options: Any) -> Any:
            kept.clear()
            self.vectors.clear()
            if reader in WITH_PREDICTIONS:
                options["prediction_folder"] = Path()  # nothing is written: `keep` replaces the method that would
            found = evaluate(model, data, hf_split=hf_split, hf_subset=hf_subset, **options)
            name = f"{hf_split}/{hf_subset}" if several else ""
            part = Evaluated(task, data, hf_split, self.info, name, tuple(self.vectors), tuple(kept))
            self.found[name] = reader(part)
            self.vectors.clear()
            return found

        task._save_task_predictions = keep
        task._evaluate_subset = evaluate_subset
        if reader is _score_multilabel:
            calculate = task._calculate_scores

            def with_probabilities(truth: Any, predicted: Any, vectors: Any, classifier: Any) -> Any:
                probabilities = classifier.predict_proba(vectors) if hasattr(classifier, "estimators_") else None
                rows = predicted if probabilities is None else np.stack([part[:, 1] for part in probabilities], axis=1)
                kept.append((truth, rows))
                return calculate(truth, predicted, vectors, classifier)

            task._calculate_scores = with_probabilities


def _usable(vectors: Vectors, what: str) -> tuple[Vectors, tuple[Notice, ...]]:
    return drop_constant_embeddings(unit(vectors), what, range(len(vectors)))


def _score_zero_shot(part: Evaluated) -> Outcome:
    task, names = part.task, part.task.get_candidate_labels()
    given = list(part.data[task.label_column_name])
    labels = np.array(task._normalize_labels(given, names), np.int64)
    if len(labels) and not (labels.min() >= 0 and labels.max() < len(names)):
        raise DataError(
            "{name}: the labels are {low} to {high}, but there are {n} candidate texts.",
            name=part.info.name,
            low=labels.min(),
            high=labels.max(),
            n=len(names),
        )
    (texts, about_texts), (images, about_images) = (
        _usable(vectors, what) for vectors, what in zip(part.vectors, ("texts", "images"), strict=True)
    )
    entries = part.entries({"label": label} for label in labels.tolist())
    outcome = label_outcome(
        Prediction(part.info, entries, (), notices=(*about_texts, *about_images)),
        rank_labels(images, texts, labels, names),
        len(names),
        MetricSettings(),
        chance=partial(stats.chance_accuracy, len(names)),
        chance_recall=1 / len(names),
    )
    return replace(outcome, details={**outcome.details, "classnames": names})


def _score_classification(part: Evaluated) -> Outcome:
    given = list(part.data[part.split][part.task.label_column_name])
    [draws] = part.predictions
    names = sorted(set(given) | {label for draw in draws for label in draw})
    number = {name: i for i, name in enumerate(names)}
    labels = np.array([number[label] for label in given])
    drawn = np.array([[number[label] for label in draw] for draw in draws])
    entries = part.entries({"label": label} for label in labels.tolist())
    commonest = float(np.bincount(labels).max() / len(labels))
    records = [
        {"id": entry.id, "label": entry.label, "prediction": int(first), "correct": bool(first == entry.label)}
        for entry, first in zip(entries, drawn[0], strict=True)
    ]
    details = {"classnames": [str(name) for name in names]}
    return _over_draws("accuracy", (drawn == labels).astype(np.float64), commonest, records, details)


def _over_draws(
    name: str, values: Floats, chance: float, records: Sequence[Mapping[str, Any]], details: Mapping[str, Any]
) -> Outcome:
    """Average over training draws (rows) and samples; the interval covers the choice of both."""
    draws, n = values.shape
    fields = tuple(f"{name}_{draw}" for draw in range(1, draws + 1))
    metric = make_metric(
        float(values.mean()),
        stats.mean_over_draws_interval(values),
        "training draws",
        chance=chance,
        n=n,
        primary=True,
        mean_of=MeanOf(name, draws=fields),
    )
    rows = [
        {**record, name: round(float(column.mean()), 12), **dict(zip(fields, column.round(12).tolist(), strict=True))}
        for record, column in zip(records, values.T, strict=True)
    ]
    return Outcome({name: metric}, rows, details=details)


def _score_multilabel(part: Evaluated) -> Outcome:
    draws = part.predictions
    present = np.asarray(draws[0][0], bool)
    values = np.stack([label_ranking_precision(present, np.asarray(scores)) for _, scores in draws])
    guess = np.broadcast_to(present.mean(axis=0), present.shape)  # the classes by frequency, whatever the image
    chance = float(label_ranking_precision(present, guess).mean())
    records = [
        {"id": entry.id, "labels": np.flatnonzero(row).tolist()}
        for entry, row in zip(part.entries({} for _ in present), present, strict=True)
    ]
    return _over_draws("lrap", values, chance, records, {})


def label_ranking_precision(present: Any, scores: Floats) -> Floats:
    """For each sample, the share of true classes among those ranked at least as high, averaged over its true classes.

    Ties count as ranked higher, as in scikit-learn; a sample with no true class, or with all, scores 1.
    """
    found = np.ones(len(present))
    for i, (own, row) in enumerate(zip(present, scores, strict=True)):
        if own.any() and not own.all():
            higher = row[None, :] >= row[own][:, None]
            found[i] = float((higher[:, own].sum(axis=1) / higher.sum(axis=1)).mean())
    return found


def _score_clusters(part: Evaluated) -> Outcome:
    given = list(part.data[part.task.label_column_name])
    number = {name: i for i, name in enumerate(sorted(set(given)))}
    entries = part.entries({"label": number[label]} for label in given)
    [clusters] = part.predictions
    return Clustering().score(
        ClusteringPrediction(part.info, entries, (), np.array(clusters), 0.0), ClusteringSettings()
    )


def _score_selection(part: Evaluated) -> Outcome:
    columns = [part.task.images_column_names, part.task.texts_column_names]
    n_images, n_texts = (1 if isinstance(names, str) else len(names) for names in columns)
    texts, images = part.vectors
    # Image k belongs to text k; further texts are wrong ones, which are listed with the first image.
    owner = np.array([k if k < n_images else 0 for k in range(n_texts)])
    order = np.argsort(owner, kind="stable")
    questions = len(images) // n_images
    shuffled = texts.reshape(questions, n_texts, -1)[:, order].reshape(len(texts), -1)
    (wrong_first, about_texts), (usable, about_images) = _usable(shuffled, "texts"), _usable(images, "images")
    entries = tuple(
        replace(entry, id=f"{question.id}.{k}", texts=("",) * int((owner == k).sum()))
        for question in part.entries({} for _ in range(questions))
        for k, entry in enumerate([replace(question, meta={"question": question.id, "images": n_images})] * n_images)
    )
    owners = (owner[order][None, :] + n_images * np.arange(questions)[:, None]).ravel()
    about = (*about_texts, *about_images)
    prediction = SelectionPrediction(part.info, entries, (), usable, wrong_first, owners, notices=about)
    outcome = ImageCaptionSelection().score(prediction, PromptedSettings())
    # The other names are those of MTEB's values.
    notices = [notice for notice in outcome.notices if notice.kind != "nothing_to_choose"]
    return replace(outcome, metrics={"acc": outcome.metrics["acc"]}, facts={}, notices=notices)


def _score_similarity(part: Evaluated) -> Outcome:
    [found] = part.predictions
    cosines = np.array(found["cosine_scores"], np.float64)
    truth = np.array(part.data["score"], np.float64)
    ids = [entry.id for entry in part.entries({} for _ in truth)]
    usable, notices = _usable(np.concatenate(part.vectors), "images")
    if not usable.any():
        cosines = np.zeros_like(cosines)
    return similarity_outcome(part.info, ids, cosines, truth, notices, "cosine_")


def _score_ranking(part: Evaluated) -> Outcome:
    task, data, [run] = part.task, part.data, part.predictions
    prefix = f"{part.name}/" if part.name else ""
    texts = data["queries"]["text"] if "text" in data["queries"].column_names else [""] * len(data["queries"])
    collection = TextCollection(
        tuple(Document(name, "") for name in data["corpus"]["id"]),
        tuple(Document(name, text or "") for name, text in zip(data["queries"]["id"], texts, strict=True)),
        data["relevant_docs"],
        {name: tuple(dict.fromkeys(names)) for name, names in (data["top_ranked"] or {}).items()},
    )
    judged, left_out = ranked_queries.judged_queries(collection)
    found = _ranked(judged, collection, run, skip_first=task.skip_first_result)
    outcome = ranked_queries.score(found, collection, len(left_out))
    main = task.metadata.main_score
    primary = "recall_at_1" if main == "accuracy" else main
    metrics = {
        # MTEB's names with _at_ are for its own values.
        name.replace("_at_", "@"): replace(metric, primary=name == primary)
        for name, metric in outcome.metrics.items()
    }
    records = [{**record, "id": f"{prefix}{record['id']}"} for record in outcome.records]
    return replace(outcome, metrics=metrics, records=records, details={"documents": len(collection.documents)})


def _ranked(
    judged: Sequence[ranked_queries.JudgedQuery],
    collection: TextCollection,
    run: Mapping[str, Mapping[str, float]],
    *,
    skip_first: bool,
) -> ranked_queries.Rankings:
    """Rank the library's results: documents and scores by query, at most its search depth."""
    position = {document.id: i for i, document in enumerate(collection.documents)}
    blocks: list[ranked_queries.Rankings] = []
    for start in range(0, len(judged), BLOCK):
        block = judged[start : start + BLOCK]
        results = [
            sorted(run.get(one.query.id, {}).items(), key=lambda item: item[1], reverse=True)[int(skip_first) :]
            for one in block
        ]
        width = max(ranked_queries.SHOWN, *map(len, results))
        items, scores = np.full((len(block), width), -1), np.full((len(block), width), -np.inf)
        for row, (one, result) in enumerate(zip(block, results, strict=True)):
            items[row, : len(result)] = [position[name] for name, _ in result]
            scores[row, : len(result)] = [value for _, value in result]
            if result and len(result) < one.searched - int(skip_first):
                # Documents that the search left out may tie with the last one.
                items[row, scores[row] == result[-1][1]] = -1
        blocks.append(ranked_queries.rank_lists(block, items, scores))
    counts, ranks, gains, tied = (
        np.concatenate([getattr(one.relevant, part) for one in blocks]) for part in ("counts", "ranks", "gains", "tied")
    )
    relevant = RelevantRanks.from_rows(np.repeat(np.arange(len(judged)), counts), ranks, gains, tied)
    top_scores, own_scores = (np.concatenate([one.scores[i] for one in blocks if one.scores]) for i in (0, 1))
    top = np.concatenate([one.top for one in blocks])
    return ranked_queries.Rankings(judged, relevant, top, (top_scores, own_scores))


READERS = {
    "AbsTaskZeroShotClassification": _score_zero_shot,
    "AbsTaskClassification": _score_classification,
    "AbsTaskMultilabelClassification": _score_multilabel,
    "AbsTaskClusteringLegacy": _score_clusters,
    "AbsTaskImageTextPairClassification": _score_selection,
    "AbsTaskSTS": _score_similarity,
    "AbsTaskRetrieval": _score_ranking,
}
"""By the library's class of a task."""
WITH_PREDICTIONS = (_score_classification, _score_clusters, _score_similarity, _score_ranking)
"""Those that need the library's predictions."""


def combine(outcomes: Mapping[str, Outcome]) -> Outcome:
    """Average the metrics of several parts, which may share images: the ends of their intervals are averaged, too."""
    [first, *rest] = outcomes.values()
    if not rest:
        return first
    metrics: dict[str, Metric] = {}
    for name, own in first.metrics.items():
        found = [outcome.metrics[name] for outcome in outcomes.values() if name in outcome.metrics]
        if len(found) == len(outcomes):
            ends = {key: [getattr(one, key) for one in found] for key in ("value", "low", "high", "chance")}
            mean: dict[str, Any] = {
                key: None if None in values else float(np.mean(values)) for key, values in ends.items()
            }
            macro = own.mean_of if own.mean_of and not own.mean_of.balance else None
            metrics[name] = replace(
                own,
                **mean,
                n=sum(one.n or 0 for one in found),
                mean_of=macro and replace(macro, balance=PART),
                function="",
            )
    primary = next(name for name, metric in first.metrics.items() if metric.primary)
    return Outcome(
        metrics,
        [{**record, PART: part} for part, outcome in outcomes.items() for record in outcome.records],
        tuple(notice for outcome in outcomes.values() for notice in outcome.notices),
        {"parts": {part: outcome.metrics[primary].value for part, outcome in outcomes.items()}},
    )
