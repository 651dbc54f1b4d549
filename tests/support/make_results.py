"""Made-up result files for the tests of the report: random, but shaped like real ones.

A sample has a difficulty, a model a skill; ranks follow from both, so models agree on easy samples as real ones do.
The names are of eye charts, so that nobody takes the numbers for measurements.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from eyechart import stats
from eyechart.results import Result, write_result

NOUNS = """
apple bicycle bridge candle castle clock cloud compass feather fern fox guitar hammer harbour heron kettle
ladder lantern lemon lighthouse maple moth mushroom oak otter owl pear pebble piano rabbit river rocket
sailboat shell snail spoon swan teapot tiger train tulip turtle umbrella violin walnut whale windmill wolf
zebra
""".split()  # noqa: SIM905 - fifty words read better without quotes
COLOURS = ("#c2452d", "#2d6cc2", "#3a8f4d", "#d09a1e", "#7a4fb5", "#228c8c", "#b0487f", "#666d78")


@dataclass(frozen=True)
class FakeModel:
    """A row of the made-up table."""

    name: str
    pretrained: str
    skill: float
    parameters: int
    image_size: int = 224
    throughput: float = 100.0


MODELS = (
    FakeModel("Snellen-S", "chart2b", -0.6, 12_000_000, 160, 410.0),
    FakeModel("Snellen-B", "chart2b", 0.3, 86_000_000, 224, 120.0),
    FakeModel("Snellen-L", "chart2b", 1.1, 304_000_000, 224, 34.0),
    FakeModel("Landolt-B", "ring400m", 0.25, 88_000_000, 224, 116.0),
    FakeModel("Landolt-L", "ring400m", 1.05, 307_000_000, 336, 15.0),
    FakeModel("Tumbling-E", "", -1.4, 5_000_000, 128, 900.0),
)


@dataclass(frozen=True)
class Made:
    """What a made-up result consists of before it is written."""

    metrics: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float] | None]
    chance: Mapping[str, float]
    records: Sequence[Mapping[str, Any]]
    details: Mapping[str, Any] = field(default_factory=dict)


def write(
    folder: Path, model: FakeModel, dataset: str, task: str, made: Made, *, language: str = "en", **parts: Any
) -> Path:
    """Write one made-up result with its records."""
    label = f"{dataset}_{model.pretrained}_{model.name}_{language}_{task}".replace("/", "-")
    n = len(made.records)
    data = {
        "fingerprint": f"data-{dataset}-{n}",
        "split": "test",
        "templates_digest": f"templates-{language}",
        "classnames_digest": f"classes-{language}",
    }
    result = Result(
        dataset=dataset,
        model=model.name,
        pretrained=model.pretrained,
        task=task,
        language=language,
        metrics=made.metrics,
        intervals={name: ends for name, ends in made.intervals.items() if ends},
        chance=made.chance,
        counts={"listed": n, "scored": n, "failed": 0} | parts.pop("counts", {}),
        notices=parts.pop("notices", ()),
        failures=parts.pop("failures", ()),
        details=made.details,
        model_card={
            "family": "open_clip",
            "name": model.name,
            "parameters": model.parameters,
            "image_size": model.image_size,
            "precision": "fp32",
        },
        data=data | parts.pop("data", {}),
        provenance={
            "date": "2026-11-15T12:00:00+00:00",
            "seconds": round(n / model.throughput, 2),
            "throughput": model.throughput,
            "device": "cpu",
            "versions": {"eyechart": "0.1.0", "numpy": "2.3.5", "python": "3.11.7"},
            "command": f"eyechart eval --model {model.name} --pretrained {model.pretrained} --dataset {dataset}",
        },
        job={"digest": f"job-{label}", "settings": {"task_version": 1}},
        **parts,
    )
    path = folder / f"{label}.json"
    write_result(result, made.records, path)
    return path


def classification(
    model: FakeModel, *, n: int, classes: int, seed: int = 0, ease: float = 1.0, thumbnails: int = 0, **extra: Any
) -> Made:
    """Zero-shot classification: the same samples for every model with the same seed."""
    shared, own = np.random.default_rng(seed), np.random.default_rng([seed, _number(model.name)])
    labels = shared.integers(0, classes, n)
    difficulty = shared.normal(0, 1.2, n) + shared.normal(0, 0.6, classes)[labels]
    confused_with = shared.integers(1, classes, (classes, 3))
    margin = ease + model.skill - difficulty + own.normal(0, 0.7, n)
    ranks = np.where(margin > 0, 1, np.minimum(2 + np.floor(np.expm1(-margin)).astype(int), classes))
    names = _classnames(classes)
    records = []
    for i in range(n):
        label, rank = int(labels[i]), int(ranks[i])
        favourite = [int((label + step) % classes) for step in confused_with[label]]
        others = [c for c in dict.fromkeys([*favourite, *own.integers(0, classes, 6).tolist()]) if c != label]
        top = [*others[: rank - 1], label, *others[rank - 1 :]][:5] if rank <= 5 else others[:5]
        scores = np.round(0.24 + 0.02 * margin[i] * (rank == 1) - 0.006 * np.arange(len(top)), 4)
        record: dict[str, Any] = {
            "id": f"s{i:07d}",
            "label": label,
            "prediction": top[0],
            "rank": rank,
            "correct": rank == 1,
            "top": top,
            "scores": scores.tolist(),
            "label_score": float(scores[top.index(label)]) if label in top else round(0.2 - 0.004 * rank, 4),
        }
        if i < thumbnails:
            record["thumbnail"] = thumbnail(names[label], i)
        records.append(record)
    correct = ranks == 1
    recall = {str(c): float(correct[labels == c].mean()) for c in range(classes) if (labels == c).any()}
    metrics = {"acc1": float(correct.mean()), "mean_per_class_recall": float(np.mean(list(recall.values())))}
    intervals = {
        "acc1": stats.proportion(int(correct.sum()), n),
        "mean_per_class_recall": stats.mean_recall_interval(correct, labels),
    }
    chance = {"acc1": 1 / classes, "mean_per_class_recall": 1 / classes}
    if classes >= 5:
        metrics["acc5"] = float((ranks <= 5).mean())
        intervals["acc5"] = stats.proportion(int((ranks <= 5).sum()), n)
        chance["acc5"] = min(1.0, 5 / classes)
    details = {"classnames": names, "per_class_recall": recall, "templates": ["a photo of a {c}."]} | extra
    return Made(metrics, intervals, chance, records, details)


def retrieval(
    model: FakeModel, *, n: int, captions: int = 5, seed: int = 0, ease: float = 0.5, thumbnails: int = 0
) -> Made:
    """Image-text retrieval with several captions for each image; the hardest queries carry what was found."""
    shared, own = np.random.default_rng(seed), np.random.default_rng([seed, _number(model.name)])
    difficulty = shared.normal(0, 1, n)
    caption_difficulty = difficulty[:, None] + shared.normal(0, 0.8, (n, captions))
    image_margin = ease + 0.8 + model.skill - difficulty + own.normal(0, 0.6, n)
    text_margin = ease + model.skill - caption_difficulty + own.normal(0, 0.6, (n, captions))
    image_ranks, text_ranks = _ranks(image_margin, n * captions), _ranks(text_margin, n)
    words = [_caption(shared) for _ in range(n * captions)]
    records: list[dict[str, Any]] = []
    for i in range(n):
        row: dict[str, Any] = {
            "id": f"img{i:05d}",
            "query": "image",
            "rank": int(image_ranks[i]),
            "tied": False,
        }
        if image_ranks[i] > 3:
            row["top"] = [f"img{own.integers(n):05d}#{own.integers(captions)}" for _ in range(5)]
        if i < thumbnails:
            row["thumbnail"] = thumbnail(words[i * captions], i)
        records.append(row)
    for i in range(n):
        for k in range(captions):
            rank = int(text_ranks[i, k])
            row = {
                "id": f"img{i:05d}#{k}",
                "query": "text",
                "image": f"img{i:05d}",
                "text": words[i * captions + k],
                "rank": rank,
                "tied": False,
            }
            if rank > 3:
                row["top"] = [f"img{int(j):05d}" for j in own.integers(0, n, 5)]
                if rank <= 5:
                    row["top"][rank - 1] = f"img{i:05d}"
            records.append(row)
    metrics, intervals, chance = {}, {}, {}
    for k in (1, 5, 10):
        hits = text_ranks <= k
        metrics[f"image_retrieval_recall@{k}"] = float(hits.mean())
        intervals[f"image_retrieval_recall@{k}"] = stats.mean_interval(hits.ravel(), np.repeat(np.arange(n), captions))
        chance[f"image_retrieval_recall@{k}"] = k / n
        metrics[f"text_retrieval_recall@{k}"] = float((image_ranks <= k).mean())
        intervals[f"text_retrieval_recall@{k}"] = stats.proportion(int((image_ranks <= k).sum()), n)
        chance[f"text_retrieval_recall@{k}"] = stats.chance_hit_rate(n * captions, captions, k)
    return Made(metrics, intervals, chance, records, {"images": n, "captions": n * captions})


def multilabel(model: FakeModel, *, n: int, classes: int = 8, seed: int = 0) -> Made:
    """Several labels for each image, scored by mean average precision."""
    shared, own = np.random.default_rng(seed), np.random.default_rng([seed, _number(model.name)])
    present = shared.random((n, classes)) < 0.25
    present[np.arange(n), shared.integers(0, classes, n)] = True
    scores = np.round(
        present * (1 + 0.5 * model.skill) + own.normal(0, 1, (n, classes)) + shared.normal(0, 0.3, (n, 1)), 4
    )
    value = stats.mean_average_precision(scores, present)
    interval = stats.average_precision_interval(scores, present)
    per_class = {str(c): stats.mean_average_precision(scores[:, [c]], present[:, [c]]) for c in range(classes)}
    records = [
        {"id": f"m{i:06d}", "labels": np.flatnonzero(present[i]).tolist(), "scores": scores[i].tolist()}
        for i in range(n)
    ]
    details = {"classnames": _classnames(classes), "per_class_ap": per_class}
    key = "mean_average_precision"
    return Made({key: value}, {key: interval}, {key: float(present.mean())}, records, details)


def questions(model: FakeModel, *, n: int, seed: int = 0) -> Made:
    """Multiple-choice questions answered by a generator, with the rule that read each answer."""
    shared, own = np.random.default_rng(seed), np.random.default_rng([seed, _number(model.name)])
    difficulty = shared.normal(0, 1, n)
    margin = 0.4 + model.skill - difficulty + own.normal(0, 0.8, n)
    records = []
    for i in range(n):
        options = {letter: str(shared.choice(NOUNS)) for letter in "ABCD"}
        answer = str(shared.choice(list("ABCD")))
        chosen = answer if margin[i] > 0 else str(own.choice([x for x in "ABCD" if x != answer]))
        unreadable = margin[i] < -2.5
        records.append(
            {
                "id": f"q{i:05d}",
                "question": f"What stands on the {shared.choice(['left', 'right', 'table', 'roof'])} in the image?",
                "options": options,
                "answer": answer,
                "prediction": "I cannot tell." if unreadable else f"The answer is {chosen}. {options[chosen]}",
                "extracted": None if unreadable else chosen,
                "rule": "none" if unreadable else ("letter" if i % 3 else "option text"),
                "correct": None if unreadable else chosen == answer,
                "category": ["position", "counting", "colour"][i % 3],
            }
        )
    judged = [record["correct"] for record in records if record["correct"] is not None]
    hits = sum(judged)
    return Made({"acc": hits / len(judged)}, {"acc": stats.proportion(hits, len(judged))}, {"acc": 0.25}, records)


def sensitivity(made: Made, seed: int = 0) -> dict[str, Any]:
    """Prompt sensitivity and calibration as a run may add them to the details of a classification."""
    draw = np.random.default_rng(seed)
    base = made.metrics["acc1"]
    templates = [
        f"{start} {{c}}{end}" for start in ("a photo of a", "a drawing of a", "this is a", "one") for end in (".", "!")
    ]
    accuracies = np.clip(base - np.abs(draw.normal(0.02, 0.02, len(templates))), 0, 1).round(4).tolist()
    edges = np.linspace(0, 1, 11)
    bins = [
        {
            "low": round(float(low), 2),
            "high": round(float(high), 2),
            "confidence": round(float((low + high) / 2), 3),
            "accuracy": round(float(np.clip((low + high) / 2 - 0.08 * high + draw.normal(0, 0.02), 0, 1)), 3),
            "count": int(20 + 400 * high**3),
        }
        for low, high in pairwise(edges)
    ]
    return {
        "prompt_sensitivity": {"templates": templates, "acc1": accuracies, "ensemble": base},
        "calibration": {"ece": 0.061, "nll": 0.82, "brier": 0.31, "bins": bins},
    }


def make_suite(folder: Path, *, models: Sequence[FakeModel] = MODELS, n: int = 300, thumbnails: int = 60) -> Path:
    """Write a small suite with every kind of result."""
    sets = [("stamps", 24, 1.6), ("garden", 12, 2.2), ("harbour", 40, 0.6), ("digits", 10, 1.1)]
    for model in models:
        for seed, (name, classes, ease) in enumerate(sets):
            made = classification(model, n=n, classes=classes, seed=seed, ease=ease, thumbnails=thumbnails)
            details = dict(made.details) | (sensitivity(made, seed) if name == "stamps" else {})
            made = Made(made.metrics, made.intervals, made.chance, made.records, details)
            write(folder, model, name, "zeroshot_classification", made, **_incidents(name))
        for language, loss in {"it": 0.6, "jp": 0.9, "ar": 1.6}.items():
            made = classification(model, n=n, classes=24, seed=0, ease=1.6 - loss)
            write(folder, model, "stamps", "zeroshot_classification", made, language=language)
        made = retrieval(model, n=max(20, n // 3), seed=7, thumbnails=thumbnails)
        write(folder, model, "postcards", "zeroshot_retrieval", made)
        write(folder, model, "market", "zeroshot_classification", multilabel(model, n=n, seed=8))
        write(folder, model, "riddles", "multiple_choice", questions(model, n=max(20, n // 2), seed=9))
    return folder


def _incidents(name: str) -> dict[str, Any]:
    """Give one benchmark a failed sample and a warning, so that the page has some to show."""
    if name != "harbour":
        return {}
    return {
        "failures": ({"id": "s9999999", "reason": "cannot decode the image (truncated file)"},),
        "notices": ({"kind": "truncated_texts", "count": 3, "message": "3 texts are longer than the model reads."},),
        "counts": {"failed": 1},
    }


def thumbnail(seed_text: str, number: int) -> str:
    """Draw a small image and return it as a data address."""
    draw_number = sum(map(ord, seed_text))
    image = Image.new("RGB", (72, 72), COLOURS[draw_number % len(COLOURS)])
    pen = ImageDraw.Draw(image)
    x, y, r = 18 + number * 7 % 36, 18 + number * 11 % 36, 10 + draw_number % 14
    pen.ellipse((x - r, y - r, x + r, y + r), fill=COLOURS[(draw_number + 3) % len(COLOURS)])
    pen.rectangle((4 + number % 30, 50, 40 + number % 30, 64), fill=COLOURS[(draw_number + 5) % len(COLOURS)])
    stream = io.BytesIO()
    image.save(stream, "WEBP", quality=60)
    return "data:image/webp;base64," + base64.b64encode(stream.getvalue()).decode()


def _ranks(margin: np.ndarray, gallery: int) -> np.ndarray:
    worse = np.minimum(2 + np.floor(np.expm1(np.minimum(-1.6 * margin, 12))).astype(int), gallery)
    return np.where(margin > 0, 1, worse)


def _caption(draw: np.random.Generator) -> str:
    first, second = draw.choice(NOUNS, 2, replace=False)
    return f"a {first} {draw.choice(['beside', 'under', 'in front of', 'above'])} a {second}"


def _classnames(count: int) -> list[str]:
    return [NOUNS[i] if i < len(NOUNS) else f"{NOUNS[i % len(NOUNS)]} {i // len(NOUNS) + 1}" for i in range(count)]


def _number(text: str) -> int:
    return sum(ord(character) * 31**i for i, character in enumerate(text)) % 2**31
