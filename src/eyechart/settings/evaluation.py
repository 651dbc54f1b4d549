"""The settings of an evaluation: data, models, execution and results. Tasks read some of them as well.

Settings shared with ``clip_benchmark eval`` have its names and defaults.
"""

from pathlib import Path
from typing import Any, Literal

from eyechart.messages import UserMessage
from eyechart.settings.declare import PathText, Settings, setting

TOP = "options"
DATA = "data"
MODELS = "models"
HOW = "run"
PROMPTS = "class names and prompts"
RESULTS = "results"
PROBES = "probes (tasks with a training split)"
QUESTIONS = "generative benchmarks"
"""Sections of the help."""
OnError = Literal["fail", "skip"]
CUPL = "cupl_prompts.json"
"""CLIP_benchmark's CuPL file: class descriptions of ImageNet written by a language model."""
Hub = Literal["huggingface", "modelscope"]
PAIRS = ("model_options", "task_options")
"""Settings that are tables in a file and KEY=VALUE on the command line."""


class RecallSettings(Settings):
    """Retrieval: cutoffs, and the rankings of another tool."""

    recall_k: list[int] = setting([5], "k of retrieval recall@k (default: 5)", group=HOW)
    predictions: PathText = setting(
        "", "MMEB: score VLM2Vec's NAME_pred.jsonl, or a folder of them, without a model", group=HOW, record="changed"
    )


class MetricSettings(Settings):
    """Selection of metrics."""

    metrics: Literal["default", "full"] = setting("default", "full adds less common metrics", group=HOW)


class RerankerSettings(Settings):
    """Reranking in retrieval."""

    reranker: str = setting(
        "",
        "text retrieval and collections: cross-encoder that reranks the retrieved documents",
        group=HOW,
        record="never",
    )


class BatchSettings(Settings):
    """Batch size."""

    batch_size: int = setting(64, "images or texts per forward pass (default: 64)", group=HOW, common=True, ge=1)


class SeedSettings(Settings):
    """Random seed."""

    seed: int = setting(0, "random seed", group=HOW)


class ClassifierFileSettings(Settings):
    """Files of zero-shot classifiers."""

    save_clf: PathText | None = setting(
        None, "save the zero-shot classifier to this file", group=PROMPTS, record="changed"
    )
    load_clfs: list[PathText] = setting(
        [], "load and average these classifiers instead of encoding prompts", group=PROMPTS, record="changed"
    )


class TableSettings(Settings):
    """Column names of a custom table, where they differ from the standard ones."""

    group = DATA

    image_column: str = setting("", "image path column of a custom table")
    label_column: str = setting("", "label column of a custom table (classification)")
    caption_column: list[str] = setting([], "caption columns of a custom table (retrieval)")
    id_column: str = setting("", "id column of a custom table (default: line number or image path)")
    split_column: str = setting("", "split column of a custom table, if not named split")
    delimiter: str = setting("", "cell delimiter of a custom table (default: comma, tab, ; or |, detected)")


class DataSettings(TableSettings):
    """Datasets, where they come from, and how they are read."""

    group = DATA

    dataset: list[str] = setting(
        ["cifar10"],
        "names, paths, collections, or text files with one per line",
        common=True,
        metavar="NAME",
        min_length=1,
    )
    dataset_root: PathText = setting(
        "root", "dataset folder; {dataset} and {dataset_cleaned} are replaced", common=True
    )
    split: str = setting("test", "split to evaluate", common=True, flags=("--test-split",))
    task: list[str] = setting(["auto"], "one or more; auto: by the kind of dataset", common=True, min_length=1)
    task_options: dict[str, Any] = setting(
        {}, "task options that have no flag", flag_name="task_option", metavar="KEY=VALUE"
    )
    language: list[str] = setting(["en"], "languages of class names and captions", common=True, min_length=1)
    limit: int | None = setting(None, "evaluate only the first N samples", common=True, ge=1)
    encoding: str = setting("", "encoding of custom text files, if not UTF-8, such as gbk or utf-16")
    annotation_file: PathText = setting("", "annotation file of a named retrieval dataset")
    caption_cleaning: str | dict[str, str] | None = setting(
        None, "caption normalisation: internvl (lower case, no punctuation, 50 words) or none"
    )
    wds_cache_dir: PathText | None = setting(None, "cache folder of downloaded datasets")
    dataset_hub: Hub | None = setting(None, UserMessage("hub that serves named datasets (default: {--hub})"))
    offline: bool = setting(False, "never download; use cached files only", common=True)
    catalogue: list[PathText] = setting([], "TOML files that define additional datasets and collections")


class ModelLoadSettings(Settings):
    """Where a model comes from and how it is loaded."""

    group = MODELS

    model_type: str | None = setting(
        None, "model family, or python:module:factory (default: detected from the model)", common=True
    )
    model_cache_dir: PathText | None = setting(None, "cache folder of model weights")
    revision: str | None = setting(None, "revision of a hub model")
    hub: Hub | None = setting(None, "hub to download from (default: huggingface)", common=True)
    trust_remote_code: bool = setting(False, "run Python code from the model's hub repository")
    model_options: dict[str, Any] = setting(
        {}, "options specific to a model family", flag_name="model_option", metavar="KEY=VALUE"
    )
    device: str = setting("auto", "auto, cpu, cuda:1; comma-separated for one process per device", common=True)


class ModelSettings(ModelLoadSettings):
    """Models and their numerical precision."""

    group = MODELS

    model: list[str] = setting([], "architecture, folder, hub id or python:module:factory", common=True, metavar="NAME")
    pretrained: list[str] = setting(
        [], "tags, checkpoints, folders or hub ids (open_clip: laion400m_e32)", common=True, metavar="TAG"
    )
    """Empty: the model family's default; without any model, open_clip's ViT-B-32-quickgelu and laion400m_e32."""
    pretrained_model: list[str] = setting([], "'model,pretrained' pairs, collections, or files listing them")
    compile: bool | str = setting(False, "compile the model with torch.compile", words=True)
    precision: Literal["auto", "fp32", "fp16", "bf16", "amp", "half"] = setting(
        "auto",
        "auto: fp32; half: fp16 on a GPU, else fp32",
        common=True,
        constants={
            "--amp": ("amp", UserMessage("same as {--precision=amp}")),
            "--no-amp": ("fp32", UserMessage("same as {--precision=fp32}")),
        },
    )


class RunSettings(RecallSettings, MetricSettings, RerankerSettings, BatchSettings, SeedSettings):
    """Execution: defaults, metrics, batching, decoding and error handling."""

    group = HOW

    preset: Literal["eyechart", "clip_benchmark", "internvl"] = setting(
        "eyechart",
        "set of defaults; models named internvl_* default to internvl",
        common=True,
        flags=("--like",),
        aliases=("like",),
    )
    group_by: list[str] = setting([], "metadata columns to group by: metrics per group and for the worst group")
    num_workers: int = setting(4, "reader and decoder threads", common=True, ge=0)
    store_precision: Literal["fp32", "fp16"] | None = setting(
        None,
        "precision of cached vectors, also used for scoring; fp16 halves disk usage (default: fp32; fp16 for models "
        "with several vectors per item)",
    )
    truncate_dim: list[int] = setting(
        [], "also score the stored vectors cut to these numbers of dimensions", metavar="DIM"
    )
    quantize: list[Literal["int8", "binary"]] = setting(
        [], UserMessage("also score the stored vectors in these precisions, in each {--truncate_dim}")
    )
    decode_processes: int | None = setting(
        None,
        "loader processes that decode images for a GPU, 0: threads (default: processes with 8 or more cores)",
        ge=0,
    )
    on_error: OnError = setting("fail", "what to do with unreadable images", common=True)
    min_success: float | None = setting(
        None, "minimum share of samples that must succeed, else exit code 1", ge=0, le=1
    )


class PromptSettings(ClassifierFileSettings):
    """Class names and prompts."""

    group = PROMPTS

    custom_classname_file: Path | None = setting(None, "JSON keyed by dataset, or one class name per line", common=True)
    custom_template_file: Path | None = setting(
        None,
        "JSON keyed by dataset, or one template with {c} per line",
        common=True,
        constants={"--cupl": (CUPL, UserMessage("same as {--custom_template_file={file}}", file=CUPL))},
    )
    instructions: PathText = setting(
        "", "JSON, YAML or TOML file: benchmark name or pattern to {query, document} prompts or one for queries"
    )
    allow_blank_classnames: bool = setting(False, "allow empty class names")
    dump_classnames: bool = setting(False, "store class names in the result")
    dump_templates: bool = setting(False, "store templates in the result")


class ResultSettings(Settings):
    """Where results go and what they contain."""

    group = RESULTS

    output: PathText | None = setting(
        None,
        "result file, or folder if it exists or ends with / (default: results/); placeholders: {dataset}, "
        "{pretrained}, {model}, {language}, {task}, {split}",
        common=True,
        flags=("-o",),
    )
    append: bool = setting(False, "append results to one file, one per line", switch="both")
    thumbnails: int | None = setting(
        None,
        "store thumbnails of the N worst errors for reports (default: 48 for custom data, else none)",
        metavar="N",
        ge=0,
    )
    skip_existing: bool = setting(False, "skip jobs that already have a result", common=True)
    rehash: bool = setting(False, "read all files again instead of trusting cached digests of unchanged ones")


class CommandSettings(Settings):
    """Settings of the command only: how its process runs and what it prints."""

    group = HOW

    dry_run: bool = setting(False, "show jobs, downloads, disk and time without running", group=TOP, common=True)
    quiet: bool = setting(False, "print only the table and errors: no progress, no notes", common=True)
    profile: bool = setting(False, "print a timing breakdown (every result stores it)")
    verbose: bool = setting(False, "", hidden=True)
    negated: Literal["quiet"] | None = setting(None, "", flag_name="not", hidden=True)
    distributed: bool = setting(False, "distribute the jobs over the ranks of torchrun or Slurm")
    engine: Literal["local", "ray"] = setting("local", "execution backend")
    ray_address: str | None = setting(None, "address of a running Ray cluster (default: start one on this machine)")
    processes: int | None = setting(None, "number of encoding processes on this machine (default: one per GPU)")
    ray_workers: int | None = setting(None, "number of Ray workers (default: one per GPU, else one per CPU)")
    feature_root: PathText = setting("features", "ignored: features are kept in the embedding cache", group=PROBES)
    skip_load: bool = setting(False, "ignored: cached features are always used", group=PROBES)


EVALUATION = (DataSettings, ModelSettings, RunSettings, PromptSettings, ResultSettings)
"""The settings classes of an evaluation, in help order."""
