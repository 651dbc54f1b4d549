"""``clip_benchmark.metrics``: its functions for a torch model, a tokenizer and a loader, scored by Eyechart's tasks.

Vectors are float32 of unit length, whatever the model computes in. Ties never help; duplicate class names are ranked in
class order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eyechart.errors import DataError, UsageError, import_extra
from eyechart.manifest import Entry
from eyechart.metrics.captions import score_captions, score_with_java, why_not
from eyechart.metrics.classification import average_precision, rank_logits
from eyechart.metrics.retrieval import rank_both_ways
from eyechart.metrics.selection import choose, pair_scores
from eyechart.metrics.vectors import Ints, Vectors, distinct_rows, float_array, unit
from eyechart.settings.declare import Settings
from eyechart.settings.tasks import ZeroshotClassificationSettings
from eyechart.tasks import text_classifiers
from eyechart.tasks.base import Prediction, Task
from eyechart.tasks.text_classifiers import class_texts, class_vectors
from eyechart.tasks.zeroshot_classification import ClassificationPrediction, ZeroshotClassification
from eyechart.types import DatasetInfo, Kind

if TYPE_CHECKING:
    import torch

__all__ = [
    "accuracy", "average_precision_per_class", "batchify", "dataloader_with_indices", "recall_at_k",
    "run_classification", "tqdm", "zero_shot_classifier",
]  # fmt: skip

SCALE = 100.0
"""Factor of the logits, whatever the model's scale is."""
TEXTS = 64
"""Texts per forward pass."""
START, END = "<start_of_text>", "<end_of_text>"
NAME = "loader"


@contextmanager
def inference(device: Any, *, amp: bool) -> Iterator[None]:
    """Disable gradients; autocast on a GPU. On a CPU, bfloat16 would cost accuracy and save hardly any time."""
    import torch

    autocast = amp and torch.device(device).type == "cuda"
    with torch.no_grad(), torch.autocast("cuda") if autocast else nullcontext():
        yield


def image_units(model: Any, images: torch.Tensor, device: Any, *, amp: bool) -> Vectors:
    """Encode a batch of images."""
    with inference(device, amp=amp):
        return unit(float_array(model.encode_image(images.to(device))))


def text_units(
    model: Any, tokenizer: Callable[[list[str]], Any], texts: Sequence[str], device: Any, *, amp: bool
) -> Vectors:
    """Encode any number of texts."""
    with inference(device, amp=amp):
        batches = (tokenizer(list(texts[i : i + TEXTS])).to(device) for i in range(0, len(texts), TEXTS))
        return unit(np.concatenate([float_array(model.encode_text(batch)) for batch in batches]))


def over_loader(function: Callable[[Any], Any], dataloader: Iterable[Any]) -> tuple[list[Any], torch.Tensor]:
    """Call a function on the images of each batch; return its values, and all targets on the CPU."""
    import torch

    values, targets = [], []
    for images, target in dataloader:
        values.append(function(images))
        targets.append(torch.as_tensor(target).cpu())
    need_batches(values)
    return values, torch.cat(targets)


def need_batches(values: Sequence[Any]) -> None:
    """Raise DataError for an empty loader."""
    if not values:
        raise DataError("The loader yields no batches.", advice="Check that the dataset is not empty.")


def task_metrics(task: Task, prediction: Prediction, settings: Settings) -> dict[str, Any]:
    """Score a prediction by an Eyechart task; null becomes NaN."""
    outcome = task.score(prediction, settings)
    facts = {name: float("nan") if value is None else value for name, value in outcome.facts.items()}
    return {name: metric.value for name, metric in outcome.metrics.items()} | facts


def label_entries(labels: Ints) -> tuple[Entry, ...]:
    """Return samples with one label each."""
    return tuple(Entry(str(i), int(label), (), (), {}) for i, label in enumerate(labels))


def zero_shot_classifier(
    model: Any, tokenizer: Any, classnames: Sequence[str], templates: Any, device: Any, amp: bool = True
) -> torch.Tensor:
    """Return one unit vector per class as columns, shape (dim, classes), in float32.

    Templates are a list with ``{c}`` in place of the name, or a mapping from class name to texts.
    """
    import torch

    info = DatasetInfo("zero_shot_classifier", "classification", classnames=tuple(classnames))
    if isinstance(templates, Mapping):
        info = replace(info, class_prompts={str(key): tuple(texts) for key, texts in templates.items()})
    elif isinstance(templates, str) or not isinstance(templates, Sequence):
        raise UsageError("Templates must be a list or a dict, not a {type}.", type=type(templates).__name__)
    else:
        info = replace(info, templates=tuple(templates))
    texts = class_texts(info)
    if not texts:
        raise UsageError("No class names given.", advice="Pass at least one.")
    units = text_units(model, tokenizer, [text for group in texts for text in group], device, amp=amp)
    return torch.from_numpy(np.ascontiguousarray(class_vectors(units, texts).T)).to(device)


def run_classification(
    model: Any, classifier: torch.Tensor, dataloader: Iterable[Any], device: Any, amp: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logits (100 times the cosine) of all images, shape (n, classes), and their targets."""
    import torch

    images, targets = over_loader(lambda batch: image_units(model, batch, device, amp=amp), dataloader)
    classes = float_array(classifier).T
    first, column, _ = distinct_rows(classes)  # score each distinct class once, so that equal ones tie exactly
    scores = (np.concatenate(images) @ classes[first].T)[:, column]
    return torch.from_numpy(SCALE * np.asarray(scores, np.float32)), targets


def accuracy(output: torch.Tensor, target: torch.Tensor, topk: Sequence[int] = (1,)) -> list[float]:
    """Return the top-k accuracy for each k; ties count as wrong."""
    ranks = rank_logits(float_array(output), _labels(target, output.shape[1]))
    return [float(np.mean(ranks <= k)) for k in topk]


def _labels(target: torch.Tensor, n_classes: int) -> Ints:
    labels: Ints = target.cpu().numpy().astype(np.int64)
    outside = labels[(labels < 0) | (labels >= n_classes)]
    if outside.size:
        raise DataError(
            "Label {label} is out of range for {n_classes} classes.",
            advice="Check the class names.",
            label=outside[0],
            n_classes=n_classes,
        )
    return labels


def average_precision_per_class(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the average precision of each class, shape (classes,); 0 for a class without positives."""
    import torch

    if targets.shape != scores.shape:
        raise DataError(
            "Targets have shape {targets}, scores {scores}.", targets=tuple(targets.shape), scores=tuple(scores.shape)
        )
    columns = zip(float_array(scores).T, targets.cpu().numpy().astype(bool).T, strict=True)
    return torch.tensor([average_precision(*column) for column in columns]).nan_to_num()


def evaluate_classification(
    model: Any,
    dataloader: Any,
    tokenizer: Any,
    classnames: Sequence[str],
    templates: Any,
    device: Any,
    amp: bool = True,
    verbose: bool = False,  # nothing is printed here
    save_clf: str | None = None,
    load_clfs: Sequence[str] = (),
) -> dict[str, float]:
    """Return acc1, acc5 (NaN below five classes) and mean_per_class_recall; for multilabel data, the mean AP.

    Like the original, and unlike our task by default, the mean AP counts a class without positives as 0.
    """
    if load_clfs:
        classes, _ = text_classifiers.load_mean_classifier([Path(path) for path in load_clfs], "", tuple(classnames))
    else:
        classes = float_array(zero_shot_classifier(model, tokenizer, classnames, templates, device, amp=amp)).T
    if save_clf is not None:
        text_classifiers.save_torch_classifier(classes, Path(save_clf))
    images, targets = over_loader(lambda batch: image_units(model, batch, device, amp=amp), dataloader)
    kind: Kind = "multilabel" if targets.ndim == 2 else "classification"
    if targets.ndim == 2:
        present = [tuple(map(int, np.flatnonzero(row))) for row in targets.numpy()]
        entries = tuple(Entry(str(i), None, labels, (), {}) for i, labels in enumerate(present))
    else:
        entries = label_entries(_labels(targets, len(classes)))
    info = DatasetInfo(NAME, kind, classnames=tuple(classnames))
    classes = np.ascontiguousarray(classes)
    prediction = ClassificationPrediction(info, entries, (), np.concatenate(images), classes)
    settings = ZeroshotClassificationSettings(empty_classes="zero")
    return task_metrics(ZeroshotClassification(), prediction, settings)


def tqdm(iterable: Iterable[Any], *_: Any, **__: Any) -> Iterable[Any]:
    """Return the argument: scripts replace this name to silence the progress bar, and here there is none."""
    return iterable


def evaluate_retrieval(
    model: Any,
    dataloader: Iterable[Any],
    tokenizer: Any,
    device: Any,
    amp: bool = True,
    recall_k_list: Sequence[int] = (5,),
) -> dict[str, float]:
    """Return image_retrieval_recall@k and text_retrieval_recall@k: the share of queries with a hit in the top k.

    Batches are images and a list of captions for each of them.
    """
    images: list[Vectors] = []
    texts: list[Vectors] = []
    owner: list[int] = []
    for pixels, captions, places in dataloader_with_indices(dataloader):
        if not all(captions):
            raise DataError("An image has no caption.", advice="Add one, or remove the image.")
        images.append(image_units(model, pixels, device, amp=amp))
        flat = [caption for group in captions for caption in group]
        texts.append(text_units(model, tokenizer, flat, device, amp=amp))
        owner += [int(place) for place, group in zip(places, captions, strict=True) for _ in group]
    need_batches(images)
    found = rank_both_ways(np.concatenate(images), np.concatenate(texts), np.array(owner, np.int64))
    return {
        f"{way}_retrieval_recall@{k}": float(np.mean(ranked.ranks <= k))
        for k in recall_k_list
        for way, ranked in zip(("image", "text"), found, strict=True)
    }


def dataloader_with_indices(dataloader: Iterable[Any]) -> Iterator[tuple[Any, Any, torch.Tensor]]:
    """Yield each batch with the indices of its images in the whole dataset."""
    import torch

    start = 0
    for images, texts in dataloader:
        yield images, texts, torch.arange(start, start + len(images))
        start += len(images)


def recall_at_k(scores: torch.Tensor, positive_pairs: torch.Tensor, k: int) -> torch.Tensor:
    """Return for each row the share of its positives among the top k columns.

    This is recall in the strict sense; CLIP papers call it recall if it is above 0. Among equal scores the negatives
    come first.
    """
    negatives_first = positive_pairs.int().argsort(dim=1, stable=True)
    by_score = scores.gather(1, negatives_first).argsort(dim=1, descending=True, stable=True)
    found = positive_pairs.gather(1, negatives_first).gather(1, by_score)[:, :k]
    return found.sum(dim=1) / positive_pairs.sum(dim=1)


def batchify(
    func: Callable[..., torch.Tensor],
    X: torch.Tensor,  # noqa: N803 - scripts may name it
    Y: torch.Tensor,  # noqa: N803
    batch_size: int,
    device: Any,
    *args: Any,
    **kwargs: Any,
) -> torch.Tensor:
    """Call a function on batches of rows of both tensors and concatenate the results on the CPU."""
    import torch

    starts = range(0, len(X), batch_size)
    rows = [(X[start : start + batch_size].to(device), Y[start : start + batch_size].to(device)) for start in starts]
    return torch.cat([func(x, y, *args, **kwargs).cpu() for x, y in rows])


def evaluate_selection(
    model: Any, dataloader: Iterable[Any], tokenizer: Any, device: Any, amp: bool = True
) -> dict[str, float]:
    """Return image_acc, text_acc and acc over questions; image i of a question belongs to its text i.

    The correct candidate must score higher than every other; a tie is wrong. With a single candidate (the one image of
    SugarCrepe), the answer counts as correct.
    """
    answers = []
    for images, texts in dataloader:
        pixels = images[:, None] if images.ndim == 4 else images
        flat = pixels.reshape(-1, *pixels.shape[2:])
        units = image_units(model, flat, device, amp=amp).reshape(*pixels.shape[:2], -1)
        captions = [caption for group in texts for caption in group]
        ends = np.cumsum([len(group) for group in texts])[:-1]
        words = np.split(text_units(model, tokenizer, captions, device, amp=amp), ends)
        for seen, read in zip(units, words, strict=True):
            scores, right = pair_scores(seen, read), np.eye(len(seen), len(read), dtype=bool)
            verdicts = choose(scores.T, right.T), choose(scores, right)
            correct = [verdict is None or verdict.correct for verdict in verdicts]
            answers.append([*correct, all(correct)])
    need_batches(answers)
    return dict(zip(("image_acc", "text_acc", "acc"), np.mean(answers, axis=0).tolist(), strict=True))


def evaluate_captions(
    model: Any,
    dataloader: Iterable[Any],
    batch_size: int,  # set by the loader
    device: Any,
    transform: Any = None,  # applied by the loader
    train_dataloader: Any = None,
    num_workers: int | None = None,
    amp: bool = True,
    verbose: bool = False,  # nothing is printed here
) -> dict[str, float]:
    """Return Bleu_1 to Bleu_4, ROUGE_L and CIDEr of a CoCa model; also METEOR and SPICE if Java is installed."""
    decode = import_extra("open_clip.tokenizer", "open-clip")._tokenizer.decode
    captions: list[str] = []
    references: list[list[str]] = []
    for images, texts in dataloader:
        with inference(device, amp=amp):
            rows = model.generate(images.to(device)).cpu().tolist()
        captions += [decode(row).partition(END)[0].replace(START, "").strip() for row in rows]
        references += [list(group) for group in texts]
    found = {name: value / 100 for name, value in score_captions(captions, references, "ptb").items()}
    return found if why_not() else found | score_with_java(captions, references)[0]
