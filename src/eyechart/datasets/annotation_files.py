"""Annotation files: captions (COCO, Flickr, Crossmodal-3600, parallel files), image queries, similarity pairs."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from eyechart.datasets.image_finder import ImageFinder, finder_of
from eyechart.datasets.locations import (
    check_only_split,
    existing,
    fill,
    first_existing,
    need_file,
    source_of,
    source_split,
)
from eyechart.datasets.remote import fetch_url
from eyechart.datasets.row_dataset import Problems, RowDataset, describe, find_image, in_memory, json_objects
from eyechart.errors import DataError
from eyechart.io.files import file_path
from eyechart.io.images import ImageRef
from eyechart.io.safe_parse import read_json, read_text, split_lines, text_lines, text_of
from eyechart.languages import canonical
from eyechart.messages import UserMessage
from eyechart.types import DatasetSpec, Kind, Sample

ANY = "*"
"""Key of the catalogue's tables by language: every language without its own entry."""


def annotation_file(spec: DatasetSpec) -> Path:
    """Return the captions file of a dataset in the requested language.

    The catalogue's ``files`` lists candidate paths under the root and ``urls`` the published files, both by canonical
    language. The file of another language is never used.
    """
    own = spec.options.get("annotation_file")
    if own:
        return need_file(Path(own), UserMessage("Check {--annotation_file}."))
    tables = (source_of(spec).get(key, {}) for key in ("files", "urls"))
    names, url = (table.get(canonical(spec.language), table.get(ANY)) for table in tables)
    return named_file(spec, names or [], url)


def named_file(spec: DatasetSpec, names: list[str], url: str | None) -> Path:
    """Return the first existing file of several under the root, else download it."""
    values = {"split": source_split(spec), "language": str(spec.options.get("language", spec.language))}
    if url and first_existing(Path(spec.root), names, **values) is None:
        return fetch_url(fill(url, values), spec.options)
    entry = spec.options.get("entry", spec.name)
    advice = UserMessage("See `eyechart info {options}`, or set {--annotation_file}.", options=entry)
    return existing(spec, names, advice, **values)


def open_coco_captions(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read COCO's annotation format, with the Karpathy splits or COCO-CN.

    Images are sorted by id, as in pycocotools and torchvision; captions keep the order of the file.
    """
    path = annotation_file(spec)
    content = read_json(path)
    try:
        names = {int(image["id"]): str(image["file_name"]) for image in content["images"]}
        captions: dict[str, list[str]] = {str(number): [] for number in sorted(names)}
        for annotation in content["annotations"]:
            captions[str(int(annotation["image_id"]))].append(text_of(annotation["caption"]))
        twice = len(content["images"]) - len(names)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError("{path} is not in COCO's caption format ({reason!r}).", path=path, reason=error) from error
    if twice:
        raise DataError("{path} has {twice} images with duplicate ids.", path=path, twice=twice)
    return captioned(spec, path, [(key, names[int(key)], texts) for key, texts in captions.items()])


def open_flickr_captions(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read Flickr8k or Flickr30k: a header and ``image.jpg,caption`` lines, several per image.

    Images are in order of first occurrence; a caption may contain any character.
    """
    path = annotation_file(spec)
    problems = Problems(path)
    captions: dict[str, list[str]] = {}
    for number, line in text_lines(path):
        name, border, caption = line.strip().partition(".jpg,")
        if border and caption.strip():
            captions.setdefault(f"{name}.jpg", []).append(caption)
        elif line.strip() and number > 1:
            problems.add(number, "not 'image.jpg,caption'")
    problems.raise_if_any()
    return captioned(spec, path, [(name, name, texts) for name, texts in captions.items()])


def open_crossmodal3600(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read the first caption of each image in one of 36 languages, as CLIP_benchmark does: one JSON object per line."""
    source_split(spec)
    path = existing(spec, ["captions.jsonl", "xm3600/captions.jsonl"])
    language = str(spec.options.get("language", spec.language))
    problems = Problems(path)
    rows = []
    for number, row in json_objects(path, problems):
        try:
            key = str(row["image/key"])
            rows.append((key, f"{key}.jpg", [text_of(row[language]["caption"][0])]))
        except (KeyError, TypeError, IndexError):
            problems.add(number, f"no caption in {language!r}")
    problems.raise_if_any()
    return captioned(spec, path, rows, "images/{image}")


def open_parallel_captions(spec: DatasetSpec) -> RowDataset[Sample]:
    """Pair the lines of a file of image names with those of a file of captions in one language."""
    settings = source_of(spec)
    names_path = named_file(spec, settings["names"], settings.get("names_url"))
    path = annotation_file(spec)
    names, captions = ([line.strip() for line in split_lines(read_text(file))] for file in (names_path, path))
    if len(names) != len(captions):
        raise DataError(
            "{path} has {n} captions for the {n_names} images of {names_path}.",
            path=path,
            n=len(captions),
            n_names=len(names),
            names_path=names_path,
        )
    pairs = zip(names, captions, strict=True)
    return captioned(spec, path, [(f"{i}-{name}", name, [caption]) for i, (name, caption) in enumerate(pairs)])


def captioned(
    spec: DatasetSpec,
    path: Path,
    rows: list[tuple[str, str, list[str]]],
    pattern: str = "{image}",
    kind: Kind = "retrieval",
) -> RowDataset[Sample]:
    """Create samples from ids, image names and captions; missing images are an error."""
    finder = finder_of(spec, pattern)
    samples = [Sample(key, finder.find(name), texts=tuple(texts)) for key, name, texts in rows]
    finder.raise_if_missing(path)
    return in_memory(describe(spec, kind, path), samples)


QUERIES_FILE = "image_queries.jsonl"
"""One object a line with ``image_path`` and ``query`` (EvalScope's custom retrieval data)."""


def open_jsonl(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read the file; every bad line is reported with its number.

    Lines with the same image are merged into one sample with all queries. A query for two images matches both.
    """
    check_only_split(spec, UserMessage("{file} has no splits: use a separate folder per split.", file=QUERIES_FILE))
    root = Path(spec.root)
    path = need_file(
        root / QUERIES_FILE if root.is_dir() or root.suffix != ".jsonl" else root,
        UserMessage("The folder of a custom dataset must contain {file}.", file=QUERIES_FILE),
    )
    problems = Problems(path)
    samples: dict[Path, Sample] = {}
    for number, row in json_objects(path, problems, spec.options.get("encoding", "")):
        reason = _problem_of(row)
        if reason:
            problems.add(number, reason)
            continue
        name = row["image_path"]
        image = find_image(name, path.parent)
        if not image and spec.options.get("skip_missing"):
            image = path.parent / file_path(name)  # fails individually on reading
        if not image:
            problems.add(
                number, f"the image {name!r} does not exist (searched {path.parent} and the working directory)"
            )
            continue
        texts = (row["query"],) if isinstance(row["query"], str) else tuple(row["query"])
        known = samples.get(place := image.resolve())
        if known:
            texts = (*known.texts, *(text for text in texts if text not in known.texts))
            samples[place] = replace(known, texts=texts)
        else:
            meta = {key: value for key, value in row.items() if key not in ("image_path", "query")}
            samples[place] = Sample(str(row.get("id", number - 1)), ImageRef.from_path(image), texts=texts, meta=meta)
    problems.raise_if_any()
    return in_memory(describe(spec, "retrieval", path, shared_texts=True), list(samples.values()))


def _problem_of(row: Mapping[str, Any]) -> str:
    if not isinstance(row.get("image_path"), str) or not row["image_path"]:
        return "image_path is missing or not a text"
    query = row.get("query")
    texts = [query] if isinstance(query, str) else query
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return "query must be a list of texts"
    if not any(text.strip() for text in texts):
        return "query is empty"
    return ""


PAIRS_FILE = "pairs.jsonl"
"""Lines {"image_1": "a.png", "image_2": "b.png", "score": 3.5}; other keys become metadata. Visual STS (MIEB) uses this
format with rendered sentences."""
IMAGES = ("{image}", "images/{image}")
_OWN_KEYS = {"id", "image_1", "image_2", "score"}


def open_pairs(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read two samples per pair; every bad line is reported with its number."""
    check_only_split(spec, UserMessage("{file} has no splits: use a separate folder per split.", file=PAIRS_FILE))
    path = need_file(
        Path(spec.root) / PAIRS_FILE, UserMessage("Each of its lines must contain two images and a score.")
    )
    finder, problems = ImageFinder(path.parent, IMAGES), Problems(path)
    samples: list[Sample] = []
    for number, row in json_objects(path, problems, spec.options.get("encoding", "")):
        name = str(row.get("id", number))
        try:
            score = float(row["score"])
            images = [finder.find(str(row[key])) for key in ("image_1", "image_2")]
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            problems.add(number, f"not a pair ({error!r})")
            continue
        if not math.isfinite(score):
            problems.add(number, "not a pair (the score is not a number)")
        meta = {key: value for key, value in row.items() if key not in _OWN_KEYS} | {"pair": name, "score": score}
        samples += [Sample(f"{name}/{i}", image, meta=meta) for i, image in enumerate(images) if image]
    problems.raise_if_any()
    finder.raise_if_missing(path)
    return in_memory(describe(spec, "similarity", path), samples)
