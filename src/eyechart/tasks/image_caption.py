"""Captions from a generator, and from them a text retrieval dataset: which text finds which image's caption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eyechart.manifest import Failure, Manifest
from eyechart.store.answers import turns_key
from eyechart.tasks.base import Prediction
from eyechart.types import Answer, Document, Message, Metric, Notice, Outcome, Prompt, TextCollection

NAME = "image_caption"
VERSION = 1

Ask = Callable[[Iterable[Prompt]], Iterable[tuple[str, Answer]]]


@dataclass(frozen=True)
class CaptionPrediction(Prediction):
    """A caption for each image that got one."""

    positions: tuple[int, ...]
    """Where each captioned image stands in the manifest: the document ids."""
    answers: tuple[Answer, ...]
    sources: Mapping[str, str]
    """Where each image came from, by its id."""


def is_caption(answer: Answer) -> bool:
    """Tell whether an answer can stand for an image: an empty one cannot be found by anything."""
    return not answer.error and bool(answer.text.strip())


def caption_key(image: bytes, prompt: str) -> str:
    """Return the name of a prompt in the response store from the image's digest, without reading the image."""
    return turns_key([("user", [{"picture": image.hex()}, prompt])])


def prompts(manifest: Manifest, prompt: str) -> Iterator[Prompt]:
    """Ask for each image of the manifest: the image, then the words."""
    listed = {entry.id for entry in manifest.entries}
    for sample in manifest.samples():
        if sample.id in listed:
            yield Prompt(sample.id, (Message("user", (sample.need_image(), prompt)),))


def predict(manifest: Manifest, ask: Ask, prompt: str) -> CaptionPrediction:
    """Caption every image; those that fail after all tries, or get an empty caption, are listed."""
    sources: dict[str, str] = {}

    def noted() -> Iterator[Prompt]:
        for asked in prompts(manifest, prompt):
            sources[asked.id] = next(part.source for part in asked.messages[0].parts if not isinstance(part, str))
            yield asked

    answers = dict(ask(noted()))
    kept = [i for i, entry in enumerate(manifest.entries) if is_caption(answers[entry.id])]
    failures = [
        Failure(entry.id, _reason(answers[entry.id])) for entry in manifest.entries if not is_caption(answers[entry.id])
    ]
    return CaptionPrediction(
        info=manifest.info,
        entries=tuple(manifest.entries[i] for i in kept),
        positions=tuple(kept),
        answers=tuple(answers[manifest.entries[i].id] for i in kept),
        failures=tuple(failures),
        sources=sources,
    )


def _reason(answer: Answer) -> str:
    if answer.error:
        return answer.error
    because = f" (finish_reason {answer.finish_reason})" if answer.finish_reason not in ("", "stop") else ""
    return f"The caption is empty{because}."


def score(prediction: CaptionPrediction) -> Outcome:
    """Count; a caption has no score of its own."""
    listed = len(prediction.entries) + len(prediction.failures)
    cut = sum(answer.finish_reason == "length" for answer in prediction.answers)
    notices = [Notice("cut_captions", cut, f"{cut} captions were cut at the longest answer.")] if cut else []
    return Outcome(
        metrics={"captioned": Metric(len(prediction.entries) / listed if listed else 0.0, n=listed)},
        records=list(_records(prediction)),
        notices=notices,
    )


def _records(prediction: CaptionPrediction) -> Iterator[dict[str, Any]]:
    rows = zip(prediction.entries, prediction.positions, prediction.answers, strict=True)
    for entry, position, answer in rows:
        yield {
            "id": entry.id,
            "corpus_id": position,
            "caption": answer.text,
            "finish_reason": answer.finish_reason,
            **({"thinking": answer.thinking} if answer.thinking else {}),
            **answer.usage,
        }
    for failure in prediction.failures:
        yield {"id": failure.id, "failed": failure.reason}


def as_collection(prediction: CaptionPrediction, manifest: Manifest) -> TextCollection:
    """Make the text retrieval data: captions are documents, the images' own texts are queries.

    Document ids are the positions of the images, query ids a running number, as in EvalScope. An image without a
    caption keeps its queries: nothing can find it, and that counts. Of a classification dataset, the class names are
    the queries and all images of the class are relevant.
    """
    sources = prediction.sources
    documents = tuple(
        Document(str(position), answer.text.strip(), {"image_id": entry.id, "image": sources.get(entry.id, "")})
        for entry, position, answer in zip(prediction.entries, prediction.positions, prediction.answers, strict=True)
    )
    asked = list(_queries(manifest))
    queries = tuple(Document(str(i), text, _owner(manifest, found)) for i, (text, found) in enumerate(asked))
    relevance = {str(i): {str(position): 1.0 for position in found} for i, (_, found) in enumerate(asked)}
    return TextCollection(documents, queries, relevance)


def _owner(manifest: Manifest, found: Sequence[int]) -> dict[str, str]:
    """Name the image whose text a query is; a class name belongs to none."""
    by_class = manifest.info.kind in ("classification", "multilabel")
    return {} if by_class else {"image_id": manifest.entries[found[0]].id}


def _queries(manifest: Manifest) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield each query with the positions of the images that it means."""
    if manifest.info.kind in ("classification", "multilabel"):
        members: dict[int, list[int]] = {}
        for position, entry in enumerate(manifest.entries):
            for label in entry.labels or (() if entry.label is None else (entry.label,)):
                members.setdefault(label, []).append(position)
        names = manifest.info.classnames
        yield from ((names[label] if names else str(label), members[label]) for label in sorted(members))
    elif manifest.info.kind == "selection":
        yield from ((entry.texts[0], [i]) for i, entry in enumerate(manifest.entries) if entry.texts)
    else:
        yield from ((text, [i]) for i, entry in enumerate(manifest.entries) for text in entry.texts if text.strip())
