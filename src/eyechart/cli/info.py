"""``eyechart info NAME``: all that is known of a dataset, a collection, a language, a task or a model."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eyechart.datasets.catalogue import CatalogueEntry, Source

from eyechart.cli.flags.eval_flags import add_model_flags, add_table_flags
from eyechart.cli.flags.settings import option_of
from eyechart.cli.list import catalogue_of, registries
from eyechart.cli.parts.own_data import own_data
from eyechart.io.layout import columns_of, lay_out
from eyechart.io.terminal import width_of, write_output
from eyechart.io.translate import translate

Facts = Mapping[str, Any]
SENTENCES = ("form", "broken images", "notes", "tasks")
"""Facts in words of ours; all others are names and numbers, which are the same in every language."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("name", help="a dataset, data of your own, a collection, language, task, model type or model")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--dataset-root", default="{root}", help="folder for the steps of a manual download")
    parser.add_argument("--catalogue", nargs="+", default=[], help="TOML files with datasets of your own")
    own = parser.add_argument_group("for data of your own")
    own.add_argument("--split", default="", help="which part of them (default: test, or the first)")
    own.add_argument("--task", default="", help="how a table with labels and captions is read")
    own.add_argument("--encoding", default="", help="of their text files, if not UTF-8")
    add_table_flags(own)
    group = parser.add_argument_group("for a model")
    group.add_argument("--pretrained", default="", help="tag, checkpoint, folder or hub id")
    group.add_argument("--precision", default="fp32", choices=["fp32", "fp16", "bf16", "amp"], help="how it computes")
    add_model_flags(group)


def run(args: argparse.Namespace) -> int:
    """Print the first kind of thing that has the name."""
    from eyechart.errors import unknown_name

    facts = next((found for lookup in LOOKUPS if (found := lookup(args))), None)
    if facts is None:
        raise unknown_name("name", args.name, _all_names(args), advice="See `eyechart list`.")
    known = {key: value for key, value in facts.items() if value not in (None, "", [], {}, ())}
    if args.json:
        write_output(json.dumps(known, ensure_ascii=False, indent=1) + "\n", sys.stdout)
        return 0
    pairs = [
        (translate(key) if i == 0 else "", translate(line) if key in SENTENCES else line)
        for key, value in known.items()
        for i, line in enumerate(value if isinstance(value, list) else [_text(value)])
    ]
    lines = lay_out(columns_of("", "", wraps=True), pairs, width_of(sys.stdout))[1:]
    write_output("".join(f"{line}\n" for row in lines for line in row), sys.stdout)
    return 0


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return str(value)


def _dataset(args: argparse.Namespace) -> Facts | None:
    from eyechart.datasets.catalogue.needs import needs_of
    from eyechart.languages import canonical

    catalogue = catalogue_of(args)
    entry = catalogue.find(args.name.removeprefix("wds/"))
    if entry is None:
        return None
    bases = [base for source in entry.sources if (base := catalogue.find(source.base))]
    manual = next((one.manual for one in (entry, *bases) if one.manual), None)
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
        **(_prompts(entry) if entry.kind in ("classification", "multilabel") else {}),
        "DataComp": dict(entry.datacomp),
        "sources": [_source(source) for one in (entry, *bases) for source in one.sources if source.reader],
        "needs": ", ".join(needs_of(entry, catalogue)),
        "by hand": manual.advice(args.dataset_root) if manual else None,
        "homepage": entry.homepage,
        "licence": entry.licence,
        "citation": entry.citation,
        "note": entry.note,
    }


def _prompts(entry: CatalogueEntry) -> Facts:
    borrowed = "prompt pack, imagenet1k (it has none of its own)"
    templates = f"prompt pack, {entry.templates}" if entry.templates else borrowed
    return {
        "class names": f"prompt pack, {entry.classnames}" if entry.classnames else "its own",
        "templates": " | ".join(entry.own_templates) or templates,
    }


def _source(source: Source) -> str:
    places = [f"{hub} {repo}" for hub in ("huggingface", "modelscope") if (repo := getattr(source, hub))]
    what = source.settings.get("dataset")
    present = f"if {' or '.join(source.present)} is there" if source.present else ""
    return f"{source.reader}: " + ", ".join(part for part in (str(what or ""), *places, present) if part)


def _collection(args: argparse.Namespace) -> Facts | None:
    members = catalogue_of(args).collections.get(args.name)
    return {"name": args.name, "collection of": len(members), "datasets": list(members)} if members else None


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
            about = (registry.load(args.name).__doc__ or "").strip()
            return {registry.word: args.name, "about": [line.strip() for line in about.splitlines()]}
    return None


def _model(args: argparse.Namespace) -> Facts | None:
    """Load the model that is meant, unless its card is known, and tell what is on the card."""
    from eyechart.config import make_config
    from eyechart.models.registry import open_model
    from eyechart.plan_models import model_specs

    if args.model_type is None and not _is_known(args.name, args.pretrained):
        return None
    settings = {
        "model_type": args.model_type,
        "model": [args.name],
        "pretrained": [args.pretrained],
        "model_options": dict(option_of(text) for text in args.model_option),
        **{name: getattr(args, name) for name in ("precision", "device", "model_cache_dir", "revision", "hub")},
        "trust_remote_code": args.trust_remote_code,
    }
    (spec,) = model_specs(make_config(settings))
    model = open_model(spec)
    model.family.check(spec)
    card = model.card
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
        "precision": card.precision,
        "weights digest": card.weights_digest,
        "fingerprint": card.fingerprint,
        "transform": " ".join(card.transform.split()),
        "notes": list(card.notes),
    }


def _is_known(name: str, pretrained: str) -> bool:
    """Tell whether a name is that of a model; one that could be anything is not looked for on a hub."""
    from eyechart.errors import UnknownNameError
    from eyechart.models.resolve import resolve_model

    try:
        return not resolve_model(name, pretrained).notice
    except UnknownNameError:
        return False


def _named_model(args: argparse.Namespace) -> Facts | None:
    return _model(args) if args.model_type else None


LOOKUPS: list[Callable[[argparse.Namespace], Facts | None]] = [
    _named_model,
    _dataset,
    _collection,
    _questions,
    _language,
    _plugin,
    own_data,
    _model,
]
"""What a name may be, tried in order; each returns what is known, or nothing."""


def _all_names(args: argparse.Namespace) -> list[str]:
    from eyechart.datasets.questions.benchmarks import known_benchmarks, refused_benchmarks

    spellings = catalogue_of(args).spellings()
    questions = [*known_benchmarks(), *refused_benchmarks()]
    return [*spellings, *questions, *(name for registry in registries().values() for name in registry.names())]
