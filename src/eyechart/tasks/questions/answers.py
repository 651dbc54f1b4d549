"""The answers of a generator to the questions of a benchmark, one by one or turn by turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eyechart.datasets.questions.dataset import QuestionDataset
from eyechart.datasets.questions.messages import to_messages
from eyechart.datasets.questions.predictions import (
    find_predictions,
    prediction_file,
    read_agreeing,
    write_predictions,
)
from eyechart.datasets.questions.question_table import QuestionTable
from eyechart.datasets.questions.rows import Record
from eyechart.errors import DataError
from eyechart.io.media import ImageRef
from eyechart.io.progress import bar_each
from eyechart.manifest import Failure
from eyechart.metrics.cells import as_text
from eyechart.tasks.base import Material
from eyechart.tasks.questions.blind import NO_IMAGES, Swap, without_images
from eyechart.types import Answer, Message, Notice, Prompt

Generate = Callable[[Iterable[Prompt]], Iterable[tuple[str, Answer]]]
Build = Callable[[Record], Any]
CUT = "length"
"""The finish reason of an answer that was cut at the longest answer."""
_THINKING = "<think>"
FAILED_ROW = {"prediction": "", "finish_reason": "failed"}
"""What stands in a row to which there is no answer."""


@dataclass
class AnsweredRows:
    """What a model answered to each question, in the order of the benchmark."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """The benchmark's columns, with prediction, thinking, prompt and the digests of the images."""
    failures: list[Failure] = field(default_factory=list)
    file: Path = Path()
    """Where they are written."""
    notices: list[Notice] = field(default_factory=list)

    def all_rows(self, table: QuestionTable, names: Iterable[str]) -> list[dict[str, Any]]:
        """Return a row for each question: those without an answer say so, and are scored as wrong."""
        answered = {as_text(row["index"]): row for row in self.rows}
        return [
            answered[name] if name in answered else {**table.row(name).without("image"), **FAILED_ROW} for name in names
        ]


def questions_of(material: Material) -> QuestionDataset:
    """Return the benchmark of a job."""
    dataset = material.manifest.dataset
    if not isinstance(dataset, QuestionDataset):
        raise TypeError(f"{material.info.name} is no benchmark of questions")
    return dataset


def answers_of(material: Material, settings: Mapping[str, Any]) -> list[AnsweredRows]:
    """Return the answers of each repeat: generated and written, or in the mode eval read from files."""
    repeats = range(settings["repeats"])
    if settings["mode"] == "eval":
        return [_read(material, repeat, blind=settings["blind"]) for repeat in repeats]
    build = _own_prompts(material)
    return [_generate(material, settings, build, repeat) for repeat in repeats]


def _generate(material: Material, settings: Mapping[str, Any], build: Build | None, repeat: int) -> AnsweredRows:
    dataset = questions_of(material)
    rows = [dataset.table.row(entry.id) for entry in material.manifest.entries]
    with material.progress.step(f"answers to {dataset.info.name}", len(rows)) as bar:

        def generate(prompts: Iterable[Prompt]) -> Iterable[tuple[str, Answer]]:
            return bar_each(material.generator.generate(prompts, repeat), bar)

        asker = Questioner(dataset, generate, system=settings["system_prompt"], build=build, blind=settings["blind"])
        answers = asker.answer(rows, together=[key.tobytes() for key in material.manifest.digests])
    answers.file, answers.notices = write_predictions(answers.rows, material.output, repeat, xlsx=settings["xlsx"])
    return answers


def _own_prompts(material: Material) -> Build | None:
    """Return a model's own way to ask, which only classes of VLMEvalKit's form have."""
    dataset, model = questions_of(material), material.model.model
    if not getattr(model.family, "wants_benchmark", False):
        return None
    generator = model.load()
    if dataset.info.benchmark.is_dialogue:
        generator.check_chat()
    build: Build | None = generator.custom_prompt(dataset.info.name, dataset.image_paths)
    return None if dataset.keeps_prompts else build


def _read(material: Material, repeat: int, *, blind: str) -> AnsweredRows:
    """Read the predictions of an earlier run; a question without one has failed."""
    files = find_predictions(material.output, repeat)
    if not files:
        wanted = prediction_file(material.output, repeat, ".jsonl")
        raise DataError(
            f"There are no predictions to score: {wanted} does not exist.", advice="Run with --mode infer first."
        )
    rows = {as_text(row["index"]): row for row in read_agreeing(questions_of(material).table, files)}
    names = [entry.id for entry in material.manifest.entries]
    lost = [Failure(name, f"no prediction in {files[0].name}") for name in names if name not in rows]
    found = [rows[name] for name in names if name in rows]
    return AnsweredRows(found, lost, files[0], [] if blind else _other_images(material, found))


def _other_images(material: Material, rows: Iterable[Mapping[str, Any]]) -> list[Notice]:
    """Say how many stored predictions are about other images than the benchmark has now."""
    manifest = material.manifest
    now = {entry.id: key.tobytes().hex() for entry, key in zip(manifest.entries, manifest.digests, strict=True)}
    asked = ((now[as_text(row["index"])], row.get("images")) for row in rows)
    other = sum(isinstance(images, list) and bool(images) and image not in images for image, images in asked)
    text = f"{other} predictions were made from other images than the dataset has now: run with --mode infer again."
    return [Notice("other_images", other, text)] if other else []


class Questioner:
    """Puts the questions of a benchmark to a generator.

    ``build`` is a model's own way to put them; without it, the benchmark's prompts are used. ``blind`` leaves images
    out, or shows others.
    """

    def __init__(
        self,
        dataset: QuestionDataset,
        generate: Generate,
        *,
        system: str = "",
        build: Build | None = None,
        blind: str = "",
    ) -> None:
        self.dataset, self.generate, self.build, self.blind = dataset, generate, build, blind
        self.system = (Message("system", (system,)),) if system else ()
        self.hide: Callable[[Iterable[Message]], tuple[Message, ...]] = tuple
        self.failed: dict[str, str] = {}
        self.prompts: dict[str, tuple[str, list[str]]] = {}
        """The prompt's text and its images' digests, by the row's index."""

    def answer(self, rows: Sequence[Record], together: Sequence[bytes] = ()) -> AnsweredRows:
        """Answer all rows; what has no usable prompt or no answer is listed as failed.

        Rows with the same image, told by ``together``, are asked one after the other: the image is encoded once, and a
        server that remembers the beginnings of prompts reads it once.
        """
        dialogues = self.dataset.info.benchmark.is_dialogue
        asked = _by_image(rows, together)
        if self.blind:
            self.hide = self._hiding(asked)
        said = self._dialogues(asked) if dialogues else self._questions(asked)
        found = AnsweredRows()
        for row in rows:
            index = as_text(row["index"])
            answers = said.get(index, [])
            error = self.failed.get(index) or next((answer.error for answer in answers if answer.error), "")
            if error or not answers:
                found.failures.append(Failure(index, error or "no answer came back"))
            else:
                found.rows.append(self._answered(row, answers, dialogue=dialogues))
        return found

    def _answered(self, row: Record, answers: Sequence[Answer], *, dialogue: bool) -> dict[str, Any]:
        """Put what was said beside the cells; the replies of a dialogue as the list literal that tables hold."""
        prompt, images = self.prompts[as_text(row["index"])]
        answers = [_unended_apart(answer) for answer in answers]
        texts = [answer.text for answer in answers]
        thinking = "\n".join(answer.thinking for answer in answers if answer.thinking)
        return {
            **row.without("image"),
            "prediction": repr(texts) if dialogue else texts[0],
            **({"thinking": thinking} if thinking else {}),
            "prompt": prompt,
            "images": images,
            "finish_reason": CUT
            if any(answer.finish_reason == CUT for answer in answers)
            else answers[-1].finish_reason,
            **({"finish_reasons": [answer.finish_reason for answer in answers]} if dialogue else {}),
            "usage": dict(answers[-1].usage),
        }

    def _hiding(self, rows: Sequence[Record]) -> Callable[[Iterable[Message]], tuple[Message, ...]]:
        """Return what takes the images out of prompts, or puts others in their places."""
        if self.blind == NO_IMAGES:
            return without_images
        made = [prompt for row in rows if (prompt := self._messages(row)) is not None]
        return Swap(made)

    def _prompt(self, row: Record) -> tuple[Message, ...]:
        asked = to_messages(self.build(row), self.dataset.table.where(row)) if self.build else None
        return (*self.system, *self.hide(asked if asked is not None else self.dataset.prompt(row)))

    def _messages(self, row: Record) -> tuple[Message, ...] | None:
        """Make a row's prompt; a row that has no usable one is a failure."""
        index = as_text(row["index"])
        try:
            made = self._prompt(row)
            parts = [part for message in made for part in message.parts]
            digests = [part.digest().hex() for part in parts if isinstance(part, ImageRef)]
        except DataError as error:
            self.failed[index] = error.message
            return None
        self.prompts[index] = "\n".join(part if isinstance(part, str) else "<image>" for part in parts), digests
        return made

    def _questions(self, rows: Sequence[Record]) -> Mapping[str, list[Answer]]:
        def prompts() -> Iterator[Prompt]:
            for row in rows:
                made = self._messages(row)
                if made is not None:
                    yield Prompt(as_text(row["index"]), made)

        return {name: [answer] for name, answer in self.generate(prompts())}

    def _dialogues(self, rows: Sequence[Record]) -> Mapping[str, list[Answer]]:
        """Ask turn by turn; each turn sees the model's own replies, never the right ones."""
        scripts = {as_text(row["index"]): made for row in rows if (made := self._messages(row)) is not None}
        users = {name: [turn for turn in script if turn.role == "user"] for name, script in scripts.items()}
        said: dict[str, list[Answer]] = {name: [] for name in scripts}
        for number in range(max(map(len, users.values()), default=0)):
            prompts = [
                Prompt(name, (*self.system, *history(turns[: number + 1], said[name])))
                for name, turns in users.items()
                if number < len(turns) and not any(answer.error for answer in said[name])
            ]
            for name, answer in list(self.generate(prompts)):
                said[name].append(answer)
        return said


def _by_image(rows: Sequence[Record], images: Sequence[bytes]) -> Sequence[Record]:
    """Bring rows with the same image together, in the order in which the images first occur."""
    first: dict[bytes, int] = {}
    for place, image in enumerate(images):
        first.setdefault(image, place)
    return (
        [row for _, row in sorted(zip(images, rows, strict=True), key=lambda pair: first[pair[0]])] if first else rows
    )


def history(users: Sequence[Message], said: Sequence[Answer]) -> Iterator[Message]:
    """Yield the conversation up to the last of the user's turns, each earlier one followed by the reply to it."""
    for user, answer in zip(users, said, strict=False):
        yield user
        yield Message("assistant", (answer.text,))
    yield users[-1]


def _unended_apart(answer: Answer) -> Answer:
    """Take a thought that never ended for reasoning that was cut, whatever its letters would be read as.

    Of models that give no finish reason nothing is known: what they say stays as it is.
    """
    said = answer.text.lstrip()
    if not answer.finish_reason or not said.startswith(_THINKING):
        return answer
    return replace(answer, text="", thinking=said.removeprefix(_THINKING).strip(), finish_reason=CUT)
