"""Repeat published numbers on this machine, and measure a device against the CPU."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from eyechart.benchmarks import benchmark_name
from eyechart.config import make_config
from eyechart.engine.workers import CHUNK_BATCHES, run_on_this_machine
from eyechart.errors import EyechartError, ModelError, UsageError, unknown_name
from eyechart.inference.pipeline import BatchBackoff
from eyechart.io.progress import Progress
from eyechart.io.stopwatch import Stopwatch
from eyechart.messages import UserMessage
from eyechart.metrics.vectors import unit
from eyechart.models.registry import open_model
from eyechart.models.towers.precision import measure
from eyechart.models.towers.torch_tools import choose_devices, limited_memory
from eyechart.plan import plan_jobs
from eyechart.provenance import compute_facts, provenance
from eyechart.report.reference import Publication
from eyechart.results.result import Result
from eyechart.results.views import primary_of
from eyechart.run import results_of
from eyechart.session import Session
from eyechart.tasks.registry import load_task
from eyechart.types import Job

SAMPLES = 256
"""Samples on which precisions and devices are compared."""
SAME = 1e-6
"""Tolerance of a published mean: CLIP_benchmark averages in float32."""
FLOAT32_SCORES, FLOAT32_VECTORS = 1e-5, 1e-4
"""Largest differences of similarities and of unit vectors between machines that compute in float32."""
HALF = "fp16"
"""The usual precision of published numbers: CLIP_benchmark runs under autocast on a GPU."""
BATCH_BYTES = 64 << 20
"""Size of the batch that does not fit into memory: more than an allocator keeps in reserve."""
EQUAL, WITHIN, DIFFERENT = VERDICTS = ("equal", "within precision", "different")
Records = Sequence[Mapping[str, Any]]


def near_samples(records: Records, drift: float, *, correct: bool) -> int:
    """Count the correct (or wrong) predictions that may turn around if every score drifts by at most ``drift``.

    That needs a margin between the predicted class and its rival of at most twice the drift.
    """
    chosen = [one for one in records if one["correct"] == correct and len(one["scores"]) > 1]
    rivals = (one["scores"][1] if correct else one["label_score"] for one in chosen)
    return sum(one["scores"][0] - rival <= 2 * drift for one, rival in zip(chosen, rivals, strict=True))


def score_drift(plain: Records, other: Records) -> float:
    """Return the largest difference between the scores of the same images and classes."""
    tops = [[dict(zip(one["top"], one["scores"], strict=True)) for one in side] for side in (plain, other)]
    pairs = zip(*tops, strict=True)
    return max((abs(a[c] - b[c]) for a, b in pairs for c in a.keys() & b.keys()), default=0.0)


@dataclass(frozen=True)
class _Run:
    """A finished evaluation, with the unit vectors of its images."""

    result: Result
    records: list[dict[str, Any]]
    vectors: Any
    images_per_second: float | None


@dataclass(frozen=True)
class SelfTest:
    """Repeats the published numbers of one model.

    ``device`` is measured against the CPU; with None, numbers are only repeated, on any device.
    """

    model: str
    datasets: Sequence[str]
    published_as: str
    publications: Sequence[Publication]
    dataset_root: str | None
    device: str | None
    progress: Progress

    def run(self) -> dict[str, Any]:
        """Run everything; return the figures as JSON values."""
        published = {dataset: self._published(dataset) for dataset in self.datasets}
        if self.device:
            choose_devices(self.device)  # refuses one that is not there
        numbers, best = [], []
        for dataset, found in published.items():
            run = self._evaluate(dataset, fresh=self.device is not None)
            drift, note = self._drift(dataset, run)
            rows = [compare_number(book, theirs, run.result, run.records, drift) for book, theirs in found]
            more = {"drift": drift, "drift_note": note, "images_per_second": run.images_per_second}
            numbers += [row | more for row in rows]
            best.append(min((row["verdict"] for row in rows), key=VERDICTS.index))
        hardware = self._hardware() if self.device else {}
        failed = [name for name, part in hardware.items() if part["passed"] is False]
        verdict = DIFFERENT if failed else max(best, key=VERDICTS.index)
        body = {"selftest": 1, "verdict": verdict, "failed": failed, "model": self.published_as, "numbers": numbers}
        environment = {key: value for key, value in provenance().items() if key != "command"}
        return body | {"hardware": hardware, "environment": environment}

    def _published(self, dataset: str) -> list[tuple[Publication, Result]]:
        """Return the published results of the model on a dataset, at least one."""
        english = (
            (book, one.result) for book in self.publications for one in book.found if one.result.language == "en"
        )
        rows = [(":".join(filter(None, (row.model, row.pretrained))), book, row) for book, row in english]
        mine = [(book, row) for label, book, row in rows if label.lower() == self.published_as.lower()]
        if not mine:
            advice = UserMessage("Give the name of the model in the tables as {--published_as}.")
            raise unknown_name("published model", self.published_as, {label for label, *_ in rows}, advice=advice)
        wanted = benchmark_name(dataset)
        found = [(book, row) for book, row in mine if benchmark_name(row.dataset) == wanted]
        if not found:
            raise unknown_name("published dataset", wanted, {benchmark_name(row.dataset) for _, row in mine})
        return found

    def _plan(self, dataset: str, session: Session, **settings: Any) -> Job:
        values: dict[str, Any] = {"model": [self.model], "dataset": [dataset]}
        values |= {"dataset_root": self.dataset_root} if self.dataset_root else {}
        values |= {"device": self.device.partition(",")[0]} if self.device else {}
        return plan_jobs(make_config(values | settings), session.progress.say, session.datasets)[0]

    def _evaluate(self, dataset: str, *, fresh: bool = True, **settings: Any) -> _Run:
        """Evaluate the model as `eyechart.evaluate` does; a fresh run computes all vectors."""
        session = Session(self.progress)
        with TemporaryDirectory(prefix="eyechart-selftest-") as folder, _empty_store(wanted=fresh):
            job = self._plan(dataset, session, output=f"{folder}/{{task}}.json", **settings)
            (result,) = results_of(list(run_on_this_machine([job], session)))
            encoder: Any = session.cached_model(job, load_task(job.task), Stopwatch())
            records, seconds = list(result.iter_records()), result.provenance["profile"].get("encode images")
            speed = round(len(records) / seconds, 2) if seconds else None
            return _Run(result, records, unit(encoder.images(session.reading(job)).vectors), speed)

    def _drift(self, dataset: str, run: _Run) -> tuple[float, str]:
        """Measure how far half precision moves the scores of the first samples; a note says why it cannot be."""
        try:
            other = self._evaluate(dataset, limit=SAMPLES, precision=HALF)
            return max(FLOAT32_SCORES, score_drift(run.records[: len(other.records)], other.records)), ""
        except (EyechartError, KeyError) as error:  # a family without half precision, a task without scores
            return FLOAT32_SCORES, str(error)

    def _hardware(self) -> dict[str, Any]:
        """Measure drift, out-of-memory back-off and several devices against the CPU."""
        plain = self._evaluate(self.datasets[0], limit=SAMPLES, device="cpu")
        devices = choose_devices("auto" if self.device == "cuda" else str(self.device))
        body: dict[str, Any] = {
            "devices": {"passed": None, "names": [f"{name} {compute_facts(name)['device_name']}" for name in devices]}
        }
        for precision in ("fp32", "bf16"):
            body[f"drift {precision}"] = self._compare(plain, device=devices[0], precision=precision)
        body["back-off"] = self._backoff(devices[0])
        if len(devices) > 1:
            # Small batches, so that every device gets some.
            size = max(1, len(plain.records) // (CHUNK_BATCHES * len(devices)))
            found = body["several devices"] = self._compare(plain, device=",".join(devices), batch_size=size)
            found["passed"] &= found.get("images_per_second") is None  # else this process had to encode images
        return body

    def _compare(self, plain: _Run, **settings: Any) -> dict[str, Any]:
        """Compare vectors and predictions with those of the CPU in float32."""
        judged = settings.get("precision") != "bf16"
        try:
            run = self._evaluate(self.datasets[0], limit=SAMPLES, **settings)
        except EyechartError as error:  # a family may not have bf16
            return {"passed": False if judged else None, "error": str(error)}
        largest = float(np.abs(run.vectors - plain.vectors).max())
        pairs = zip(run.records, plain.records, strict=True)
        return {
            "passed": largest <= FLOAT32_VECTORS if judged else None,
            "samples": len(plain.records),
            "largest_difference": largest,
            "lowest_cosine": measure("", plain.vectors, run.vectors).lowest,
            "changed_predictions": sum(a["prediction"] != b["prediction"] for a, b in pairs),
            "images_per_second": run.images_per_second,
        }

    def _backoff(self, device: str) -> dict[str, Any]:
        """Encode a batch with too little memory for it, but enough for single images."""
        encoder = open_model(self._plan(self.datasets[0], Session(), device=device).model).load()
        noise = np.random.default_rng(0).integers(0, 256, (8, 256, 256, 3), np.uint8)
        batch = [encoder.prepare_image(Image.fromarray(pixels)) for pixels in noise]
        batch *= 1 + BATCH_BYTES // sum(image.nbytes for image in batch)
        plain: Any = unit(BatchBackoff().run(encoder.encode_images, batch))
        body: dict[str, Any] = {"passed": False, "batch": len(batch)}
        for room in (BATCH_BYTES << i >> 4 for i in range(16)):
            backoff = BatchBackoff()
            try:
                with limited_memory(device, room):
                    vectors: Any = unit(backoff.run(encoder.encode_images, batch))
            except (ModelError, MemoryError) as error:
                body["error"] = str(error)
                continue
            largest = float(np.abs(vectors - plain).max())
            passed = largest <= FLOAT32_VECTORS if backoff.size else None  # None: the limit had no effect
            measured = {"bytes": room, "reduced_to": backoff.size, "largest_difference": largest}
            return {"passed": passed, "batch": len(batch), **measured}
        return body


@contextmanager
def _empty_store(*, wanted: bool) -> Iterator[None]:
    """If wanted, give the block a store of its own, child processes included."""
    before = os.environ.get("EYECHART_STORE")
    with TemporaryDirectory(prefix="eyechart-vectors-") as folder:
        os.environ["EYECHART_STORE"] = folder if wanted else before or ""
        try:
            yield
        finally:
            os.environ["EYECHART_STORE"] = before or ""


def compare_number(book: Publication, theirs: Result, ours: Result, records: Records, drift: float) -> dict[str, Any]:
    """Compare a published number with the primary metric of a result.

    It is equal as printed; within precision if rounding and the samples that half precision may decide otherwise
    explain the difference; or different, with a list of causes to check.
    """
    metric, n = primary_of(ours)[0], len(records)
    published = theirs.values[metric].value if metric in theirs.values else None
    measured = ours.values[metric].value
    dataset = benchmark_name(theirs.dataset)
    if published is None or measured is None:
        raise UsageError("{title} has no {metric} of {dataset}.", title=book.title, metric=metric, dataset=dataset)
    near = near_samples(records, drift, correct=measured > published) if metric == "acc1" else 0
    exact, difference = book.half_unit + SAME, abs(measured - published)
    explained = exact + near / n
    verdict = EQUAL if difference <= exact else WITHIN if difference <= explained else DIFFERENT
    where = {"dataset": dataset, "metric": metric, "source": book.title, "samples": n}
    values = {"published": published, "measured": measured, "difference": difference, "rounding": book.half_unit}
    causes = list(_causes(ours)) if verdict == DIFFERENT else []
    card = {"weights_digest": ours.model_card.get("weights_digest", "")}
    return where | values | {"near": near, "explained": explained, "verdict": verdict, "causes": causes} | card


def _causes(result: Result) -> Iterator[str]:
    """Yield what to check if a number differs, with what this run used."""
    listed, split = result.counts["listed"], str(result.data.get("split", ""))
    name = benchmark_name(result.dataset, split=split, samples=listed)
    yield UserMessage("data: {n} samples, split {split}, known as {name}", n=listed, split=split, name=name)
    if found := result.details.get("templates"):
        yield UserMessage("templates: {n}, from {first!r} to {last!r}", n=len(found), first=found[0], last=found[-1])
    if found := result.details.get("classnames"):
        yield UserMessage("class names: {n}, from {first!r} to {last!r}", n=len(found), first=found[0], last=found[-1])
    yield UserMessage("activation: OpenAI's weights need QuickGELU: in open_clip, the tag openai")
    yield UserMessage("preprocessing: {transform}", transform=str(result.model_card.get("transform", ""))[:300])
