"""``run_task``: EvalScope's RAGEval backend, with results that are returned and stored."""

import argparse
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from eyechart.compat.evalscope.schema import CAPTION, ClipEval, VisionModel
from eyechart.compat.evalscope.task_config import TaskConfig
from eyechart.compat.evalscope.translate import Translation, translate
from eyechart.errors import DataError, EyechartError, UsageError, errors_on
from eyechart.estimate import estimate_requests
from eyechart.io.config_files import read_file
from eyechart.io.files import write_atomic
from eyechart.io.progress import DATES, FORMAT, Progress, choose_progress, run_log
from eyechart.io.secrets import redact_settings, refuse_misplaced, secrets_in
from eyechart.messages import Surface
from eyechart.outputs import CONFIG, LOG, RunFolder
from eyechart.provenance import provenance
from eyechart.report.retrieval_comparison import write_comparison
from eyechart.results import Result
from eyechart.results.views import spent_lines
from eyechart.run import JobReport, probe_servers, results_of, run_or_skip
from eyechart.session import Session
from eyechart.tasks.image_caption import data_folder

CONFIG_KEYS = Surface(
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
"""Config keys of the settings that the command line names as flags."""


def run_task(task_cfg: object, progress: Progress | None = None) -> list[Result]:
    """Run one or several configs and return all results, in their order.

    Results are also written to ``<work_dir>/<model>/<dataset>_<task>.json``, with the records of each sample next to
    them, the config (without keys) in ``configs/task_config.yaml`` and a log in ``logs/eval_log.log``.

    Args:
        task_cfg: A dict as in EvalScope's documentation, the path of a YAML or JSON file, a `TaskConfig`, or a list of
            these.
        progress: Receiver of progress; by default the terminal, if ``verbose`` is set.

    Raises:
        UsageError: Before any work, if a config is invalid.
        EyechartError: The first error of a job, after all other jobs are done and saved.
    """
    return results_of(list(run_configs(read_configs(task_cfg), progress)))


def read_configs(task_cfg: object) -> list[TaskConfig]:
    """Return the configs of `run_task`'s argument, or of an argparse namespace, in the given order.

    A UsageError has one line for each invalid setting, and the nearest name for an unknown one.
    """
    if isinstance(task_cfg, TaskConfig):
        return [task_cfg]
    if isinstance(task_cfg, argparse.Namespace):
        return read_configs({key: value for key, value in vars(task_cfg).items() if value is not None})
    if isinstance(task_cfg, str | Path):
        refuse_misplaced({"task_cfg": str(task_cfg)})
        return read_configs(read_file(Path(task_cfg)))
    if isinstance(task_cfg, list | tuple):
        if not task_cfg:
            raise UsageError("Empty list of configs.")
        return [config for entry in task_cfg for config in read_configs(entry)]
    if isinstance(task_cfg, Mapping):
        return [TaskConfig.model_validate(dict(task_cfg))]
    raise UsageError(
        "run_task expects a dict, a path, a TaskConfig or a list of these, not {type}.", type=type(task_cfg).__name__
    )


def run_configs(configs: Sequence[TaskConfig], progress: Progress | None = None) -> Iterator[JobReport]:
    """Translate all configs, probe their servers, then run their jobs in sequence.

    Nothing is loaded, requested or written before everything is planned. Errors name settings by their config keys.
    """
    with errors_on(CONFIG_KEYS), ExitStack() as stack:
        stamped = {config.folder: not (config.no_timestamp or config.use_cache) for config in configs}
        folders = {folder: RunFolder(folder, timestamp=timestamp) for folder, timestamp in stamped.items()}
        plans = translate(configs, folders)
        evals = [config.eval_config.eval for config in configs]
        verbose = any(one.verbose if isinstance(one, ClipEval) else one.verbosity > 0 for one in evals)
        shown = progress or choose_progress(quiet=not verbose)
        session = Session(shown)
        secrets = [secret for config in configs for secret in secrets_in(config.model_dump())]
        logs: dict[Path, logging.Logger] = {}
        for folder, target in folders.items():
            logs[folder] = stack.enter_context(run_log(target.root / LOG, shown, secrets))
            write_config([config for config in configs if config.folder == folder], target.root / CONFIG)
            logs[folder].info("Config written to %s", target.root / CONFIG)
        runs = [(config.debug, logs[config.folder], plan) for config, plan in zip(configs, plans, strict=True)]
        for debug, log, plan in runs:
            if debug:
                _note_plan(log, plan)
        for _, log, plan in runs:
            with _logged(log):
                if not plan.dry_run:
                    probe_servers(plan.jobs, session, skip_existing=plan.skip_existing)
        lost: set[Path] = set()
        for debug, log, plan in runs:
            with _logged(log):
                for report in _reports(plan, session, lost):
                    _note(log, report, debug=debug)
                    yield report
                for table in () if plan.dry_run else plan.comparisons:
                    text = write_comparison(table, lost)
                    if text:
                        log.info("Comparison written to %s.md\n%s", table.base, text)


def _reports(plan: Translation, session: Session, lost: set[Path]) -> Iterator[JobReport]:
    """Run the jobs; in a dry run, only estimate the cost of captions.

    ``lost`` collects outputs and caption folders that were not written: files of an earlier run are not read instead.
    """
    for job in plan.jobs:
        if plan.dry_run:
            if job.task == CAPTION:
                yield JobReport(job, result=estimate_requests(job, session))
            continue
        if Path(job.dataset.root).resolve() in lost:
            error = DataError(
                "Retrieval skipped: the captions in {root} are missing or incomplete.", root=job.dataset.root
            )
            report = JobReport(job, error=error)
        else:
            report = run_or_skip(job, session, skip_existing=plan.skip_existing)
        folder = data_folder(job.output)
        # Captions are saved elsewhere if an earlier run wrote more of them.
        saved = report.result.facts.get("save_path") if report.result is not None else None
        if report.error is not None or (saved is not None and Path(str(saved)) != folder):
            lost |= {job.output, folder.resolve()}
        yield report


def write_config(configs: Sequence[TaskConfig], path: Path) -> None:
    """Write configs as YAML without keys; several of one folder as a list."""
    import yaml

    plain = [redact_settings(config.model_dump(exclude_unset=True)) for config in configs]
    content = yaml.safe_dump(plain if len(plain) > 1 else plain[0], allow_unicode=True, sort_keys=False)
    write_atomic(path, content.encode("utf-8", "surrogatepass"))


@contextmanager
def _logged(log: logging.Logger) -> Iterator[None]:
    """Log any error that ends the run."""
    try:
        yield
    except EyechartError as error:
        error.show_on(CONFIG_KEYS)
        log.error("%s", error)  # noqa: TRY400 - a usage error needs no traceback
        raise
    except Exception:
        log.exception("Unexpected error")
        raise


def _note_plan(log: logging.Logger, plan: Translation) -> None:
    """Log the plan: versions, and each job in full. Keys are not part of a job."""
    log.debug("Environment: %s", provenance())
    for job in plan.jobs:
        models = {"model": job.model.what, **{part: spec.what for part, spec in job.extra_models.items()}}
        data = {**job.dataset.source, "limit": job.dataset.limit}
        planned = {**models, "data": data, "task": job.task, "settings": dict(job.settings)}
        log.debug("Planned: %s", redact_settings(planned))
        log.debug("Output: %s", job.output)


def _note(log: logging.Logger, report: JobReport, *, debug: bool) -> None:
    """Log the outcome of a job in EvalScope's words; with ``debug``, errors with their traceback."""
    result, title = report.result, report.job.title
    if result is not None and report.skipped:
        log.info("Skip %s, exists already.", report.job.output)
    elif result is not None:
        if "save_path" in result.facts:
            log.info("Write files to %s", result.facts["save_path"])
        shown = {key: getattr(result, key) for key in ("dataset", "model", "task")}
        log.info("Evaluation results: %s", {**shown, "metrics": {**result.facts, **result.metrics}})
        for line in spent_lines(result.details):
            log.info("%s: %s", title, line)
        for notice in result.notices:
            log.warning("%s: %s", title, notice["message"])
        if result.failures:
            log.warning("%d samples failed, the first: %s", len(result.failures), dict(result.failures[0]))
        if result.path is not None:
            log.info("Dump results to: %s", result.path)
    if report.error is not None:
        report.error.show_on(CONFIG_KEYS)
        log.error("%s: %s", title, report.error, exc_info=report.error if debug else None)


def get_logger(
    log_file: str | None = None,
    name: str = "evalscope",
    log_level: int = logging.INFO,
    file_mode: str = "w",
    force: bool = False,
    **others: object,  # noqa: ARG001 - later versions have more
) -> logging.Logger:
    """Return a script's logger, which writes to standard error; configured on first use, or again with ``force``.

    Runs log to `run_log` instead.
    """
    logger = logging.getLogger(name)
    if logger.handlers and not force:
        return logger
    logger.handlers.clear()
    logger.setLevel(log_level)
    logger.propagate = False
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if log_file:
        handlers.append(logging.FileHandler(log_file, file_mode, encoding="utf-8"))
    for handler in handlers:
        handler.setFormatter(logging.Formatter(FORMAT.format(name=name), DATES))
        logger.addHandler(handler)
    return logger


__all__ = ["get_logger", "read_configs", "run_configs", "run_task", "write_config"]
