"""Questions with a few candidates: our folder form, ARO, ImageCoDe, SugarCrepe, Winoground and WinoGAViL."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from eyechart.datasets.annotation_files import captioned, named_file
from eyechart.datasets.image_finder import ImageFinder, finder_of, unpack
from eyechart.datasets.locations import check_only_split, existing, need_file, source_of, source_split
from eyechart.datasets.row_dataset import Problems, RowDataset, describe, in_memory, read_csv
from eyechart.errors import DataError
from eyechart.io.images import ImageRef
from eyechart.io.safe_parse import json_lines, parse_json, read_json, text_of
from eyechart.languages import is_main
from eyechart.messages import UserMessage
from eyechart.types import DatasetSpec, Sample

FILE = "questions.jsonl"
IMAGES = ("{image}", "images/{image}", "image-sets/{image}", "val2017/{image}", "val2014/{image}")
_OWN_KEYS = {"id", "images", "texts", "right"}

Row = Mapping[str, Any]
T = TypeVar("T")


def question_samples(
    name: str, refs: Sequence[ImageRef], texts: Sequence[str], right: Sequence[tuple[int, int]], meta: Row
) -> Iterator[Sample]:
    """Convert a question to samples: one per image, starting with its correct text.

    Texts that are correct for no image become wrong candidates of the first image with a correct text.
    """
    own: dict[int, int] = {}
    for place, text in right:
        if not (0 <= place < len(refs) and 0 <= text < len(texts)) or own.setdefault(place, text) != text:
            raise DataError(
                "the pair [{i}, {j}] is invalid for {n} images and {m} texts",
                i=place,
                j=text,
                n=len(refs),
                m=len(texts),
            )
    if not own:
        raise DataError("no image is paired with a text")
    wrong = tuple(text for i, text in enumerate(texts) if i not in own.values())
    if len(refs) == 1 and not wrong:
        raise DataError("there is only one candidate")
    for i, ref in enumerate(refs):
        first = (texts[own[i]],) if i in own else ()
        # The first text of a sample is the correct one, so wrong texts need an image that has a correct one.
        extra = wrong if i == min(own) else ()
        question = {"question": name, "images": len(refs)} | ({"text": own[i]} if i in own else {})
        sample_id = f"{name}/{i}" if len(refs) > 1 else name
        yield Sample(sample_id, ref, texts=first + extra, meta={**meta, **question})


def open_selection(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read ``questions.jsonl``; every bad line is reported with its number."""
    check_only_split(spec, UserMessage("{file} has no splits: use a separate folder per split.", file=FILE))
    name = FILE if is_main(spec.language) else FILE.replace(".", f".{spec.language}.")
    path = need_file(Path(spec.root) / name, UserMessage("A folder of questions must contain it: see docs/datasets."))
    finder = ImageFinder(path.parent, IMAGES)

    def parse(number: int, row: Row) -> ParsedQuestion:
        images, texts = _texts(row["images"]), _texts(row["texts"])
        pairs = row.get("right", [[i, i] for i in range(min(len(images), len(texts)))])
        right = [(int(ref), int(text)) for ref, text in pairs]
        meta = {key: value for key, value in row.items() if key not in _OWN_KEYS}
        return str(row.get("id", number)), [finder.find(image) for image in images], texts, right, meta

    return question_dataset(spec, path, json_lines(path), parse, finder)


def open_aro(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read a list in ARO's format: an image, its caption, and false captions (or options, the correct one first).

    Rows of Visual Genome specify a box, to which the image is cropped.
    """
    check_only_split(spec, "ARO's files have no splits.")
    path = root = Path(spec.root)
    if not root.is_file():  # NAME.json for ``aro/NAME``, or the only one in the folder
        path, found = root / f"{spec.name.rpartition('/')[2]}.json", sorted(root.glob("*.json"))
        if not path.is_file() and len(found) != 1:
            raise DataError(
                "{root} contains {n} JSON files, none of them named {name}.",
                advice="Pass the file itself.",
                root=root,
                n=len(found),
                name=path.name,
            )
        path = path if path.is_file() else found[0]
    finder = ImageFinder(path.parent, IMAGES)

    def parse(number: int, row: Row) -> ParsedQuestion:
        if "caption_options" in row:
            texts = _texts(row["caption_options"])
        else:
            false = row["false_caption"]
            texts = [text_of(row["true_caption"]), *([false] if isinstance(false, str) else _texts(false))]
        ref = finder.find(str(row.get("image_path") or row["image"]))
        if ref is not None and "bbox_w" in row:
            left, upper, width, height = (int(row[f"bbox_{side}"]) for side in "xywh")
            ref = ref.crop(left, upper, left + width, upper + height)
        meta = {key: row[key] for key in ("relation_name", "attributes") if key in row}
        return str(number), [ref], texts, [(0, 0)], meta

    rows = _json(path, list, "It must be a list of images with captions.")
    return question_dataset(spec, path, enumerate(rows), parse, finder)


def open_imagecode(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read ImageCoDe: sets of ten similar images, and texts that describe one of them."""
    root = Path(spec.root)
    path = root if root.is_file() else root / f"{spec.split}_data.json"
    if path.name != f"{spec.split}_data.json":
        check_only_split(spec, "The file of a split is SPLIT_data.json.")
    finder = ImageFinder(path.parent, IMAGES)

    def parse(_: int, row: tuple[str, str, Any]) -> ParsedQuestion:
        name, target, text = row
        refs = [finder.find(f"{name}/img{i}.jpg") for i in range(10)]
        return f"{name}/{target}", refs, [text_of(text)], [(int(target), 0)], {"video": "open-images" not in name}

    advice = "It must map names of image sets to texts by image number."
    rows = [
        (name, target, text)
        for name, texts in _json(path, dict, advice).items()
        for target, text in _checked(texts, dict, path, advice).items()
    ]
    return question_dataset(spec, path, enumerate(rows), parse, finder)


ParsedQuestion = tuple[str, list[ImageRef | None], list[str], list[tuple[int, int]], Row]
"""Name, images, texts, correct pairs of both, and metadata."""


def question_dataset(
    spec: DatasetSpec,
    path: Path,
    rows: Iterable[tuple[int, Any]],
    parse: Callable[[int, Any], ParsedQuestion],
    finder: ImageFinder,
) -> RowDataset[Sample]:
    """Convert rows to samples, collecting all problems."""
    problems = Problems(path)
    samples: list[Sample] = []
    names: set[str] = set()
    for number, row in rows:
        try:
            name, refs, texts, right, meta = parse(number, row)
            if name in names:  # both would be read as one question
                raise DataError("the id {name!r} occurs twice", name=name)
            names.add(name)
            there = [ref for ref in refs if ref is not None]
            if len(there) == len(refs):
                samples += question_samples(name, there, texts, right, meta)
        except DataError as error:
            problems.add(number, error.message)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            problems.add(number, f"not in the expected form ({error!r})")
    problems.raise_if_any()
    finder.raise_if_missing(path)
    return in_memory(describe(spec, "selection", path), samples)


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):  # each letter of a text would be a candidate
        raise TypeError(f"{value!r} is not a list")
    return [text_of(text) for text in value]


def _json(path: Path, kind: type[T], advice: str) -> T:
    need_file(path, UserMessage("Check {--dataset_root} and {--split}."))
    return _checked(read_json(path), kind, path, advice)


def _checked(value: Any, kind: type[T], path: Path, advice: str) -> T:
    if not isinstance(value, kind):
        raise DataError("{path} does not have the format of its benchmark.", advice=advice, path=path)
    return value


EXAMPLES = ["examples.jsonl", "data/examples.jsonl"]
WINOGROUND_IMAGES = ["images", "data/images"]
"""Folders, or archives of the same name, as on the hub."""
TAGS = ("tag", "secondary_tag", "collapsed_tag", "num_main_preds")
"""Winoground's columns that define groups."""
_VOWELS = "aeiou"


def open_sugar_crepe(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read one of the seven files: an image, its caption and a wrong one."""
    source_split(spec)
    path = named_file(spec, [source_of(spec)["file"]], source_of(spec).get("url"))
    try:
        rows = [
            (str(key), str(row["filename"]), [text_of(row["caption"]), text_of(row["negative_caption"])])
            for key, row in read_json(path).items()
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError("{path} is not in SugarCrepe's format ({reason!r}).", path=path, reason=error) from error
    return captioned(spec, path, rows, kind="selection")


def open_winoground(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read two images and two captions per example; tags become metadata."""
    source_split(spec)
    path = existing(spec, EXAMPLES)
    root = Path(spec.root)
    archive = next((file for name in WINOGROUND_IMAGES if (file := root / f"{name}.zip").is_file()), None)
    if archive and not any((root / name).is_dir() for name in WINOGROUND_IMAGES):
        root = unpack(archive)
    finder = ImageFinder(root, [*(f"{name}/{{image}}" for name in WINOGROUND_IMAGES), "{image}"])

    def parse(_: int, row: Row) -> ParsedQuestion:
        names = [row["image_0"], row["image_1"]]
        refs = [finder.find(name if "." in name else f"{name}.png") for name in names]
        texts = [text_of(row[key]) for key in ("caption_0", "caption_1")]
        tags = {key: row[key] for key in TAGS if key in row}
        return str(row["id"]), refs, texts, [(0, 0), (1, 1)], tags

    return question_dataset(spec, path, json_lines(path), parse, finder)


def open_winogavil(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read a cue and its candidate images, several of which match it."""
    finder, settings = finder_of(spec), source_of(spec)
    path = named_file(spec, [settings["file"]], settings.get("url"))

    def parse(number: int, row: Row) -> ParsedQuestion:
        names = [str(name) for name in parse_json(row["candidates"])]
        right = {str(name) for name in parse_json(row["associations"])}
        if not right <= set(names):
            raise DataError("an association is not a candidate")
        refs = [finder.find(f"{name}.jpg") for name in names]
        pairs = [(i, 0) for i, name in enumerate(names) if name in right]
        cue = text_of(row["cue"]).lower()
        prompt = f"{'An' if cue[:1] in _VOWELS else 'A'} {cue}"  # as in DataComp
        return str(number), refs, [prompt], pairs, {"candidates": len(names)}

    return question_dataset(spec, path, enumerate(row for _, row in read_csv(path)[1]), parse, finder)
