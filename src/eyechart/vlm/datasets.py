"""The dataset classes by kind of question: what is asked, and in which words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from eyechart.errors import DataError
from eyechart.metrics.cells import as_text, is_missing, options_of, text_list
from eyechart.vlm.base import ImageBaseDataset, Message
from eyechart.vlm.benchmarks import CatalogueColumn

CIRCULAR_NAMES = ("mmbench", "ccbench", "circular", "mmcr")
"""Words in names of multiple-choice tables whose rows are rotations of each other."""
CAPTION_QUESTION = (
    "Please describe this image in general. Directly provide the description, "
    'do not include prefix like "This image depicts". '
)


class ImageMCQDataset(ImageBaseDataset):
    """Multiple choice: hint, question, options A, B, ... and the request to choose one."""

    TYPE = "MCQ"
    RATING = "choice"
    DATASET_URL = CatalogueColumn("ImageMCQDataset", "url")
    DATASET_MD5 = CatalogueColumn("ImageMCQDataset", "md5")

    def rating(self) -> str:
        """Return circular for a table with ``g_index``, and for the names that VLMEvalKit takes for such."""
        named = any(word in self.dataset_name.lower() for word in CIRCULAR_NAMES)
        return "circular" if self.RATING == "choice" and (named or "g_index" in self.data) else self.RATING

    def build_prompt(self, line: Any) -> Message:
        """Return the images and the question with its options."""
        row = self.line(line)
        options = "".join(f"{letter}. {text}\n" for letter, text in options_of(row).items())
        hint = "" if is_missing(row.get("hint")) else f"Hint: {as_text(row['hint'])}\n"
        request = "Please select the correct answer from the options above. \n"
        choice = f"Options:\n{options}{request}" if options else ""
        text = f"{hint}Question: {as_text(row.get('question'))}\n{choice}"
        return [*self.image_items(row), {"type": "text", "value": text}]


class MMMUDataset(ImageMCQDataset):
    """MMMU: multiple choice with the images where the text names them (``<image 1>``)."""

    RATING = "mmmu"
    DATASET_URL = CatalogueColumn("MMMUDataset", "url")
    DATASET_MD5 = CatalogueColumn("MMMUDataset", "md5")

    def build_prompt(self, line: Any) -> Message:
        """Return texts and images in the order of the text."""
        *images, text = super().build_prompt(line)
        parts = re.split(r"<image (\d)>", text["value"])
        if len(parts) == 1:
            return [*images, text]
        message: Message = [{"type": "text", "value": parts[0]}]
        for number, after in zip(parts[1::2], parts[2::2], strict=True):
            if not 1 <= int(number) <= len(images):
                where = self.where(self.line(line))
                raise DataError(f"{where} speaks of <image {number}> but has {len(images)} images.")
            message += [images[int(number) - 1], {"type": "text", "value": after}]
        return message


class MUIRDataset(ImageMCQDataset):
    """MUIRBench: multiple choice with the images in place of ``<image>``, in their order."""

    DATASET_URL = CatalogueColumn("MUIRDataset", "url")
    DATASET_MD5 = CatalogueColumn("MUIRDataset", "md5")

    def build_prompt(self, line: Any) -> Message:
        """Return texts and images in the order of the text."""
        row = self.line(line)
        options = "\n".join(f"{letter}. {text}" for letter, text in options_of(row).items())
        request = "Answer with the option's letter from the given choices directly."
        text = f"{as_text(row.get('question'))}\n{options}\n{request}"
        return interleave(text, "<image>", self.image_items(row), self.where(row))


class _Suffixed(ImageBaseDataset):
    """Questions with a request after them."""

    SUFFIX: ClassVar[str] = ""
    SUFFIXES: ClassVar[Mapping[str, str]] = {}
    """Requests of single benchmarks."""

    def build_prompt(self, line: Any) -> Message:
        """Return the images, and the question with its request."""
        *images, text = super().build_prompt(line)
        suffix = self.SUFFIXES.get(self.dataset_name, self.SUFFIX)
        return [*images, {"type": "text", "value": text["value"] + suffix}]


class ImageYORNDataset(_Suffixed):
    """Yes/no questions, asked as they are; AMBER's say what they want."""

    TYPE = "Y/N"
    RATING = "yes_no"
    SUFFIXES: ClassVar[Mapping[str, str]] = {"AMBER": "\nPlease answer yes or no."}
    DATASET_URL = CatalogueColumn("ImageYORNDataset", "url")
    DATASET_MD5 = CatalogueColumn("ImageYORNDataset", "md5")


class ImageVQADataset(_Suffixed):
    """Open questions with short answers."""

    SUFFIX = "\nAnswer the question using a single word or phrase."
    DATASET_URL = CatalogueColumn("ImageVQADataset", "url")
    DATASET_MD5 = CatalogueColumn("ImageVQADataset", "md5")


class MTVQADataset(_Suffixed):
    """MTVQA: open questions in many languages."""

    RATING = "mtvqa"
    SUFFIX = "\nAnswer the question using a word or phrase in the language of the question."
    DATASET_URL = CatalogueColumn("MTVQADataset", "url")
    DATASET_MD5 = CatalogueColumn("MTVQADataset", "md5")


class OCRBench(ImageBaseDataset):
    """OCRBench: questions as they are, answers looked for in what the model writes."""

    RATING = "ocrbench"
    DATASET_URL = CatalogueColumn("OCRBench", "url")
    DATASET_MD5 = CatalogueColumn("OCRBench", "md5")


class MathVista(ImageBaseDataset):
    """MathVista: questions as they are."""

    RATING = "mathvista"
    DATASET_URL = CatalogueColumn("MathVista", "url")
    DATASET_MD5 = CatalogueColumn("MathVista", "md5")


class MathVision(ImageBaseDataset):
    """MathVision: questions as they are."""

    RATING = "mathvision"
    DATASET_URL = CatalogueColumn("MathVision", "url")
    DATASET_MD5 = CatalogueColumn("MathVision", "md5")


class MMVet(ImageBaseDataset):
    """MM-Vet and CORE-MM: questions as they are, graded by a judge."""

    RATING = "mmvet"
    DATASET_URL = CatalogueColumn("MMVet", "url")
    DATASET_MD5 = CatalogueColumn("MMVet", "md5")


class VCRDataset(ImageBaseDataset):
    """Visual caption restoration: the question names the task."""

    RATING = "vcr"
    DATASET_URL = CatalogueColumn("VCRDataset", "url")
    DATASET_MD5 = CatalogueColumn("VCRDataset", "md5")


class ImageCaptionDataset(ImageBaseDataset):
    """Captions: one request for every image, unless the table has questions."""

    TYPE = "Caption"
    RATING = "caption"
    DATASET_URL = CatalogueColumn("ImageCaptionDataset", "url")
    DATASET_MD5 = CatalogueColumn("ImageCaptionDataset", "md5")

    def post_build(self, dataset: str) -> None:  # noqa: ARG002 - the hook's signature
        """Put the request where there is no question."""
        if "question" not in self.data:
            self.data["question"] = [CAPTION_QUESTION] * len(self.data)


class ImageMTDataset(ImageBaseDataset):
    """Dialogues: ``question`` and ``answer`` are lists; ``<ImageHere>`` stands where an image is shown."""

    TYPE = "MT"
    RATING = "dialogue"
    DATASET_URL = CatalogueColumn("ImageMTDataset", "url")
    DATASET_MD5 = CatalogueColumn("ImageMTDataset", "md5")

    def build_prompt(self, line: Any) -> list[dict[str, Any]]:
        """Return the turns, each question with its images and each right answer after it."""
        row = self.line(line)
        where = self.where(row)
        questions, answers = text_list(row.get("question")), text_list(row.get("answer"))
        if len(questions) != len(answers):
            raise DataError(f"{where} has {len(questions)} questions and {len(answers)} answers.")
        images = self.image_items(row)
        turns: list[dict[str, Any]] = []
        for question, answer in zip(questions, answers, strict=True):
            shown = question.count("<ImageHere>")
            content = interleave(question, "<ImageHere>", images[:shown], where)
            images = images[shown:]
            turns.append({"role": "user", "content": [item for item in content if item["value"]]})
            turns.append({"role": "assistant", "content": [{"type": "text", "value": answer}]})
        return turns


class MMDUDataset(ImageMTDataset):
    """MMDU's dialogues."""

    DATASET_URL = CatalogueColumn("MMDUDataset", "url")
    DATASET_MD5 = CatalogueColumn("MMDUDataset", "md5")


def interleave(text: str, mark: str, images: Message, where: str) -> Message:
    """Put images where a text has a mark; as many as there are marks. Without any mark they come first."""
    first, *rest = text.split(mark)
    if not rest:
        return [*images, {"type": "text", "value": text}]
    if len(rest) != len(images):
        raise DataError(f"{where}: {len(rest)} times {mark} in the text, but {len(images)} images.")
    message: Message = [{"type": "text", "value": first}]
    for image, after in zip(images, rest, strict=True):
        message += [image, {"type": "text", "value": after}]
    return message
