"""Captions from a generator, and from them a text retrieval dataset: which text finds which image's caption."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from eyechart.datasets.text_collection import collection_files, write_collection
from eyechart.errors import DataError
from eyechart.io.progress import bar_each
from eyechart.manifest import Failure, Manifest
from eyechart.tasks.base import Material, Prediction, Task
from eyechart.tasks.caption_collection import as_collection
from eyechart.types import Answer, Message, Metric, Notice, Outcome, Prompt

PROMPT = (
    "Please describe this image in general. Directly provide the description, do not include prefix like "
    "'This image depicts'"
)
"""EvalScope's, so that captions stay comparable."""


@dataclass(frozen=True)
class CaptionPrediction(Prediction):
    """A caption for each image that got one, and the files that were made of them."""

    captions: Mapping[int, Answer]
    """By the positions of the images in the manifest, which are the documents' ids."""
    folder: Path
    """Where the text retrieval data are."""
    details: Mapping[str, Any]
    unread: int
    """Images that could not even be read."""

    def only(self, keep: NDArray[np.int64]) -> NoReturn:  # noqa: ARG002 - the same for all
        """Refuse: a caption has no score that could differ between groups."""
        raise DataError("captions have no score of their own")


class ImageCaption(Task):
    """Lets a generator describe every image, and writes the captions as documents and the images' texts as queries.

    ``captioned`` is the share of images that got a caption. Of a classification dataset, the class names are the
    queries.
    """

    name = "image_caption"
    kinds = frozenset({"classification", "multilabel", "retrieval", "selection", "collection", "similarity", "images"})
    needs = "generator"
    output = "outputs/{model}/{dataset}_{task}.json"

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Pick what the model is told to do."""
        return {"prompt": options.get("caption_prompt") or PROMPT}

    def keeps(self, answer: Answer) -> bool:
        """Keep what can stand for an image: an empty caption cannot be found by anything."""
        return not answer.error and bool(answer.text.strip())

    def is_whole(self, facts: Mapping[str, Any], details: Mapping[str, Any]) -> bool:
        """Tell whether every image got its caption and the files are as they were written."""
        return facts.get("conversion_successful") is True and details.get("files") == _digests(
            Path(str(facts.get("save_path")))
        )

    def predict(self, material: Material, settings: Mapping[str, Any]) -> CaptionPrediction:
        """Caption every image and write the data; those that fail after all tries, or get none, are listed."""
        manifest, prompt = material.manifest, settings["prompt"]
        sources: dict[str, str] = {}
        answers = caption_answers(material, _noting_sources(prompts(manifest, prompt), sources))
        said = {i: answers[entry.id] for i, entry in enumerate(manifest.entries)}
        captions = {i: answer for i, answer in said.items() if self.keeps(answer)}
        collection = as_collection(captions, sources, manifest)
        folder = data_folder(material.output)
        write_collection(collection, folder)
        _link(material.output, folder)
        missing = [entry for i, entry in enumerate(manifest.entries) if i not in captions]
        return CaptionPrediction(
            info=manifest.info,
            entries=manifest.take(np.array(list(captions), np.int64)),
            failures=tuple(Failure(entry.id, _reason(answers[entry.id])) for entry in missing),
            captions=captions,
            folder=folder,
            unread=len(manifest.failures),
            details={
                "prompt": prompt,
                "files": _digests(folder),
                "documents": len(collection.documents),
                "queries": len(collection.queries),
                **material.generator.spent(),
            },
        )

    def score(self, prediction: CaptionPrediction, settings: Mapping[str, Any]) -> Outcome:  # noqa: ARG002 - no choice
        """Count; a caption has no score of its own."""
        listed = len(prediction.entries) + len(prediction.failures)
        cut = sum(answer.finish_reason == "length" for answer in prediction.captions.values())
        notices = [Notice("cut_captions", cut, f"{cut} captions were cut at the longest answer.")] if cut else []
        successful = not prediction.failures and not prediction.unread
        return Outcome(
            metrics={"captioned": Metric(len(prediction.entries) / listed if listed else 0.0, n=listed, primary=True)},
            records=list(_records(prediction)),
            notices=notices,
            details=prediction.details,
            facts={
                "conversion_successful": successful,
                "convertion_successful": successful,  # as EvalScope's code spells it
                "save_path": str(prediction.folder),
            },
        )


def prompts(manifest: Manifest, prompt: str) -> Iterator[Prompt]:
    """Make a prompt of each image of the manifest: the image, then the words."""
    listed = {entry.id for entry in manifest.entries}
    for sample in manifest.samples():
        if sample.id in listed:
            yield Prompt(sample.id, (Message("user", (sample.need_image(), prompt)),))


def caption_answers(material: Material, asked: Iterable[Prompt]) -> dict[str, Answer]:
    """Let the generator describe images; return what it said to each, or why it did not, by the sample's id."""
    with material.progress.step(f"captions of {material.info.name}", len(material.manifest)) as bar:
        return dict(bar_each(material.generator.generate(asked), bar))


def data_folder(output: Path) -> Path:
    """Return where the text retrieval data of a result go: beside it, in a folder with the dataset's name."""
    # The last one is the task's, should the dataset's name hold it too.
    before, _, after = output.stem.rpartition(f"_{ImageCaption.name}")
    return output.parent / f"{before}{after}" / "retrieval_data"


def _noting_sources(asked: Iterator[Prompt], sources: dict[str, str]) -> Iterator[Prompt]:
    for prompt in asked:
        sources[prompt.id] = next(part.source for part in prompt.messages[0].parts if not isinstance(part, str))
        yield prompt


def _link(output: Path, folder: Path) -> None:
    """Show the result in the dataset's folder too, where EvalScope's documentation has it."""
    link = folder.parent / output.name
    with contextlib.suppress(OSError):  # a system without links: the result itself is where it belongs
        link.unlink(missing_ok=True)
        link.symlink_to(Path(os.path.relpath(output, link.parent)))


def _digests(folder: Path) -> dict[str, str | None]:
    """Digest the data, so that a later run knows whether they are still those that it would write."""
    return {
        f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        for path in collection_files(folder)
    }


def _reason(answer: Answer) -> str:
    if answer.error:
        return answer.error
    because = f" (finish_reason {answer.finish_reason})" if answer.finish_reason not in ("", "stop") else ""
    return f"The caption is empty{because}."


def _records(prediction: CaptionPrediction) -> Iterator[dict[str, Any]]:
    for entry, (position, answer) in zip(prediction.entries, prediction.captions.items(), strict=True):
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
