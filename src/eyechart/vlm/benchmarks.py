"""The benchmarks that are known by name, read from ``benchmarks.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

Judge = Literal["no", "optional", "required"]
_JUDGES: tuple[Judge, ...] = get_args(Judge)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What is known of a benchmark before its file is there."""

    name: str
    dataset_class: str
    rating: str
    judge: Judge
    url: str = ""
    md5: str = ""
    metric: str = ""
    """For open questions: the metric that compares an answer with the right ones."""
    answers: bool = True
    about: str = ""

    @property
    def needs_judge(self) -> bool:
        """Tell whether nothing can be scored without a judge."""
        return self.judge == "required"


@cache
def known_benchmarks() -> Mapping[str, Benchmark]:
    """Return all benchmarks by name."""
    text = files("eyechart.vlm").joinpath("benchmarks.toml").read_text(encoding="utf-8")
    return {entry.name: entry for family in tomllib.loads(text)["family"] for entry in _members(family)}


def _members(family: Mapping[str, object]) -> Iterator[Benchmark]:
    datasets = family["datasets"]
    judge: Judge = next(word for word in _JUDGES if word == family["judge"])
    if not isinstance(datasets, dict):
        raise TypeError(f"benchmarks.toml: bad family {family.get('about')!r}")
    for name, entry in datasets.items():
        md5, url = entry if isinstance(entry, list) else (entry, f"{family['url']}/{name}.tsv")
        yield Benchmark(
            name=name,
            dataset_class=str(family["class"]),
            rating=str(family["rating"]),
            judge=judge,
            url=url,
            md5=md5,
            metric=str(family.get("metric", "")),
            answers=bool(family.get("answers", True)),
            about=str(family.get("about", "")),
        )


class CatalogueColumn(Mapping[str, str]):
    """The addresses or digests of a dataset class's benchmarks: a dict that reads the catalogue when it is used."""

    def __init__(self, dataset_class: str, column: Literal["url", "md5"]) -> None:
        self.dataset_class, self.column = dataset_class, column

    def _entries(self) -> dict[str, str]:
        known = known_benchmarks().values()
        return {b.name: getattr(b, self.column) for b in known if b.dataset_class == self.dataset_class}

    def __getitem__(self, name: str) -> str:
        return self._entries()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries())

    def __len__(self) -> int:
        return len(self._entries())
