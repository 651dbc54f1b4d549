"""Prompting a generator with the questions of a benchmark: single turns, dialogues, and blind controls."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from eyechart.datasets.questions.prediction_files import (
    find_predictions,
    prediction_file,
    read_agreeing,
    write_predictions,
)
from eyechart.datasets.questions.prompt_items import to_messages
from eyechart.datasets.questions.question_dataset import QuestionDataset
from eyechart.datasets.questions.question_table import QuestionTable
from eyechart.datasets.questions.row_table import Record
from eyechart.errors import DataError, UsageError
from eyechart.io.images import ImageRef
from eyechart.io.progress import bar_each
from eyechart.manifest import Failure
from eyechart.messages import UserMessage
from eyechart.metrics.cell_values import as_text
from eyechart.settings.tasks import QuestionTaskSettings
from eyechart.tasks.base import TaskContext, counted
from eyechart.types import TRUNCATED, Answer, Message, Notice, Prompt

NO_IMAGES, SWAPPED = "no_images", "swapped"
BLIND_RESULTS = {NO_IMAGES: "blind", SWAPPED: "swapped"}
"""Name of each control in the names of results."""
_ADVICE = UserMessage("Use {--blind} without a value to show no images.")
Generate = Callable[[Iterable[Prompt]], Iterable[tuple[str, Answer]]]
Build = Callable[[Record], Any]
_THINKING = "<think>"
TRANSCRIPT = "transcript"
"""Column of a row with the messages as sent and the answers, in the form of records."""
FAILED_ROW = {"prediction": "", "finish_reason": "failed"}
"""Columns of a row without an answer."""


def without_images(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Remove the images from a prompt."""
    return tuple(
        replace(message, parts=tuple(part for part in message.parts if isinstance(part, str))) for message in messages
    )


class ImageSwap:
    """Replaces a question's images by the next images of the benchmark that it does not contain."""

    def __init__(self, prompts: Iterable[Iterable[Message]]) -> None:
        self._images: dict[bytes, ImageRef] = {}
        for prompt in prompts:
            self._images |= {name: image for name, image in _images_of(prompt).items() if name not in self._images}
        if len(self._images) < 2:
            raise UsageError("{--blind=swapped} needs several different images, but there is only one.", advice=_ADVICE)
        self._names = list(self._images)
        self._places = {name: place for place, name in enumerate(self._names)}

    def __call__(self, messages: Iterable[Message]) -> tuple[Message, ...]:
        """Return the prompt with other images in the same positions: as many different ones, if available."""
        prompt = tuple(messages)
        own = _images_of(prompt)
        start = self._places[next(iter(own))] if own else 0
        ring = (self._names[(start + step) % len(self._names)] for step in range(len(self._names)))
        others = [self._images[name] for name in islice((name for name in ring if name not in own), len(own))]
        instead = dict(zip(own, cycle(others), strict=False))
        if len(instead) < len(own):
            raise UsageError("{--blind=swapped}: a question already shows all images of the benchmark.", advice=_ADVICE)
        return tuple(
            replace(
                message,
                parts=tuple(instead[part.digest()] if isinstance(part, ImageRef) else part for part in message.parts),
            )
            for message in prompt
        )


def _images_of(messages: Iterable[Message]) -> dict[bytes, ImageRef]:
    parts = (part for message in messages for part in message.parts)
    return {part.digest(): part for part in parts if isinstance(part, ImageRef)}


@dataclass
class AnsweredRows:
    """The model's answers, in the benchmark's order."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """The benchmark's columns, with prediction, thinking, the transcript and the digests of the images."""
    failures: list[Failure] = field(default_factory=list)
    file: Path = Path()
    """The predictions file."""
    notices: Sequence[Notice] = ()
    unanswered: dict[str, Any] = field(default_factory=dict)
    """The transcripts of failed questions, by index."""

    def all_rows(self, table: QuestionTable, names: Iterable[str]) -> list[dict[str, Any]]:
        """Return a row for each question; those without an answer are marked failed and scored as wrong."""
        answered = {as_text(row["index"]): row for row in self.rows}
        return [
            answered[name]
            if name in answered
            else {**table.row(name).without("image"), **FAILED_ROW, TRANSCRIPT: self.unanswered.get(name)}
            for name in names
        ]


def questions_of(context: TaskContext) -> QuestionDataset:
    """Return the benchmark of a job."""
    dataset = context.manifest.dataset
    if not isinstance(dataset, QuestionDataset):
        raise TypeError(f"{context.info.name} is not a question benchmark")
    return dataset


def answers_of(context: TaskContext, settings: QuestionTaskSettings) -> list[AnsweredRows]:
    """Return the answers of each repeat: generated and written, or read from files in mode eval."""
    repeats, build = range(settings.repeats), None
    if settings.mode == "eval":
        return [_read(context, repeat, blind=settings.blind) for repeat in repeats]
    dataset, model = questions_of(context), context.model.model
    if getattr(model.family, "wants_benchmark", False):  # a VLMEvalKit-style class, which may build prompts itself
        generator = model.load()
        if dataset.info.benchmark.is_dialogue:
            generator.check_chat()
        build = generator.custom_prompt(dataset.info.name, dataset.image_paths)
    return [_generate(context, settings, None if dataset.keeps_prompts else build, repeat) for repeat in repeats]


def _generate(context: TaskContext, settings: QuestionTaskSettings, build: Build | None, repeat: int) -> AnsweredRows:
    dataset = questions_of(context)
    rows = [dataset.table.row(entry.id) for entry in context.manifest.entries]
    with context.progress.step(UserMessage("answers to {name}", name=dataset.info.name), len(rows)) as bar:

        def generate(prompts: Iterable[Prompt]) -> Iterable[tuple[str, Answer]]:
            return bar_each(context.generator.generate(prompts, repeat), bar)

        asker = PromptRunner(dataset, generate, system=settings.system_prompt, build=build, blind=settings.blind)
        answers = asker.answer(rows, together=[key.tobytes() for key in context.manifest.digests])
    answers.file, answers.notices = write_predictions(answers.rows, context.output, repeat, xlsx=settings.xlsx)
    return answers


def _read(context: TaskContext, repeat: int, *, blind: str) -> AnsweredRows:
    """Read the predictions of an earlier run; a question without one counts as failed."""
    files = find_predictions(context.output, repeat)
    if not files:
        wanted = prediction_file(context.output, repeat, ".jsonl")
        raise DataError(
            "There are no predictions to score: {wanted} does not exist.",
            advice="Run with {--mode=infer} first.",
            wanted=wanted,
        )
    rows = {as_text(row["index"]): row for row in read_agreeing(questions_of(context).table, files)}
    names = [entry.id for entry in context.manifest.entries]
    lost = [Failure(name, f"no prediction in {files[0].name}") for name in names if name not in rows]
    found = [rows[name] for name in names if name in rows]
    if blind:
        return AnsweredRows(found, lost, files[0])
    now = {name: key.tobytes().hex() for name, key in zip(names, context.manifest.digests, strict=True)}
    asked = ((now[as_text(row["index"])], row.get("images")) for row in found)
    other = sum(isinstance(images, list) and bool(images) and image not in images for image, images in asked)
    text = (
        "{n} predictions were made from images that differ from the dataset's current ones: run with {--mode=infer} "
        "again."
    )
    return AnsweredRows(found, lost, files[0], counted("other_images", other, text))


class PromptRunner:
    """Runs the questions of a benchmark through a generator.

    ``build`` is the model's own prompt builder; without it, the benchmark's prompts are used. ``blind`` removes or
    swaps the images.
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
        self.prompts: dict[str, tuple[list[dict[str, Any]], list[str]]] = {}
        """The messages as in a transcript, and their image digests, by row index."""

    def answer(self, rows: Sequence[Record], together: Sequence[bytes] = ()) -> AnsweredRows:
        """Answer all rows; rows without a usable prompt or an answer are listed as failures.

        Rows with the same image, identified by ``together``, are consecutive: the image is encoded once, and a server's
        prefix cache can be used.
        """
        dialogues = self.dataset.info.benchmark.is_dialogue
        first: dict[bytes, int] = {}
        for place, image in enumerate(together):
            first.setdefault(image, place)
        order = sorted(range(len(together)), key=lambda i: first[together[i]])
        asked = [rows[i] for i in order] if together else rows
        if self.blind == NO_IMAGES:
            self.hide = without_images
        elif self.blind:
            self.hide = ImageSwap([prompt for row in asked if (prompt := self._messages(row)) is not None])
        said = self._dialogues(asked) if dialogues else self._questions(asked)
        found = AnsweredRows()
        for row in rows:
            index = as_text(row["index"])
            answers = said.get(index, [])
            error = self.failed.get(index) or next((answer.error for answer in answers if answer.error), "")
            if error or not answers:
                found.failures.append(Failure(index, error or "no answer came back"))
                found.unanswered[index] = self._transcript(index, answers)
            else:
                found.rows.append(self._answered(row, answers, dialogue=dialogues))
        return found

    def _answered(self, row: Record, answers: Sequence[Answer], *, dialogue: bool) -> dict[str, Any]:
        """Add the answer's columns to a row; the replies of a dialogue become a list literal, as in tables."""
        index = as_text(row["index"])
        answers = [_split_unclosed_thinking(answer) for answer in answers]
        texts = [answer.text for answer in answers]
        thinking = "\n".join(answer.thinking for answer in answers if answer.thinking)
        return {
            **row.without("image"),
            "prediction": repr(texts) if dialogue else texts[0],
            **({"thinking": thinking} if thinking else {}),
            "images": self.prompts[index][1],
            "finish_reason": TRUNCATED
            if any(answer.finish_reason == TRUNCATED for answer in answers)
            else answers[-1].finish_reason,
            TRANSCRIPT: self._transcript(index, answers),
        }

    def _transcript(self, index: str, answers: Sequence[Answer]) -> list[dict[str, Any]]:
        """Return the messages as sent, each user turn of a dialogue followed by its answer."""
        messages, left = self.prompts.get(index, ([], []))[0], list(answers)
        if not self.dataset.info.benchmark.is_dialogue:
            return [*messages, *(answer.to_record() for answer in left)]
        found = []
        for message in messages:
            if message["role"] != "assistant":  # the script's replies are references and are never sent
                found += [message, *(left.pop(0).to_record() for _ in left[: message["role"] == "user"])]
        return found

    def _messages(self, row: Record) -> tuple[Message, ...] | None:
        """Build a row's prompt; a row without a usable one is recorded as a failure."""
        index = as_text(row["index"])
        try:
            own = to_messages(self.build(row), self.dataset.table.where(row)) if self.build else None
            made = (*self.system, *self.hide(own if own is not None else self.dataset.prompt(row)))
            parts = [part for message in made for part in message.parts]
            digests = [part.digest().hex() for part in parts if isinstance(part, ImageRef)]
        except DataError as error:
            self.failed[index] = error.message
            return None
        self.prompts[index] = [message.to_record() for message in made], digests
        return made

    def _questions(self, rows: Sequence[Record]) -> Mapping[str, list[Answer]]:
        made = ((as_text(row["index"]), self._messages(row)) for row in rows)
        prompts = (Prompt(name, messages) for name, messages in made if messages is not None)
        return {name: [answer] for name, answer in self.generate(prompts)}

    def _dialogues(self, rows: Sequence[Record]) -> Mapping[str, list[Answer]]:
        """Generate turn by turn; each turn sees the model's own replies, never the reference answers."""
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


def history(users: Sequence[Message], said: Sequence[Answer]) -> Iterator[Message]:
    """Yield the conversation up to the last user turn, each earlier one followed by its reply."""
    for user, answer in zip(users, said, strict=False):
        yield user
        yield Message("assistant", (answer.text,))
    yield users[-1]


def _split_unclosed_thinking(answer: Answer) -> Answer:
    """Treat an unclosed thinking block as reasoning without an answer, whether it was truncated or not.

    Answers without a finish reason are kept as they are.
    """
    said = answer.text.lstrip()
    if not answer.finish_reason or not said.startswith(_THINKING):
        return answer
    return replace(answer, text="", thinking=said.removeprefix(_THINKING).strip())
