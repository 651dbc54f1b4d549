"""One model on one generative benchmark: ask, write down, score, save."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from eyechart.config import Config
from eyechart.errors import DataError, EyechartError, ModelError, UsageError
from eyechart.inference.answers import StoredAnswers
from eyechart.io.progress import Progress
from eyechart.manifest import Failure
from eyechart.metrics.cells import as_text
from eyechart.provenance import provenance
from eyechart.results import Result, write_result
from eyechart.types import Job, Metric, ModelCard, Notice, digest_json
from eyechart.vlm.base import ImageBaseDataset
from eyechart.vlm.benchmarks import known_benchmarks
from eyechart.vlm.connect import open_generator, stored_judge
from eyechart.vlm.custom import build_dataset
from eyechart.vlm.evaluation import rows_of
from eyechart.vlm.foreign import own_evaluation
from eyechart.vlm.outcome import Outcome, make_outcome
from eyechart.vlm.plan import access_of, judge_spec, short_name
from eyechart.vlm.predict import Predictions, predict, prediction_file, write_predictions
from eyechart.vlm.python_models import PythonGenerator
from eyechart.vlm.scoring import EXACT, Scored, score


class Questionnaire:
    """Runs the jobs of one model; it is loaded once, and only if a question has no stored answer."""

    def __init__(self, config: Config, progress: Progress) -> None:
        self.config, self.progress = config, progress
        self._answers: StoredAnswers | None = None

    def answers(self, job: Job) -> StoredAnswers:
        """Return the model behind its stored answers."""
        if self._answers is None or self._answers.generator.spec != job.model:
            self._answers = open_generator(job.model, access_of(self.config, self.config.questions.api_key_variable))
        return self._answers

    def run(self, job: Job) -> Result:
        """Ask, write down, score and save."""
        start = time.perf_counter()
        options = self.config.questions
        dataset = build_dataset(_name_to_open(job), metric=options.metric)
        notices = list(dataset.notices)
        card: ModelCard | None = None
        if options.mode == "eval":
            runs = [_stored_predictions(job, dataset, repeat) for repeat in range(options.repeats)]
        else:
            answers, runs = self.answers(job), []
            for repeat in range(options.repeats):
                made = _ask_all(job, dataset, answers, repeat, self.config, self.progress)
                notices += write_predictions(made, job.output, repeat, xlsx=options.xlsx)
                runs.append(made)
            card = answers.card
        notices += _cut_answers(runs)
        _check_failures(job, dataset, runs)
        outcome = _score(job, dataset, runs, self.config)
        seconds = time.perf_counter() - start
        result = _result(job, dataset, runs, outcome, card, [*notices, *outcome.notices], seconds)
        return write_result(result, outcome.records, job.output)


def _name_to_open(job: Job) -> str:
    """Return the benchmark's name, or the path of a table of one's own."""
    return job.dataset.name if job.dataset.name in known_benchmarks() else job.dataset.root or job.dataset.name


def _ask_all(
    job: Job, dataset: ImageBaseDataset, answers: StoredAnswers, repeat: int, config: Config, progress: Progress
) -> Predictions:
    total = len(dataset.data.rows[: job.dataset.limit])
    with progress.step(f"asking {job.dataset.name}", total) as bar:
        return predict(
            dataset,
            lambda prompts: answers.ask(prompts, repeat),
            limit=job.dataset.limit,
            system=config.questions.system_prompt,
            custom=_custom_prompt(job, dataset, answers),
            tick=bar.advance,
        )


def _custom_prompt(job: Job, dataset: ImageBaseDataset, answers: StoredAnswers) -> Callable[[Any], Any] | None:
    """Return the model's own way to ask, which only Python classes have."""
    if job.model.family != "python":
        return None
    generator = answers.generator.load()
    if not isinstance(generator, PythonGenerator):
        return None
    return generator.custom_prompt(job.dataset.name, dataset.dump_image)


def _stored_predictions(job: Job, dataset: ImageBaseDataset, repeat: int) -> Predictions:
    """Read the predictions of an earlier run: the JSON lines, else a spreadsheet, ours or VLMEvalKit's."""
    files = [prediction_file(job.output, repeat, suffix) for suffix in (".jsonl", ".xlsx", ".tsv")]
    file = next((path for path in files if path.is_file()), None)
    if file is None:
        raise DataError(
            f"There are no predictions to score: {files[0]} does not exist.", advice="Run with --mode infer first."
        )
    rows = {as_text(row["index"]): row for row in rows_of(dataset, file)}
    wanted = [as_text(row["index"]) for row in dataset.data.rows[: job.dataset.limit]]
    lost = [index for index in wanted if index not in rows]
    kept = [rows[index] for index in wanted if index in rows]
    return Predictions(kept, [Failure(index, f"no prediction in {file.name}") for index in lost])


def _cut_answers(runs: Sequence[Predictions]) -> list[Notice]:
    cut = sum(row.get("finish_reason") == "length" for run in runs for row in run.rows)
    message = f"{cut} answers were cut at the longest answer (--max_tokens): what they end in may be missing."
    return [Notice("cut_answers", cut, message)] if cut else []


def _check_failures(job: Job, dataset: ImageBaseDataset, runs: Sequence[Predictions]) -> None:
    failures = [failure for run in runs for failure in run.failures]
    if failures and (job.on_error == "fail" or not any(run.rows for run in runs)):
        first = failures[0]
        raise ModelError(
            f"{dataset.dataset_name}: {len(failures)} questions have no answer; the first: {first.id}: {first.reason}",
            advice="The others are kept: run the same command to ask only these again, "
            "or use --on-error skip to score without them.",
        )


def _score(job: Job, dataset: ImageBaseDataset, runs: Sequence[Predictions], config: Config) -> Outcome:
    options = config.questions
    if options.mode == "infer":
        answered = sum(len(run.rows) for run in runs)
        asked = answered + sum(len(run.failures) for run in runs)
        return Outcome({"answered": Metric(answered / asked if asked else 0.0, n=asked)}, [], [], {})
    judge_name = {} if options.judge == EXACT else {"model": options.judge, "api_base": options.judge_api_base}
    if type(dataset).evaluate is not ImageBaseDataset.evaluate:
        return own_evaluation(dataset, [prediction_file(job.output, i, "") for i in range(len(runs))], runs, judge_name)
    scored, notices = _scored(dataset, runs, config)
    return make_outcome(scored, runs, notices)


def _scored(
    dataset: ImageBaseDataset, runs: Sequence[Predictions], config: Config
) -> tuple[list[Scored], list[Notice]]:
    options = config.questions
    benchmark = dataset.benchmark
    if options.judge == EXACT:
        return [score(run.rows, benchmark, extractor=options.extractor) for run in runs], []
    judge = stored_judge(judge_spec(options), access_of(config, options.judge_key_variable))
    try:
        return [score(run.rows, benchmark, extractor=options.extractor, judge=judge) for run in runs], []
    except EyechartError as error:
        if options.judge_fallback != EXACT or isinstance(error, UsageError | DataError) or benchmark.needs_judge:
            raise
        note = Notice("judge_failed", 1, f"The judge {judge.name} failed ({error.message}): scored by {EXACT} instead.")
        return [score(run.rows, benchmark, extractor=options.extractor) for run in runs], [note]


def _result(
    job: Job,
    dataset: ImageBaseDataset,
    runs: Sequence[Predictions],
    outcome: Outcome,
    card: ModelCard | None,
    notices: Sequence[Notice],
    seconds: float,
) -> Result:
    failures = [failure for run in runs for failure in run.failures]
    listed = len(dataset.data.rows[: job.dataset.limit])
    prompts = [(as_text(row["index"]), row.get("prompt"), row.get("images")) for row in runs[0].rows]
    return Result(
        dataset=dataset.dataset_name,
        model=short_name(job.model.name),
        pretrained="",
        task=job.task,
        language=job.dataset.language,
        values=outcome.metrics,
        counts={"listed": listed, "scored": listed - len({f.id for f in failures}) - outcome.unscored}
        | {"failed": len({f.id for f in failures}), "unscored": outcome.unscored, "repeats": len(runs)},
        notices=tuple(dataclasses.asdict(notice) for notice in notices),
        failures=tuple(dataclasses.asdict(failure) for failure in failures),
        details=outcome.details,
        model_card=dataclasses.asdict(card) | {"fingerprint": card.fingerprint} if card else {},
        data={
            "fingerprint": digest_json(prompts),
            "kind": dataset.TYPE,
            "source": job.dataset.root or job.dataset.name,
            "prompts_digest": digest_json([prompt for _, prompt, _ in prompts]),
        },
        provenance=provenance() | {"seconds": round(seconds, 3)},
        job={"digest": job.digest, "settings": dict(job.settings), "on_error": job.on_error}
        | {"model_type": job.model.family, "reader": job.dataset.reader, "limit": job.dataset.limit},
    )
