"""Changes to folders as other tools leave them: Parquet, ImageFolder metadata, and tar files without a count."""

from __future__ import annotations

import json
import shutil
import tarfile
from functools import partial
from pathlib import Path

from trust_edits import TINY, Change, Fault, draw, png, replace

PARQUET = [*TINY, "--dataset", "hub"]
METADATA = [*TINY, "--dataset", "listed"]
TARS = [*TINY, "--dataset", "tars"]
CLASSES = ("bag", "shirt", "sandal")


def write_parquet(world: Path, *, shift: int = 0, parts: int = 2) -> None:
    """Write a repository of Parquet files whose labels are moved by some classes."""
    import pyarrow as pa
    from pyarrow import parquet

    (world / "hub/data").mkdir(parents=True, exist_ok=True)
    rows = [{"image": {"bytes": png(draw(i)), "path": None}, "label": CLASSES[(i + shift) % 3]} for i in range(30)]
    for part in range(parts):
        table = pa.Table.from_pylist(rows[part * 30 // parts : (part + 1) * 30 // parts])
        parquet.write_table(table, world / f"hub/data/test-{part:05d}-of-{parts:05d}.parquet")


def write_listed(world: Path) -> None:
    """Write images with a metadata table for each of two splits."""
    for split, first in (("test", 0), ("train", 100)):
        folder = world / "listed" / split
        folder.mkdir(parents=True)
        rows = [{"file_name": f"{i}.png", "label": CLASSES[i % 3]} for i in range(30)]
        for i in range(30):
            (folder / f"{i}.png").write_bytes(png(draw(first + i)))
        (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_tars(world: Path) -> None:
    """Copy the shards of a webdataset, without nshards.txt."""
    shutil.copytree(world / "wds_c", world / "tars")
    for count in (world / "tars").glob("*/nshards.txt"):
        count.unlink()


def swap_labels(world: Path) -> None:
    """Exchange two labels of the first shard; its size and the names of its members stay."""
    (shard, *_) = sorted((world / "tars").rglob("*.tar"))
    with tarfile.open(shard) as archive:
        places = [member.offset_data for member in archive if member.name.endswith(".cls")]
    data = bytearray(shard.read_bytes())
    for place in places:
        data[place] = ord("0") if data[place] != ord("0") else ord("1")
    shard.write_bytes(data)


CHANGES = [
    Change(
        "parquet: other labels in the same files",
        PARQUET,
        partial(write_parquet, shift=1),
        prepare=write_parquet,
        defence=(Fault("datasets/libraries.py", "files_digest(files, folder), folder)", '"", folder)'),),
    ),
    Change(
        "parquet: a numbered file is missing",
        PARQUET,
        lambda w: (w / "hub/data/test-00001-of-00002.parquet").unlink(),
        prepare=write_parquet,
        refused=True,
        defence=(
            Fault("datasets/libraries.py", "files_digest(files, folder), folder)", '"", folder)'),
            Fault("datasets/locations.py", "if counts and counts != {len(files)}:", "if False:"),
        ),
    ),
    Change(
        "metadata: a label in the table of a split",
        METADATA,
        lambda w: replace("listed/test/metadata.jsonl", '"0.png", "label": "bag"', '"0.png", "label": "sandal"', w),
        prepare=write_listed,
        defence=(
            Fault(
                "datasets/row_dataset.py",
                "(sample.id, _content(sample.image), sample.label, sample.labels, sample.texts, dict(sample.meta))",
                "(sample.id, _content(sample.image), sample.labels, sample.texts)",
            ),
        ),
    ),
    Change(
        "tars without a count: other labels",
        TARS,
        swap_labels,
        prepare=write_tars,
        defence=(
            Fault("datasets/webdataset.py", "[self.files.version(name) for name in self._sizes]", "list(self._sizes)"),
        ),
    ),
]
