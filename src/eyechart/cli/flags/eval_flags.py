"""The flags of ``eyechart eval``: those of ``clip_benchmark eval``, with their meaning and defaults, and our own."""

from __future__ import annotations

import argparse

from eyechart.cli.flags.complete import complete
from eyechart.cli.flags.parser import CommandParser, HelpAll

EXAMPLES = (
    "photos/ ViT-B-32:openai",
    "cifar10 imagenet1k ViT-B-32:openai ViT-L-14:openai --device cuda",
    "--dataset captions.csv --model google/siglip-base-patch16-224",
    "MMBench_DEV_EN Qwen/Qwen2.5-VL-3B-Instruct --limit 100",
    "--config eval.yaml --dry-run",
)
COMMON = frozenset({
    "--help", "--help-all", "--config", "--dry-run", "--dataset", "--dataset-root", "--split", "--task", "--language",
    "--limit", "--offline", "--model", "--pretrained", "--model-type", "--hub", "--precision", "--device", "--like",
    "--batch-size", "--num-workers", "--on-error", "--quiet", "--custom-classname-file", "--custom-template-file",
    "--output", "--skip-existing", "--api-base", "--judge",
})  # fmt: skip
"""What ``--help`` shows; ``--help-all`` shows the rest."""
LEFT_OPEN = argparse.SUPPRESS
"""The default of flags that are filled in later, by ``--like`` or by `Config`: only then is it known who gave them."""
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


CUPL = "cupl_prompts.json"
"""CLIP_benchmark's file of texts that a language model wrote for each class of ImageNet."""


def add_arguments(parser: CommandParser) -> None:
    """Declare the flags."""
    parser.usage = "%(prog)s [DATASET ...] [MODEL ...] [FLAGS]"
    parser.examples, parser.common, parser.complete = EXAMPLES, COMMON, complete
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="DATASET or MODEL",
        help="folders, tables and names of datasets; name:weights, folders and hub ids of models",
    )
    parser.add_argument("--help-all", action=HelpAll)
    parser.add_argument("--config", metavar="FILE", help="YAML, TOML or JSON with the names of flags; flags win")
    parser.add_argument("--dry-run", action="store_true", help="show jobs, downloads, disk and time; run nothing")
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
    add(
        "--dataset",
        nargs="+",
        metavar="NAME",
        default=["cifar10"],
        help="names, paths, collections, or text files with one a line",
    )
    add("--dataset-root", default="root", help="folder; {dataset} and {dataset_cleaned} are replaced")
    add("--split", "--test-split", dest="split", default="test", help="which part of the dataset")
    add("--task", nargs="+", default=["auto"], help="one or several; auto reads the dataset's description")
    add("--task-option", nargs="+", default=[], metavar="KEY=VALUE", help="what tasks take and no flag gives")
    add("--language", nargs="+", default=["en"], help="languages of class names and captions")
    add("--limit", type=int, help="score only the first N samples")
    add("--encoding", default="", help="of the text files of a dataset of your own, if not UTF-8: gbk, utf-16, ...")
    add_table_flags(group)
    add("--annotation-file", default="", help="annotation file of a named retrieval dataset")
    add(
        "--caption-cleaning",
        default=LEFT_OPEN,
        help="clean captions: internvl (lower case, no punctuation, 50 words), none",
    )
    add("--wds-cache-dir", help="where downloaded datasets are kept")
    add("--dataset-hub", choices=["huggingface", "modelscope"], help="where named datasets come from (default: --hub)")
    add("--offline", action="store_true", help="fetch nothing, use what is in the cache")
    add("--catalogue", nargs="+", default=[], help="TOML files with datasets and collections of your own")


def add_table_flags(group: argparse._ArgumentGroup) -> None:
    """Declare the flags that say what the columns of a table hold."""
    add = group.add_argument
    add("--image-column", default="", help="column of image paths of a table of your own")
    add("--label-column", default="", help="its column of labels: a table of classes")
    add("--caption-column", nargs="+", default=[], help="its columns of captions: a table for retrieval")
    add("--id-column", default="", help="its column of ids (default: the line, or the image path)")
    add("--split-column", default="", help="its column of splits, if that is not called split")
    add("--delimiter", default="", help="what divides its cells (default: comma, tab, ; or |, found out)")


def _model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which models")
    add = group.add_argument
    add("--model", nargs="+", metavar="NAME", default=[], help="architecture, folder, hub id, python:module:factory")
    add(
        "--pretrained",
        nargs="+",
        metavar="TAG",
        default=[],
        help="tags, checkpoints, folders or hub ids (open_clip: laion400m_e32)",
    )
    add("--pretrained-model", nargs="+", default=[], help="'model,pretrained' pairs, collections, or files of them")
    add_model_flags(group)
    add("--compile", action="store_true", help="compile the towers with torch.compile")
    precisions = ["auto", "fp32", "fp16", "bf16", "amp", "half"]
    add("--precision", default=LEFT_OPEN, choices=precisions, help="auto is fp32; half is fp16 on a GPU, else fp32")
    amp = group.add_mutually_exclusive_group()
    amp.add_argument("--amp", dest="amp", action="store_true", help="same as --precision amp")
    amp.add_argument("--no-amp", dest="no_amp", action="store_true", help="same as --precision fp32")


def add_model_flags(group: argparse._ArgumentGroup) -> None:
    """Declare the flags that say how a model is found and loaded."""
    add = group.add_argument
    add("--model-type", help="model family, or python:module:factory; without it, found out from the model")
    add("--model-cache-dir", help="where weights are kept")
    add("--revision", help="revision of a hub model")
    add("--hub", choices=["huggingface", "modelscope"], help="where hub ids come from (default: huggingface)")
    add("--trust-remote-code", action="store_true", help="run code that a hub model brings")
    add("--model-option", nargs="+", default=[], metavar="KEY=VALUE", help="options of single model families")
    add("--device", default="auto", help="auto, cpu, cuda:1; several with commas")


def _how(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how")
    add = group.add_argument
    add(
        "--like",
        choices=["eyechart", "clip_benchmark", "internvl"],
        help="whose defaults hold; for its own models, internvl's",
    )
    add("--recall-k", nargs="+", type=int, default=LEFT_OPEN, help="k of retrieval recall@k (default: 5)")
    add("--metrics", default="default", choices=["default", "full"], help="full adds the less common ones")
    add("--caption-prompt", help="what captioning and image_caption tell a model that takes prompts")
    add("--prompt-role", choices=["user", "system"], help="who says the prompt of image_caption (default: user)")
    add("--reranker", default="", help="text retrieval: cross-encoder that orders anew what the encoder found")
    add("--group-by", nargs="+", default=[], help="metadata columns: figures by group and of the worst group")
    add(
        "--batch-size",
        type=int,
        default=LEFT_OPEN,
        help="images or texts per forward pass (default: 64; on a GPU, more where a trial is faster)",
    )
    add("--num-workers", type=int, default=4, help="threads that read and decode")
    add(
        "--store-precision",
        default="fp32",
        choices=["fp32", "fp16"],
        help="how vectors are stored and scored; fp16 takes half the disk",
    )
    add(
        "--decode-processes",
        type=int,
        help="processes that decode instead of threads, 0 for none (default: with CUDA and 8 or more cores)",
    )
    add("--on-error", default="fail", choices=["fail", "skip"], help="broken images")
    add("--min-success", type=float, help="share of samples that must not be lost, else exit code 1")
    add("--seed", type=int, default=0, help="seed of everything random")
    add("--quiet", action="store_true", help="print the table and errors only: no progress, no notes")
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
    add("--custom-classname-file", help="JSON by dataset name, or one name a line")
    templates = group.add_mutually_exclusive_group()
    templates.add_argument("--custom-template-file", help="JSON by dataset name, or one template with {c} a line")
    templates.add_argument(
        "--cupl", dest="custom_template_file", action="store_const", const=CUPL, help=f"the same with {CUPL}"
    )
    add("--allow-blank-classnames", action="store_true", help="accept empty class names")
    add("--merge-duplicate-classes", action="store_true", help="join classes of the same name")
    add(
        "--empty-classes",
        default=LEFT_OPEN,
        choices=["leave_out", "zero"],
        help="what a class without positives does to the mean AP (default: leave_out)",
    )
    add("--prompt-sensitivity", default="auto", choices=["auto", "yes", "no"], help="accuracy of each template alone")
    add("--dump-classnames", action="store_true", help="write class names into the result")
    add("--dump-templates", action="store_true", help="write templates into the result")
    add("--save-clf", help="write the text classifier to this file")
    add("--load-clfs", nargs="+", default=[], help="average these text classifiers instead of encoding prompts")


def _where(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("results")
    add = group.add_argument
    add(
        "--output",
        "-o",
        default=LEFT_OPEN,
        help="result file, or folder if it ends with / or is one (default: results/); a template: {dataset}, "
        "{pretrained}, {model}, {language}, {task}",
    )
    add("--append", action=argparse.BooleanOptionalAction, default=LEFT_OPEN, help="keep several results, one a line")
    add(
        "--thumbnails",
        type=int,
        default=LEFT_OPEN,
        metavar="N",
        help="keep small images of the N worst mistakes, for reports (default: 48 of your own data, else none)",
    )
    add("--skip-existing", action="store_true", help="do not repeat jobs whose result is there")


def _probe(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("tasks that learn from a training split")
    add = group.add_argument
    add("--train-split", nargs="+", default=["train"], help="where the probe learns, one or one per dataset")
    validation = group.add_mutually_exclusive_group()
    validation.add_argument("--val-split", nargs="+", help="where weight decay is chosen")
    validation.add_argument(
        "--val-proportion", nargs="+", type=float, help="share of the training data used for that instead"
    )
    add("--folds", type=int, metavar="K", help="without a training split: learn from K-1 parts, score the other")
    add("--fewshot-k", type=int, default=-1, help="images per class, -1 for all")
    add("--fewshot-epochs", type=int, default=10, help="epochs")
    add("--fewshot-lr", type=float, default=0.1, help="learning rate")
    add("--fewshot-curve", nargs="+", type=int, help="also learn from these numbers of images per class")
    add("--fewshot-repeats", type=int, default=3, help="draws of few images whose spread is told")
    add(
        "--fewshot-draw",
        default=LEFT_OPEN,
        choices=["eyechart", "clip_benchmark"],
        help="whose random order the images are taken in (default: eyechart)",
    )
    add("--knn-k", type=int, default=20, help="neighbours that vote in the task knn")
    add("--normalize", nargs="?", type=_flag, const=True, default=True, help="scale features to unit length")
    add("--feature-root", default="features", help="accepted; features live in the embedding store")
    add("--skip-load", action="store_true", help="accepted; stored features are always used")


def _questions(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("questions to generative models")
    add = group.add_argument
    add("--mode", default="all", choices=["all", "infer", "eval"], help="ask and score, only ask, only score")
    add("--api-base", default="", help="address of an OpenAI-compatible server, up to /v1 (--model-type api)")
    add("--api-key-variable", help="environment variable with its key; else EYECHART_API_KEY, OPENAI_API_KEY")
    add("--concurrency", type=int, default=8, help="requests at the same time")
    add("--timeout", type=float, default=300.0, help="seconds for one answer")
    add("--tries", type=int, default=6, help="how often a failing request is sent")
    add("--prices", default="", metavar="FILE", help="TOML or JSON: what a million tokens of each model cost")
    add("--temperature", type=float, help="sampling temperature; the server's or greedy if not given")
    add("--max-tokens", type=int, help="longest answer")
    add("--system-prompt", default="", help="put before every question")
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
    add("--judge-type", nargs="+", default=["api"], help="model family of the judges, one or one for each")
    add("--judge-api-base", nargs="+", default=[""], help="address of the judges' server, one or one for each")
    add("--judge-key-variable", help="environment variable with the judge's key")
    add("--judge-prompts", default="", metavar="FILE", help="what judges are asked: a TOML file, or vlmeval")
    add("--judge-repeats", type=int, default=1, help="how often each judge judges each answer")
    add("--judge-temperature", type=float, default=0.0, help="sampling temperature of the judges")
    add("--human-verdicts", default="", metavar="FILE", help="what people say of some answers: index and correct")
    add("--judge-fallback", default="", choices=["", "exact_matching"], help="what scores if the judge does not answer")
    add("--no-xlsx", dest="xlsx", action="store_false", help="write predictions as JSON lines only")


def _flag(text: str) -> bool:
    """Read a boolean as people mean it: ``--normalize False`` is false."""
    if text.lower() in _TRUE + _FALSE:
        return text.lower() in _TRUE
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
