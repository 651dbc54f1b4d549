"""Birdsnap, the list of test images that the InternVL authors could still download."""

from __future__ import annotations

from pathlib import Path

from eyechart.datasets.classes import class_info, read_class_texts
from eyechart.datasets.images import ImageFinder
from eyechart.datasets.layout import existing, own_split
from eyechart.datasets.rows import RowDataset, in_memory
from eyechart.errors import DataError
from eyechart.io.untrusted import read_text, split_lines
from eyechart.types import DatasetSpec, Sample

LIST = "test_images_valid.txt"
SPECIES = "species.txt"


def open_birdsnap(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read ``species.txt`` (tabs: id, common name, ..., folder) and the list of images; both have a header."""
    own_split(spec)
    root = existing(spec, [SPECIES, f"birdsnap/{SPECIES}"]).parent
    species = [line.split("\t") for line in _lines(root / SPECIES)]
    if any(len(row) < 2 for row in species):
        raise DataError(f"{root / SPECIES} must have columns of ids, names and folders, with tabs between them.")
    label_of = {row[-1].lower(): label for label, row in enumerate(species)}
    finder = ImageFinder(root, ["{image}", "images/{image}"])
    samples = []
    for name in _lines(root / LIST):
        folder = name.split("/")[0].lower()
        if folder not in label_of:
            raise DataError(f"{root / LIST}: {name!r} is in no folder that {SPECIES} names.")
        samples.append(Sample(name, finder.find(name), label=label_of[folder]))
    finder.raise_if_missing(root / LIST)
    texts = read_class_texts(None, spec, tuple(row[1] for row in species))
    return in_memory(class_info(spec, "classification", texts, root), samples)


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise DataError(f"There is no {path}.", advice="See `eyechart info birdsnap`.")
    return [line for line in split_lines(read_text(path))[1:] if line.strip()]
