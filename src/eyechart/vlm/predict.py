"""Asking a model all questions of a benchmark, and the files of what it said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eyechart.errors import DataError, MissingExtraError
from eyechart.io.media import ImageRef
from eyechart.manifest import Failure
from eyechart.metrics.cells import as_text
from eyechart.types import Answer, Message, Notice, Prompt
from eyechart.vlm.base import ImageBaseDataset
from eyechart.vlm.messages import to_messages
from eyechart.vlm.rows import Record
from eyechart.vlm.tables import dump
from eyechart.vlm.xlsx import write_xlsx

Ask = Callable[[Iterable[Prompt]], Iterable[tuple[str, Answer]]]
Tick = Callable[[], None]


@dataclass
class Predictions:
    """What a model said to each question, in the order of the benchmark."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """The benchmark's columns, with prediction, thinking, prompt and the digests of the images."""
    failures: list[Failure] = field(default_factory=list)


def predict(
    dataset: ImageBaseDataset,
    ask: Ask,
    *,
    limit: int | None = None,
    system: str = "",
    custom: Callable[[Any], Any] | None = None,
    tick: Tick = lambda: None,
) -> Predictions:
    """Ask every question; ``custom`` is the model's own way to put it, unless the dataset insists on its own."""
    use_own = custom is not None and not getattr(dataset, "force_use_dataset_prompt", False)
    build = custom if use_own and custom is not None else dataset.build_prompt
    rows = dataset.data.rows[:limit]
    asking = _Asking(dataset, build, system, tick)
    if dataset.TYPE == "MT":
        return asking.dialogues(rows, ask)
    return asking.questions(rows, ask)


class _Asking:
    def __init__(self, dataset: ImageBaseDataset, build: Callable[[Any], Any], system: str, tick: Tick) -> None:
        self.dataset, self.build, self.tick = dataset, build, tick
        self.system = (Message("system", (system,)),) if system else ()
        self.failed: dict[str, str] = {}
        self.asked: dict[str, tuple[str, list[str]]] = {}
        """The prompt's text and its images' digests, by the row's index."""

    def messages(self, row: Record) -> tuple[Message, ...] | None:
        """Build a row's prompt; a row that has no usable prompt is a failure."""
        index = as_text(row["index"])
        try:
            made = (*self.system, *to_messages(self.build(row), f"{self.dataset.dataset_name}: row {index!r}"))
            parts = [part for message in made for part in message.parts]
            texts = [part if isinstance(part, str) else "<image>" for part in parts]
            digests = [part.digest().hex() for part in parts if isinstance(part, ImageRef)]
        except DataError as error:
            self.failed[index] = error.message
            return None
        self.asked[index] = ("\n".join(texts), digests)
        return made

    def questions(self, rows: list[Record], ask: Ask) -> Predictions:
        def prompts() -> Iterator[Prompt]:
            for row in rows:
                made = self.messages(row)
                if made is not None:
                    yield Prompt(as_text(row["index"]), made)

        answers: dict[str, Answer] = {}
        for name, answer in ask(prompts()):
            answers[name] = answer
            self.tick()
        return self._collect(rows, {name: [answer] for name, answer in answers.items()}, _one)

    def dialogues(self, rows: list[Record], ask: Ask) -> Predictions:
        """Ask turn by turn; each turn sees the model's own replies, never the right ones."""
        said: dict[str, list[Answer]] = {}
        scripts = {as_text(row["index"]): made for row in rows if (made := self.messages(row)) is not None}
        turns = {name: [turn for turn in script if turn.role == "user"] for name, script in scripts.items()}
        for number in range(max(map(len, turns.values()), default=0)):
            prompts = [
                Prompt(name, _history(self.system, users[: number + 1], said.get(name, [])))
                for name, users in turns.items()
                if number < len(users)
            ]
            for name, answer in list(ask(prompts)):
                said.setdefault(name, []).append(answer)
                self.tick()
        return self._collect(rows, said, _several)

    def _collect(
        self, rows: list[Record], said: Mapping[str, list[Answer]], join: Callable[[list[Answer]], str]
    ) -> Predictions:
        found = Predictions()
        for row in rows:
            index = as_text(row["index"])
            answers = said.get(index, [])
            error = self.failed.get(index) or next((answer.error for answer in answers if answer.error), "")
            if error or not answers:
                found.failures.append(Failure(index, error or "no answer came back"))
                continue
            prompt, images = self.asked[index]
            cells = row.without("image")
            thinking = "\n".join(answer.thinking for answer in answers if answer.thinking)
            found.rows.append(
                {
                    **cells,
                    "prediction": join(answers),
                    **({"thinking": thinking} if thinking else {}),
                    "prompt": prompt,
                    "images": images,
                    "finish_reason": answers[-1].finish_reason,
                    "usage": dict(answers[-1].usage),
                }
            )
        return found


def _one(answers: list[Answer]) -> str:
    return answers[0].text


def _several(answers: list[Answer]) -> str:
    """Write the replies of a dialogue as the list literal that tables hold."""
    return repr([answer.text for answer in answers])


def _history(system: tuple[Message, ...], users: list[Message], said: list[Answer]) -> tuple[Message, ...]:
    turns: list[Message] = []
    for i, user in enumerate(users):
        turns.append(user)
        if i < len(users) - 1:
            turns.append(Message("assistant", (said[i].text if i < len(said) else "",)))
    return (*system, *turns)


def prediction_file(output: Path, repeat: int, suffix: str) -> Path:
    """Return where predictions go: beside the result, under its name; repeats are numbered."""
    return output.with_name(f"{output.stem}{f'_repeat{repeat}' if repeat else ''}{suffix}")


_EXPORTED_LAST = ("prediction", "thinking")
_NOT_EXPORTED = frozenset({"prompt", "images", "finish_reason", "usage"})


def write_predictions(predictions: Predictions, output: Path, repeat: int, *, xlsx: bool) -> list[Notice]:
    """Write the JSON-lines file, and the spreadsheet if asked for; return what the spreadsheet could not hold."""
    dump(predictions.rows, prediction_file(output, repeat, ".jsonl"))
    if not xlsx:
        return []
    columns = [key for key in dict.fromkeys(key for row in predictions.rows for key in row) if key not in _NOT_EXPORTED]
    columns = [*(c for c in columns if c not in _EXPORTED_LAST), *(c for c in _EXPORTED_LAST if c in columns)]
    path = prediction_file(output, repeat, ".xlsx")
    try:
        cut = write_xlsx(path, columns, ([row.get(name) for name in columns] for row in predictions.rows))
    except MissingExtraError as error:
        return [Notice("no_spreadsheet", 1, f"{path.name} was not written. {error.advice}")]
    if not cut:
        return []
    message = f"{len(cut)} texts were cut in {path.name}, for example {cut[0]}; the .jsonl file beside it holds all."
    return [Notice("xlsx_cut", len(cut), message)]
