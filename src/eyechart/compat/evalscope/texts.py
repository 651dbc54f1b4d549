"""Text retrieval on a folder: one encoder, and perhaps a reranker behind it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eyechart.compat.evalscope.context import Context
from eyechart.compat.evalscope.text_models import PlannedText
from eyechart.datasets.text_collection import collection_files, read_collection
from eyechart.errors import EyechartError
from eyechart.inference.embeddings import StoredEmbeddings
from eyechart.io.digests import digest_bytes
from eyechart.metrics.vectors import Vectors
from eyechart.models.rerankers.reranker import Reranker, Shortlist
from eyechart.provenance import provenance
from eyechart.results import Result, is_done, read_result, write_result
from eyechart.run import JobReport
from eyechart.tasks import text_retrieval
from eyechart.tasks.text_retrieval import NAME, Ints, Questions, Ranking
from eyechart.types import DatasetSpec, Job, ModelCard, Notice, Outcome, TextCollection, digest_json


@dataclass(frozen=True)
class Stage:
    """What one evaluation is called and where its result goes."""

    label: str
    output: Path


@dataclass(frozen=True)
class TextStep:
    """An encoder on one folder, alone and then with each reranker: one result each."""

    name: str
    """What results call the dataset."""
    folder: Path
    split: str
    encoder: PlannedText
    rerankers: tuple[PlannedText, ...]
    stages: tuple[Stage, ...]
    """The encoder alone, then with each reranker."""
    limit: int | None = None
    top_k: int = 10
    skip_existing: bool = False
    dry_run: bool = False
    extra: tuple[tuple[str, Any], ...] = ()
    """What else the results shall say, such as who wrote the captions."""

    def probe(self, context: Context) -> None:  # noqa: ARG002 - the protocol's signature
        """See that remote models are there."""
        for model in (self.encoder, *self.rerankers):
            if not self.dry_run:
                model.probe()

    def run(self, context: Context) -> Iterator[JobReport]:
        """Encode, rank, score, save; then the same in each reranker's order."""
        if self.dry_run:
            return
        job = self._job(0, "")
        try:
            data = _signature(self.folder, self.split)
            jobs = [self._job(stage, data) for stage in range(len(self.stages))]
            if self.skip_existing and all(is_done(job)[0] for job in jobs):
                yield from (JobReport(job, result=read_result(job.output), skipped=True) for job in jobs)
            else:
                for job, result in self._results(jobs, context):
                    yield JobReport(job, result=result)
        except EyechartError as error:
            yield JobReport(job, error=error)

    def _results(self, jobs: list[Job], context: Context) -> Iterator[tuple[Job, Result]]:
        start = time.perf_counter()
        collection = read_collection(self.folder, self.split)
        asked = text_retrieval.questions(collection, self.limit)
        embeddings = self.encoder.embeddings(context)
        vectors = self._vectors(embeddings, asked, collection)
        ranking = text_retrieval.rank_all(asked, *vectors)
        found = _Found(collection, asked, ranking, embeddings.card, tuple(embeddings.notices()))
        yield jobs[0], self._save(jobs[0], found, start)
        items = text_retrieval.shortlist(*vectors, self.top_k) if self.rerankers else None
        for job, planned in zip(jobs[1:], self.rerankers, strict=True):
            if items is not None:
                start = time.perf_counter()
                reranker = planned.reranker(context)
                again = self._rerank(reranker, planned.entry.prompt or "", found, items, context)
                yield job, self._save(job, replace(found, ranking=again, reranker=reranker.card), start)

    def _vectors(
        self, embeddings: StoredEmbeddings, asked: Questions, collection: TextCollection
    ) -> tuple[Vectors, Vectors]:
        queries = self.encoder.with_prompt("query", [query.text for query in asked.queries])
        documents = self.encoder.with_prompt("document", [document.text for document in collection.documents])
        return embeddings.texts(queries), embeddings.texts(documents)

    def _rerank(self, reranker: Reranker, prompt: str, found: _Found, items: Ints, context: Context) -> Ranking:
        documents = found.collection.documents
        lists = [
            Shortlist(str(i), prompt + query.text, tuple(documents[item].text for item in row))
            for i, (query, row) in enumerate(zip(found.asked.queries, items, strict=True))
        ]
        scores = np.empty(items.shape)
        with context.session.progress.step(f"reranking {self.name}", len(lists)) as bar:
            for name, row in reranker.score(lists):
                scores[int(name)] = row
                bar.advance()
        return text_retrieval.rank_lists(found.asked, items, scores)

    def _job(self, stage: int, data: str) -> Job:
        """Describe one evaluation: everything that can change its numbers."""
        settings: dict[str, Any] = {
            "task_version": text_retrieval.VERSION,
            "prompts": self.encoder.prompts,
            "encoder": self.encoder.name,
            "data": data,
        }
        if stage:
            second = self.rerankers[stage - 1]
            settings |= {"top_k": self.top_k, "reranker": second.name, "reranker_prompt": second.entry.prompt}
            settings["reranker_digest"] = digest_json(asdict(second.spec))
        spec = replace(self.encoder.spec, name=self.stages[stage].label)
        dataset = DatasetSpec(self.name, "text_collection", str(self.folder), self.split, limit=self.limit)
        return Job(spec, dataset, NAME, settings, self.stages[stage].output)

    def _save(self, job: Job, found: _Found, start: float) -> Result:
        outcome = text_retrieval.score(found.asked, found.ranking, found.collection)
        notices = [*found.notices, *outcome.notices]
        if found.reranker is not None:
            text = f"Only the first {self.top_k} documents are ordered anew: metrics beyond that k are of those."
            notices.append(Notice("reranked_depth", self.top_k, text))
        result = _result(job, found, outcome, notices, time.perf_counter() - start)
        result = replace(result, details={**result.details, **dict(self.extra)})
        return write_result(result, outcome.records, job.output)


@dataclass(frozen=True)
class _Found:
    """What one stage gave."""

    collection: TextCollection
    asked: Questions
    ranking: Ranking
    card: ModelCard
    notices: tuple[Notice, ...]
    reranker: ModelCard | None = None


def _result(job: Job, found: _Found, outcome: Outcome, notices: list[Notice], seconds: float) -> Result:
    details = dict(outcome.details)
    if found.reranker is not None:
        details["reranker"] = asdict(found.reranker) | {"fingerprint": found.reranker.fingerprint}
    scored, left_out = len(found.asked.queries), found.asked.left_out
    return Result(
        dataset=job.dataset.name,
        model=job.model.name,
        pretrained="",
        task=job.task,
        language=job.dataset.language,
        values=outcome.metrics,
        counts={"listed": scored + left_out, "scored": scored, "left_out": left_out},
        notices=tuple(asdict(notice) for notice in notices),
        details=details,
        model_card=asdict(found.card) | {"fingerprint": found.card.fingerprint},
        data={
            "fingerprint": job.settings["data"],
            "split": job.dataset.split,
            "kind": "text",
            "source": job.dataset.root,
        },
        provenance=provenance() | {"seconds": round(seconds, 3), "precision": found.card.precision},
        job={
            "digest": job.digest,
            "settings": dict(job.settings),
            "model_type": job.model.family,
            "limit": job.dataset.limit,
        },
    )


def _signature(folder: Path, split: str) -> str:
    """Digest the files of a folder."""
    files = collection_files(folder, split)
    return digest_json([digest_bytes(path.read_bytes()).hex() if path.is_file() else None for path in files])
