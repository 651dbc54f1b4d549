"""The result of a job: whether it is there already, how it is made, and thumbnails of its worst mistakes."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from eyechart.errors import DataError, IncompleteError, ResultError
from eyechart.io.images import to_rgb
from eyechart.io.safe_parse import parse_json
from eyechart.io.secrets import redact_settings
from eyechart.messages import UserMessage, join
from eyechart.provenance import provenance
from eyechart.results.fields import key_of
from eyechart.results.files import find_body, read_documents, records_file
from eyechart.results.result import Result, read_result, result_from_dict
from eyechart.types import DatasetInfo, Job, ModelCard, Notice, Outcome, RecordForm, Sample, digest_json

if TYPE_CHECKING:
    from PIL import Image

Record = Mapping[str, Any]


def badness(record: Record) -> float:
    """Return the severity of a mistake, 0 for a correct record; the form of the record follows from its fields."""
    scores = record.get("scores")
    if "rank" in record:
        rank = record["rank"]
        if "label" not in record or rank == 1:
            return math.inf if rank is None else float(rank - 1)
        # The margin of the wrong class; without scores, the rank of the correct one.
        margin = float((scores or [0.0])[0]) - float(record.get("label_score") or 0.0)
        return 1e-9 * float(rank) + max(0.0, margin)
    if "labels" in record and scores:
        right = [scores[i] for i in record["labels"]]
        return max(0.0, max(scores) - min(right)) if right else 0.0
    correct = record.get("correct")
    return 1.0 - correct if isinstance(correct, int | float) else 0.0


def images_of(record: Record) -> Iterator[str]:
    """Yield the image of a record; for a caption, its image and those retrieved before it."""
    yield str(record.get("image", record["id"]))
    if record.get("query") == "text":
        yield from map(str, record.get("top") or ())


# Images of the worst mistakes, embedded in their records, so that a report can show them without the data.


SIDE, QUALITY, BYTES_EACH = 96, 50, 4_096
"""A thumbnail in pixels, its WebP quality, and its budget in bytes, applied in total; most need half of it."""
LARGE_QUALITY, LARGE_BYTES_EACH = 60, 32_768
"""The same of a preview, for the large view of a sample."""
LARGE_SIDE, READ_SIDE = 256, 512
"""Side of a preview, and of one that people read: a document, or the image of a question."""
IMAGE_FIELDS = ("thumbnail", "preview", "images", "digest")
"""Record fields written by `with_images`."""


def with_images(
    records: Sequence[Record], samples: Iterable[Sample], count: int, digests: Mapping[str, str], info: DatasetInfo
) -> list[dict[str, Any]]:
    """Add the digest of its image to each record, and images to the records of the worst mistakes.

    Up to ``count`` images get a ``thumbnail`` and, if they are larger than that, a ``preview``: data URLs, within a
    total budget. Documents have no record: the first query that shows one has it in ``images``, by the document's id.
    The dataset is read again, up to the last wanted image; only wanted images are decoded.
    """
    collection = info.collection
    queries = {item.id: item.image for item in collection.queries} if collection else {}
    documents = {item.id: item.image for item in collection.documents if item.image} if collection else {}

    def own(record: Record) -> str:
        return str(queries.get(str(record.get("id"))) if collection else record.get("id"))

    def listed(record: Record) -> dict[str, str]:
        names = map(str, (*(record.get("relevant") or ())[:1], *(record.get("top") or ())))
        return {name: documents[name] for name in names if name in documents}

    def shown(record: Record) -> Iterable[str]:
        return (name for name in (own(record), *listed(record).values()) if name in digests)

    worst_first = choose(records, count, shown if collection else images_of)
    side = READ_SIDE if collection or info.kind == "questions" else LARGE_SIDE
    found = _shrunk(worst_first, samples, side) if worst_first else {}
    kept: dict[str, dict[str, str]] = {}
    for key, room in (("thumbnail", count * BYTES_EACH), ("preview", count * LARGE_BYTES_EACH)):
        for name in worst_first:
            image = found.get(name, {}).get(key)
            if image and len(image) <= room:
                kept.setdefault(name, {})[key] = image
                room -= len(image)  # noqa: PLW2901 - what is left of it
    extra: dict[str, dict[str, Any]] = {}
    for record in sorted(records, key=badness, reverse=True) if documents else ():
        there = {name: documents.pop(name) for name in listed(record)}
        images = {name: kept[one] | {"digest": digests[one]} for name, one in there.items() if one in kept}
        extra[str(record["id"])] = {"images": images} if images else {}
    return [
        {
            **record,
            **kept.get(name := own(record), {}),
            **({"digest": digests[name]} if name in digests else {}),
            **extra.get(str(record.get("id")), {}),
        }
        for record in records
    ]


def choose(records: Sequence[Record], count: int, shown: Callable[[Record], Iterable[str]] = images_of) -> list[str]:
    """List the images of the worst mistakes, and those retrieved instead, worst first."""
    chosen: dict[str, None] = {}
    for record in sorted(records, key=badness, reverse=True):
        if len(chosen) >= count or badness(record) <= 0:
            break
        chosen |= dict.fromkeys(shown(record))
    return list(chosen)[:count]


def _shrunk(names: Sequence[str], samples: Iterable[Sample], side: int) -> dict[str, dict[str, str]]:
    wanted, found = set(names), {}
    for sample in samples:
        if sample.id in wanted:
            wanted.discard(sample.id)
            with suppress(DataError):  # there is none, or it is broken, which is counted where it was to be encoded
                image = to_rgb(sample.need_image().decode())
                large = {"preview": _data_url(image, side, LARGE_QUALITY)} if max(image.size) > SIDE else {}
                found[sample.id] = {"thumbnail": _data_url(image, SIDE, QUALITY), **large}
            if not wanted:
                break
    return found


def _data_url(image: Image.Image, side: int, quality: int) -> str:
    """Encode an image with at most ``side`` pixels per side as WebP; its aspect ratio is kept."""
    small, stream = image.copy(), io.BytesIO()
    small.thumbnail((side, side))
    small.save(stream, "WEBP", quality=quality, method=4)
    return "data:image/webp;base64," + base64.b64encode(stream.getvalue()).decode()


# The output of a job: whether it is up to date, may be overwritten, and is complete.
#
# A result is up to date only if all its inputs are known to be unchanged.


INPUTS = {
    "settings": "different settings",
    "model": "a different model",
    "data": "different data",
    "code": "a different version of Eyechart",
}
"""The inputs of a result, in words for the reason why it is outdated."""


def is_done(job: Job, now: Mapping[str, str | None]) -> tuple[Result | None, str]:
    """Return the job's result if its output holds it and a run would reproduce it; otherwise None and the reason.

    ``now`` has the current cache-key parts of the job: the identities of settings, model, data and code.
    """
    try:
        body = find_body(job.output, job.names) if job.append else None
        if job.append and body is None:
            return None, ""
        result = result_from_dict(body, job.output) if body else read_result(job.output)
    except ResultError as error:
        return None, error.message
    why = _why_outdated(result, job, now)
    return (None, why) if why else (result, "")


def _why_outdated(result: Result, job: Job, now: Mapping[str, str | None]) -> str:
    """Return why a result is outdated for a job; "" if it is up to date."""
    if result.altered:
        return UserMessage("{path} was modified after it was written", path=job.output)
    then = result.job.get("identity")
    if not isinstance(then, Mapping):
        return UserMessage("{path} does not record its inputs", path=job.output)
    records = records_file(result)
    if records is None or not records.is_file() or records.stat().st_size != result.record_info.get("bytes"):
        return UserMessage("{path}: its records file is missing or was modified", path=job.output)
    for part, words in INPUTS.items():
        if now.get(part) is None:
            text = "{path} may have been made with {input}: only a run can tell"
            return UserMessage(text, path=job.output, input=UserMessage(words))
    for part, words in INPUTS.items():
        if then.get(part) != now[part]:
            changes = _changed_settings(result, job) if part == "settings" else ""
            return UserMessage(
                "{path} was made with {input}{changes}", path=job.output, input=UserMessage(words), changes=changes
            )
    return ""


def _changed_settings(result: Result, job: Job) -> str:
    """List the settings that differ, as far as the result holds them in plain text."""
    then = {**result.job.get("settings", {}), **{name: result.job.get(name) for name in ("limit", "on_error")}}
    now = {**job.settings, "limit": job.dataset.limit, "on_error": job.on_error}
    names = [name for name in {**then, **now} if digest_json(then.get(name)) != digest_json(now.get(name))]

    def brief(value: object) -> str:
        text = "none" if value is None else str(value)
        return text if len(text) <= 30 else f"{text[:30]}..."

    changes = [f"{name} {brief(then.get(name))}, now {brief(now.get(name))}" for name in names]
    return f" ({'; '.join(changes)})" if changes else ""


def check_owner(job: Job) -> None:
    """Refuse to overwrite the result of another model, dataset, split, task or language, or a file of another kind."""
    if not job.output.exists():
        return
    if job.output.is_dir():
        raise ResultError(
            "{path} is a folder, but a result file is expected there.",
            advice="Move it, or choose another {--output}.",
            path=job.output,
        )
    try:
        found = read_documents(job.output)
        foreign = not all(isinstance(body, dict) and {"dataset", "metrics"} <= body.keys() for body in found.bodies)
    except ResultError:
        found = None  # it is damaged
        foreign = job.output.is_file() and _is_foreign(job.output.read_bytes())
    if foreign:
        raise ResultError(
            "{path} is not a result of {job} and is not overwritten.",
            advice="Choose another {--output}, or move that file.",
            path=job.output,
            job=job.title,
        )
    if job.append and found is not None and not found.by_line:
        raise ResultError(
            "{path} holds a result that spans several lines, so no line can be appended.",
            advice="Choose another {--output}, or move that file.",
            path=job.output,
        )
    if job.append or found is None:
        return

    def by_path(names: tuple[str, ...]) -> tuple[str, ...]:
        return str(PurePath(names[0])), *names[1:]  # ``./photos/`` is ``photos``

    others = [names for body in found.bodies if by_path(names := key_of(body)) != by_path(job.names)]
    if others:
        raise ResultError(
            "{path} holds the result of {other}, not of {job}, and is not overwritten.",
            advice="Put {{dataset}}, {{model}}, {{pretrained}}, {{language}}, {{task}} or {{split}} into "
            "{--output}, name a folder ({--output=FOLDER/}), move that file, or keep several "
            "results in one file: {--append}.",
            path=job.output,
            other=" ".join(filter(None, others[0])),
            job=" ".join(filter(None, job.names)),
        )


def _is_foreign(content: bytes) -> bool:
    """Whether unreadable content is something other than a damaged or truncated result."""
    for text in (content, content.partition(b"\n")[0]):  # other tools put several results into one file, line by line
        try:
            body = parse_json(text)
        except ValueError:
            continue
        return not (isinstance(body, dict) and "checksum" in body)
    return not content.lstrip().startswith(b"{") and bool(content.strip())


def check_complete(result: Result, min_success: float) -> IncompleteError | None:
    """Return an error if too few samples were measured; call it after the result has been saved.

    Samples that failed or whose answers or verdicts are unreadable are lost. Those ``skipped`` at the user's request
    are excluded, although they are counted as failed. ``min_success`` is the smallest share of the others that must not
    be lost.
    """
    names = ("listed", "failed", "unreadable", "skipped")
    listed, failed, unreadable, skipped = (result.counts.get(name, 0) for name in names)
    listed, failed = listed - skipped, failed - skipped
    lost = failed + unreadable
    share = (listed - lost) / listed if listed else 1.0  # not 1 - lost / listed: 9 of 20 are 0.45, not a bit less
    if share >= min_success:
        return None
    parts = [
        UserMessage("{n} failed", n=failed) if failed else "",
        UserMessage("{n} unreadable", n=unreadable) if unreadable else "",
    ]
    message = UserMessage(
        "{dataset}: {lost} of {listed} samples are lost ({parts}): the success rate {share:.4f} is below {least:g}.",
        dataset=result.dataset,
        lost=lost,
        listed=listed,
        parts=join(parts, ", "),
        share=share,
        least=min_success,
    )
    first = [UserMessage("First failure: {id}: {reason}", id=f["id"], reason=f["reason"]) for f in result.failures[:1]]
    return IncompleteError(
        join([message, *first]),
        advice="The partial result is saved in {path}. Rerun the same command to retry only the missing samples, or "
        "lower {--min_success}.",
        path=result.path,
    )


def make_result(
    *,
    job: Job,
    info: DatasetInfo,
    fingerprint: str,
    other_splits: Mapping[str, str],
    card: ModelCard | None,
    outcome: Outcome,
    counts: Mapping[str, int],
    notices: Iterable[Notice],
    failures: Iterable[Mapping[str, str]],
    profile: Mapping[str, float],
    measures: str,
    records: RecordForm,
    identity: Mapping[str, str | None],
    known: Mapping[str, Any] | None = None,
) -> Result:
    """Build the result of a finished job.

    ``fingerprint`` and ``other_splits`` identify the samples that were read; ``identity`` holds the cache-key parts of
    the job (settings, model, data and code), ``profile`` the seconds by phase, and ``known`` further circumstances such
    as the device. ``card`` is None if the model was never loaded and is not known.
    """
    metrics, quoted = outcome.metrics, job.dataset.options.get("metric")
    if quoted in metrics:  # the catalogue quotes one metric for this dataset: the only primary one
        metrics = {name: replace(metric, primary=name == quoted) for name, metric in metrics.items()}
    # In-memory objects cannot be reopened by name.
    objects = {part: one.kind for part, one in (("model", job.model.given), ("dataset", job.dataset.given)) if one}
    dumps = {"classnames": list(info.classnames), "templates": dict(info.class_prompts) or list(info.templates)}
    return Result(
        dataset=job.dataset.name,
        model=job.label or job.model.name,
        pretrained=job.model.pretrained,
        task=job.task,
        language=job.dataset.language,
        values=dict(metrics),
        facts=outcome.facts,
        counts={**counts, "failed": counts.get("failed", 0)},
        notices=tuple(map(asdict, notices)),
        failures=tuple(failures),
        details=outcome.details,
        model_card=asdict(card) | {"fingerprint": card.fingerprint} if card else {},
        data={
            "fingerprint": fingerprint,
            "split": info.split,
            **({"other_splits": dict(other_splits)} if other_splits else {}),
            "kind": info.kind,
            "measures": measures,
            **({"collections": dict(info.collections)} if info.collections else {}),
            "source": info.source,
            "benchmark": job.dataset.options.get("entry", ""),
            "prompts_digest": job.settings.get("prompts"),
            "n_classes": len(info.classnames) or None,
        },
        provenance={
            **provenance(),
            "precision": (card.weight_type or card.precision) if card else None,
            "seconds": profile["total"],
            "profile": dict(profile),
            **(known or {}),
        },
        job={
            "digest": job.digest,
            "identity": dict(identity),
            "settings": dict(job.settings),
            "others": {part: redact_settings(spec.what) for part, spec in job.extra_models.items()},
            "on_error": job.on_error,
            "model": job.model.name,
            "model_type": job.model.family,
            **({"objects": objects} if objects else {}),
            "reader": job.dataset.reader,
            "split": job.dataset.split,
            "limit": job.dataset.limit,
            "caption_cleaning": job.dataset.options.get("caption_cleaning"),
        },
        record_info={"form": records},
        extra={key: dumps[key] for key in job.dump},  # under CLIP_benchmark's keys
    )
