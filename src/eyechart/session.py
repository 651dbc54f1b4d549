"""What the jobs of one run share: stores, opened datasets, manifests, and the models that are in memory."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from dataclasses import dataclass, field
from pathlib import Path

from eyechart import __version__
from eyechart.datasets.registry import OpenDatasets
from eyechart.inference.answers import StoredAnswers
from eyechart.inference.embeddings import StoredEmbeddings
from eyechart.inference.rerank import StoredReranker
from eyechart.io.digests import file_digest, remember_digests
from eyechart.io.files import cache_root
from eyechart.io.progress import NoProgress, Progress
from eyechart.io.stopwatch import Stopwatch
from eyechart.manifest import DatasetReading, Manifest
from eyechart.models.lazy import LazyModel
from eyechart.models.registry import open_model
from eyechart.store.answers import ResponseStore
from eyechart.store.vectors import EmbeddingStore, store_place
from eyechart.tasks.base import Task
from eyechart.types import DatasetSpec, Fetchable, Given, Job, ModelSpec, Role, digest_json

Stored = StoredEmbeddings | StoredAnswers | StoredReranker
MAX_READINGS = 32
"""Manifests that are kept for the next model; a manifest holds ids and captions, not images."""


@dataclass
class Session:
    """Shared by all jobs of a run in one process."""

    progress: Progress = field(default_factory=NoProgress)
    store: EmbeddingStore = field(default_factory=lambda: EmbeddingStore(store_place()))
    datasets: OpenDatasets = field(default_factory=OpenDatasets)
    answers: ResponseStore = field(default_factory=lambda: ResponseStore(cache_root() / "responses"))
    _signatures: dict[str, str | None] = field(default_factory=dict)
    _readings: dict[str, DatasetReading] = field(default_factory=dict)
    _unsigned: dict[str, list[DatasetReading]] = field(default_factory=dict)
    _models: dict[str, LazyModel] = field(default_factory=dict)
    _passing: dict[str, EmbeddingStore] = field(default_factory=dict)
    _full: tuple[ModelSpec, EmbeddingStore] | None = None

    def model(self, spec: ModelSpec, role: Role, part: str = "") -> LazyModel:
        """Return a model, once; the one before it in the same part is dropped, as two may not fit into memory."""
        place = f"{role} {part}"
        known = self._models.get(place)
        if known is None or known.spec != spec or (known.spec.access != spec.access and known.remote):
            self._models.pop(place, None)
            self._models[place] = open_model(spec, role)
        return self._models[place]

    def behind_store(self, job: Job, task: Task, watch: Stopwatch, part: str = "") -> Stored:
        """Return the model of a job, or its model for a further part, with the store in front of it."""
        spec, role = (job.others[part], task.roles[part]) if part else (job.model, task.needs)
        model = self.model(spec, role, part)
        if role == "generator":
            return StoredAnswers(model, self.answers) if part else self.generator(job, task)
        if role == "reranker":
            return StoredReranker(model, self.answers)
        return StoredEmbeddings(
            model,
            self.passing_store(spec.given) if spec.given else self.store,
            half=job.half,
            full=self._store_in_full(spec) if job.half and not part else None,
            batch_size=job.batch_size,
            grow=job.grow,
            workers=job.workers,
            decode_processes=job.decode_processes,
            on_error=job.on_error,
            progress=self.progress,
            watch=watch,
        )

    def passing_store(self, given: Given) -> EmbeddingStore:
        """Return a store for the vectors of an object: of this one alone, and gone at the end of the session."""
        if given.token not in self._passing:
            self._passing[given.token] = self._temporary_store()
        return self._passing[given.token]

    def _store_in_full(self, spec: ModelSpec) -> EmbeddingStore:
        """Return a store for what a model gives before it is rounded; that of the model before it is emptied."""
        if self._full is None or self._full[0] != spec:
            if self._full is not None:
                shutil.rmtree(self._full[1].root, ignore_errors=True)
            self._full = spec, self._temporary_store()
        return self._full[1]

    def _temporary_store(self) -> EmbeddingStore:
        folder = Path(tempfile.mkdtemp(prefix="eyechart-vectors-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return EmbeddingStore(folder)

    def generator(self, job: Job, task: Task) -> StoredAnswers:
        """Return the generator of a job, with the store in front of it."""
        return StoredAnswers(self.model(job.model, "generator"), self.answers, good=task.keeps)

    def manifest(self, job: Job, split: str | None = None) -> Manifest:
        """Read a dataset once, however many models and tasks use it; another split is always read whole."""
        return self.reading(job, split).manifest

    def reading(self, job: Job, split: str | None = None) -> DatasetReading:
        """Look through a dataset once; its images are read by who needs them first."""
        spec = job.dataset if split is None else job.dataset.other_split(split)
        key = digest_json([spec.source, spec.limit, job.on_error, job.settings.get("prompts")])
        if key not in self._readings:
            if len(self._readings) >= MAX_READINGS:
                self._readings.pop(next(iter(self._readings)))
            dataset = self.datasets.open(spec)
            if isinstance(dataset, Fetchable):
                dataset.fetch(self.progress)
            reading = DatasetReading(dataset, limit=spec.limit, on_error=job.on_error, progress=self.progress)
            self._readings[key] = reading
            source = digest_json(spec.source)
            if reading.done or not reading.settled:
                self.signature(spec)
            elif source not in self._signatures:
                # The signature is made of the digests: they are known when the images have been read.
                self._unsigned.setdefault(source, []).append(reading)
        return self._readings[key]

    def signature(self, spec: DatasetSpec) -> str | None:
        """Return what changes when the data do; None if they changed while they were read."""
        key = digest_json(spec.source)
        if key not in self._signatures:
            now = self.datasets.open(spec).signature()
            changed = [reading.changed() for reading in self._unsigned.pop(key, ())]
            self._signatures[key] = None if any(changed) else now
            remember_digests()
        return self._signatures[key]

    def identity(self, job: Job, task: Task) -> dict[str, str | None]:
        """Return what a job is made from now; None for what is not known without doing it."""
        specs = [job.dataset, *map(job.dataset.other_split, task.splits(job.settings))]
        models = [self.model(job.model, task.needs).identity] if task.uses_model(job.settings) else [""]
        data = [self.signature(spec) for spec in specs]
        read = task.reads(job.place, job.settings)
        models += [self.model(spec, task.roles[part], part).identity for part, spec in job.others.items()]
        return {
            "settings": job.digest,
            "model": None if None in models else digest_json(models),
            "data": None if None in data else digest_json([*data, *map(_content, read)]),
            "code": digest_json([__version__, job.task, task.version, task.code()]),
        }


def _content(path: Path) -> str:
    return file_digest(path).hex() if path.is_file() else ""
