"""What a task is given and what it must give back."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError, UsageError
from eyechart.manifest import Entry, Failure, Manifest
from eyechart.metrics.vectors import Vectors
from eyechart.types import Answer, DatasetInfo, Kind, ModelCard, Notice, OnError, Outcome, Prompt


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of the samples that could be encoded, as the model gave them, and those that could not."""

    vectors: Vectors
    kept: NDArray[np.int64]
    """Positions in the manifest, ascending, one per vector."""
    failures: tuple[Failure, ...] = ()


class Embeddings(Protocol):
    """A model behind the store: what is known is read, what is missing is computed and kept."""

    @property
    def card(self) -> ModelCard:
        """Describe the model."""
        ...

    def images(self, manifest: Manifest) -> Embedded:
        """Embed the images of a manifest."""
        ...

    def texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:
        """Embed texts, each distinct one once, in the order given."""
        ...

    def notices(self) -> Sequence[Notice]:
        """Return what was noticed so far, such as truncated texts."""
        ...


class Writer(Protocol):
    """A generator behind its stored answers."""

    @property
    def card(self) -> ModelCard:
        """Describe the generator."""
        ...

    def ask(self, prompts: Iterable[Prompt]) -> Iterable[tuple[str, Answer]]:
        """Answer prompts in any order, each with its id."""
        ...


class NoEncoder:
    """Stands where the encoder would be in the material of a task that needs a generator."""

    def __init__(self, card: ModelCard) -> None:
        self.card = card

    def images(self, manifest: Manifest) -> Embedded:  # noqa: ARG002 - the protocol's signature
        """Refuse."""
        raise UsageError(f"{self.card.name} is used as a generator here: it gives no vectors.")

    def texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:  # noqa: ARG002
        """Refuse."""
        raise UsageError(f"{self.card.name} is used as a generator here: it gives no vectors.")

    def notices(self) -> Sequence[Notice]:
        """Return what the model had to say."""
        return [Notice("model_note", 1, note) for note in self.card.notes]


@dataclass(frozen=True)
class Material:
    """A dataset and a model: what a task works on."""

    manifest: Manifest
    model: Embeddings
    open_split: Callable[[str], Manifest]
    """Lists another split of the same dataset; the task names those that it needs in ``splits``."""
    device: str = "auto"
    """Where the user wants work to be done: auto, cpu, cuda, ..."""
    on_error: OnError = "fail"
    writer: Writer | None = None
    """The model, for a task that needs a generator."""

    def split(self, name: str) -> Material:
        """Return the same model on another split."""
        return dataclasses.replace(self, manifest=self.open_split(name))

    @property
    def info(self) -> DatasetInfo:
        """Describe the dataset."""
        return self.manifest.info

    @property
    def language(self) -> str:
        """Return the language of this job."""
        return self.manifest.info.language


@dataclass(frozen=True)
class Prediction:
    """What every task's prediction holds: the samples that count, in order."""

    rows: ClassVar[tuple[str, ...]] = ()
    """The fields that hold one row per sample."""

    info: DatasetInfo
    entries: tuple[Entry, ...]
    failures: tuple[Failure, ...]

    def only(self, keep: NDArray[np.int64]) -> Self:
        """Return the prediction for the samples at the positions ``keep``, to be scored alone."""
        own = {name: getattr(self, name)[keep] for name in self.rows}
        return dataclasses.replace(self, entries=tuple(self.entries[i] for i in keep), failures=(), **own)


class Task(ABC):
    """One way to read a dataset with a model.

    ``settings`` runs when the job is planned, ``check`` before a model is loaded, ``predict`` is slow and goes
    through the store, ``score`` is quick, pure and can be repeated. Only the last two must be written.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    """Raised whenever the same predictions would get other numbers."""
    kinds: ClassVar[frozenset[Kind]]
    """The datasets that it reads."""
    needs: ClassVar[Literal["encoder", "generator"]] = "encoder"
    """The kind of model that it works with."""

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - for those that have some
        """Pick this task's settings from all options and check them."""
        return {}

    def splits(self, settings: Mapping[str, Any]) -> tuple[str, ...]:  # noqa: ARG002 - for those that learn
        """Name the splits that are read besides the one that is scored; they are opened and checked when planned."""
        return ()

    def check(self, info: DatasetInfo, settings: Mapping[str, Any]) -> None:  # noqa: ARG002 - settings may matter
        """Refuse a dataset that this task cannot read, before anything expensive."""
        if info.kind not in self.kinds:
            kinds = " or ".join(sorted(self.kinds))
            raise UsageError(
                f"{self.name} reads {kinds} datasets, but {info.name} is a {info.kind} dataset.",
                advice="Use --task auto, or add dataset_type.txt to the dataset if it is described wrongly.",
            )

    @abstractmethod
    def predict(self, material: Material, settings: Mapping[str, Any]) -> Any:
        """Embed or generate what the score needs; return a `Prediction`."""

    @abstractmethod
    def score(self, prediction: Any, settings: Mapping[str, Any]) -> Outcome:
        """Compute metrics and records."""


def need_samples(prediction: Prediction) -> None:
    """Refuse to make a number out of nothing."""
    if not prediction.entries:
        raise DataError(
            f"{prediction.info.name}: none of the {len(prediction.failures)} samples could be used.",
            advice=f"The first failed with: {prediction.failures[0].reason}" if prediction.failures else "",
        )
