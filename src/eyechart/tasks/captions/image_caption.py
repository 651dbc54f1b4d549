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

from eyechart.datasets.text_collection import collection_files, documents_in, write_collection
from eyechart.errors import DataError, unknown_name
from eyechart.io.progress import bar_each
from eyechart.manifest import Failure, Manifest
from eyechart.tasks.base import Material, Prediction, Task
from eyechart.tasks.captions.collection import as_collection, shared_queries
from eyechart.tasks.captions.texts import caption_notices, what_is_wrong
from eyechart.types import UNREAD, Answer, Message, Metric, ModelSpec, Notice, Outcome, Prompt, digest_json

PROMPT = (
    "Please describe this image in general. Directly provide the description, do not include prefix like "
    "'This image depicts'"
)
"""EvalScope's, so that captions stay comparable."""
USER, SYSTEM = "user", "system"
ROLES = (USER, SYSTEM)
"""Who says the prompt: the user, after the image; or (EvalScope) the system, before it."""
INCOMPLETE = "_incomplete"
"""Ends the name of the folder of captions that are fewer than those of an earlier run."""


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
    skipped: int = 0
    """Those of them, and those that could not be decoded, where ``on_error`` says to skip them."""
    fuller: int = 0
    """Captions that an earlier run left in the folder where these would have gone: more than these, so they stay."""
    shared: int = 0
    """Queries that several images have."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Count the images that were skipped as the user wished: no caption was lost there."""
        return {"skipped": self.skipped} if self.skipped else {}

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
    min_success = 1.0

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Pick what the model is told to do, and in which role it is said."""
        role = options.get("prompt_role") or USER
        if role not in ROLES:
            raise unknown_name("prompt_role", str(role), ROLES)
        return {"prompt": options.get("caption_prompt") or PROMPT, **({"prompt_role": role} if role != USER else {})}

    def keeps(self, answer: Answer) -> bool:
        """Keep what can stand for an image: an empty caption cannot be found by anything."""
        return not what_is_wrong(answer)

    def is_whole(self, facts: Mapping[str, Any], details: Mapping[str, Any]) -> bool:
        """Tell whether every image got its caption and the files are as they were written."""
        return facts.get("conversion_successful") is True and details.get("files") == _digests(
            Path(str(facts.get("save_path")))
        )

    def predict(self, material: Material, settings: Mapping[str, Any]) -> CaptionPrediction:
        """Caption every image and write the data; those that fail after all tries, or get none, are listed."""
        manifest, prompt = material.manifest, settings["prompt"]
        sources: dict[str, str] = {}
        asked = prompts(manifest, prompt, settings.get("prompt_role", USER))
        answers = caption_answers(material, _noting_sources(asked, sources))
        said = {i: answers[entry.id] for i, entry in enumerate(manifest.entries)}
        captions = {i: answer for i, answer in said.items() if self.keeps(answer)}
        collection = as_collection(captions, sources, manifest)
        missing = [entry for i, entry in enumerate(manifest.entries) if i not in captions]
        folder = data_folder(material.output)
        fuller = documents_in(folder) if missing or manifest.failures else 0
        if fuller > len(captions):
            folder = folder.with_name(f"{folder.name}{INCOMPLETE}")
        if captions:
            write_collection(collection, folder)
            _link(material.output, folder)
        return CaptionPrediction(
            info=manifest.info,
            entries=manifest.take(np.array(list(captions), np.int64)),
            failures=tuple(Failure(entry.id, _reason(entry.id, answers, sources)) for entry in missing),
            captions=captions,
            folder=folder,
            fuller=fuller if fuller > len(captions) else 0,
            shared=shared_queries(collection) if manifest.info.shared_texts else 0,
            unread=len(manifest.failures),
            skipped=_unread(manifest, answers) if material.on_error == "skip" else 0,
            details={
                "prompt": prompt,
                "made_with": way_of(material.generator.model.spec, settings),
                "files": _digests(folder),
                "documents": len(collection.documents),
                "queries": len(collection.queries),
                "spent": {"model": material.generator.spent()},
            },
        )

    def score(self, prediction: CaptionPrediction, settings: Mapping[str, Any]) -> Outcome:  # noqa: ARG002 - no choice
        """Count; a caption has no score of its own."""
        listed = len(prediction.entries) + len(prediction.failures)
        notices = [*caption_notices(prediction.captions.values()), *_notices(prediction)]
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


def prompts(manifest: Manifest, prompt: str, role: str = USER) -> Iterator[Prompt]:
    """Make a prompt of each image of the manifest: the image, then the words; or first the words, as the system's."""
    listed = {entry.id for entry in manifest.entries}
    for sample in manifest.samples():
        if sample.id in listed:
            image = sample.need_image()
            spoken = (Message("system", (prompt,)), Message("user", (image,)))
            yield Prompt(sample.id, (Message("user", (image, prompt)),) if role == USER else spoken)


def caption_answers(material: Material, asked: Iterable[Prompt]) -> dict[str, Answer]:
    """Let the generator describe images; return what it said to each, or why it did not, by the sample's id."""
    with material.progress.step(f"captions of {material.info.name}", len(material.manifest)) as bar:
        return dict(bar_each(material.generator.generate(asked), bar))


def data_folder(output: Path) -> Path:
    """Return where the text retrieval data of a result go: beside it, in a folder with the dataset's name."""
    # The last one is the task's, should the dataset's name hold it too.
    before, _, after = output.stem.rpartition(f"_{ImageCaption.name}")
    return output.parent / f"{before}{after}" / "retrieval_data"


def way_of(spec: ModelSpec, settings: Mapping[str, Any]) -> str:
    """Digest how captions are made: prompt, model and its settings; not where the model is."""
    options = {key: value for key, value in spec.what["options"].items() if key != "api_base"}
    return digest_json([{**spec.what, "options": options}, settings["prompt"], settings.get("prompt_role", USER)])


def _unread(manifest: Manifest, answers: Mapping[str, Answer]) -> int:
    """Count the images that could not be read or decoded."""
    undecoded = sum(answers[entry.id].finish_reason == UNREAD for entry in manifest.entries)
    return len(manifest.failures) + undecoded


def _noting_sources(asked: Iterator[Prompt], sources: dict[str, str]) -> Iterator[Prompt]:
    for prompt in asked:
        sources[prompt.id] = next(part.source for part in prompt.messages[-1].parts if not isinstance(part, str))
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


def _reason(name: str, answers: Mapping[str, Answer], sources: Mapping[str, str]) -> str:
    """Say what happened to which image; errors of the image itself name it already."""
    source, reason = sources.get(name, ""), what_is_wrong(answers[name])
    return reason if not source or source in reason else f"{source}: {reason}"


def _notices(prediction: CaptionPrediction) -> Iterator[Notice]:
    if prediction.fuller:
        where = f", and these are in {prediction.folder}" if prediction.captions else ""
        yield Notice(
            "fuller_captions_kept",
            prediction.fuller,
            f"An earlier run has left {prediction.fuller} captions and this one has {len(prediction.captions)}: the "
            f"earlier ones stay where they are{where}.",
        )
    if prediction.shared:
        yield Notice(
            "shared_texts",
            prediction.shared,
            f"{prediction.shared} queries belong to more than one image: whichever of these is found counts as right.",
        )


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
