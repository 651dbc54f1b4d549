"""Export of any dataset to a webdataset folder, byte for byte in CLIP_benchmark's layout."""

import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from eyechart.datasets.class_texts import CLASSNAMES, TEMPLATES, parse_lines
from eyechart.datasets.image_finder import new_folder
from eyechart.datasets.webdataset import EXACT
from eyechart.errors import DataError, UsageError, unknown_name
from eyechart.io.files import write_atomic
from eyechart.io.images import ImageRef, Trait, image_traits, to_rgb
from eyechart.io.progress import NoProgress, Progress
from eyechart.io.safe_parse import MAX_LINE, decode_text, read_text, split_lines
from eyechart.languages import is_main
from eyechart.manifest import iter_samples
from eyechart.messages import UserMessage
from eyechart.types import Dataset, DatasetInfo, Fetchable, Sample

ORIGINAL = "original"
FORMATS: dict[str, dict[str, Any]] = {
    "webp": {"format": "WEBP", "lossless": True, "exact": True},
    "png": {"format": "PNG"},
    "jpg": {"format": "JPEG"},
}
"""Pillow's arguments by extension. ``exact`` keeps the colours under transparent pixels."""
MAGIC = {"jpg": (b"\xff\xd8\xff", 0), "png": (b"\x89PNG\r\n\x1a\n", 0), "webp": (b"WEBP", 8)}
"""Magic bytes and their offset, for the formats of webdatasets."""
DEEP = frozenset({"I;16", "I;16B"})
MODES = {
    "webp": frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX"}),
    "png": frozenset({"1", "L", "LA", "P", "RGB", "RGBA"}) | DEEP,
    "jpg": frozenset({"L", "RGB", "CMYK"}),
}
"""Modes that each format supports; an image in another mode becomes RGB."""


def recode(ref: ImageRef, image_format: str | None) -> tuple[str, bytes]:
    """Return extension and bytes of an image in a format, or unchanged.

    A crop, or a file in a format that webdataset readers do not support (PPM, TIFF, ...), becomes lossless webp, or PNG
    if it has more than eight bits per channel.
    """
    check_format(image_format)
    data = ref.read()
    found = extension_of(data)
    keep = image_format == ORIGINAL or (image_format is None and not ref.made)
    if keep and found and ref.box is None:
        return found, data
    decoded = image = ref.decode()
    extension = image_format if image_format not in (None, ORIGINAL) else "webp"
    if extension == "webp" and image.mode in DEEP:
        extension = "png"
    if image.mode not in MODES[str(extension)]:
        image = to_rgb(image)
    stream, options = io.BytesIO(), dict(FORMATS[str(extension)])
    if Trait.ORIENTATION in image_traits(decoded):
        options["exif"] = decoded.getexif()  # generators apply it
    image.save(stream, **options)
    return str(extension), stream.getvalue()


def extension_of(data: bytes) -> str | None:
    """Detect JPEG, PNG and WebP by their magic bytes."""
    return next((name for name, (mark, at) in MAGIC.items() if data[at : at + len(mark)] == mark), None)


def check_format(image_format: str | None) -> None:
    """Reject a format that cannot be written."""
    if image_format is not None and image_format not in (ORIGINAL, *FORMATS):
        raise unknown_name("image format", image_format, (ORIGINAL, *FORMATS))


class ShardWriter:
    """Writes samples to ``0.tar``, ``1.tar`` and so on; a shard ends when it has enough samples or bytes."""

    def __init__(self, folder: Path, info: DatasetInfo, max_count: int, max_size: int) -> None:
        self.folder, self.info, self.max_count, self.max_size = folder, info, max_count, max_size
        self.samples = self.shards = 0
        self._count = self._size = 0
        self._archive: tarfile.TarFile | None = None

    def close(self) -> None:
        """Complete the last shard."""
        if self._archive is not None:
            self._archive.close()

    def write(self, sample: Sample, extension: str, data: bytes, texts: Mapping[str, Sequence[str]]) -> None:
        """Write one sample, with members in alphabetical order as the webdataset library does."""
        fields = {extension: data, **_target(sample, texts, self.info)}
        if self._archive is None or self._count >= self.max_count or self._size >= self.max_size:
            self.close()
            self._archive = tarfile.open(self.folder / f"{self.shards}.tar", "w")  # noqa: SIM115 - see `close`
            self.shards += 1
            self._count = self._size = 0
        for name in sorted(fields):
            info = tarfile.TarInfo(f"s{self.samples:07d}.{name}")
            info.size, info.mode = len(fields[name]), 0o444
            self._archive.addfile(info, io.BytesIO(fields[name]))
            self._size += len(fields[name])
        self._count += 1
        self.samples += 1


def _target(sample: Sample, texts: Mapping[str, Sequence[str]], info: DatasetInfo) -> dict[str, bytes]:
    if info.kind == "classification":
        if sample.label is None:
            raise DataError("Sample {id} has no label.", id=sample.id)
        return {"cls": str(sample.label).encode()}
    if info.kind == "multilabel":
        vector = np.zeros(len(info.classnames), np.float32)
        vector[list(sample.labels)] = 1
        stream = io.BytesIO()
        np.save(stream, vector)
        return {"npy": stream.getvalue()}
    fields = {}
    for member, captions in texts.items():
        # A caption is one line, so line breaks inside are written as backslash and n, as CLIP_benchmark does.
        lines = "\n".join(caption.replace("\n", r"\n") for caption in captions)
        fields[member] = lines.encode(errors="replace")
        if "\0" in lines or split_lines(fields[member].decode()) != list(captions):
            fields[f"{member}{EXACT}"] = json.dumps(captions).encode()
    too_long = next((member for member, data in fields.items() if len(data) > MAX_LINE), None)
    if too_long:
        raise DataError(
            "Sample {id}: its captions have {n} bytes, more than the limit of {max_line}.",
            id=sample.id,
            n=len(fields[too_long]),
            max_line=MAX_LINE,
        )
    return fields


# Writes any dataset as a webdataset folder, byte for byte in the layout that CLIP_benchmark reads.
#
#     OUT/classnames.txt  OUT/zeroshot_classification_templates.txt  OUT/dataset_type.txt (multilabel, retrieval)
#     OUT/{split}/nshards.txt  OUT/{split}/0.tar ...   members s0000000.jpg and s0000000.cls | .npy | .txt
#
# The split's folder appears when it is complete: an interrupted export leaves no partial split.


MAX_COUNT = 10_000
MAX_SIZE = 1_000_000_000
TYPES = {"classification": "", "multilabel": "multilabel", "retrieval": "retrieval"}
"""Content of dataset_type.txt by kind; without the file, the dataset is for classification."""
WORKERS = 4
BATCH = 256


@dataclass(frozen=True)
class ExportSummary:
    """What an export wrote."""

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
) -> ExportSummary:
    """Write one split; other splits in the folder are kept.

    Datasets after the first are the same one in other languages, whose class names, templates and captions are added.
    ``image_format``: ``original`` keeps the bytes; ``webp`` (lossless), ``png`` and ``jpg`` re-encode. By default files
    are kept and pixels without a file become webp. ``max_count`` and ``max_size`` are images and bytes per shard.
    """
    main, shown = datasets[0], progress or NoProgress()
    info = main.info
    if info.kind not in TYPES:
        raise UsageError("{name} is a {kind} dataset, which has no webdataset layout.", name=info.name, kind=info.kind)
    if any(dataset.info.class_prompts for dataset in datasets):
        raise UsageError(
            "{name} has per-class prompts, which have no webdataset layout.",
            advice="Export it without {--custom_template_file}, and pass that file to `eval`.",
            name=info.name,
        )
    target = output / info.split
    if target.exists() and not overwrite:
        raise UsageError(
            "{path} already exists.", advice="Use --overwrite to replace it, or another {--output}.", path=target
        )
    for dataset in datasets:
        if isinstance(dataset, Fetchable):
            dataset.fetch(shown)
    _write_lists(output, [dataset.info for dataset in datasets])
    with new_folder(target) as folder, shown.step(UserMessage("exporting {name}", name=info.name), None) as bar:
        writer = ShardWriter(folder, info, max_count, max_size)
        with closing(writer), ThreadPoolExecutor(WORKERS) as pool:
            items = _translated(datasets, limit)
            while batch := list(islice(items, BATCH)):
                images = pool.map(lambda pair: recode(pair[0].image, image_format), batch)
                for (sample, texts), (extension, data) in zip(batch, images, strict=True):
                    writer.write(sample, extension, data, texts)
                    bar.advance()
        if not writer.samples:
            raise DataError("{name} has no samples in split {split!r}.", name=info.name, split=info.split)
        (folder / "nshards.txt").write_text(f"{writer.shards}\n", encoding="ascii")
    return ExportSummary(target, writer.samples, writer.shards)


def _translated(datasets: Sequence[Dataset], limit: int | None) -> Iterator[tuple[Sample, dict[str, Sequence[str]]]]:
    """Yield the samples of the first dataset with their captions by member name: txt, de.txt, ..."""
    others = {
        f"{dataset.info.language}.txt": {sample.id: sample.texts for sample in iter_samples(dataset, limit)}
        for dataset in datasets[1:]
        if dataset.info.kind == "retrieval"
    }
    own = "txt" if is_main(datasets[0].info.language) else f"{datasets[0].info.language}.txt"
    for sample in iter_samples(datasets[0], limit):
        missing = [member for member, texts in others.items() if sample.id not in texts]
        if missing:
            raise DataError(
                "{name}: sample {id} has no {first}.", name=datasets[0].info.name, id=sample.id, first=missing[0]
            )
        yield sample, {own: sample.texts, **{member: texts[sample.id] for member, texts in others.items()}}


def _write_lists(output: Path, infos: Sequence[DatasetInfo]) -> None:
    """Write the list files; existing ones must have the same content."""
    files: dict[str, str] = {}
    if TYPES[infos[0].kind]:
        files["dataset_type.txt"] = TYPES[infos[0].kind] + "\n"
    for info in infos:
        suffix = ".txt" if is_main(info.language) else f".{info.language}.txt"
        for stem, entries in ((CLASSNAMES, info.classnames), (TEMPLATES, info.templates)):
            broken = [entry for entry in entries if not _is_line(entry)]
            if broken:
                raise DataError(
                    "{name}: {first!r} cannot be a line of {stem}{suffix}: it would be read back as another text.",
                    advice="Remove line breaks, and spaces and tabs at its ends.",
                    name=info.name,
                    first=broken[0],
                    stem=stem,
                    suffix=suffix,
                )
            if entries:
                files[stem + suffix] = "\n".join(entries) + "\n"
    for name, text in files.items():
        path = output / name
        if path.is_file() and read_text(path) != text:
            raise DataError(
                "{path} belongs to another dataset.", advice="Choose another {--output}, or delete it.", path=path
            )
    for name, text in files.items():
        write_atomic(output / name, text.encode())


def _is_line(entry: str) -> bool:
    """Whether an entry of a list file is read back exactly."""
    try:
        return parse_lines(decode_text(f"{entry}\n".encode(), Path())) == [entry]
    except (DataError, UnicodeEncodeError):
        return False
