"""Writing any dataset as a webdataset folder, byte for byte in the layout that CLIP_benchmark reads.

    OUT/classnames.txt  OUT/zeroshot_classification_templates.txt  OUT/dataset_type.txt (multilabel, retrieval)
    OUT/{split}/nshards.txt  OUT/{split}/0.tar ...   members s0000000.jpg and s0000000.cls | .npy | .txt

The split's folder appears when it is complete: an interrupted export leaves nothing that looks like one.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from eyechart.datasets.classes import CLASSNAMES, TEMPLATES
from eyechart.datasets.wds.recode import recode
from eyechart.datasets.wds.shard_writer import ShardWriter
from eyechart.errors import DataError, UsageError
from eyechart.io.files import TEMPORARY, sync_folder, write_atomic
from eyechart.io.progress import NoProgress, Progress
from eyechart.io.untrusted import read_text
from eyechart.languages import is_main
from eyechart.manifest import iter_samples
from eyechart.types import Dataset, DatasetInfo, Fetchable, Sample

MAX_COUNT = 10_000
MAX_SIZE = 1_000_000_000
TYPES = {"classification": "", "multilabel": "multilabel", "retrieval": "retrieval"}
"""What dataset_type.txt says of each kind; without it the dataset is for classification."""
Item = tuple[Sample, Mapping[str, Sequence[str]]]
"""A sample, and its captions by member name: txt, de.txt, ..."""
WORKERS = 4
BATCH = 256


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    samples: int
    shards: int


def export_webdataset(
    datasets: Sequence[Dataset],
    output: Path,
    *,
    image_format: str | None = None,
    max_count: int = MAX_COUNT,
    max_size: int = MAX_SIZE,
    limit: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write one split.

    Args:
        datasets: The dataset to write; more of them are the same one in other languages, whose class names,
            templates and captions are written beside the first one's.
        output: The webdataset's folder; other splits in it stay as they are.
        image_format: ``original`` keeps the bytes, ``webp`` (lossless), ``png`` and ``jpg`` encode anew. By default
            files stay as they are and pixels that never were a file become webp.
        max_count: Images per shard.
        max_size: Bytes per shard.
        limit: Write only the first samples.
        overwrite: Replace the split if it is there.
        progress: Where to report.

    Raises:
        UsageError: If the split is there already, or the kind of data has no such layout.
        DataError: If the lists that are there belong to another dataset, or the languages do not fit together.
    """
    main, shown = datasets[0], progress or NoProgress()
    info = main.info
    if info.kind not in TYPES:
        raise UsageError(f"{info.name} is a {info.kind} dataset, for which there is no webdataset layout.")
    if any(dataset.info.class_prompts for dataset in datasets):
        raise UsageError(
            f"{info.name} has prompts for each class, for which there is no webdataset layout.",
            advice="Export it without --custom_template_file, and give that file to `eval`.",
        )
    target = output / info.split
    if target.exists() and not overwrite:
        raise UsageError(f"{target} is there already.", advice="Use --overwrite to replace it, or another --output.")
    for dataset in datasets:
        if isinstance(dataset, Fetchable):
            dataset.fetch(shown)
    _write_lists(output, [dataset.info for dataset in datasets])
    with _new_folder(target) as folder, shown.step(f"exporting {info.name}", None) as bar:
        writer = ShardWriter(folder, max_count, max_size)
        with writer, ThreadPoolExecutor(WORKERS) as pool:
            for batch in _batches(_translated(datasets, limit)):
                images = pool.map(lambda pair: recode(pair[0].image, image_format), batch)
                for (sample, texts), (extension, data) in zip(batch, images, strict=True):
                    writer.write(sample, extension, data, texts, kind=info.kind, n_classes=len(info.classnames))
                    bar.advance()
        if not writer.samples:
            raise DataError(f"{info.name} has no samples in split {info.split!r}.")
        (folder / "nshards.txt").write_text(f"{writer.shards}\n", encoding="ascii")
    return Exported(target, writer.samples, writer.shards)


def _translated(datasets: Sequence[Dataset], limit: int | None) -> Iterator[Item]:
    """Yield the samples of the first dataset with their captions in every language."""
    others = []
    for dataset in datasets[1:]:
        if dataset.info.kind == "retrieval":
            texts = {sample.id: sample.texts for sample in iter_samples(dataset, limit)}
            others.append((f"{dataset.info.language}.txt", texts))
    own = "txt" if is_main(datasets[0].info.language) else f"{datasets[0].info.language}.txt"
    for sample in iter_samples(datasets[0], limit):
        missing = [member for member, texts in others if sample.id not in texts]
        if missing:
            raise DataError(f"{datasets[0].info.name}: sample {sample.id} has no {missing[0]}.")
        yield sample, {own: sample.texts, **{member: texts[sample.id] for member, texts in others}}


def _batches(items: Iterator[Item]) -> Iterator[list[Item]]:
    """Cut a stream into pieces that are encoded together."""
    while batch := list(islice(items, BATCH)):
        yield batch


def _write_lists(output: Path, infos: Sequence[DatasetInfo]) -> None:
    """Write the small files; those that are there already must say the same."""
    files: dict[str, str] = {}
    if TYPES[infos[0].kind]:
        files["dataset_type.txt"] = TYPES[infos[0].kind] + "\n"
    for info in infos:
        suffix = ".txt" if is_main(info.language) else f".{info.language}.txt"
        for stem, entries in ((CLASSNAMES, info.classnames), (TEMPLATES, info.templates)):
            broken = [entry for entry in entries if "\n" in entry or "\r" in entry]
            if broken:
                raise DataError(f"{info.name}: {broken[0]!r} has a line break and cannot be a line of {stem}{suffix}.")
            if entries:
                files[stem + suffix] = "\n".join(entries) + "\n"
    for name, text in files.items():
        path = output / name
        if path.is_file() and read_text(path) != text:
            raise DataError(f"{path} is of another dataset.", advice="Choose another --output, or delete it.")
    for name, text in files.items():
        write_atomic(output / name, text.encode())


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """Make a folder aside that takes the target's place when the block ends, and is removed if it fails."""
    mark = f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(6)}"
    folder = target.parent / f"{mark}-{target.name}"
    folder.mkdir(parents=True)
    try:
        yield folder
        if target.exists():
            old = target.parent / f"{mark}-old-{target.name}"
            target.rename(old)
            folder.rename(target)
            shutil.rmtree(old)
        else:
            folder.rename(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    sync_folder(target.parent)
