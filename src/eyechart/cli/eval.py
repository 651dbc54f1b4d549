"""``eyechart eval``: the flags of ``clip_benchmark eval``, with its names, defaults and meaning, and our own."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eyechart.run import JobReport
    from eyechart.session import Session
    from eyechart.types import Job

from eyechart.errors import UsageError
from eyechart.io.terminal import write_message

LEFT_OPEN = argparse.SUPPRESS
"""The default of flags that are filled in later, by ``--like`` or by `Config`: only then is it known who gave them."""
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


CUPL = "cupl_prompts.json"
"""CLIP_benchmark's file of texts that a language model wrote for each class of ImageNet."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    _what(parser)
    _model(parser)
    _how(parser)
    _prompts(parser)
    _where(parser)
    _probe(parser)
    _questions(parser)


def _what(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to evaluate on")
    add = group.add_argument
    add("--dataset", nargs="+", default=["cifar10"], help="names, paths, collections, or text files with one a line")
    add("--dataset_root", default="root", help="folder; {dataset} and {dataset_cleaned} are replaced")
    add("--split", "--test_split", dest="split", default="test", help="which part of the dataset")
    add("--task", nargs="+", default=["auto"], help="one or several; auto reads the dataset's description")
    add("--task_option", nargs="+", default=[], metavar="KEY=VALUE", help="what tasks take and no flag gives")
    add("--language", nargs="+", default=["en"], help="languages of class names and captions")
    add("--limit", type=int, help="score only the first N samples")
    add("--encoding", default="", help="of the text files of a dataset of your own, if not UTF-8: gbk, utf-16, ...")
    add("--annotation_file", default="", help="annotation file of a named retrieval dataset")
    add(
        "--caption_cleaning",
        default=LEFT_OPEN,
        help="clean captions: internvl (lower case, no punctuation, 50 words), none",
    )
    add("--wds_cache_dir", help="where downloaded datasets are kept")
    add("--dataset_hub", choices=["huggingface", "modelscope"], help="where named datasets come from (default: --hub)")
    add("--offline", action="store_true", help="fetch nothing, use what is in the cache")
    add("--catalogue", nargs="+", default=[], help="TOML files with datasets and collections of your own")


def _model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which models")
    add = group.add_argument
    add("--model", nargs="+", default=[], help="architecture, folder, hub id, python:module:factory")
    add("--pretrained", nargs="+", default=[], help="tags, checkpoints, folders or hub ids (open_clip: laion400m_e32)")
    add("--pretrained_model", nargs="+", default=[], help="'model,pretrained' pairs, collections, or files of them")
    add_model_flags(group)
    add("--compile", action="store_true", help="compile the towers with torch.compile")
    precisions = ["auto", "fp32", "fp16", "bf16", "amp", "half"]
    add("--precision", default=LEFT_OPEN, choices=precisions, help="auto is fp32; half is fp16 on a GPU, else fp32")
    amp = group.add_mutually_exclusive_group()
    amp.add_argument("--amp", dest="amp", action="store_true", help="same as --precision amp")
    amp.add_argument("--no_amp", dest="no_amp", action="store_true", help="same as --precision fp32")


def add_model_flags(group: argparse._ArgumentGroup) -> None:
    """Declare the flags that say how a model is found and loaded."""
    add = group.add_argument
    add("--model_type", help="model family, or python:module:factory; without it, found out from the model")
    add("--model_cache_dir", help="where weights are kept")
    add("--revision", help="revision of a hub model")
    add("--hub", choices=["huggingface", "modelscope"], help="where hub ids come from (default: huggingface)")
    add("--trust-remote-code", "--trust_remote_code", action="store_true", help="run code that a hub model brings")
    add("--model_option", nargs="+", default=[], metavar="KEY=VALUE", help="options of single model families")
    add("--device", default="auto", help="auto, cpu, cuda:1; several with commas")


def _how(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how")
    add = group.add_argument
    add(
        "--like",
        choices=["eyechart", "clip_benchmark", "internvl"],
        help="whose defaults hold; for its own models, internvl's",
    )
    add("--recall_k", nargs="+", type=int, default=LEFT_OPEN, help="k of retrieval recall@k (default: 5)")
    add("--metrics", default="default", choices=["default", "full"], help="full adds the less common ones")
    add("--caption_prompt", help="what captioning and image_caption tell a model that takes prompts")
    add("--prompt_role", choices=["user", "system"], help="who says the prompt of image_caption (default: user)")
    add("--reranker", default="", help="text retrieval: cross-encoder that orders anew what the encoder found")
    add("--group_by", nargs="+", default=[], help="metadata columns: figures by group and of the worst group")
    add("--batch_size", type=int, default=64, help="images or texts per forward pass")
    add("--num_workers", type=int, default=4, help="threads that read and decode")
    add("--on-error", "--on_error", dest="on_error", default="fail", choices=["fail", "skip"], help="broken images")
    add("--min-success", "--min_success", type=float, help="share of samples that must not be lost, else exit code 1")
    add("--seed", type=int, default=0, help="seed of everything random")
    add("--quiet", action="store_true", help="print errors only: no progress, no table, no notes")
    add("--profile", action="store_true", help="show where the time went (it is in every result)")
    add("--verbose", action="store_true", help=argparse.SUPPRESS)
    add("--not", dest="negated", choices=["quiet"], help=argparse.SUPPRESS)
    add("--distributed", action="store_true", help="share the jobs between the ranks of torchrun or Slurm")
    add("--engine", default="local", choices=["local", "ray"], help="where the work runs")
    add("--ray-address", help="an existing Ray cluster; without it, one is started on this machine")
    add("--processes", type=int, help="embed in this many processes on this machine, one per GPU")
    add("--ray-workers", type=int, help="how many workers; by default one per GPU, else per CPU")


def _prompts(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("class names and prompts")
    add = group.add_argument
    add("--custom_classname_file", help="JSON by dataset name, or one name a line")
    templates = group.add_mutually_exclusive_group()
    templates.add_argument("--custom_template_file", help="JSON by dataset name, or one template with {c} a line")
    templates.add_argument(
        "--cupl", dest="custom_template_file", action="store_const", const=CUPL, help=f"the same with {CUPL}"
    )
    add("--allow-blank-classnames", action="store_true", help="accept empty class names")
    add("--merge-duplicate-classes", action="store_true", help="join classes of the same name")
    add(
        "--empty_classes",
        default=LEFT_OPEN,
        choices=["leave_out", "zero"],
        help="what a class without positives does to the mean AP (default: leave_out)",
    )
    add("--prompt_sensitivity", default="auto", choices=["auto", "yes", "no"], help="accuracy of each template alone")
    add("--dump_classnames", action="store_true", help="write class names into the result")
    add("--dump_templates", action="store_true", help="write templates into the result")
    add("--save_clf", help="write the text classifier to this file")
    add("--load_clfs", nargs="+", default=[], help="average these text classifiers instead of encoding prompts")


def _where(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("results")
    add = group.add_argument
    add("--output", help="result file, a template: {dataset}, {pretrained}, {model}, {language}, {task}")
    add("--append", action=argparse.BooleanOptionalAction, default=LEFT_OPEN, help="keep several results, one a line")
    add(
        "--thumbnails",
        type=int,
        default=LEFT_OPEN,
        metavar="N",
        help="keep small images of the N worst mistakes, for reports (default: 48 of your own data, else 0)",
    )
    add("--skip_existing", action="store_true", help="do not repeat jobs whose result is there")


def _probe(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("tasks that learn from a training split")
    add = group.add_argument
    add("--train_split", nargs="+", default=["train"], help="where the probe learns, one or one per dataset")
    validation = group.add_mutually_exclusive_group()
    validation.add_argument("--val_split", nargs="+", help="where weight decay is chosen")
    validation.add_argument(
        "--val_proportion", nargs="+", type=float, help="share of the training data used for that instead"
    )
    add("--folds", type=int, metavar="K", help="without a training split: learn from K-1 parts, score the other")
    add("--fewshot_k", type=int, default=-1, help="images per class, -1 for all")
    add("--fewshot_epochs", type=int, default=10, help="epochs")
    add("--fewshot_lr", type=float, default=0.1, help="learning rate")
    add("--fewshot_curve", nargs="+", type=int, help="also learn from these numbers of images per class")
    add("--fewshot_repeats", type=int, default=3, help="draws of few images whose spread is told")
    add(
        "--fewshot_draw",
        default=LEFT_OPEN,
        choices=["eyechart", "clip_benchmark"],
        help="whose random order the images are taken in (default: eyechart)",
    )
    add("--knn_k", type=int, default=20, help="neighbours that vote in the task knn")
    add("--normalize", nargs="?", type=_flag, const=True, default=True, help="scale features to unit length")
    add("--feature_root", default="features", help="accepted; features live in the embedding store")
    add("--skip_load", action="store_true", help="accepted; stored features are always used")


def _questions(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("questions to generative models")
    add = group.add_argument
    add("--mode", default="all", choices=["all", "infer", "eval"], help="ask and score, only ask, only score")
    add("--api_base", default="", help="address of an OpenAI-compatible server, up to /v1 (--model_type api)")
    add("--api_key_variable", help="environment variable with its key; else EYECHART_API_KEY, OPENAI_API_KEY")
    add("--concurrency", type=int, default=8, help="requests at the same time")
    add("--timeout", type=float, default=300.0, help="seconds for one answer")
    add("--tries", type=int, default=6, help="how often a failing request is sent")
    add("--prices", default="", metavar="FILE", help="TOML or JSON: what a million tokens of each model cost")
    add("--temperature", type=float, help="sampling temperature; the server's or greedy if not given")
    add("--max_tokens", type=int, help="longest answer")
    add("--system_prompt", default="", help="put before every question")
    add("--extractor", default="vlmeval", choices=["vlmeval", "strict"], help="which rules read an answer")
    add("--metric", default="", help="how open answers of your own table are compared")
    add("--repeats", type=int, default=1, help="ask everything this often: mean, variance, pass@k, worst@k, vote@k")
    add(
        "--blind",
        nargs="?",
        default="",
        const="no_images",
        choices=["no_images", "swapped"],
        help="ask everything once more without the images, or with those of other questions",
    )
    add(
        "--judge",
        nargs="+",
        default=["exact_matching"],
        help="models that read what no rule can read, of several the majority decides; exact_matching asks nobody",
    )
    add("--judge_type", nargs="+", default=["api"], help="model family of the judges, one or one for each")
    add("--judge_api_base", nargs="+", default=[""], help="address of the judges' server, one or one for each")
    add("--judge_key_variable", help="environment variable with the judge's key")
    add("--judge_prompts", default="", metavar="FILE", help="what judges are asked: a TOML file, or vlmeval")
    add("--judge_repeats", type=int, default=1, help="how often each judge judges each answer")
    add("--judge_temperature", type=float, default=0.0, help="sampling temperature of the judges")
    add("--human_verdicts", default="", metavar="FILE", help="what people say of some answers: index and correct")
    add("--judge_fallback", default="", choices=["", "exact_matching"], help="what scores if the judge does not answer")
    add("--no_xlsx", dest="xlsx", action="store_false", help="write predictions as JSON lines only")


def _flag(text: str) -> bool:
    """Read a boolean as people mean it: ``--normalize False`` is false."""
    if text.lower() in _TRUE + _FALSE:
        return text.lower() in _TRUE
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def option_of(text: str) -> tuple[str, Any]:
    """Read ``key=value``; true, false and numbers are meant as such."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"{text!r} is not KEY=VALUE.", advice="Write --model_option and --task_option like that.")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


_NOT_SETTINGS = {
    "command",
    "profile",
    "quiet",
    "verbose",
    "negated",
    "amp",
    "no_amp",
    "distributed",
    "feature_root",
    "skip_load",
    "engine",
    "ray_address",
    "ray_workers",
    "processes",
}
"""What is for this command alone."""


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """Turn parsed flags into the settings of `eyechart.config.Config`."""
    from eyechart.config import Config, QuestionSettings

    given = {key: value for key, value in vars(args).items() if key not in _NOT_SETTINGS}
    model_options = dict(option_of(text) for text in given.pop("model_option"))
    own_options = dict(option_of(text) for text in given.pop("task_option"))
    questions = {key: given.pop(key) for key in QuestionSettings.model_fields}
    values = {key: given.pop(key) for key in Config.model_fields if key in given}
    values |= {"model_options": model_options, "questions": questions, "task_options": given | own_options}
    if args.amp or args.no_amp:
        values["precision"] = "amp" if args.amp else "fp32"
    return values


def _check_engine(args: argparse.Namespace) -> None:
    """Refuse numbers of workers that are none, and flags of an engine that was not asked for."""
    for flag in ("processes", "ray_workers"):
        count = getattr(args, flag)
        if count is not None and count < 1:
            raise UsageError(f"--{flag.replace('_', '-')} must be 1 or more, not {count}.")
    if args.engine == "ray" and args.processes:
        raise UsageError("--processes is for one machine, --engine ray for a cluster.", advice="Leave one of them out.")
    if args.engine != "ray" and (args.ray_address or args.ray_workers):
        raise UsageError("--ray-address and --ray-workers need --engine ray.")


def _start(args: argparse.Namespace, jobs: list[Job], session: Session) -> Iterator[JobReport]:
    """Hand the jobs to the engine that was asked for."""
    skip = args.skip_existing
    if args.engine == "ray":
        from eyechart.engine.ray import run_on_ray

        return run_on_ray(jobs, session, skip_existing=skip, address=args.ray_address, workers=args.ray_workers)
    if args.processes:
        from eyechart.engine.processes import run_in_processes

        return run_in_processes(jobs, session, skip_existing=skip, count=args.processes)
    from eyechart.run import run_jobs

    return run_jobs(jobs, session, skip_existing=skip)


def run(args: argparse.Namespace) -> int:
    """Plan, run, and show a table."""
    from eyechart.cli.show import MOST, show_profiles, show_reports
    from eyechart.config import make_config
    from eyechart.datasets.registry import OpenDatasets
    from eyechart.io.progress import choose_progress
    from eyechart.io.progress_file import ProgressFile
    from eyechart.plan import plan_jobs
    from eyechart.session import Session

    _check_engine(args)
    config = make_config(settings_of(args))
    datasets = OpenDatasets()
    jobs = plan_jobs(config, lambda line: write_message(f"{line}\n", sys.stderr), datasets)
    if args.distributed:
        from eyechart.engine.ranks import rank_and_size, share_of

        jobs = share_of(jobs, *rank_and_size())
    if args.engine == "ray" and len({job.output for job in jobs}) < len(jobs):
        raise UsageError(
            "--engine ray: several machines cannot safely add lines to one file.",
            advice="Put {dataset}, {model}, {pretrained}, {language} or {task} into --output.",
        )
    reports = []
    folder = jobs[0].output.parent if jobs else Path()
    with ProgressFile(choose_progress(quiet=args.quiet), folder, len(jobs)) as progress:
        for number, report in enumerate(_start(args, jobs, Session(progress, datasets=datasets)), 1):
            # Of thousands of results that are there already, no more are kept in memory than the table will show.
            reports.append(replace(report, result=None) if report.skipped and number > MOST else report)
            progress.job_done(skipped=report.skipped)
            ended = "skipped, done before" if report.skipped else f"-> {report.job.output}"
            state = "failed" if report.error else ended
            progress.say(f"[{number}/{len(jobs)}] {report.job.title}: {state}")
            if report.error:
                write_message(f"{report.error}\n", sys.stderr)
    show_reports(reports, quiet=args.quiet)
    if args.profile:
        show_profiles([report.result for report in reports if report.result and not report.skipped])
    return 1 if any(report.error for report in reports) else 0
