"""What a task is given and what it must give back."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError, UsageError
from eyechart.inference.answers import StoredAnswers
from eyechart.inference.embeddings import StoredEmbeddings
from eyechart.io.code import code_digest
from eyechart.io.progress import NoProgress, Progress
from eyechart.manifest import DatasetReading, Entry, Failure, Manifest
from eyechart.types import Answer, DatasetInfo, Kind, ModelSpec, OnError, Outcome, RecordForm, Role


def no_other(part: str) -> NoReturn:
    """Stand for the further models of a job that has none."""
    raise UsageError(f"This job has no {part}.")


@dataclass(frozen=True)
class Material:
    """A dataset and a model: what a task works on."""

    listed: Manifest | DatasetReading
    """The samples: a dataset that may not have been read yet, for who embeds all of it; else see `manifest`."""
    model: Any
    """The job's model behind its store: `StoredEmbeddings` or `StoredAnswers`, whichever the task needs."""
    open_split: Callable[[str], Manifest]
    """Lists another split of the same dataset; the task names those that it needs in ``splits``."""
    output: Path
    """Where the result goes; what else a task leaves goes beside it."""
    open_other: Callable[[str], Any] = no_other
    """Opens a further model of the job by its part in the task: a judge, a reranker."""
    others: Collection[str] = ()
    """The parts for which the job has a further model."""
    device: str = "auto"
    """Where the user wants work to be done: auto, cpu, cuda, ..."""
    on_error: OnError = "fail"
    progress: Progress = field(default_factory=NoProgress)

    @property
    def encoder(self) -> StoredEmbeddings:
        """Return the model of a task that needs an encoder."""
        model: StoredEmbeddings = self.model
        return model

    @property
    def generator(self) -> StoredAnswers:
        """Return the model of a task that needs a generator."""
        model: StoredAnswers = self.model
        return model

    def split(self, name: str) -> Self:
        """Return the same model on another split."""
        return dataclasses.replace(self, listed=self.open_split(name))

    @property
    def manifest(self) -> Manifest:
        """Return the samples with their digests; a dataset that was not read yet is read for it."""
        return self.listed.manifest if isinstance(self.listed, DatasetReading) else self.listed

    @property
    def info(self) -> DatasetInfo:
        """Describe the dataset."""
        return self.listed.info

    @property
    def language(self) -> str:
        """Return the language of this job."""
        return self.listed.info.language


@dataclass(frozen=True)
class Prediction:
    """What every task's prediction holds: the samples that count, in order."""

    rows: ClassVar[tuple[str, ...]] = ()
    """The fields that hold one row per sample."""

    info: DatasetInfo
    entries: tuple[Entry, ...]
    failures: tuple[Failure, ...]

    @property
    def left_out(self) -> Collection[str]:
        """Name the samples that are not meant to be scored, such as queries without any relevant document."""
        return ()

    @property
    def counts(self) -> Mapping[str, int]:
        """Return further counts for the result."""
        return {}

    def only(self, keep: NDArray[np.int64]) -> Self:
        """Return the prediction for the samples at the positions ``keep``, to be scored alone."""
        own = {name: _take(getattr(self, name), keep) for name in ("entries", *self.rows)}
        return dataclasses.replace(self, failures=(), **own)


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
    needs: ClassVar[Role] = "encoder"
    """The kind of model that it works with."""
    measures: ClassVar[str] = ""
    """What it measures, in a word: tables group and average benchmarks by it. By default the task's own name."""
    records: ClassVar[RecordForm] = ""
    """What its records show, for the report."""

    instead_of_splits: ClassVar[str] = ""
    """What to do where a further split that the task reads does not exist."""
    min_success: ClassVar[float] = 0.0
    """The share of the samples that must neither fail nor be unreadable, unless the user says otherwise."""
    roles: ClassVar[Mapping[str, Role]] = {}
    """The further models that it can work with: the part of each and the kind of model that it takes."""

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - for those that have some
        """Pick this task's settings from all options and check them."""
        return {}

    def controls(
        self,
        options: Mapping[str, Any],  # noqa: ARG002 - for those that have some
        settings: Mapping[str, Any],  # noqa: ARG002
    ) -> Mapping[str, Mapping[str, Any]]:
        """Return the settings of further jobs that a job is measured against, by a word that their results get."""
        return {}

    def others(self, options: Mapping[str, Any]) -> Mapping[str, ModelSpec]:  # noqa: ARG002 - for those that have some
        """Pick the further models from all options, by their parts."""
        return {}

    def form_of(self, info: DatasetInfo) -> RecordForm:  # noqa: ARG002 - the dataset may matter
        """Return what the records of a dataset show."""
        return self.records

    def code(self) -> str:
        """Digest the code of a task of the user's own: when it changes, so may the numbers."""
        own = not type(self).__module__.startswith("eyechart.")
        return code_digest(type(self)) if own else ""

    def keeps(self, answer: Answer) -> bool:
        """Tell whether an answer of the job's generator is worth storing; the next run generates the others again."""
        return not answer.error

    def is_whole(self, facts: Mapping[str, Any], details: Mapping[str, Any]) -> bool:  # noqa: ARG002 - most have no more
        """Tell whether a result has all that it can get, and the files that belong to it are untouched."""
        return True

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

    def model_options(self, family: str) -> dict[str, Any]:  # noqa: ARG002 - for those that want some
        """Return what this task needs of a model of a family beyond what the user said."""
        return {}

    def uses_model(self, settings: Mapping[str, Any]) -> bool:  # noqa: ARG002 - for those that may do without
        """Tell whether the model has anything to do; one that has nothing to do need not be there."""
        return True

    def check_family(self, family: Any) -> None:  # noqa: B027 - for those that do not take every family
        """Refuse a family whose models cannot do this task, before anything expensive."""

    def reads(self, output: Path, settings: Mapping[str, Any]) -> tuple[Path, ...]:  # noqa: ARG002 - for few
        """Name the files that the numbers are made of besides the dataset: their content is part of the identity."""
        return ()

    @abstractmethod
    def predict(self, material: Material, settings: Mapping[str, Any]) -> Any:
        """Embed or generate what the score needs; return a `Prediction`."""

    @abstractmethod
    def score(self, prediction: Any, settings: Mapping[str, Any]) -> Outcome:
        """Compute metrics and records."""


def _take(rows: Any, keep: NDArray[np.int64]) -> Any:
    return rows[keep] if isinstance(rows, np.ndarray) else tuple(rows[i] for i in keep)


def need_samples(prediction: Prediction) -> None:
    """Refuse to make a number out of nothing."""
    if not prediction.entries:
        raise DataError(
            f"{prediction.info.name}: none of the {len(prediction.failures)} samples could be used.",
            advice=f"The first failed with: {prediction.failures[0].reason}" if prediction.failures else "",
        )
