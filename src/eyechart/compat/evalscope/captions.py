"""``task: image_caption``: a generator describes every image; the captions become a text retrieval dataset."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eyechart import plugins
from eyechart.api import Usage
from eyechart.compat.evalscope.context import Context
from eyechart.compat.evalscope.estimate import estimate
from eyechart.compat.evalscope.layout import file_name
from eyechart.datasets.text_collection import collection_files, write_collection
from eyechart.errors import EyechartError
from eyechart.inference.answers import StoredAnswers
from eyechart.io.progress import Bar
from eyechart.models.generators.family import Access, GeneratorFamily, LazyGenerator
from eyechart.results import Result, is_done, read_result, write_result
from eyechart.run import JobReport, make_result
from eyechart.store.answers import Responses
from eyechart.tasks import image_caption
from eyechart.types import Answer, Job, Metric, Notice


@dataclass(frozen=True)
class CaptionStep:
    """One generator on one dataset."""

    job: Job
    access: Access
    skip_existing: bool = False
    dry_run: bool = False

    @property
    def label(self) -> str:
        """Return the name of the model's folder: it tells apart two prompts for one model."""
        return self.job.output.parent.name

    @property
    def folder(self) -> Path:
        """Return where the text retrieval data go."""
        return self.job.output.parent / file_name(self.job.dataset.name) / "retrieval_data"

    def generator(self) -> LazyGenerator:
        """Make the generator, not loaded."""
        return LazyGenerator(self.job.model, family_of(self.job), self.access)

    def probe(self, context: Context) -> None:
        """Ask whether the model is there, unless every caption is stored already."""
        if not self.dry_run and not self._done() and self.missing(context):
            family_of(self.job).probe(self.job.model, self.access)

    def missing(self, context: Context) -> list[str]:
        """Return the ids of the images that have no stored caption yet."""
        manifest = context.session.manifest(self.job)
        table = context.responses.table(self.generator().card.fingerprint)
        prompt = self.job.settings["prompt"]
        keys = (image_caption.caption_key(digest.tobytes(), prompt) for digest in manifest.digests)
        return [entry.id for entry, key in zip(manifest.entries, keys, strict=True) if table.get(key) is None]

    def run(self, context: Context) -> Iterator[JobReport]:
        """Caption, write the data and the result; or only estimate."""
        if self.dry_run:
            yield JobReport(self.job, result=self._estimate(context))
        elif self._done():
            yield JobReport(self.job, result=read_result(self.job.output), skipped=True)
        else:
            try:
                yield JobReport(self.job, result=self._caption(context))
            except EyechartError as error:
                yield JobReport(self.job, error=error)

    def _caption(self, context: Context) -> Result:
        start, before = time.perf_counter(), self.access.budget.used
        manifest = context.session.manifest(self.job)
        answers = StoredAnswers(self.generator(), context.responses, good=image_caption.is_caption)
        with context.session.progress.step(f"captions of {manifest.info.name}", len(manifest)) as bar:
            prediction = image_caption.predict(
                manifest, lambda prompts: _advancing(answers.ask(prompts), bar), self.job.settings["prompt"]
            )
        outcome = image_caption.score(prediction)
        collection = image_caption.as_collection(prediction, manifest)
        write_collection(collection, self.folder)
        context.log.info("Write files to %s", self.folder)
        notices = (*manifest.notices, *outcome.notices, *_damage(answers.table))
        profile = {"total": round(time.perf_counter() - start, 4)}
        result = make_result(self.job, manifest, answers.card, prediction, outcome, notices, profile)
        successful = not result.failures
        facts: dict[str, str | bool] = {
            "conversion_successful": successful,
            "convertion_successful": successful,  # as EvalScope's code spells it
            "save_path": str(self.folder),
        }
        details = {
            "prompt": self.job.settings["prompt"],
            "files": _digests(collection_files(self.folder)),
            "documents": len(collection.documents),
            "queries": len(collection.queries),
            "from_store": answers.stored,
            "asked": answers.asked,
            **_spent(before, self.access.budget.used),
        }
        written = write_result(replace(result, facts=facts, details=details), outcome.records, self.job.output)
        self._link()
        return written

    def _link(self) -> None:
        """Show the result in the dataset's folder too, where EvalScope's documentation has it."""
        link = self.folder.parent / self.job.output.name
        with contextlib.suppress(OSError):  # a system without links: the result itself is where it belongs
            link.unlink(missing_ok=True)
            link.symlink_to(Path(os.path.relpath(self.job.output, link.parent)))

    def _done(self) -> bool:
        """Tell whether an earlier run has finished this very job and its files are untouched."""
        if not self.skip_existing or not is_done(self.job)[0]:
            return False
        result = read_result(self.job.output)
        complete = result.facts.get("conversion_successful") is True
        return complete and result.details.get("files") == _digests(collection_files(self.folder))

    def _estimate(self, context: Context) -> Result:
        manifest = context.session.manifest(self.job)
        numbers = estimate(manifest, set(self.missing(context)), self.job)
        return Result(
            dataset=self.job.dataset.name,
            model=self.job.model.name,
            pretrained="",
            task=self.job.task,
            language=self.job.dataset.language,
            values={name: Metric(value) for name, value in numbers.items()},
            facts={"dry_run": True},
            counts={"listed": len(manifest)},
        )


def family_of(job: Job) -> GeneratorFamily:
    """Return the family of a job's generator."""
    family: GeneratorFamily = plugins.load("generators", job.model.family)()
    return family


def _advancing(answers: Iterable[tuple[str, Answer]], bar: Bar) -> Iterator[tuple[str, Answer]]:
    for answer in answers:
        bar.advance()
        yield answer


def _damage(table: Responses) -> Iterator[Notice]:
    if table.damaged:
        text = f"{table.damaged} stored answers in {table.folder} are damaged; those images were asked again."
        yield Notice("damaged_answers", table.damaged, text)


def _spent(before: Usage, after: Usage) -> dict[str, int]:
    """Return what was used in between; every try of a request counts."""
    return {
        "requests": after.requests - before.requests,
        "prompt_tokens": after.prompt_tokens - before.prompt_tokens,
        "completion_tokens": after.completion_tokens - before.completion_tokens,
    }


def _digests(paths: Iterable[Path]) -> dict[str, Any]:
    """Digest files, so that a later run knows whether they are still those that it would write."""
    return {
        f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        for path in paths
    }
