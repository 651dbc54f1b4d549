"""``eyechart export``, also installed as ``clip_benchmark_export_wds``: write a dataset as a webdataset folder."""

import argparse
import sys
from pathlib import Path

from eyechart.cli.flags.eval_flags import add_flags
from eyechart.errors import UsageError
from eyechart.io.terminal import write_message
from eyechart.settings.evaluation import DataSettings, PromptSettings

READ = (
    "split", "dataset_root", "custom_classname_file", "custom_template_file", "annotation_file", "wds_cache_dir",
    "dataset_hub", "catalogue", "offline",
)  # fmt: skip
"""Settings of `eval` that select and read the dataset."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments, with the names and defaults of ``clip_benchmark_export_wds``."""
    add = parser.add_argument
    add("--dataset", "-d", required=True, help="name, or path of a folder or table")
    add("--split", "-s", default="test", help="split to export")
    add("--dataset-root", "-r", dest="dataset_root", default="data", help="dataset folder")
    add("--output", "-o", required=True, type=Path, help="webdataset folder to write")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--retrieval", action="store_true", help="require captions (default: any kind)")
    kinds.add_argument("--multilabel", action="store_true", help="require several labels per image (default: any kind)")
    add("--image-format", help="original, webp (lossless), png or jpg")
    add("--max-count", type=int, default=10_000, help="images per shard")
    add("--max-size", type=int, default=1_000_000_000, help="bytes per shard")
    add("--language", nargs="+", default=["en"], help="languages of class names and captions, main language first")
    add("--limit", type=int, help="export only the first N samples")
    add_flags(parser, PromptSettings, READ)
    add_flags(parser, DataSettings, [name for name in READ if name not in ("split", "dataset_root")])
    add("--overwrite", action="store_true", help="replace an existing split")
    add("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Open the dataset in each language and export it."""
    from eyechart.config import make_config
    from eyechart.datasets.registry import open_dataset
    from eyechart.datasets.webdataset_export import check_format, export_webdataset
    from eyechart.io.progress import choose_progress
    from eyechart.plan import dataset_spec

    check_format(args.image_format)
    if args.max_count < 1 or args.max_size < 1:
        raise UsageError("--max-count and --max-size must be 1 or more.")
    config = make_config({name: getattr(args, name) for name in READ if getattr(args, name) is not None})
    languages = dict.fromkeys(args.language)
    datasets = [open_dataset(dataset_spec(config, args.dataset, language)) for language in languages]
    kind = datasets[0].info.kind
    for flag in ("retrieval", "multilabel"):
        if getattr(args, flag) and kind != flag:
            text = "{--{flag}}: {name} is a {kind} dataset."
            raise UsageError(text, advice="Omit {--{flag}}.", flag=flag, name=args.dataset, kind=kind)
    done = export_webdataset(
        datasets,
        args.output,
        image_format=args.image_format,
        max_count=args.max_count,
        max_size=args.max_size,
        limit=args.limit,
        overwrite=args.overwrite,
        progress=choose_progress(quiet=args.quiet),
    )
    if not args.quiet:
        fields = {"n": done.samples, "shards": done.shards, "path": done.folder}
        write_message("{n} samples in {shards} shards -> {path}\n", sys.stdout, **fields)
    return 0
