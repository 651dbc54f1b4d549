"""`eyechart info NAME`: what is known of a dataset, collection, language, task or model, or of data on disk."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from eyechart.cli.flags.eval_flags import add_flags
from eyechart.cli.flags.parser import CommandParser, table
from eyechart.cli.list import catalogue_of, mentions, plain_lines, registries
from eyechart.io.terminal import translate, width_of, write_output
from eyechart.io.text_tables import columns_of, lay_out
from eyechart.messages import UserMessage, join
from eyechart.settings.evaluation import DataSettings, ModelLoadSettings, TableSettings

if TYPE_CHECKING:
    from eyechart.config import Config
    from eyechart.manifest import Manifest
    from eyechart.models.lazy_model import LazyModel
    from eyechart.types import DatasetInfo, DatasetSpec

Facts = Mapping[str, Any]
MOST_DECODED = 2000
"""Maximum number of images decoded to find broken ones, which takes seconds; a run decodes all."""
MOST_SHOWN = 20
FLAGS = ("split", "task", "encoding", *TableSettings.fields())
ENCODER, GENERATOR, TEXTS = "ViT-B-32:openai", "Qwen/Qwen2.5-VL-3B-Instruct", "sentence-transformers/all-MiniLM-L6-v2"
"""Models of the suggested command."""
SENTENCES = ("form", "broken images", "notes", "tasks")
"""Facts that are translated; all others are names and numbers."""


def _own_data(args: argparse.Namespace) -> Facts | None:
    """Describe the data at a path, or demo data; None if the path does not exist or is a model."""
    from eyechart.config import make_config
    from eyechart.datasets.registry import open_dataset
    from eyechart.datasets.resolve import DEMO, no_such_path
    from eyechart.manifest import read_manifest
    from eyechart.models.family import families_in
    from eyechart.models.registry import FAMILIES
    from eyechart.plan import dataset_spec

    path = Path(args.name).expanduser()
    if not path.exists() and args.name.startswith((".", "/", "~")):
        raise no_such_path(args.name)
    if (not path.exists() and args.name not in DEMO) or (
        path.is_dir() and any(families_in(path, role) for role in FAMILIES)
    ):
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
    images = _images(manifest)
    return {
        "name": args.name,
        "form": table("forms").get(spec.reader, spec.reader),
        "kind": manifest.info.kind,
        "split": spec.split,
        "splits": splits if len(splits) > 1 else None,
        "samples": len(manifest) + len(manifest.failures),
        **_classes(manifest),
        **_captions(manifest),
        "languages": ", ".join(_languages(spec, manifest.info)),
        **images,
        "notes": [notice.message for notice in manifest.notices if notice.kind != "unreadable_images"],
        "tasks": _tasks(manifest.info, splits),
        "next": _command(args.name, config, given, broken=bool(images["broken images"]), info=manifest.info),
    }


def _splits(spec: DatasetSpec) -> dict[str, str]:
    """Return the splits of the data with their sizes; empty if there are none."""
    from eyechart.datasets.image_folder import class_folders, subfolders
    from eyechart.datasets.image_table import choose_columns, read_metadata, read_rows
    from eyechart.datasets.libraries import hugging_face_splits
    from eyechart.datasets.locations import COMMON_SPLITS, files_by_split

    root = Path(spec.root)
    if spec.reader == "wds":
        counted = {path.parent.name: path.read_text().strip() for path in sorted(root.glob("*/nshards.txt"))}
        counts = counted or {split: str(len(files)) for split, files in files_by_split(root, ".tar").items()}
        return {split: f"({count} shards)" for split, count in counts.items()}
    if spec.reader == "hugging_face":
        return {split: f"({len(files)} files)" for split, files in hugging_face_splits(root).items()}
    if spec.reader == "folder":
        found = [folder.name for folder in sorted(subfolders(root)) if folder.name in COMMON_SPLITS]
        return {name: f"({len(class_folders(root / name))} classes)" for name in found if class_folders(root / name)}
    if spec.reader in ("table", "metadata"):
        rows = (read_rows if spec.reader == "table" else read_metadata)(root, spec.options)
        column = choose_columns(root, {key for row in rows.values() for key in row}, spec.options).split
        by_split = Counter(str(row.get(column) or "").strip() for row in rows.values()) if column else {}
        return {name: f"({count} rows)" for name, count in by_split.items()}
    return {}


def _classes(manifest: Manifest) -> Facts:
    names = manifest.info.classnames
    if not names:
        return {}
    found = Counter(label for entry in manifest.entries for label in (*entry.labels, entry.label))
    counts = sorted(((name, found[i]) for i, name in enumerate(names)), key=lambda item: -item[1])
    shown = [f"{name} {count}" for name, count in counts[:MOST_SHOWN]]
    if len(counts) > MOST_SHOWN:
        shown.append(f"... and {len(counts) - MOST_SHOWN} more, the smallest has {counts[-1][1]}")
    return {
        "classes": len(names),
        "images by class": ", ".join(shown),
        "templates": " | ".join(manifest.info.templates[:3]) or None,
    }


def _captions(manifest: Manifest) -> Facts:
    texts = [entry.texts for entry in manifest.entries if entry.texts]
    if not texts or manifest.info.kind == "questions":
        return {}
    each = [len(own) for own in texts]
    words = [len(text.split()) for own in texts for text in own]
    one = f"{each[0]}" if min(each) == max(each) else f"{min(each)} to {max(each)}"
    return {"captions": f"{sum(each)}, {one} per image, {min(words)} to {max(words)} words (median {median(words):g})"}


def _languages(spec: DatasetSpec, info: DatasetInfo) -> Sequence[str]:
    """List the languages of the class names, or of the captions in a webdataset's first sample."""
    from eyechart.datasets.class_texts import languages_in
    from eyechart.datasets.tar_shards import iter_groups
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


def _images(manifest: Manifest) -> Facts:
    """Decode the first images; return the range of their sizes, and messages about broken ones."""
    from itertools import islice

    from eyechart.errors import DataError

    broken: list[str] = [failure.reason for failure in manifest.failures]
    sizes = []
    images = (sample.image for sample in manifest.samples() if sample.image)
    for image in islice(images, MOST_DECODED):
        try:
            sizes.append(image.decode().size)
        except DataError as error:
            broken += [error.message] if error.message not in broken else []
    if broken:
        more = [f"... and {len(broken) - MOST_SHOWN} more"] if len(broken) > MOST_SHOWN else []
        seen = UserMessage("{n} of {total} decoded:", n=len(broken), total=len(sizes) + len(broken))
        broken = [seen, *broken[:MOST_SHOWN], *more]
    sizes.sort(key=lambda size: size[0] * size[1])
    span = ""
    if sizes:
        small, middle, large = (f"{w} x {h}" for w, h in (sizes[0], sizes[len(sizes) // 2], sizes[-1]))
        span = small if small == large else f"{small} to {large}, median {middle}"
        span += f" (of the first {MOST_DECODED})" if len(sizes) >= MOST_DECODED else ""
    return {"image sizes": span, "broken images": broken}


def _tasks(info: DatasetInfo, splits: Mapping[str, str]) -> list[str]:
    """List the tasks that support the data, the default first."""
    from eyechart.settings.tasks import ProbeSettings
    from eyechart.tasks.registry import TASK_OF_KIND, TASKS, load_task

    usual = TASK_OF_KIND.get(info.kind)
    lines: list[str] = []
    for name in sorted(TASKS.names(), key=lambda name: (name != usual, name)):
        task = load_task(name)
        if info.kind not in task.kinds or info.kind == "external":
            continue
        how = {
            "the default": name == usual,
            "generative models": task.needs == "generator",
            "with {--folds=5}, for lack of a train split": issubclass(task.Settings, ProbeSettings)
            and "train" not in splits,
        }
        reasons = [UserMessage(text) for text, holds in how.items() if holds]
        text = "{task} ({how})" if reasons else "{task}"  # not the name alone, which may be a word with a translation
        lines.append(UserMessage(text, task=name, how=join(reasons, ", ")))
    return lines


def _command(name: str, config: Config, given: Mapping[str, Any], *, broken: bool, info: DatasetInfo) -> str:
    model = {"questions": GENERATOR, "texts": TEXTS}.get(info.kind, ENCODER)
    words = ["eyechart", "eval", name, model]
    for flag in FLAGS:
        value = given.get(flag, getattr(config, flag) if flag not in ("split", "task") else None)
        if value:
            words += [f"--{flag.replace('_', '-')}", *([value] if isinstance(value, str) else value)]
    return shlex.join([*words, *(["--on-error", "skip"] if broken else [])])


EXAMPLES = ("photos/", "captions.csv", "imagenet1k", "MMBench_DEV_EN", "ViT-B-32:openai", "zeroshot_retrieval")


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.alone, parser.examples = True, EXAMPLES
    parser.add_argument("name", help="dataset, path of custom data, collection, language, task, model family or model")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--dataset-root", default="{root}", help="folder shown in the steps of a manual download")
    add_flags(parser, DataSettings, ["catalogue"])
    own = parser.add_argument_group("for custom data")
    own.add_argument("--split", default="", help="split to describe (default: test, or the first)")
    own.add_argument("--task", default="", help="how a table with labels and captions is read")
    own.add_argument("--encoding", default="", help="encoding of the text files, if not UTF-8")
    add_flags(own, TableSettings)
    add_model_arguments(parser.add_argument_group("for a model"))


def add_model_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the arguments of a model that is loaded here."""
    group.add_argument("--pretrained", default="", help="tag, checkpoint, folder or hub id")
    group.add_argument(
        "--precision", default="fp32", choices=["fp32", "fp16", "bf16", "amp"], help="numerical precision"
    )
    add_flags(group, DataSettings, ["offline"])
    add_flags(group, ModelLoadSettings)


def run(args: argparse.Namespace) -> int:
    """Print the first match of the name."""
    from eyechart.datasets.questions.benchmarks import known_benchmarks, refused_benchmarks
    from eyechart.datasets.resolve import DEMO
    from eyechart.errors import unknown_name
    from eyechart.io.files import offline_hub

    with offline_hub(wanted=args.offline):
        facts = next((found for lookup in LOOKUPS if (found := lookup(args))), None)
    if facts is None:
        plugins = (name for registry in registries().values() for name in registry.names())
        names = [*DEMO, *catalogue_of(args).spellings(), *known_benchmarks(), *refused_benchmarks(), *plugins]
        inside = [name for name in names if mentions(name, args.name)]
        raise unknown_name("name", args.name, inside or names, advice="See `eyechart list`.")
    known = {key: value for key, value in facts.items() if value not in (None, "", [], {}, ())}
    if args.json:
        write_output(json.dumps(known, ensure_ascii=False, indent=1) + "\n", sys.stdout)
        return 0
    pairs = []
    for key, value in known.items():
        lines = value if isinstance(value, list) else [str(value)]
        if isinstance(value, Mapping):
            lines = [", ".join(f"{name} {item}" for name, item in value.items())]
        if key in SENTENCES:
            lines = [translate(line) for line in lines]
        pairs += [("" if i else translate(key), line) for i, line in enumerate(lines)]
    rows = lay_out(columns_of("", "", wraps=True), pairs, width_of(sys.stdout))[1:]
    write_output("".join(f"{line}\n" for row in rows for line in row), sys.stdout)
    return 0


def _dataset(args: argparse.Namespace) -> Facts | None:
    from eyechart.datasets.catalogue import needs_of
    from eyechart.languages import canonical

    catalogue = catalogue_of(args)
    entry = catalogue.find(args.name.removeprefix("wds/"))
    if entry is None:
        return None
    bases = [base for source in entry.sources if (base := catalogue.find(source.base))]
    manual = next((one.manual for one in (entry, *bases) if one.manual), None)
    prompts = {}
    if entry.kind in ("classification", "multilabel"):
        borrowed = "imagenet1k (the dataset has no templates)"
        prompts = {
            "class names": f"prompt pack, {entry.classnames}" if entry.classnames else "its own",
            "templates": " | ".join(entry.own_templates) or f"prompt pack, {entry.templates or borrowed}",
        }
    sources = []
    for source in (source for one in (entry, *bases) for source in one.sources if source.reader):
        hubs = [f"{hub} {repo}" for hub in ("huggingface", "modelscope") if (repo := getattr(source, hub))]
        present = f"if {' or '.join(source.present)} is there" if source.present else ""
        parts = (str(source.settings.get("dataset") or ""), *hubs, present)
        sources.append(f"{source.reader}: {', '.join(filter(None, parts))}")
    return {
        "name": entry.name,
        "title": entry.title,
        "also called": ", ".join(entry.aliases),
        "kind": entry.kind,
        "collections": ", ".join(catalogue.collections_of(entry.name)),
        "classes": entry.classes,
        "samples": entry.samples and f"{entry.samples} in the test split",
        "captions": entry.captions,
        "splits": ", ".join(entry.splits) + (" (the whole set)" if entry.whole else ""),
        "languages": ", ".join(sorted(canonical(code) for code in entry.languages)),
        "classes by language": dict(entry.classes_by_language),
        "primary metric": entry.metric + (f" (chance {entry.chance:g})" if entry.chance else ""),
        "groups": dict(entry.groups),
        **prompts,
        "DataComp": dict(entry.datacomp),
        "sources": sources,
        "needs": ", ".join(needs_of(entry, catalogue)),
        "by hand": manual.advice(args.dataset_root) if manual else None,
        "homepage": entry.homepage,
        "licence": entry.licence,
        "citation": entry.citation,
        "note": entry.note,
    }


def _collection(args: argparse.Namespace) -> Facts | None:
    from eyechart.benchmarks import MTEB_COLLECTIONS, PRIVATE, collection_name

    name = collection_name(args.name)
    if not name:
        members = catalogue_of(args).collections.get(args.name)
        return {"name": args.name, "collection of": len(members), "datasets": list(members)} if members else None
    from eyechart.datasets.mteb import collection_tasks

    tasks = collection_tasks(name)
    types = Counter(task.metadata.type for task in tasks)
    alias = next(alias for alias, other in MTEB_COLLECTIONS.items() if other == name)
    return {
        "name": name,
        "alias": alias,
        "collection of": len(tasks),
        "left out": PRIVATE.get(name, ""),
        "task types": [f"{kind} ({count})" for kind, count in types.items()],
        "datasets": [f"mteb/{task.metadata.name}" for task in tasks],
        "next": f"eyechart eval {alias} {ENCODER} --dry-run",
    }


def _questions(args: argparse.Namespace) -> Facts | None:
    from eyechart.datasets.questions.benchmarks import known_benchmarks, refused_benchmarks

    if args.name in refused_benchmarks():
        return {"name": args.name, "not scored": refused_benchmarks()[args.name]}
    found = known_benchmarks().get(args.name)
    if found is None:
        return None
    return {
        "name": found.name,
        "title": found.about,
        "kind": found.kind,
        "prompt": repr(found.asking.text) if found.asking else found.prompt,
        "scorer": found.scorer,
        "metric": found.metric,
        "judge": found.judge,
        "answers": "" if found.answers else "none in the file: its owner scores predictions",
        "source": "" if found.parts else found.url,
        "table": found.by_hand,
        "parts": list(found.parts),
    }


def _language(args: argparse.Namespace) -> Facts | None:
    from eyechart.languages import canonical, known

    wanted = canonical(args.name)
    item = next((item for item in known() if item.code == wanted), None)
    if item is None:
        return None
    entries = catalogue_of(args).entries.values()
    names = [entry.name for entry in entries if entry.own_language(item.code)]
    return {"language": item.name, "code": item.code, "also": ", ".join(item.aliases), "datasets": names}


def _plugin(args: argparse.Namespace) -> Facts | None:
    for registry in registries().values():
        if args.name in registry.names():
            return {registry.word: args.name, "about": plain_lines(registry.load(args.name).__doc__)}
    return None


def _format(args: argparse.Namespace) -> Facts | None:
    """Describe a format of data that is named by its prefix, such as aro/NAME."""
    from eyechart.datasets.registry import READERS
    from eyechart.datasets.resolve import PREFIXES

    if args.name not in PREFIXES:
        return None
    about = plain_lines(READERS.load(PREFIXES[args.name]).__doc__)
    command = f"eyechart eval {args.name}/NAME {ENCODER} --dataset-root FOLDER"
    return {"format": f"{args.name}/NAME", "about": about, "next": command}


def _model(args: argparse.Namespace) -> Facts | None:
    """Describe a model by its card, loading the model if the card is not cached."""
    from eyechart.errors import UnknownNameError
    from eyechart.models.resolve import resolve_model

    if args.model_type is None:
        try:
            if resolve_model(args.name, args.pretrained).notice:
                return None  # an ambiguous name is not searched on a hub
        except UnknownNameError:
            return None
    card = model_of(args).card
    return {
        "model": card.name,
        "family": card.family,
        "parameters": f"{card.parameters:,}" if card.parameters else None,
        "embedding size": card.embedding_dim,
        "image size": card.image_size,
        "context length": card.context_length,
        "logit scale": card.logit_scale and round(card.logit_scale, 4),
        "logit bias": card.logit_bias and round(card.logit_bias, 4),
        "similarity": card.similarity,
        "precision": card.weight_type or card.precision,
        "weights digest": card.weights_digest,
        "fingerprint": card.fingerprint,
        "transform": " ".join(card.transform.split()),
        "notes": list(card.notes),
    }


def model_of(args: argparse.Namespace) -> LazyModel:
    """Open the encoder that the arguments of `add_model_arguments` name."""
    from eyechart.config import make_config
    from eyechart.io.progress import announced, choose_progress
    from eyechart.models.registry import open_model
    from eyechart.plan_models import model_specs

    settings = {name: getattr(args, name) for name in ("precision", "offline", *ModelLoadSettings.fields())}
    settings |= {"model": [args.name], "pretrained": [args.pretrained], "model_options": dict(args.model_options)}
    (spec,) = model_specs(make_config(settings))
    model = open_model(spec)
    model.progress = choose_progress(quiet=False)
    with announced(model.progress, UserMessage("loading {name}", name=spec.label)):
        model.family.check(spec)
    return model


LOOKUPS: list[Callable[[argparse.Namespace], Facts | None]] = [
    lambda args: _model(args) if args.model_type else None,
    _dataset,
    _collection,
    _questions,
    _language,
    _plugin,
    _own_data,
    _format,
    _model,
]
"""Interpretations of a name, tried in order; each returns facts or None."""
