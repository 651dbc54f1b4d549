"""Finding an annotation file: the user's own, one in the dataset's folder, or the published one, fetched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eyechart.datasets.layout import fill, first_existing, own_split, source_of
from eyechart.datasets.remote import fetch_url
from eyechart.errors import DataError
from eyechart.languages import canonical
from eyechart.types import DatasetSpec

ANY = "*"
"""In the catalogue's tables by language: every language that is not named."""


def annotation_file(spec: DatasetSpec) -> Path:
    """Return the captions of a dataset in the language asked for.

    The catalogue's ``files`` lists where they may lie under the root and ``urls`` where they are published, both by
    canonical language. Another language's file is never used.
    """
    settings = source_of(spec)
    own = spec.options.get("annotation_file")
    if own:
        path = Path(own)
        if not path.is_file():
            raise DataError(f"There is no annotation file {path}.", advice="Check --annotation_file.")
        return path
    names = for_language(settings.get("files", {}), spec)
    return named_file(spec, names or [], for_language(settings.get("urls", {}), spec))


def named_file(spec: DatasetSpec, names: list[str], url: str | None) -> Path:
    """Return the first of several files that exists under the root, else fetch it."""
    values = {"split": own_split(spec), "language": str(spec.options.get("language", spec.language))}
    found = first_existing(Path(spec.root), names, **values)
    if found is not None:
        return found
    if url:
        return fetch_url(fill(url, values), spec.options)
    wanted = " or ".join(fill(name, values) for name in names)
    raise DataError(
        f"{spec.name} ({spec.language}): there is no {wanted} in {spec.root}.",
        advice=f"See `eyechart info {spec.options.get('entry', spec.name)}`, or give --annotation_file.",
    )


def for_language(table: Mapping[str, Any], spec: DatasetSpec) -> Any:
    """Pick the entry of a table by language."""
    return table.get(canonical(spec.language), table.get(ANY))
