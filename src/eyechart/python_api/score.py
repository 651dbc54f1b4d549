"""`eyechart.score`: the metrics of a task from vectors that the caller has already."""

import time
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Literal

import numpy as np

from eyechart import __version__
from eyechart.config import make_config
from eyechart.datasets.in_memory_rows import check_no_matrix, read_target, texts_of
from eyechart.datasets.row_dataset import located
from eyechart.errors import DataError, UsageError, errors_on
from eyechart.manifest import Entry
from eyechart.metrics.vectors import Ints, Vectors, float_array, unit
from eyechart.outputs import place_of
from eyechart.python_api.arguments import ARGUMENTS, collect
from eyechart.results.files import unsaved_folder
from eyechart.results.job_results import check_owner, make_result
from eyechart.results.result import Result, write_result
from eyechart.tasks.base import Prediction, Task, drop_constant_embeddings
from eyechart.tasks.caption_search import RetrievalPrediction
from eyechart.tasks.registry import TASK_OF_KIND, load_task
from eyechart.tasks.text_classifiers import class_vectors
from eyechart.tasks.zeroshot_classification import ClassificationPrediction
from eyechart.types import DatasetInfo, DatasetSpec, Job, Kind, ModelSpec, Notice, digest_json

SOURCE = "vectors of the caller"
VECTORS = "vectors"


def score(
    image_vectors: Any,
    text_vectors: Any,
    *,
    labels: Any = None,
    pairs: Any = None,
    classnames: Sequence[str] | None = None,
    captions: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    recall_k: int | Sequence[int] = 5,
    metrics: Literal["default", "full"] = "default",
    logit_scale: float | None = None,
    logit_bias: float | None = None,
    model: str = VECTORS,
    dataset: str = VECTORS,
    output: str | Path | None = None,
) -> Result:
    """Score vectors: zero-shot classification with ``labels``, retrieval with ``pairs``.

    Metrics, intervals, chance levels and tie handling are those of the tasks, computed by the same code. Vectors are
    L2-normalised first.

    Args:
        image_vectors: One row per image: an array, a tensor, or a list of lists.
        text_vectors: With ``labels``, one row per class, or an array (classes, prompts, dimensions) whose prompts are
            averaged as in the task; with ``pairs``, one row per text.
        labels: The class index of each image, or a list of indices for multilabel images.
        pairs: The image index of each text, or pairs (image, text) with each text once.
        classnames: Class names, for the records.
        captions: The texts, for the records and to recognise equal captions.
        ids: Image ids, by which results are compared; by default their indices.
        recall_k: Cutoffs of recall@k.
        metrics: ``full`` adds less common metrics.
        logit_scale: The model's logit scale; with it, probabilities are scored as well.
        logit_bias: The logit bias of a sigmoid model.
        model: Name of the model in the result.
        dataset: Name of the dataset in the result.
        output: Result file, folder if it ends with a slash, or template as for `evaluate`; by default a temporary file
            that is deleted when the process ends.

    Returns:
        A result like those of `evaluate`, records included.

    Raises:
        EyechartError: If shapes do not match, or a vector contains NaN or infinity.

    Example:
        ```python
        import eyechart

        images, classes = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.5]], [[1, 0], [0, 1]]
        eyechart.score(images, classes, labels=[0, 1, 1], classnames=["cat", "dog"]).metrics["acc1"]
        ```
    """
    start = time.perf_counter()
    with errors_on(ARGUMENTS):
        if (labels is None) == (pairs is None):
            raise UsageError(
                "score needs either labels or pairs.",
                advice="labels=[...] gives the class of each image, pairs=[...] the image of each text.",
            )
        others = (
            {"captions": captions}
            if pairs is None
            else {"classnames": classnames, "logit_scale": logit_scale, "logit_bias": logit_bias}
        )
        for name, value in others.items():
            if value is not None:
                raise UsageError(
                    "{name} cannot be combined with {what}.", name=name, what="labels" if pairs is None else "pairs"
                )
        images, seen = _units("image_vectors", image_vectors)
        texts, read = _units("text_vectors", text_vectors, axes=(2, 3) if pairs is None else (2,))
        if images.shape[1] != texts.shape[-1]:
            raise UsageError(
                "image_vectors have {images} dimensions, text_vectors {texts}.",
                advice="Both must come from the same model.",
                images=images.shape[1],
                texts=texts.shape[-1],
            )
        names, notices = _ids(ids, len(images)), (*seen, *read)
        prediction: Prediction
        if pairs is None:
            info, entries, classes = _classification(dataset, texts, names, labels, classnames)
            prediction = ClassificationPrediction(
                info, entries, (), images, classes, logit_scale, logit_bias, notices=notices
            )
        else:
            owner = _owners(pairs, len(images), len(texts))
            order = np.argsort(owner, kind="stable")  # texts are ordered by image
            words = [f"text {i}" for i in range(len(texts))] if captions is None else list(map(str, captions))
            _check_length("captions", words, len(texts), "text_vectors")
            of_image: list[list[str]] = [[] for _ in images]
            for text in order:
                of_image[owner[text]].append(words[text])
            entries = tuple(Entry(key, None, (), tuple(own), {}) for key, own in zip(names, of_image, strict=True))
            info = DatasetInfo(dataset, "retrieval", source=SOURCE)
            asked = np.arange(len(images))
            prediction = RetrievalPrediction(
                info, entries, (), images, texts[order], owner[order], asked, notices=notices
            )
        config = make_config(collect({"recall_k": recall_k, "metrics": metrics}, {}))
        options = {"recall_k": config.recall_k, "metrics": config.metrics}
        task: Task = load_task(TASK_OF_KIND[info.kind])
        prompts = digest_json([info.classnames, info.templates, {}])
        spec = ModelSpec(VECTORS, model)
        job = Job(
            spec,
            DatasetSpec(info.name, VECTORS, ""),
            task.name,
            {**task.recorded(task.Settings.picked(options)), "task_version": task.version, "prompts": prompts},
            unsaved_folder() / "vectors.json"
            if output is None
            else place_of(str(output), spec, info.name, info.language, task.name, usual_task=True),
        )
        check_owner(job)
        outcome = task.score(prediction, task.settings_of(job))
        targets = [(entry.id, entry.label, entry.labels, entry.texts) for entry in entries]
        fingerprint = digest_json([info.kind, targets])
        total = round(time.perf_counter() - start, 4)
        result = make_result(
            job=job,
            info=info,
            fingerprint=fingerprint,
            other_splits={},
            card=None,
            outcome=outcome,
            counts={"listed": len(targets), "scored": len(targets), "failed": 0},
            notices=outcome.notices,
            failures=(),
            profile={"score": total, "total": total},
            measures=task.measures,
            records=task.record_form(info),
            # The model that produced the vectors is unknown.
            identity={
                "settings": job.digest,
                "model": None,
                "data": fingerprint,
                "code": digest_json([__version__, task.name, task.version, ""]),
            },
        )
        return write_result(result, outcome.records, job.output)


def _units(name: str, given: Any, axes: Sequence[int] = (2,)) -> tuple[Vectors, tuple[Notice, ...]]:
    """Convert the caller's vectors, check their shape and values, and L2-normalise them."""
    try:
        array = float_array(given)
    except (TypeError, ValueError) as error:
        raise UsageError("{name} is not an array of numbers ({reason}).", name=name, reason=error) from error
    if array.ndim not in axes or not array.size:
        raise UsageError(
            "{name} has the shape {shape}.",
            advice="Expected one row per item: (n, dimensions).",
            name=name,
            shape=array.shape,
        )
    bad = int((~np.isfinite(array).all(axis=-1)).sum())
    if bad:
        raise DataError(
            "{name}: {bad} vectors contain NaN or infinite values.",
            advice="Check how they were computed.",
            name=name,
            bad=bad,
        )
    rows = unit(array.reshape(-1, array.shape[-1]))
    units, notices = drop_constant_embeddings(rows, name.removesuffix("_vectors") + "s", range(len(rows)))
    return units.reshape(array.shape), notices


def _check_length(name: str, values: Any, count: int, what: str) -> None:
    if len(values) != count:
        raise UsageError("{n} {name} for {count} {what}.", n=len(values), name=name, count=count, what=what)


def _ids(given: Sequence[str] | None, count: int) -> list[str]:
    names = list(map(str, range(count) if given is None else given))
    _check_length("ids", names, count, "image_vectors")
    if len(set(names)) < count:
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise DataError(
            "The id {twice!r} occurs twice.",
            advice="Make ids unique: records and comparisons refer to them.",
            twice=twice,
        )
    return names


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, str | Mapping | Set) or not hasattr(values, "__iter__"):
        raise UsageError("{name} must be a list.", name=name)
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _classification(
    name: str, texts: Vectors, ids: Sequence[str], labels: Any, classnames: Sequence[str] | None
) -> tuple[DatasetInfo, tuple[Entry, ...], Vectors]:
    """Return dataset, samples and classifier; several vectors per class are averaged like prompts."""
    count, prompts = len(texts), texts.shape[1] if texts.ndim == 3 else 1
    names = tuple(map(str, range(count))) if classnames is None else texts_of("classnames", classnames)
    _check_length("classnames", names, count, "classes in text_vectors")
    check_no_matrix(labels)
    targets = _listed("labels", labels)
    _check_length("labels", targets, len(ids), "image_vectors")
    several = any(isinstance(target, list | tuple) for target in targets)
    kind: Kind = "multilabel" if several else "classification"
    entries = []
    for key, target in zip(ids, targets, strict=True):
        if several and not isinstance(target, list | tuple):
            raise UsageError(
                "Image {key} has one label, others a list.", advice="Give a list for every image.", key=key
            )
        with located(f"image {key}"):
            found = read_target(kind, target, None, count)
        entries.append(Entry(key, found.get("label"), found.get("labels", ()), (), {}))
    info = DatasetInfo(name, kind, classnames=names, source=SOURCE)
    classes = class_vectors(texts.reshape(-1, texts.shape[-1]), [[""] * prompts] * count)
    return info, tuple(entries), classes


def _owners(pairs: Any, images: int, texts: int) -> Ints:
    """Return the image index of each text, from a list of indices or from pairs (image, text)."""
    try:
        array = np.asarray(_listed("pairs", pairs))
        whole = array.astype(np.int64) if array.size else np.empty(0, np.int64)
    except (TypeError, ValueError):
        array, whole = np.empty((0, 0, 0)), np.empty(0, np.int64)
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] != 2) or not np.array_equal(array, whole):
        raise UsageError("pairs must be integers.", advice="Give the image index of each text, or pairs (image, text).")
    if array.ndim == 1:
        _check_length("pairs", whole, texts, "text_vectors")
        whole = np.stack([whole, np.arange(texts)], axis=1)
    for column, (what, count) in enumerate((("image", images), ("text", texts))):
        wrong = whole[(whole[:, column] < 0) | (whole[:, column] >= count), column]
        if len(wrong):
            raise DataError(
                "pairs refer to {what} {first}, but there are {count} (0 to {last}).",
                what=what,
                first=wrong[0],
                count=count,
                last=count - 1,
            )
    uses = np.bincount(whole[:, 1], minlength=texts)
    if (uses != 1).any():
        text = int(np.flatnonzero(uses != 1)[0])
        raise DataError("Text {text} is paired with {uses} images; expected exactly one.", text=text, uses=uses[text])
    without = np.setdiff1d(np.arange(images), whole[:, 0])
    if len(without):
        raise DataError(
            "Image {first} has no text.", advice="Add at least one text or remove the image.", first=without[0]
        )
    owner = np.empty(texts, np.int64)
    owner[whole[:, 1]] = whole[:, 0]
    return owner
