"""Captions from a generator, checked, and the text retrieval dataset made of them."""

import contextlib
import hashlib
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from eyechart.datasets.text_collection import collection_files, documents_in, write_collection
from eyechart.errors import DataError
from eyechart.io.progress import bar_each
from eyechart.io.safe_parse import MAX_TEXT
from eyechart.manifest import Failure, Manifest
from eyechart.messages import UserMessage
from eyechart.settings.tasks import ImageCaptionSettings
from eyechart.tasks.base import Prediction, Task, TaskContext, counted
from eyechart.types import (
    TRUNCATED,
    UNREAD,
    Answer,
    Document,
    Message,
    Metric,
    ModelSpec,
    Notice,
    Outcome,
    Prompt,
    TextCollection,
    digest_json,
    transcript,
)

REFUSED = frozenset({"refusal", "content_filter"})
"""Finish reasons of a withheld answer."""
THINKING = "<think>"
LONG_TOKENS = 512
"""Typical input limit of text encoders; the rest of a longer caption cannot be found."""
_LETTERS_PER_TOKEN = 4
_SHOWN = 200
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that render as blank."""
BY_CLASS = ("classification", "multilabel")
"""Kinds of datasets whose class names are the queries."""
USER = "user"
"""Role of the message that carries the prompt, after the image. EvalScope's is system, before the image."""
INCOMPLETE = "_incomplete"
"""Suffix of the folder used when an earlier run left more captions."""


def caption_problem(answer: Answer) -> str:
    """Return why an answer is not usable as a caption, quoting the model's words; empty if it is usable."""
    if answer.error:
        return answer.error
    said = answer.refusal or (answer.text.strip() if answer.finish_reason in REFUSED else "")
    if said or answer.finish_reason in REFUSED:
        words = f": {_quoted(said)}" if said else f" (finish_reason {answer.finish_reason})"
        return UserMessage("The model refused to describe the image{words}.", words=words)
    if not is_visible(answer.text):
        hidden = UserMessage(" except for invisible characters") if answer.text.strip() else ""
        return UserMessage("The caption is empty{hidden}{answer}.", hidden=hidden, answer=_because(answer))
    if answer.text.lstrip().startswith(THINKING):  # finished reasoning has been split off already
        return UserMessage("The reasoning was truncated before the caption{answer}.", answer=_because(answer))
    if len(answer.text) > MAX_TEXT:
        return UserMessage(
            "The caption has {n} characters, more than the limit of {max_text}.", n=len(answer.text), max_text=MAX_TEXT
        )
    return ""


def _because(answer: Answer) -> str:
    return f" (finish_reason {answer.finish_reason})" if answer.finish_reason not in ("", "stop") else ""


def is_visible(text: str) -> bool:
    """Whether a text has a visible character: a letter, a digit, a punctuation mark or a symbol."""
    return any(unicodedata.category(letter)[0] in "LNPS" and letter not in _BLANK for letter in text)


def caption_notices(answers: Iterable[Answer]) -> list[Notice]:
    """Count duplicate, truncated and overlong captions."""
    captions = list(answers)
    cut = sum(answer.finish_reason == TRUNCATED for answer in captions)
    # About one token per four ASCII characters, and one per other character.
    plain = [sum(letter.isascii() for letter in answer.text) for answer in captions]
    tokens = [-(-n // _LETTERS_PER_TOKEN) + len(answer.text) - n for n, answer in zip(plain, captions, strict=True)]
    long = sum(n > LONG_TOKENS for n in tokens)
    texts = Counter(answer.text.strip() for answer in captions)
    alike = sum(count for count in texts.values() if count > 1)
    equal = "{n} captions are shared by several images, most often {common}: a search cannot tell these images apart."
    too_long = "{n} captions have more than about {long_tokens} tokens: most text encoders truncate them."
    return [
        *counted("equal_captions", alike, equal, common=_quoted(texts.most_common(1)[0][0]) if alike else ""),
        *counted("cut_captions", cut, "{n} captions were truncated at the token limit."),
        *counted("long_captions", long, too_long, long_tokens=LONG_TOKENS),
    ]


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN else f"{line[:_SHOWN]}...")


def as_collection(captions: Mapping[int, Answer], sources: Mapping[str, str], manifest: Manifest) -> TextCollection:
    """Build the text retrieval dataset: captions are the documents, the images' own texts are the queries.

    Document ids are the positions of the images and query ids a running number, as in EvalScope. An image without a
    caption keeps its queries, which then count as misses. For a classification dataset the class names are the queries
    and all images of the class are relevant. If the dataset declares shared texts, all images with the query's text are
    relevant.
    """
    documents = tuple(
        Document(str(position), answer.text.strip(), {"image_id": name, "image_source": sources.get(name, "")})
        for position, answer in captions.items()
        for name in [manifest.entries[position].id]  # only metadata: the folder contains no images
    )
    asked = list(_queries(manifest))
    if manifest.info.shared_texts:
        having: dict[str, list[int]] = {}
        for text, found in asked:
            having.setdefault(text, []).extend(found)
        asked = [(text, list(dict.fromkeys([*found, *having[text]]))) for text, found in asked]  # its own image first
    by_class = manifest.info.kind in BY_CLASS
    queries = tuple(
        Document(str(i), text, {} if by_class else {"image_id": manifest.entries[found[0]].id})
        for i, (text, found) in enumerate(asked)
    )
    relevance = {str(i): {str(position): 1.0 for position in found} for i, (_, found) in enumerate(asked)}
    return TextCollection(documents, queries, relevance)


def _queries(manifest: Manifest) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield each query with the positions of its relevant images."""
    if manifest.info.kind in BY_CLASS:
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


@dataclass(frozen=True)
class CaptionPrediction(Prediction):
    """The caption of each image, and the files written from them."""

    captions: Mapping[int, Answer]
    """By the position of the image in the manifest, which is the document id."""
    transcripts: Mapping[str, Mapping[str, Any]]
    """By sample id."""
    folder: Path
    """The folder of the text retrieval data."""
    details: Mapping[str, Any]
    unread: int
    """Number of images that could not be read."""
    fuller: int = 0
    """Number of captions an earlier run left in the target folder, if more than now: those are kept."""
    shared: int = 0
    """Number of queries with several relevant images."""

    def only(self, keep: NDArray[np.int64]) -> NoReturn:  # noqa: ARG002 - the same for all
        """Raise: captions have no score that could differ between groups."""
        raise DataError("captions are not scored individually")


class ImageCaption(Task):
    """Captions every image with a generator; captions become documents, the images' texts become queries.

    ``captioned`` is the share of images that got a caption. For a classification dataset, the class names are the
    queries.
    """

    name = "image_caption"
    kinds = frozenset({"classification", "multilabel", "retrieval", "selection", "collection", "similarity", "images"})
    needs = "generator"
    min_success = 1.0
    Settings = ImageCaptionSettings

    def predict(self, context: TaskContext, settings: ImageCaptionSettings) -> CaptionPrediction:
        """Caption every image and write the dataset; images without a usable caption are listed as failures."""
        generator, manifest = context.generator, context.manifest
        sources: dict[str, str] = {}

        def asked() -> Iterator[Prompt]:
            for prompt in prompts(manifest, settings.prompt, settings.prompt_role):
                sources[prompt.id] = next(one.source for one in prompt.messages[-1].parts if not isinstance(one, str))
                # An unusable caption cannot be retrieved: it is not cached, so that the next run retries it.
                yield replace(prompt, usable=lambda answer: not caption_problem(answer))

        answers, transcripts = caption_answers(context, asked())
        problems = {entry.id: caption_problem(answers[entry.id]) for entry in manifest.entries}
        captions = {i: answers[entry.id] for i, entry in enumerate(manifest.entries) if not problems[entry.id]}
        collection = as_collection(captions, sources, manifest)
        folder = data_folder(context.output)
        fuller = documents_in(folder) if len(captions) < len(manifest.entries) or manifest.failures else 0
        if fuller > len(captions):
            folder = folder.with_name(f"{folder.name}{INCOMPLETE}")
        if captions:
            write_collection(collection, folder)
            # The result is linked into the dataset's folder, where EvalScope's documentation expects it.
            link = folder.parent / context.output.name
            with contextlib.suppress(OSError):  # on a system without links there is only the result itself
                link.unlink(missing_ok=True)
                link.symlink_to(Path(os.path.relpath(context.output, link.parent)))
        undecoded = sum(answers[entry.id].finish_reason == UNREAD for entry in manifest.entries)
        skipped = len(manifest.failures) + undecoded if context.on_error == "skip" else 0
        shared = sum(len(documents) > 1 for documents in collection.relevance.values())
        return CaptionPrediction(
            info=manifest.info,
            entries=manifest.take(np.array(list(captions), np.int64)),
            failures=tuple(
                # The reason may name the image's source already.
                Failure(name, reason if sources.get(name, "") in reason else f"{sources[name]}: {reason}")
                for name, reason in problems.items()
                if reason
            ),
            captions=captions,
            transcripts=transcripts,
            folder=folder,
            fuller=fuller if fuller > len(captions) else 0,
            shared=shared if manifest.info.shared_texts else 0,
            unread=len(manifest.failures),
            counts={"skipped": skipped} if skipped else {},
            details={
                "prompt": settings.prompt,
                "made_with": way_of(generator.model.spec, settings),
                "files": _digests(folder),
                "documents": len(collection.documents),
                "queries": len(collection.queries),
                "spent": {"model": generator.spent()},
            },
        )

    def is_whole(self, facts: Mapping[str, Any], details: Mapping[str, Any]) -> bool:
        """Whether a result has a caption for every image and its files are unmodified."""
        folder = Path(str(facts.get("save_path")))
        return facts.get("conversion_successful") is True and details.get("files") == _digests(folder)

    def score(self, prediction: CaptionPrediction, settings: ImageCaptionSettings) -> Outcome:  # noqa: ARG002 - no choice
        """Count the captions; a caption itself has no score."""
        listed = len(prediction.entries) + len(prediction.failures)
        successful = not prediction.failures and not prediction.unread
        where = UserMessage(", the new ones are in {folder}", folder=prediction.folder) if prediction.captions else ""
        kept = "An earlier run produced {n} captions and this one {now}: the earlier ones are kept{where}."
        shared = "{n} queries belong to several images: finding any of them counts as right."
        return Outcome(
            metrics={"captioned": Metric(len(prediction.entries) / listed if listed else 0.0, n=listed, primary=True)},
            records=[
                *(
                    {"id": one.id, "corpus_id": i, "caption": answer.text, "transcript": prediction.transcripts[one.id]}
                    for one, (i, answer) in zip(prediction.entries, prediction.captions.items(), strict=True)
                ),
                *(
                    {"id": one.id, "failed": one.reason, "transcript": prediction.transcripts[one.id]}
                    for one in prediction.failures
                ),
            ],
            notices=[
                *caption_notices(prediction.captions.values()),
                *counted("fuller_captions_kept", prediction.fuller, kept, now=len(prediction.captions), where=where),
                *counted("shared_texts", prediction.shared, shared),
            ],
            details=prediction.details,
            facts={
                "conversion_successful": successful,
                "convertion_successful": successful,  # EvalScope's spelling
                "save_path": str(prediction.folder),
            },
        )


def prompts(manifest: Manifest, prompt: str, role: str = USER) -> Iterator[Prompt]:
    """Yield a prompt for each image of the manifest: image then text, or the text first as system message."""
    listed = {entry.id for entry in manifest.entries}
    for sample in manifest.samples():
        if sample.id in listed:
            image = sample.need_image()
            spoken = (Message("system", (prompt,)), Message("user", (image,)))
            yield Prompt(sample.id, (Message("user", (image, prompt)),) if role == USER else spoken)


def caption_answers(
    context: TaskContext, asked: Iterable[Prompt]
) -> tuple[dict[str, Answer], dict[str, dict[str, Any]]]:
    """Generate a caption for each prompt; return the answers, including failed ones, and transcripts by sample id."""
    sent: dict[str, list[dict[str, Any]]] = {}

    def noted() -> Iterator[Prompt]:
        for prompt in asked:
            with contextlib.suppress(DataError):  # an unreadable image is the error of its answer
                sent[prompt.id] = [message.to_record() for message in prompt.messages]
            yield prompt

    with context.progress.step(UserMessage("captions of {name}", name=context.info.name), len(context.manifest)) as bar:
        answers = dict(bar_each(context.generator.generate(noted()), bar))
    return answers, {name: transcript([*sent.get(name, ()), one.to_record()]) for name, one in answers.items()}


def data_folder(output: Path) -> Path:
    """Return the folder of a result's text retrieval data: next to the result, named after the dataset."""
    # rpartition: the dataset's name may contain the task's name too.
    before, _, after = output.stem.rpartition(f"_{ImageCaption.name}")
    return output.parent / f"{before}{after}" / "retrieval_data"


def way_of(spec: ModelSpec, settings: ImageCaptionSettings) -> str:
    """Digest of how captions are made: prompt, model and model settings, without the server's address."""
    options = {key: value for key, value in spec.what["options"].items() if key != "api_base"}
    return digest_json([{**spec.what, "options": options}, settings.prompt, settings.prompt_role])


def _digests(folder: Path) -> dict[str, str | None]:
    """Digest the files, so that a later run can detect modifications."""
    return {
        f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        for path in collection_files(folder)
    }
