"""From what the user calls a dataset to the reader and the place that it is read from. Nothing is fetched here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eyechart.datasets import jsonl, pairs, selection
from eyechart.datasets.catalogue import Catalogue, CatalogueEntry, load_catalogue
from eyechart.datasets.choose import Place, choose_place, hub_address, prompt_options
from eyechart.datasets.folder import class_folders, subfolders
from eyechart.datasets.layout import is_url, is_webdataset
from eyechart.datasets.questions.reader import find_questions, question_names
from eyechart.datasets.table_columns import OPTIONS
from eyechart.datasets.text_collection import CORPUS, has_images
from eyechart.demo import data_folder
from eyechart.errors import DataError, UnknownNameError, UsageError, nearest
from eyechart.types import DatasetSpec

PREFIXES = {
    "wds": "wds",
    "folder": "folder",
    "jsonl": "jsonl",
    "csv": "table",
    "table": "table",
    "tfds": "tfds",
    "selection": "selection",
    "aro": "aro",
    "imagecode": "imagecode",
    "collection": "collection",
    "pairs": "pairs",
    "texts": "text_collection",
    "mteb": "mteb",
}
"""``prefix/name`` with ``--dataset_root``: the reader by name, the name only for the result."""
DEMO = ("demo/garments", "demo/scenes")
CUSTOM = "custom"
LABELS = ("image_labels.jsonl", "image_labels.csv", "image_labels.tsv")
"""Classification as a table in a folder: a column of images and one of labels."""
FILES = {
    jsonl.FILE: "jsonl",
    **dict.fromkeys(LABELS, "table"),
    selection.FILE: "selection",
    CORPUS: "text_collection",
    pairs.FILE: "pairs",
}
"""A file that tells the form of the folder that it lies in, the first one first."""
TABLES = frozenset({".csv", ".tsv", ".jsonl"})
_SHEET = (
    "Save the sheet as CSV and give that file: in Excel, File > Save As > CSV UTF-8; in LibreOffice, File > Save As > "
    "Text CSV."
)
_PACKED = "Unpack it and give the folder."
_IMAGE = "Give the folder of the images, or a table that names them."
OTHER_FILES = {
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".ods", ".numbers"), _SHEET),
    **dict.fromkeys((".zip", ".tar", ".gz", ".tgz", ".7z", ".rar"), _PACKED),
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"), _IMAGE),
    ".parquet": "Questions with images: `eyechart vlm convert` makes a table of them. Others: write them as CSV.",
}
"""Files that people try, by their ending: never data as they are, and what to do with them."""


def resolve_dataset(
    name: str,
    root: str,
    *,
    split: str = "test",
    language: str = "en",
    limit: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> DatasetSpec:
    """Find out what ``name`` is: questions, a name of the catalogue, a prefixed name, demo or custom data, or a path.

    Args:
        name: As the user wrote it.
        root: ``--dataset_root``, possibly with ``{dataset}`` and ``{dataset_cleaned}``.
        split: Which part of the data.
        language: Language of class names and captions, in any spelling.
        limit: Read only this many samples.
        options: For the reader; ``catalogue``, ``hub`` and ``offline`` count here as well.
    """
    if not name.strip():
        raise UsageError("The name of a dataset is empty.", advice="For the working folder write ./")
    given = dict(options or {})
    columns = [option for option in OPTIONS if given.get(option)]
    questions = None if columns else find_questions(name)
    if questions is not None:
        given.pop("catalogue", None)
        return DatasetSpec(questions[0], "questions", questions[1], split, language, limit, given, Path(name).exists())
    catalogue = load_catalogue(given.pop("catalogue", ()))
    place = _find(name, fill_root(root, name), split, language, given, catalogue)
    if columns and place.reader != "table":
        raise UsageError(
            f"{name} is no table, so it has no columns to choose (--{columns[0].replace('_', '-')}).",
            advice="Leave the flag out, or name the table: FILE.csv, FILE.tsv or FILE.jsonl.",
        )
    options = {**given, **place.options}
    return DatasetSpec(name, place.reader, place.root, split, language, limit, options, _is_own(name, catalogue))


def _is_own(name: str, catalogue: Catalogue) -> bool:
    """Tell data of the user's own from what has a name: the demo, the catalogue, what other libraries fetch."""
    prefix, _, rest = name.partition("/")
    if name in DEMO or catalogue.find(name) or (prefix in PREFIXES and catalogue.find(rest)):
        return False
    return PREFIXES.get(prefix) not in {"tfds", "mteb"}


def is_dataset(name: str, catalogue: Catalogue) -> bool:
    """Tell whether data is known by this name, or a prefix says how it is read; no path is looked at."""
    known = name in DEMO or name == CUSTOM or name in catalogue.collections or catalogue.find(name) is not None
    return known or name in question_names() or (name.partition("/")[0] in PREFIXES and "/" in name)


def is_path(name: str, catalogue: Catalogue) -> bool:
    """Tell whether a name is written like a path: a separator is in it, and it does not begin as names of data do."""
    if name.startswith((".", "/", "~")) or name.endswith("/") or "\\" in name:
        return True
    first, slash, _ = name.partition("/")
    names = (*DEMO, *catalogue.spellings())
    return bool(slash) and not any(known.startswith(f"{first.lower()}/") for known in names)


def no_such_path(name: str) -> UnknownNameError:
    """Make the error for a path where nothing is, with the nearest name beside it."""
    path = Path(name).expanduser()
    folder = path.parent
    beside = nearest(path.name, [item.name for item in folder.iterdir()], count=1) if folder.is_dir() else []
    where = f"Did you mean {folder / beside[0]}?" if beside else "Check the path."
    return UnknownNameError(f"There is no such folder or file: {name}", advice=where)


def plain_name(name: str) -> str:
    """Return the name as it stands in paths: without ``wds/``."""
    return name.removeprefix("wds/")


def fill_root(root: str, name: str) -> str:
    """Put the dataset's name into the template of ``--dataset_root``."""
    plain = plain_name(name)
    return root.replace("{dataset_cleaned}", plain.replace("/", "-")).replace("{dataset}", plain)


def _find(name: str, root: str, split: str, language: str, options: dict[str, Any], catalogue: Catalogue) -> Place:
    if name in DEMO:
        return Place("wds", str(data_folder(name.removeprefix("demo/"))))
    if name == CUSTOM:
        return _custom(Path(root))
    entry = catalogue.find(name)
    if entry:
        return choose_place(entry, catalogue, root, split=split, language=language, options=options)
    prefix, slash, rest = name.partition("/")
    if slash and prefix in PREFIXES:
        return _prefixed(PREFIXES[prefix], rest, root, options, catalogue)
    path = Path(name).expanduser()
    if path.exists():
        return _detect(path)
    if is_path(name, catalogue):
        raise no_such_path(name)
    near = nearest(name, [*DEMO, CUSTOM, *catalogue.spellings(), *question_names()], cutoff=0.0)
    raise UnknownNameError(
        f"Unknown dataset: {name!r}.",
        advice=f"Did you mean {', '.join(near[:-1])} or {near[-1]}? Else give wds/NAME with --dataset_root, "
        "or the path of a folder or table. `eyechart list datasets` shows all names.",
    )


def _prefixed(reader: str, rest: str, root: str, options: dict[str, Any], catalogue: Catalogue) -> Place:
    if reader == "tfds":
        return Place("tfds", root, {"source": {"dataset": rest, "label": "label"}, "prompts": {"templates": rest}})
    if reader == "mteb":
        folder = Path(root) / rest  # its data, if they are here; else the library, or a hub, has them
        return Place("mteb", rest, {"folder": str(folder)} if folder.is_dir() else {})
    entry = catalogue.find(rest) if reader == "wds" else None
    if entry is None:
        return Place(reader, root)
    known = _hub_place(entry, options) if not is_url(root) and not Path(root).is_dir() else None
    return Place("wds", known or root, prompt_options(entry))


def _hub_place(entry: CatalogueEntry, options: Mapping[str, Any]) -> str | None:
    return next((found for source in entry.sources if (found := hub_address(source, options))), None)


def _custom(root: Path) -> Place:
    """Recognise whatever lies in the folder of the dataset called custom, EvalScope's form for one."""
    place = _detect(root) if root.exists() else None
    if place is None or (place.reader == "folder" and not any(map(class_folders, (root, *subfolders(root))))):
        raise DataError(
            f"There is no {root / jsonl.FILE}.",
            advice=f"Custom data (--dataset_root) hold {jsonl.FILE} for retrieval; {LABELS[0]}, or one folder of "
            "images per class, for classification.",
        )
    return place


def _detect(path: Path) -> Place:
    """Recognise the form of data at a path."""
    if path.is_file():
        if path.name != jsonl.FILE and path.suffix.lower() not in TABLES:
            advice = OTHER_FILES.get(path.suffix.lower(), f"A table ends in {', '.join(sorted(TABLES))}.")
            raise DataError(f"{path} is not a dataset.", advice=advice)
        return Place("jsonl" if path.name == jsonl.FILE else "table", str(path))
    for name, reader in FILES.items():
        if (path / name).is_file():
            if name == CORPUS and has_images(path):
                return Place("collection", str(path))
            return Place(reader, str(path / name if reader == "table" else path))
    return Place("wds" if is_webdataset(path) else "folder", str(path))
