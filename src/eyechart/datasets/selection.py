"""Questions with a few candidates: our own folder form, and those of ARO and ImageCoDe.

    ROOT/questions.jsonl     {"images": ["a.png", "b.png"], "texts": ["...", "..."], "right": [[0, 0], [1, 1]], ...}

``right`` pairs the positions of images and texts; without it, image i belongs to text i. Other keys become
metadata. Images lie in ROOT or in ROOT/images. In another language the file is ``questions.de.jsonl``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from eyechart.datasets.images import ImageFinder
from eyechart.datasets.layout import check_only_split
from eyechart.datasets.rows import Problems, RowDataset, describe, in_memory
from eyechart.errors import DataError
from eyechart.io.media import ImageRef
from eyechart.io.untrusted import json_lines, read_json, text_of
from eyechart.languages import is_main
from eyechart.types import DatasetSpec, Sample

FILE = "questions.jsonl"
IMAGES = ("{image}", "images/{image}", "image-sets/{image}", "val2017/{image}", "val2014/{image}")
_OWN_KEYS = {"id", "images", "texts", "right"}

Row = Mapping[str, Any]
T = TypeVar("T")


def question_samples(
    name: str, refs: Sequence[ImageRef], texts: Sequence[str], right: Sequence[tuple[int, int]], meta: Row
) -> Iterator[Sample]:
    """Write a question as samples: one per image, with the text that is right for it first.

    Texts that are right for no image go to the first image, as wrong candidates.

    Raises:
        DataError: If a pair points nowhere, an image has two right texts, or there is nothing to choose.
    """
    own: dict[int, int] = {}
    for place, text in right:
        if not (0 <= place < len(refs) and 0 <= text < len(texts)) or own.setdefault(place, text) != text:
            raise DataError(f"the pair [{place}, {text}] does not fit {len(refs)} images and {len(texts)} texts")
    if not own:
        raise DataError("no image belongs to a text")
    wrong = tuple(text for i, text in enumerate(texts) if i not in own.values())
    if len(refs) == 1 and not wrong:
        raise DataError("there is nothing to choose from")
    for i, ref in enumerate(refs):
        first = (texts[own[i]],) if i in own else ()
        # Wrong texts must not stand first: they go to an image that has a right one.
        extra = wrong if i == min(own) else ()
        question = {"question": name, "images": len(refs)} | ({"text": own[i]} if i in own else {})
        sample_id = f"{name}/{i}" if len(refs) > 1 else name
        yield Sample(sample_id, ref, texts=first + extra, meta={**meta, **question})


def open_selection(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read ``questions.jsonl``; every bad line is reported with its number."""
    check_only_split(spec, f"{FILE} is not divided: each split needs a folder of its own.")
    root = Path(spec.root)
    name = FILE if is_main(spec.language) else FILE.replace(".", f".{spec.language}.")
    path = root / name
    if not path.is_file():
        raise DataError(f"There is no {path}.", advice="A folder of questions holds it: see docs/datasets.")
    return question_dataset(spec, path, json_lines(path), _own_question)


def open_aro(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read a list in ARO's form: an image, its caption, and false captions (or options, the right one first).

    Rows of Visual Genome name a box; that part of the image is meant.
    """
    check_only_split(spec, "ARO's files are not divided.")
    path = _json_file(spec)
    rows = _json(path, list, "It is a list of images with captions.")
    return question_dataset(spec, path, enumerate(rows), _aro_question)


def open_imagecode(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read ImageCoDe: sets of ten similar images, and texts that describe one of them."""
    root = Path(spec.root)
    path = root if root.is_file() else root / f"{spec.split}_data.json"
    if path.name != f"{spec.split}_data.json":
        check_only_split(spec, "Its file is called SPLIT_data.json.")
    advice = "It maps names of image sets to texts by the number of their image."
    rows = [
        {"id": f"{name}/{target}", "set": name, "target": target, "text": text}
        for name, texts in _json(path, dict, advice).items()
        for target, text in _checked(texts, dict, path, advice).items()
    ]
    return question_dataset(spec, path, enumerate(rows), _imagecode_question)


Found = tuple[str, list[ImageRef | None], list[str], list[tuple[int, int]], Row]


def question_dataset(
    spec: DatasetSpec,
    path: Path,
    rows: Iterable[tuple[int, Any]],
    parse: Callable[[int, Row, ImageFinder], Found],
    finder: ImageFinder | None = None,
) -> RowDataset[Sample]:
    """Turn rows into samples, collecting all that is wrong."""
    finder = finder or ImageFinder(path.parent, IMAGES)
    problems = Problems(path)
    samples: list[Sample] = []
    names: set[str] = set()
    for number, row in rows:
        try:
            name, refs, texts, right, meta = parse(number, row, finder)
            if name in names:  # the two would be read as one question
                raise DataError(f"the id {name!r} occurs twice")
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


def _own_question(number: int, row: Row, finder: ImageFinder) -> Found:
    images, texts = _texts(row["images"]), _texts(row["texts"])
    pairs = row.get("right", [[i, i] for i in range(min(len(images), len(texts)))])
    right = [(int(ref), int(text)) for ref, text in pairs]
    meta = {key: value for key, value in row.items() if key not in _OWN_KEYS}
    return str(row.get("id", number)), [finder.find(image) for image in images], texts, right, meta


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):  # each letter of a text would be a candidate
        raise TypeError(f"{value!r} is no list")
    return [text_of(text) for text in value]


def _aro_question(number: int, row: Row, finder: ImageFinder) -> Found:
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


def _imagecode_question(number: int, row: Row, finder: ImageFinder) -> Found:  # noqa: ARG001 - one signature
    refs = [finder.find(f"{row['set']}/img{i}.jpg") for i in range(10)]
    meta = {"video": "open-images" not in row["set"]}
    return str(row["id"]), refs, [text_of(row["text"])], [(int(row["target"]), 0)], meta


def _json_file(spec: DatasetSpec) -> Path:
    """Find the annotation file: the root itself, ``NAME.json`` for ``aro/NAME``, or the only one in the folder."""
    root = Path(spec.root)
    if root.is_file():
        return root
    named = root / f"{spec.name.rpartition('/')[2]}.json"
    if named.is_file():
        return named
    found = sorted(root.glob("*.json"))
    if len(found) != 1:
        raise DataError(
            f"{root} has {len(found)} JSON files and none is called {named.name}.", advice="Name the file itself."
        )
    return found[0]


def _json(path: Path, kind: type[T], advice: str) -> T:
    if not path.is_file():
        raise DataError(f"There is no {path}.", advice="Check --dataset_root and --split.")
    return _checked(read_json(path), kind, path, advice)


def _checked(value: Any, kind: type[T], path: Path, advice: str) -> T:
    if not isinstance(value, kind):
        raise DataError(f"{path} is not in the form of its benchmark.", advice=advice)
    return value
