"""Named benchmarks under all their spellings: ``vtab/cifar100``, ``wds/vtab_cifar100`` and ``cifar100`` are one.

Results keep the name that the user wrote; tables put all spellings of a benchmark into one column. Another split, and
custom data of another size under a known name, are different benchmarks.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from eyechart.languages import MAIN

FACTS = resources.files("eyechart").joinpath("benchmarks.toml")
TEST = "test"
TOLERATED = 0.001
"""Share of samples by which copies of a benchmark may differ: some sources cannot decode every image."""


@cache
def _tables() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(FACTS.read_text(encoding="utf-8"))


def catalogue_facts(name: str) -> dict[str, Any]:
    """Return the fields of a catalogue entry kept in benchmarks.toml: ``aliases`` and ``samples``."""
    return {field: _tables()[field][name] for field in ("aliases", "samples") if name in _tables()[field]}


@cache
def _by_spelling() -> Mapping[str, str]:
    """Return catalogue names by every spelling, in lower case."""
    tables = _tables()
    found = {name.lower(): name for name in (*tables["samples"], *tables["same"], *tables["same"].values())}
    found |= {alias.lower(): name for name, aliases in tables["aliases"].items() for alias in aliases}
    vtab = {spelling.replace("/", "_", 1): name for spelling, name in found.items() if spelling.startswith("vtab/")}
    return found | vtab


def benchmark_name(written: str, *, split: str = "", samples: int | None = None, language: str = MAIN) -> str:
    """Return the canonical name of a benchmark, for tables, from any spelling, with or without ``wds/``.

    The number of samples distinguishes it from custom data of the same name.
    """
    plain = written.removeprefix("wds/").removeprefix("wds_")
    name = _by_spelling().get(plain.lower())
    if name is None:
        return f"vtab/{plain.removeprefix('vtab_')}" if plain.startswith("vtab_") else plain
    tables = _tables()
    same_here = tables["same_in"].get(language, {})
    shown = str((tables["same"] | same_here).get(name, name))
    if split not in ("", TEST):
        return f"{shown} ({split} split)"
    entry = {other: own for own, other in same_here.items()}.get(name, name)
    known = tables["samples"].get(tables["test_split"].get(entry, entry))
    # A different count means custom data, another version, or the whole set.
    differs = samples is not None and known is not None and abs(samples - known) > TOLERATED * known
    return f"{shown} ({samples} samples)" if differs else shown


MTEB_COLLECTIONS = {
    "mieb-eng": "MIEB(eng)",
    "mieb-lite": "MIEB(lite)",
    "mieb-multilingual": "MIEB(Multilingual)",
    "mieb-img": "MIEB(Img)",
    "vidore-v1": "ViDoRe(v1)",
    "vidore-v2": "ViDoRe(v2)",
    "vidore-v3": "ViDoRe(v3)",
    "jinavdr": "JinaVDR",
    "visrag": "VisRAG",
}
"""MTEB's benchmarks of images, by names that need no quotes in a shell."""
PRIVATE = {"ViDoRe(v3)": "2 tasks whose data are private (Telecom and Nuclear)", "mmeb-v2": "MMEB's 18 video tasks"}
"""What collections leave out."""


def collection_name(written: str) -> str:
    """Return MTEB's name of a collection, or an empty string."""
    names = MTEB_COLLECTIONS | {name.lower(): name for name in MTEB_COLLECTIONS.values()}
    return names.get(written.lower(), "")
