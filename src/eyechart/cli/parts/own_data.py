"""``eyechart info photos/``: what a dataset of one's own holds, before a run."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eyechart.config import Config
    from eyechart.manifest import Manifest
    from eyechart.types import DatasetInfo, DatasetSpec, Sample

FORMS = {
    "collection": "collection of images and texts (corpus.jsonl)",
    "folder": "folders of images, one for each class",
    "jsonl": "image_queries.jsonl",
    "pairs": "pairs.jsonl",
    "questions": "table of questions",
    "selection": "questions.jsonl: images and texts to choose from",
    "table": "table",
    "text_collection": "texts: corpus.jsonl, queries.jsonl and their relevance",
    "wds": "webdataset",
}
MOST_DECODED = 2000
"""Images that are decoded to look for broken ones: some seconds. A run decodes all."""
MOST_SHOWN = 20
FLAGS = (
    "split",
    "task",
    "encoding",
    "image_column",
    "label_column",
    "caption_column",
    "id_column",
    "split_column",
    "delimiter",
)


def own_data(args: argparse.Namespace) -> Mapping[str, Any] | None:
    """Describe data at a path; None if there are none, or if a model lies there."""
    from eyechart.config import make_config
    from eyechart.datasets.registry import open_dataset
    from eyechart.datasets.resolve import no_such_path
    from eyechart.manifest import read_manifest
    from eyechart.models.folders import families_in
    from eyechart.models.registry import FAMILIES
    from eyechart.plan import dataset_spec

    path = Path(args.name).expanduser()
    if not path.exists() and args.name.startswith((".", "/", "~")):
        raise no_such_path(args.name)
    if not path.exists() or (path.is_dir() and any(families_in(path, role) for role in FAMILIES)):
        return None
    given = {name: value for name in FLAGS if (value := getattr(args, name))}
    config = make_config({"dataset": [args.name], "on_error": "skip", **given})
    spec = dataset_spec(config, args.name, "en", task=config.task[0])
    splits = _splits(spec)
    if "split" not in given and splits and spec.split not in splits:
        given["split"] = next(iter(splits))
        spec = spec.other_split(given["split"])
    dataset = open_dataset(spec)
    manifest = read_manifest(dataset, on_error="skip")
    broken, sizes = _decode(manifest)
    return {
        "name": args.name,
        "form": FORMS.get(spec.reader, spec.reader),
        "kind": manifest.info.kind,
        "split": spec.split,
        "splits": splits if len(splits) > 1 else None,
        "samples": len(manifest) + len(manifest.failures),
        **_classes(manifest),
        **_captions(manifest),
        "languages": ", ".join(_languages(spec, manifest.info)),
        "image sizes": _sizes(sizes),
        "broken images": broken,
        "notes": [notice.message for notice in manifest.notices if notice.kind != "unreadable_images"],
        "tasks": _tasks(manifest.info, splits),
        "next": _command(args.name, config, given, broken=bool(broken), info=manifest.info),
    }


def _splits(spec: DatasetSpec) -> dict[str, str]:
    """Return the splits that the data are divided into, with their sizes where that is quick; none if they are not."""
    from eyechart.datasets.folder import class_folders, subfolders
    from eyechart.datasets.layout import COMMON_SPLITS
    from eyechart.datasets.table_columns import choose_columns, read_rows

    root = Path(spec.root)
    if spec.reader == "wds":
        return {path.parent.name: f"({path.read_text().strip()} shards)" for path in sorted(root.glob("*/nshards.txt"))}
    if spec.reader == "folder":
        found = [folder.name for folder in sorted(subfolders(root)) if folder.name in COMMON_SPLITS]
        return {name: f"({len(class_folders(root / name))} classes)" for name in found if class_folders(root / name)}
    if spec.reader == "table":
        rows = read_rows(root, spec.options)
        column = choose_columns(root, {key for row in rows.values() for key in row}, spec.options).split
        counts = Counter(str(row.get(column) or "").strip() for row in rows.values()) if column else {}
        return {name: f"({count} rows)" for name, count in counts.items()}
    return {}


def _classes(manifest: Manifest) -> Mapping[str, Any]:
    names = manifest.info.classnames
    if not names:
        return {}
    labels = (label for entry in manifest.entries for label in (*entry.labels, entry.label) if label is not None)
    found = Counter(labels)
    counts = sorted(((name, found[i]) for i, name in enumerate(names)), key=lambda item: -item[1])
    shown = [f"{name} {count}" for name, count in counts[:MOST_SHOWN]]
    more = [f"... and {len(counts) - MOST_SHOWN} more, the smallest has {counts[-1][1]}"] if len(counts) > 20 else []
    return {
        "classes": len(names),
        "images by class": ", ".join([*shown, *more]),
        "templates": " | ".join(manifest.info.templates[:3]) or None,
    }


def _captions(manifest: Manifest) -> Mapping[str, Any]:
    texts = [entry.texts for entry in manifest.entries if entry.texts]
    if not texts or manifest.info.kind == "questions":
        return {}
    each = [len(own) for own in texts]
    words = [len(text.split()) for own in texts for text in own]
    one = f"{each[0]}" if min(each) == max(each) else f"{min(each)} to {max(each)}"
    return {
        "captions": f"{sum(each)}, {one} for an image, {min(words)} to {max(words)} words (median {median(words):g})"
    }


def _languages(spec: DatasetSpec, info: DatasetInfo) -> Sequence[str]:
    """List the languages that there are class names for, or captions in the first sample of a webdataset."""
    from eyechart.datasets.text_lists import languages_in
    from eyechart.datasets.wds.tarshard import iter_groups
    from eyechart.languages import MAIN

    root = Path(spec.root)
    if info.classnames:
        return languages_in(root if root.is_dir() else root.parent) or [info.language]
    shard = root / spec.split / "0.tar"
    if spec.reader != "wds" or not shard.is_file():
        return [info.language]
    fields = next((fields for _, fields in iter_groups(shard)), {})
    found = [field.removesuffix("txt").removesuffix(".") or MAIN for field in fields if field.endswith("txt")]
    return sorted(found) or [info.language]


def _decode(manifest: Manifest) -> tuple[list[str], list[tuple[int, int]]]:
    """Decode the first images; return what is broken, in words, and the sizes of the others."""
    from itertools import islice

    broken = [failure.reason for failure in manifest.failures]
    sizes = []
    with_images = (sample for sample in manifest.samples() if sample.image)
    for sample in islice(with_images, MOST_DECODED):
        size = _size(sample)
        if isinstance(size, str):
            broken += [size] if size not in broken else []
        else:
            sizes.append(size)
    if not broken:
        return [], sizes
    more = [f"... and {len(broken) - MOST_SHOWN} more"] if len(broken) > MOST_SHOWN else []
    seen = f"{len(broken)} of {len(sizes) + len(broken)} that were decoded:"
    return [seen, *broken[:MOST_SHOWN], *more], sizes


def _size(sample: Sample) -> tuple[int, int] | str:
    from eyechart.errors import DataError

    try:
        return sample.image.decode().size if sample.image else ""
    except DataError as error:
        return error.message


def _sizes(sizes: Sequence[tuple[int, int]]) -> str:
    if not sizes:
        return ""
    ordered = sorted(sizes, key=lambda size: size[0] * size[1])
    small, middle, large = (
        f"{width} x {height}" for width, height in (ordered[0], ordered[len(sizes) // 2], ordered[-1])
    )
    some = f" (of the first {MOST_DECODED})" if len(sizes) >= MOST_DECODED else ""
    return small + some if small == large else f"{small} to {large}, median {middle}{some}"


def _tasks(info: DatasetInfo, splits: Mapping[str, str]) -> list[str]:
    """Name the tasks that read such data, the usual one first."""
    from eyechart.tasks.registry import TASK_OF_KIND, TASKS, load_task

    usual = TASK_OF_KIND.get(info.kind)

    def line(name: str) -> str:
        task = load_task(name)
        learns = task.splits(task.settings({"train_split": "train"})) if "probe" in name or name == "knn" else ()
        how = [
            *(["the default"] if name == usual else []),
            *(["generative models"] if task.needs == "generator" else []),
        ]
        how += ["with --folds 5, as there is no split train"] if learns and "train" not in splits else []
        return f"{name} ({', '.join(how)})" if how else name

    fitting = [name for name in TASKS.names() if info.kind in load_task(name).kinds and info.kind != "external"]
    return [line(name) for name in sorted(fitting, key=lambda name: (name != usual, name))]


def _command(name: str, config: Config, given: Mapping[str, Any], *, broken: bool, info: DatasetInfo) -> str:
    """Return the command to run next."""
    words: list[str] = ["eyechart", "eval", name]
    words += [GENERATOR if info.kind == "questions" else TEXTS if info.kind == "texts" else ENCODER]
    for flag in FLAGS:
        value = given.get(flag, getattr(config, flag) if flag not in ("split", "task") else None)
        if value:
            words += [f"--{flag.replace('_', '-')}", *([value] if isinstance(value, str) else value)]
    return shlex.join([*words, *(["--on-error", "skip"] if broken else [])])


ENCODER, GENERATOR, TEXTS = "ViT-B-32:openai", "Qwen/Qwen2.5-VL-3B-Instruct", "sentence-transformers/all-MiniLM-L6-v2"
"""Models to start with."""
