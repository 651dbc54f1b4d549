"""The samples of a benchmark as listed on the page: one order for all models, texts and thumbnails within limits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from eyechart.report.page.overview import FOR_THUMBNAILS, MAX_PREVIEW, MAX_THUMBNAIL, Limits, cut, is_thumbnail, rounded
from eyechart.report.paired_records import rows_of
from eyechart.report.record_columns import NO_VALUE, Floats, Ints, RecordColumns
from eyechart.results import Result
from eyechart.results.job_results import images_of
from eyechart.types import TRANSCRIPT_VERSION, MeanOf, RecordForm, read_messages

MAX_MESSAGE = 4_000
"""Characters kept of each text of a transcript."""


@dataclass(frozen=True)
class Samples:
    """The samples of a benchmark in one order for all models."""

    form: RecordForm
    ids: tuple[str, ...]
    columns: Mapping[int, RecordColumns]
    results: Mapping[int, Result]
    place: Mapping[int, Ints]
    """Model -> row of each sample in its columns, `NO_VALUE` if it has none."""

    @classmethod
    def align(cls, columns: Mapping[int, RecordColumns], results: Mapping[int, Result]) -> Self:
        """Align models by id, in the order of the first, then ids that only others have."""
        ids = tuple(dict.fromkeys(name for own in dict.fromkeys(part.ids for part in columns.values()) for name in own))
        same, place = np.arange(len(ids)), {}
        for model, part in columns.items():
            if part.ids == ids:
                place[model] = same
            else:
                rows = {name: i for i, name in enumerate(part.ids)}
                place[model] = np.array([rows.get(name, NO_VALUE) for name in ids])
        return cls(next(iter(columns.values())).form, ids, columns, results, place)

    def of(self, model: int, name: str) -> Ints:
        """Return one model's column in the common order."""
        rows, part = self.place[model], self.columns[model]
        values = part.from_text.astype(np.int64) if name == "from_text" else part.whole(name)
        return np.where(rows == NO_VALUE, NO_VALUE, values[rows])

    def shared(self, name: str) -> Ints:
        """Return a column that belongs to the samples, from any model that has it."""
        out = np.full(len(self.ids), NO_VALUE)
        for model in self.columns:
            out = np.where(out == NO_VALUE, self.of(model, name), out)
        return out

    @cached_property
    def shares(self) -> dict[int, Floats]:
        """Correctness of each answer by the primary metric, scaled by the largest value; NaN without a value."""
        found = {}
        for model, part in self.columns.items():
            metrics = self.results[model].values.values()
            mean_of = next((metric.mean_of for metric in metrics if metric.primary and metric.mean_of), None)
            rows = rows_of(part, mean_of or MeanOf("correct"))
            own = dict(zip(rows.ids, rows.values.tolist(), strict=True))
            found[model] = np.array([own.get(name, np.nan) for name in self.ids], np.float64)
        top = max(float(np.nanmax(values, initial=1.0)) for values in found.values())
        return {model: values / top for model, values in found.items()}

    def misses(self) -> Ints:
        """Count for each sample the models that got it wrong."""
        if self.form == "question":
            wrong = [~(values >= 1) for values in self.shares.values()]
        elif self.form == "labels":
            return np.zeros(len(self.ids), np.int64)
        else:
            wrong = [self.of(model, "rank") != 1 for model in self.columns]
        return np.asarray(np.sum(wrong, axis=0), np.int64)

    def places_among_the_worst(self, limit: int) -> Ints:
        """Return the best position of each sample, and of each image that shows it, among any model's worst mistakes.

        Zeros if all samples are listed and none has a thumbnail, as nothing depends on it.
        """
        if len(self.ids) <= limit and not any(part.images for part in self.columns.values()):
            return np.zeros(len(self.ids), np.int64)
        places: dict[str, int] = {}
        for part in self.columns.values():
            for place, (row, record) in enumerate(part.worst_records().items()):
                for name in (part.ids[row], *images_of(record)):
                    places[name] = min(place, places.get(name, place))
        return np.array([places.get(name, len(self.ids)) for name in self.ids], np.int64)


def list_samples(samples: Samples, limits: Limits) -> dict[str, Any]:
    """List samples for browsing; if not all fit, those missed most often, and of those the worst."""
    limit = limits.questions if samples.form == "question" else limits.samples
    misses, worst = samples.misses(), samples.places_among_the_worst(limit)
    chosen = np.sort(np.lexsort((worst, -misses))[:limit])
    listing = _Listing(samples, chosen, {samples.ids[i]: number for number, i in enumerate(chosen)}, limits)
    listed: dict[str, Any] = {
        "total": len(samples.ids),
        "ids": [cut(samples.ids[i]) for i in chosen],
        "models": list(samples.columns),
    }
    forms: dict[str, Callable[[], dict[str, Any]]] = {
        "label": listing.label,
        "labels": listing.labels,
        "ranking": listing.ranking,
        "question": listing.question,
    }
    return listed | forms[samples.form]() | listing.images(misses, worst)


Details = dict[str, dict[int, dict[str, Any]]]
"""By model and position in the list."""


@dataclass(frozen=True)
class _Listing:
    """A list of samples; its methods return the parts of each form."""

    samples: Samples
    chosen: Ints
    """The listed samples, as positions among all."""
    place: Mapping[str, int]
    """Id -> position in the list."""
    limits: Limits

    def label(self) -> dict[str, Any]:
        label = self.samples.shared("label")[self.chosen]
        predictions = {str(m): self.samples.of(m, "prediction")[self.chosen] for m in self.samples.columns}
        keys = ("top", "scores", "label_score")
        return {
            "label": label.tolist(),
            "rank": self.ranks(),
            # A correct prediction is written as -1: long runs of one number pack well.
            "prediction": {m: np.where(own == label, NO_VALUE, own).tolist() for m, own in predictions.items()},
            "details": self.details(lambda record: {k: record[k] for k in keys if k in record}),
        }

    def labels(self) -> dict[str, Any]:
        first = next(iter(self.samples.columns.values()))
        present = {name: np.flatnonzero(row).tolist() for name, row in zip(first.ids, first.present, strict=True)}

        def detail(record: Mapping[str, Any]) -> dict[str, Any]:
            scores = np.asarray(record["scores"], np.float64)
            best = np.argsort(-scores, kind="stable")[:5]
            return {"top": best.tolist(), "scores": rounded(scores[best])}

        labels = [present.get(self.samples.ids[i], []) for i in self.chosen]
        return {"labels": labels, "details": self.details(detail)}

    def ranking(self) -> dict[str, Any]:
        texts: dict[int, str] = {}
        owners: dict[int, int] = {}
        for part in self.samples.columns.values():
            for row, text in part.texts.items():
                number = self.place.get(part.ids[row])
                if number is not None and number not in texts and self.limits.text_bytes > 0:
                    texts[number] = cut(text)
                    owners[number] = self.place.get(part.names["image"][row] or "", NO_VALUE)
                    self.limits.text_bytes -= len(texts[number])

        def detail(record: Mapping[str, Any]) -> dict[str, Any]:
            names = [str(name) for name in record.get("top") or ()]
            if not names:
                return {}
            known: dict[str, Any] = {"names": [cut(n, 200) for n in names], "tied": bool(record.get("tied"))}
            known |= {"scores": rounded(record["scores"])} if "scores" in record else {}
            if "relevant" in record:  # documents, which are not listed: a query may have the id of one
                right = [cut(str(name), 200) for name in record["relevant"][:20]]
                return known | {"top": [NO_VALUE] * len(names), "relevant": right}
            return known | {"top": [self.place.get(name, NO_VALUE) for name in names]}

        return {
            "rank": self.ranks(),
            "from_text": self.samples.shared("from_text")[self.chosen].tolist(),
            "texts": texts,
            "images": owners,
            "details": self.details(detail),
        }

    def question(self) -> dict[str, Any]:
        shared: dict[int, dict[str, Any]] = {}
        details: Details = {}
        missed = np.argsort(-self.samples.misses()[self.chosen], kind="stable")[: self.limits.transcripts].tolist()
        told = frozenset(missed)
        for model in self.samples.columns:
            own, said = details.setdefault(str(model), {}), dict[int, Mapping[str, Any]]()
            for record in self.samples.results[model].iter_records() if self.limits.text_bytes > 0 else ():
                number = self.place.get(str(record["id"]))
                if number is None or self.limits.text_bytes <= 0:
                    continue
                if number not in shared:
                    shared[number] = _pick(record, ("question", "options", "answer", "category"))
                    self.limits.text_bytes -= len(str(shared[number]))
                own[number] = _pick(record, ("prediction", "extracted", "rule", "thinking"))
                self.limits.text_bytes -= len(str(own[number]))
                if number in told:
                    said[number] = record
            room = self.limits.transcript_share()
            for number in [number for number in missed if number in said]:
                found = _transcript(said[number])
                room -= len(str(found))
                if room < 0:
                    break
                own[number] |= found
            self.limits.transcript_bytes += max(room, 0)
        correct = {str(m): rounded(values[self.chosen]) for m, values in self.samples.shares.items()}
        return {"correct": correct, "questions": shared, "details": details}

    def ranks(self) -> dict[str, list[int]]:
        return {str(m): self.samples.of(m, "rank")[self.chosen].tolist() for m in self.samples.columns}

    def details(self, detail: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Details:
        """Describe the worst mistakes of each model."""
        found: Details = {}
        for model, part in self.samples.columns.items():
            own = found.setdefault(str(model), {})
            for row, record in part.worst_records().items() if self.limits.text_bytes > 0 else ():
                number = self.place.get(part.ids[row])
                if number is not None and self.limits.text_bytes > 0 and (described := detail(record)):
                    own[number] = described
                    self.limits.text_bytes -= len(str(described))
        return found

    def images(self, misses: Ints, worst: Ints) -> dict[str, Any]:
        """Choose images of the worst mistakes of all models, within the limits: thumbnails, and previews of some.

        They are keyed by position in the list; documents, which are not listed, by ``/`` and their name.
        """
        given: dict[int | str, Mapping[str, Any]] = {}
        for part in self.samples.columns.values():
            own: dict[int | str, Any] = {
                self.place.get(part.ids[row], ""): images for row, images in part.images.items()
            }
            for record in part.worst_records().values() if self.samples.form == "ranking" else ():
                own |= {f"/{name}": images for name, images in record.get("images", {}).items()}
            given = own | given
        ordered = [*np.lexsort((-misses[self.chosen], worst[self.chosen])).tolist(), *given]
        names = [name for name in dict.fromkeys(ordered) if name != "" and name in given][: self.limits.images]
        out: dict[str, Any] = {"originals": self.originals() if self.limits.offer else {}, "fewer_images": False}
        for key, most, reserved in (("thumbnail", MAX_THUMBNAIL, 0), ("preview", MAX_PREVIEW, FOR_THUMBNAILS)):
            kept = out[f"{key}s"] = {}
            for name, image in ((name, str(given[name].get(key))) for name in names):
                if is_thumbnail(image, most) and len(image) <= self.limits.image_bytes - reserved:
                    self.limits.image_bytes -= len(image)
                    kept[name] = image
                out["fewer_images"] |= name not in kept and is_thumbnail(image, most)
        return out

    def originals(self) -> dict[int | str, str]:
        """Return the digests of the images that the server of the page offers, under the keys of `images`."""
        found: dict[int | str, str] = {}
        offer = self.limits.offer or bool
        for model in self.samples.columns:
            for record in self.samples.results[model].iter_records():
                own: dict[int | str, Any] = {self.place.get(str(record["id"]), ""): record.get("digest")}
                own |= {f"/{name}": images.get("digest") for name, images in record.get("images", {}).items()}
                found |= {key: digest for key, digest in own.items() if key != "" and offer(digest)}
            if found and self.samples.form != "ranking":  # the same images for every model
                break
        return found


def _transcript(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the transcript of a record, its texts truncated; nothing if it is damaged or of another version."""
    found = record.get("transcript")
    if not isinstance(found, Mapping) or found.get("version") != TRANSCRIPT_VERSION:
        return {}
    messages = read_messages(found.get("messages"))
    return {"transcript": cut({**found, "messages": messages}, MAX_MESSAGE)} if messages else {}


def _pick(record: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: cut(record[key]) for key in keys if record.get(key) not in (None, "")}
