"""Which source of a named dataset is used: what is on disk, then what can be fetched, else what a person must do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eyechart.datasets.catalogue import Catalogue, CatalogueEntry, Source
from eyechart.datasets.layout import is_present, is_url, is_webdataset, no_such_split
from eyechart.errors import DataError, LanguageError, NotHereError, UsageError
from eyechart.io.hub_cache import cached_snapshot
from eyechart.languages import canonical, find_same, name_of

HUBS = {
    "huggingface": "https://huggingface.co/datasets/{repo}/tree/main",
    "modelscope": "https://modelscope.cn/datasets/{repo}/tree/master",
}
"""Where each hub shows a dataset's files; these addresses are what users copy."""
SELF_LOADING = frozenset({"torchvision", "tfds"})
"""Readers whose library fetches the data itself."""
SHOWN_LANGUAGES = 40


@dataclass(frozen=True)
class Place:
    """A reader and what it reads."""

    reader: str
    root: str
    options: dict[str, Any] = field(default_factory=dict)


def choose_place(
    entry: CatalogueEntry, catalogue: Catalogue, root: str, *, split: str, language: str, options: Mapping[str, Any]
) -> Place:
    """Pick the source of an entry.

    Raises:
        UsageError: If the language or the split does not exist.
        DataError: If nothing is there and nothing can be fetched; the error says what to get and where to put it.
    """
    own = _own_language(entry, language, options)
    common = prompt_options(entry) | {"entry": entry.name, "language": own, "splits": list(entry.splits)}
    if is_url(root) or is_webdataset(Path(root)):
        settings = next((source.settings for source in entry.sources if source.reader == "wds"), {})
        return _wrapped(entry, Place("wds", root, common | {"source": dict(settings)}))
    if split not in entry.splits:
        raise no_such_split(entry.name, split, list(entry.splits))
    found = _choose(entry, catalogue, root, language, options)
    if found is None:
        raise _nothing_there(entry, catalogue, root, language, offline=bool(options.get("offline")))
    source, address = found
    settings = {**source.settings, "present": list(source.present), "splits": dict(source.splits)}
    return _wrapped(entry, Place(source.reader, address, common | {"source": settings}))


def prompt_options(entry: CatalogueEntry) -> dict[str, Any]:
    """Say where class names and templates come from, as options for a reader."""
    prompts: dict[str, Any] = {"classnames": entry.classnames, "templates": entry.templates or "imagenet1k"}
    if not entry.templates and not entry.own_templates:
        prompts["fallback"] = True
    if entry.subset:
        prompts["subset"] = entry.subset
    if entry.own_classnames:
        prompts["own_classnames"] = list(entry.own_classnames)
    if entry.own_templates:
        prompts["own_templates"] = list(entry.own_templates)
    chosen: dict[str, Any] = {"prompts": prompts} if entry.kind in ("classification", "multilabel") else {}
    chosen["metric"] = entry.metric
    return chosen | ({"groups": dict(entry.groups)} if entry.groups else {})


def hub_address(source: Source, options: Mapping[str, Any]) -> str | None:
    """Return the address of a source's repository: on the hub that the user prefers, else on the other one."""
    preferred = str(options.get("hub") or "huggingface")
    repositories = {"huggingface": source.huggingface, "modelscope": source.modelscope}
    for hub in sorted(HUBS, key=lambda name: name != preferred):
        if repositories[hub]:
            return HUBS[hub].replace("{repo}", repositories[hub])
    return None


def _choose(
    entry: CatalogueEntry, catalogue: Catalogue, root: str, language: str, options: Mapping[str, Any]
) -> tuple[Source, str] | None:
    sources = [base for source in entry.sources for base in _with_base(source, catalogue)]
    fitting = [source for source in sources if not source.languages or find_same(language, source.languages)]
    for source in fitting:
        if source.present and is_present(Path(root), source.present):
            return source, root
    for source in fitting:
        cached = cached_snapshot("datasets", source.settings["cached"]) if source.settings.get("cached") else None
        if cached is not None and is_present(cached, source.present):
            return source, str(cached)
    for source in fitting:
        address = hub_address(source, options)
        if address:
            return source, address
        if not source.present or (source.reader in SELF_LOADING and source.download and not options.get("offline")):
            return source, root
    return None


def _with_base(source: Source, catalogue: Catalogue) -> tuple[Source, ...]:
    if not source.base:
        return (source,)
    base = catalogue.find(source.base)
    if base is None:
        raise UsageError(f"The catalogue names {source.base!r} as a base, which it does not have.")
    return base.sources


def _wrapped(entry: CatalogueEntry, place: Place) -> Place:
    """Let a reader that works on another one's samples, such as Babel-ImageNet's, come first."""
    outer = next((source.reader for source in entry.sources if source.base and source.reader), "")
    return Place(outer, place.root, {**place.options, "base": place.reader}) if outer else place


def _own_language(entry: CatalogueEntry, language: str, options: Mapping[str, Any]) -> str:
    own = entry.own_language(language)
    if own is not None:
        return own
    if options.get("classname_file") and options.get("template_file"):
        return language
    codes = sorted(canonical(code) for code in entry.languages)
    shown = ", ".join(codes[:SHOWN_LANGUAGES])
    more = (
        f" and {len(codes) - SHOWN_LANGUAGES} more (see `eyechart info {entry.name}`)"
        if codes[SHOWN_LANGUAGES:]
        else ""
    )
    raise LanguageError(
        f"{entry.name} is not available in {language!r} ({name_of(language)}).", advice=f"It has {shown}{more}."
    )


def _nothing_there(
    entry: CatalogueEntry, catalogue: Catalogue, root: str, language: str, *, offline: bool
) -> DataError:
    bases = [base for source in entry.sources if (base := catalogue.find(source.base))]
    manual = next((one.manual for one in (entry, *bases) if one.manual), None)
    if manual:
        advice = manual.advice(root)
    elif offline:
        advice = "It can be fetched: run once without --offline."
    else:
        advice = f"See {entry.homepage}."
    there = f"in {language!r} " if len(entry.languages) > 1 else ""
    message = f"{entry.name} {there}is not in {root} and cannot be fetched automatically."
    if offline and not manual:
        return NotHereError(message, advice=advice, source=entry.homepage)
    return DataError(message, advice=advice)
