"""State shared by the jobs of a run: caches, opened datasets, manifests and loaded models."""

import shutil
import tempfile
import weakref
from dataclasses import dataclass, field
from pathlib import Path

from eyechart import __version__
from eyechart.datasets.registry import OpenDatasets
from eyechart.inference.answers import CachedGenerator, CachedReranker
from eyechart.inference.embeddings import CachedEncoder
from eyechart.io.digests import code_digest, file_digest, remember_digests
from eyechart.io.files import cache_root
from eyechart.io.progress import NoProgress, Progress
from eyechart.io.stopwatch import Stopwatch
from eyechart.manifest import DatasetScan, Manifest
from eyechart.models.access import access_of
from eyechart.models.lazy_model import LazyModel
from eyechart.models.registry import open_model
from eyechart.plugins import declared_identity
from eyechart.store.answer_store import ResponseStore
from eyechart.store.vector_store import EmbeddingStore, store_place
from eyechart.tasks.base import Task
from eyechart.types import PIPELINE, DatasetSpec, Fetchable, Job, ModelSpec, Role, digest_json

Stored = CachedEncoder | CachedGenerator | CachedReranker
MAX_READINGS = 32
"""Maximum number of manifests kept for the next model; a manifest has ids and captions, not images."""


@dataclass
class Session:
    """Shared state of all jobs of a run in one process."""

    progress: Progress = field(default_factory=NoProgress)
    store: EmbeddingStore = field(default_factory=lambda: EmbeddingStore(store_place()))
    datasets: OpenDatasets = field(default_factory=OpenDatasets)
    answers: ResponseStore = field(default_factory=lambda: ResponseStore(cache_root() / "responses"))
    _signatures: dict[str, str | None] = field(default_factory=dict)
    _readings: dict[str, DatasetScan] = field(default_factory=dict)
    _unsigned: dict[str, list[DatasetScan]] = field(default_factory=dict)
    _models: dict[str, LazyModel] = field(default_factory=dict)
    _ephemeral_stores: dict[str, EmbeddingStore] = field(default_factory=dict)

    def model(self, spec: ModelSpec, role: Role, part: str = "") -> LazyModel:
        """Open a model; the previous model in the same part is dropped, as two may not fit into memory."""
        place = f"{role} {part}"
        known = self._models.get(place)
        if known is None or known.spec != spec or (known.spec.access != spec.access and known.remote):
            self._models.pop(place, None)
            self._models[place] = open_model(spec, role)
            self._models[place].progress = self.progress
        return self._models[place]

    def cached_model(self, job: Job, task: Task, watch: Stopwatch, part: str = "") -> Stored:
        """Wrap the job's model, or its extra model for a part, in its cache."""
        spec, role = (job.extra_models[part], task.roles[part]) if part else (job.model, task.needs)
        model = self.model(spec, role, part)
        if role == "generator":
            return CachedGenerator(model, self.answers)
        if role == "reranker":
            return CachedReranker(model, self.answers)
        store = self.store
        refresh = model.remote and access_of(spec).since is not None  # stored vectors have no date
        if spec.given or refresh:  # vectors of an in-memory model are deleted at the end of the session as well
            token = spec.given.token if spec.given else digest_json(spec.what)
            if token not in self._ephemeral_stores:
                folder = Path(tempfile.mkdtemp(prefix="eyechart-vectors-"))
                weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
                self._ephemeral_stores[token] = EmbeddingStore(folder)
            store = self._ephemeral_stores[token]
        return CachedEncoder(model, store, job.encoding, on_error=job.on_error, progress=self.progress, watch=watch)

    def manifest(self, job: Job, split: str | None = None) -> Manifest:
        """Read a dataset once for all models and tasks; other splits are read without a limit."""
        return self.reading(job, split).manifest

    def reading(self, job: Job, split: str | None = None) -> DatasetScan:
        """Scan a dataset once; its images are read on first use."""
        spec = job.dataset if split is None else job.dataset.other_split(split)
        key = digest_json([spec.source, spec.limit, job.on_error, job.settings.get("prompts")])
        if key not in self._readings:
            if len(self._readings) >= MAX_READINGS:
                self._readings.pop(next(iter(self._readings)))
            dataset = self.datasets.open(spec)
            if isinstance(dataset, Fetchable):
                dataset.fetch(self.progress)
            reading = DatasetScan(dataset, limit=spec.limit, on_error=job.on_error, progress=self.progress)
            self._readings[key] = reading
            source = digest_json(spec.source)
            if reading.done or not reading.settled:
                self.signature(spec)
            elif source not in self._signatures:
                # The signature depends on digests that are known once the images have been read.
                self._unsigned.setdefault(source, []).append(reading)
        return self._readings[key]

    def signature(self, spec: DatasetSpec) -> str | None:
        """Return the signature of a dataset; None if its files changed while they were read."""
        key = digest_json(spec.source)
        if key not in self._signatures:
            now = self.datasets.open(spec).signature()
            changed = [reading.changed() for reading in self._unsigned.pop(key, ())]
            self._signatures[key] = None if any(changed) else now
            remember_digests()
        return self._signatures[key]

    def identity(self, job: Job, task: Task) -> dict[str, str | None]:
        """Compute the job's cache key parts; None where a part is only known after running."""
        settings = task.settings_of(job)
        models = [self.model(job.model, task.needs).identity] if settings.uses_model else [""]
        data = [self.signature(spec) for spec in (job.dataset, *map(job.dataset.other_split, settings.splits))]
        reads = task.reads(job.place, settings)
        files = [file_digest(path, weights=True).hex() if path.is_file() else "" for path in reads]
        models += [self.model(spec, task.roles[part], part).identity for part, spec in job.extra_models.items()]
        ours, declared = type(task).__module__.startswith("eyechart."), declared_identity(task)
        user_code = [] if ours else [declared, code_digest(type(task))]
        code = [__version__, dict(PIPELINE), job.task, task.version, *user_code]
        return {
            "settings": job.digest,
            "model": None if None in models else digest_json(models),
            "data": None if None in data else digest_json([*data, *files]),
            "code": None if None in user_code else digest_json(code),
        }
