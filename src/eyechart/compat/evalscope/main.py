"""``run_task``: what EvalScope's RAGEval backend does with a config, with results that are returned and kept."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from eyechart.compat.evalscope import ClipConfig, TaskConfig, read_configs
from eyechart.compat.evalscope.comparison import write_comparison
from eyechart.compat.evalscope.estimate import estimate
from eyechart.compat.evalscope.layout import CONFIG, LOG, Layout
from eyechart.compat.evalscope.log import run_log
from eyechart.compat.evalscope.probe import probe_servers
from eyechart.compat.evalscope.schema import CAPTION, ClipEval, VisionModel
from eyechart.compat.evalscope.secrets import redacted, secrets_in
from eyechart.compat.evalscope.translate import Translation, Translator
from eyechart.errors import DataError, EyechartError
from eyechart.io.files import write_atomic
from eyechart.io.progress import Progress, choose_progress
from eyechart.io.wording import Wording
from eyechart.provenance import provenance
from eyechart.results import Result
from eyechart.results.spent import spent_lines
from eyechart.run import JobReport, results_of, run_or_skip
from eyechart.session import Session
from eyechart.tasks.captions.image_caption import data_folder

CONFIG_KEYS = Wording(
    {
        **{name: name for name in (*ClipEval.model_fields, *VisionModel.model_fields)},
        "dataset": "dataset_name",
        "dataset_root": "data_dir",
        "dataset_hub": "hub",
        "model": "model_name",
        "output": "work_dir",
        "caption_prompt": "prompt",
        "wds_cache_dir": "cache_dir",
    },
    "{name}: {value}",
)
"""How a config calls what the command line calls flags."""


def run_task(task_cfg: object, progress: Progress | None = None) -> list[Result]:
    """Run one or several configs and return all results, in their order.

    Results are also written to ``<work_dir>/<model>/<dataset>_<task>.json``, with the records of each sample beside
    them, the config (without keys) in ``configs/task_config.yaml`` and a log in ``logs/eval_log.log``.

    Args:
        task_cfg: A dict as EvalScope's documentation prints it, the path of a YAML or JSON file, a `TaskConfig`, or a
            list of these.
        progress: Where progress is shown; by default on the terminal, if ``verbose`` is set and there is one.

    Raises:
        UsageError: Before any work, if something in a config cannot work.
        EyechartError: The first error of a job, after all other jobs have been done and saved.
    """
    return results_of(list(run_configs(read_configs(task_cfg), progress)))


def run_configs(configs: Sequence[TaskConfig], progress: Progress | None = None) -> Iterator[JobReport]:
    """Translate all configs, see that their servers are there, then run their jobs one after the other.

    Nothing is loaded, asked or written before everything is planned. Errors speak of the keys of a config.
    """
    with CONFIG_KEYS.spoken():
        yield from _run_configs(configs, progress)


def _run_configs(configs: Sequence[TaskConfig], progress: Progress | None) -> Iterator[JobReport]:
    stamped = {config.folder: not (config.no_timestamp or config.use_cache) for config in configs}
    layouts = {folder: Layout(folder, timestamp=timestamp) for folder, timestamp in stamped.items()}
    translator = Translator()
    plans = [(config.folder, translator.translate(config, layouts[config.folder])) for config in configs]
    shown = progress or choose_progress(quiet=not any(_is_verbose(config) for config in configs))
    session = Session(shown)
    secrets = [secret for config in configs for secret in secrets_in(config.model_dump())]
    with ExitStack() as stack:
        logs: dict[Path, logging.Logger] = {}
        for folder, layout in layouts.items():
            logs[folder] = stack.enter_context(run_log(layout.root / LOG, shown, secrets))
            write_config([config for config in configs if config.folder == folder], layout.root / CONFIG)
            logs[folder].info("Config written to %s", layout.root / CONFIG)
        for config, (folder, plan) in zip(configs, plans, strict=True):
            if config.debug:
                _note_plan(logs[folder], plan)
        for folder, plan in plans:
            with _logged(logs[folder]):
                probe_servers(plan, session)
        lost: set[Path] = set()
        for config, (folder, plan) in zip(configs, plans, strict=True):
            with _logged(logs[folder]):
                yield from map(partial(_note, logs[folder], debug=config.debug), _reports(plan, session, lost))
                for table in () if plan.dry_run else plan.comparisons:
                    write_comparison(table, lost, logs[folder])


def _reports(plan: Translation, session: Session, lost: set[Path]) -> Iterator[JobReport]:
    """Do the jobs; or only estimate what captions would cost.

    Args:
        plan: The jobs.
        session: What they share.
        lost: Gets the results and folders of captions that were not written. An older run may have left others there,
            which nobody may read in their place.
    """
    for job in plan.jobs:
        if plan.dry_run:
            if job.task == CAPTION:
                yield JobReport(job, result=estimate(job, session))
            continue
        if Path(job.dataset.root).resolve() in lost:
            error = DataError(f"The captions in {job.dataset.root} are missing or incomplete: they are not searched.")
            report = JobReport(job, error=error)
        else:
            report = run_or_skip(job, session, skip_existing=plan.skip_existing)
        if report.error is not None or _is_elsewhere(report):
            lost |= {job.output, data_folder(job.output).resolve()}
        yield report


def _is_elsewhere(report: JobReport) -> bool:
    """Tell whether captions were put beside those of an earlier run, which were more."""
    saved = report.result.facts.get("save_path") if report.result is not None else None
    return saved is not None and Path(str(saved)) != data_folder(report.job.output)


def write_config(configs: Sequence[TaskConfig], path: Path) -> None:
    """Write configs as YAML without their keys; several of one folder as a list."""
    import yaml

    plain = [redacted(config.model_dump(exclude_unset=True)) for config in configs]
    content = yaml.safe_dump(plain if len(plain) > 1 else plain[0], allow_unicode=True, sort_keys=False)
    write_atomic(path, content.encode("utf-8", "surrogatepass"))


@contextmanager
def _logged(log: logging.Logger) -> Iterator[None]:
    """Write whatever ends the run into the log before it goes on its way."""
    try:
        yield
    except EyechartError as error:
        log.error("%s", CONFIG_KEYS.of(str(error)))  # noqa: TRY400 - an error of the user's needs no traceback
        raise
    except Exception:
        log.exception("The run ends here.")
        raise


def _note_plan(log: logging.Logger, plan: Translation) -> None:
    """Log all that is known before the first job: versions, and each job in full. Keys are not part of a job."""
    log.debug("Made with: %s", provenance())
    for job in plan.jobs:
        models = {"model": job.model.what, **{part: spec.what for part, spec in job.others.items()}}
        data = {**job.dataset.source, "limit": job.dataset.limit}
        log.debug("Planned: %s", redacted({**models, "data": data, "task": job.task, "settings": dict(job.settings)}))
        log.debug("Its result goes to %s", job.output)


def _note(log: logging.Logger, report: JobReport, *, debug: bool = False) -> JobReport:
    """Log what became of a job, in EvalScope's words; with ``debug`` also where an error comes from."""
    result = report.result
    if report.error is not None:
        CONFIG_KEYS.reword(report.error)
    if result is not None and report.skipped:
        log.info("Skip %s, exists already.", report.job.output)
    elif result is not None:
        if "save_path" in result.facts:
            log.info("Write files to %s", result.facts["save_path"])
        shown = {key: getattr(result, key) for key in ("dataset", "model", "task")}
        log.info("Evaluation results: %s", {**shown, "metrics": {**result.facts, **result.metrics}})
        for line in spent_lines(result.details):
            log.info("%s: %s", report.job.title, line)
        for notice in result.notices:
            log.warning("%s: %s", report.job.title, notice["message"])
        if result.failures:
            log.warning("%d samples failed, the first: %s", len(result.failures), dict(result.failures[0]))
        if result.path is not None:
            log.info("Dump results to: %s", result.path)
    if report.error is not None:
        log.error("%s: %s", report.job.title, report.error, exc_info=report.error if debug else None)
    return report


def _is_verbose(config: TaskConfig) -> bool:
    inner = config.eval_config
    return inner.eval.verbose if isinstance(inner, ClipConfig) else inner.eval.verbosity > 0


__all__ = ["run_configs", "run_task", "write_config"]
