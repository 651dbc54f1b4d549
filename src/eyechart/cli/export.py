"""``eyechart export``, also installed as ``clip_benchmark_export_wds``: any dataset to a webdataset folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from eyechart.io.terminal import write_message

READ = (
    "split", "dataset_root", "custom_classname_file", "custom_template_file", "annotation_file", "wds_cache_dir",
    "dataset_hub", "catalogue", "offline",
)  # fmt: skip
"""The flags that say which data are read and how: settings of `eyechart.config`, as `eval` has them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags; those of ``clip_benchmark_export_wds`` keep their names and defaults."""
    add = parser.add_argument
    add("--dataset", "-d", required=True, help="a name, or the path of a folder or table")
    add("--split", "-s", default="test", help="which part of the dataset")
    add("--dataset-root", "-r", dest="dataset_root", default="data", help="where the dataset is")
    add("--output", "-o", required=True, type=Path, help="the webdataset's folder")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--retrieval", action="store_true", help="insist on captions; by default the data decides")
    kinds.add_argument("--multilabel", action="store_true", help="insist on several labels an image")
    add("--image-format", help="original, webp (lossless), png or jpg")
    add("--max-count", type=int, default=10_000, help="images per shard")
    add("--max-size", type=int, default=1_000_000_000, help="bytes per shard")
    add("--language", nargs="+", default=["en"], help="languages of class names and captions, the first one mainly")
    add("--limit", type=int, help="write only the first N samples")
    add("--custom-classname-file", help="JSON by dataset name, or one name a line")
    add("--custom-template-file", help="JSON by dataset name, or one template with {c} a line")
    add("--annotation-file", help="annotation file of a named retrieval dataset")
    add("--wds-cache-dir", help="where downloaded datasets are kept")
    add("--dataset-hub", choices=["huggingface", "modelscope"], help="where named datasets come from")
    add("--catalogue", nargs="+", default=[], help="TOML files with datasets of your own")
    add("--offline", action="store_true", help="fetch nothing, use what is in the cache")
    add("--overwrite", action="store_true", help="replace the split if it is there")
    add("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Open the dataset in each language and write it."""
    from eyechart.config import make_config
    from eyechart.datasets.registry import open_dataset
    from eyechart.datasets.wds.export import export_webdataset
    from eyechart.datasets.wds.recode import check_format
    from eyechart.errors import UsageError
    from eyechart.io.progress import choose_progress
    from eyechart.plan import dataset_spec

    check_format(args.image_format)
    if args.max_count < 1 or args.max_size < 1:
        raise UsageError("--max-count and --max-size must be 1 or more.")
    config = make_config({name: getattr(args, name) for name in READ if getattr(args, name) is not None})
    languages = dict.fromkeys(args.language)
    datasets = [open_dataset(dataset_spec(config, args.dataset, language)) for language in languages]
    _check_kind(args, datasets[0].info.kind)
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
        write_message(f"{done.samples} samples in {done.shards} shards -> {done.folder}\n", sys.stdout)
    return 0


def _check_kind(args: argparse.Namespace, kind: str) -> None:
    from eyechart.errors import UsageError

    for flag in ("retrieval", "multilabel"):
        if getattr(args, flag) and kind != flag:
            raise UsageError(f"--{flag}: {args.dataset} is a {kind} dataset.", advice=f"Leave --{flag} out.")
