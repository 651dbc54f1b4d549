"""From a dataset name or path to the reader and the source it is read from."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from eyechart.datasets import annotation_files, selection
from eyechart.datasets.arrow_files import arrow_schema, describe_columns
from eyechart.datasets.catalogue import Catalogue, CatalogueEntry, Source, load_catalogue
from eyechart.datasets.image_folder import class_folders, subfolders
from eyechart.datasets.image_table import OPTIONS, metadata_files
from eyechart.datasets.libraries import hugging_face_splits
from eyechart.datasets.locations import (
    COMMON_SPLITS,
    files_by_split,
    is_present,
    is_url,
    is_webdataset,
    no_such_split,
)
from eyechart.datasets.mmeb import not_supported
from eyechart.datasets.questions.question_reader import find_questions, is_benchmark, question_names
from eyechart.datasets.text_collection import CORPUS, has_images
from eyechart.demo import data_folder
from eyechart.errors import DataError, LanguageError, NotHereError, UnknownNameError, UsageError, nearest
from eyechart.io.files import by_name, cached_snapshot
from eyechart.languages import canonical, find_same, name_of
from eyechart.messages import UserMessage
from eyechart.types import DatasetSpec

HUBS = {
    "huggingface": "https://huggingface.co/datasets/{repo}/tree/main",
    "modelscope": "https://modelscope.cn/datasets/{repo}/tree/master",
}
"""Web page of a dataset's files on each hub: the URLs that users copy."""
SELF_LOADING = frozenset({"torchvision", "tfds"})
"""Readers whose library downloads the data itself."""
SHOWN_LANGUAGES = 40
USUAL_ROOTS = ("root", "data")
"""Defaults of ``--dataset_root``, which need not exist."""


def choose_source(spec: DatasetSpec, entry: CatalogueEntry, catalogue: Catalogue) -> DatasetSpec:
    """Select the source of an entry; without local or downloadable data, the error explains what to get."""
    own = entry.own_language(spec.language)
    if own is None and spec.options.get("classname_file") and spec.options.get("template_file"):
        own = spec.language
    if own is None:
        codes = sorted(canonical(code) for code in entry.languages)
        further = len(codes) - SHOWN_LANGUAGES
        more = UserMessage(" and {n} more (see `eyechart info {name}`)", n=further, name=entry.name)
        raise LanguageError(
            "{name} is not available in {language!r} ({title}).",
            advice="Available: {shown}{more}.",
            name=entry.name,
            language=spec.language,
            title=name_of(spec.language),
            shown=", ".join(codes[:SHOWN_LANGUAGES]),
            more=more if further > 0 else "",
        )
    common = prompt_options(entry) | {"entry": entry.name, "language": own, "splits": list(entry.splits)}
    reader, root = "wds", spec.root
    if is_url(root) or is_webdataset(Path(root)):
        settings = dict(next((source.settings for source in entry.sources if source.reader == "wds"), {}))
    elif spec.split not in entry.splits:
        raise no_such_split(entry.name, spec.split, list(entry.splits))
    else:
        source, root = _choose(spec, entry, catalogue)
        reader = source.reader
        settings = {**source.settings, "present": list(source.present), "splits": dict(source.splits)}
    common["source"] = settings
    # A reader that wraps another one's samples, such as Babel-ImageNet's, comes first.
    outer = next((source.reader for source in entry.sources if source.base and source.reader), "")
    return _place(spec, outer, root, **common, base=reader) if outer else _place(spec, reader, root, **common)


def _place(spec: DatasetSpec, reader: str, root: str, **options: Any) -> DatasetSpec:
    return replace(spec, reader=reader, root=root, options={**spec.options, **options})


def prompt_options(entry: CatalogueEntry) -> dict[str, Any]:
    """Return the reader options that select class names and templates."""
    optional = {
        "fallback": not entry.templates and not entry.own_templates,
        "subset": entry.subset,
        "own_classnames": list(entry.own_classnames),
        "own_templates": list(entry.own_templates),
    }
    prompts: dict[str, Any] = {"classnames": entry.classnames, "templates": entry.templates or "imagenet1k"}
    prompts |= {key: value for key, value in optional.items() if value}
    chosen: dict[str, Any] = {"prompts": prompts} if entry.kind in ("classification", "multilabel") else {}
    chosen["metric"] = entry.metric
    return chosen | ({"groups": dict(entry.groups)} if entry.groups else {})


def hub_address(source: Source, options: Mapping[str, Any]) -> str | None:
    """Return the URL of a source's repository, on the preferred hub if it has one there."""
    preferred = str(options.get("hub") or "huggingface")
    repositories = {"huggingface": source.huggingface, "modelscope": source.modelscope}
    for hub in sorted(HUBS, key=lambda name: name != preferred):
        if repositories[hub]:
            return HUBS[hub].replace("{repo}", repositories[hub])
    return None


def _choose(spec: DatasetSpec, entry: CatalogueEntry, catalogue: Catalogue) -> tuple[Source, str]:
    root, offline = spec.root, bool(spec.options.get("offline"))
    fitting: list[Source] = []
    for source in entry.sources:
        base = catalogue.find(source.base)
        if source.base and base is None:
            raise UsageError("The catalogue entry refers to an unknown base: {name!r}.", name=source.base)
        candidates = base.sources if base else (source,)
        fitting += [one for one in candidates if not one.languages or find_same(spec.language, one.languages)]
    for source in fitting:
        if spec.options.get("predictions") or (source.present and is_present(Path(root), source.present)):
            return source, root
    for source in fitting:
        cached = cached_snapshot("datasets", source.settings["cached"]) if source.settings.get("cached") else None
        if cached is not None and is_present(cached, source.present):
            return source, str(cached)
    for source in fitting:
        address = hub_address(source, spec.options)
        if address:
            return source, address
        if not source.present or (source.reader in SELF_LOADING and source.download and not offline):
            return source, root
    raise _nothing_there(spec, entry, catalogue)


def _nothing_there(spec: DatasetSpec, entry: CatalogueEntry, catalogue: Catalogue) -> DataError:
    bases = [base for source in entry.sources if (base := catalogue.find(source.base))]
    manual = next((one.manual for one in (entry, *bases) if one.manual), None)
    name = f"{entry.name} ({spec.language})" if len(entry.languages) > 1 else entry.name
    message = UserMessage("{name} is not in {root} and cannot be downloaded automatically.", name=name, root=spec.root)
    if manual:
        return DataError(message, advice=manual.advice(spec.root))
    if spec.options.get("offline"):
        advice = UserMessage("It can be downloaded: run once without {--offline}.")
        return NotHereError(message, advice=advice, source=entry.homepage)
    return DataError(message, advice=UserMessage("See {homepage}.", homepage=entry.homepage))


_NAMES = "wds folder jsonl csv table tfds selection aro imagecode collection pairs texts mteb mmeb"
PREFIXES = {name: {"csv": "table", "texts": "text_collection"}.get(name, name) for name in _NAMES.split()}
"""Readers by prefix: for ``prefix/name`` with ``--dataset_root``, where the name only labels the result."""
DEMO = ("demo/garments", "demo/scenes")
CUSTOM = "custom"
LABELS = ("image_labels.jsonl", "image_labels.csv", "image_labels.tsv")
"""Classification tables recognised in a folder, with a column of images and one of labels."""
FILES = {
    annotation_files.QUERIES_FILE: "jsonl",
    **dict.fromkeys(LABELS, "table"),
    selection.FILE: "selection",
    CORPUS: "text_collection",
    annotation_files.PAIRS_FILE: "pairs",
}
"""Readers by the file that identifies the format of a folder, in order of precedence."""
TABLES = frozenset({".csv", ".tsv", ".jsonl", ".parquet"})
_SHEET = (
    "Save the sheet as CSV and pass that file: in Excel, File > Save As > CSV UTF-8; in LibreOffice, File > Save As > "
    "Text CSV."
)
_PACKED = "Unpack it and pass the folder."
_IMAGE = "Pass the folder of the images, or a table that lists them."
OTHER_FILES = {
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".ods", ".numbers"), _SHEET),
    **dict.fromkeys((".zip", ".tar", ".gz", ".tgz", ".7z", ".rar"), _PACKED),
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"), _IMAGE),
}
"""Unsupported files that users may pass, by suffix, and what to do with them."""


def resolve_dataset(
    name: str,
    root: str,
    *,
    split: str = "test",
    language: str = "en",
    limit: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> DatasetSpec:
    """Resolve a name: a question benchmark, a catalogue name, a prefixed name, demo or custom data, or a path.

    Nothing is downloaded here. ``root`` is ``--dataset_root``, possibly with ``{dataset}`` and ``{dataset_cleaned}``;
    ``options`` are the reader's, of which ``catalogue``, ``hub`` and ``offline`` are used here as well.
    """
    if not name.strip():
        raise UsageError("The dataset name is empty.", advice="Use ./ for the working directory.")
    given = dict(options or {})
    columns = [option for option in OPTIONS if given.get(option)]
    questions = None if columns or name in DEMO else find_questions(name)
    if questions is not None:
        given.pop("catalogue", None)
        return DatasetSpec(questions[0], "questions", questions[1], split, language, limit, given, Path(name).exists())
    catalogue = load_catalogue(given.pop("catalogue", ()))
    plain = plain_name(name)
    filled = root.replace("{dataset_cleaned}", plain.replace("/", "-")).replace("{dataset}", plain)
    found = _find(DatasetSpec(name, "", filled, split, language, limit, given), catalogue)
    folder = Path(root.partition("{")[0] + "name").parent if "{" in root else Path(root)
    # A plain name is downloaded to the cache if it is not in the folder; `wds/NAME` names a folder.
    downloads = found.reader == "mteb" or (name.startswith("wds/") and is_url(found.root) and not is_url(root))
    if downloads and root not in USUAL_ROOTS and not folder.expanduser().exists():
        raise DataError("There is no folder {path}.", advice="Check {--dataset_root}.", path=folder)
    if columns and found.reader not in {"table", "metadata", "hugging_face"}:
        raise UsageError(
            "{name} is not a table, so {--{flag}} does not apply.",
            advice="Omit the flag, or pass a table: FILE.csv, FILE.tsv, FILE.jsonl or FILE.parquet.",
            name=name,
            flag=columns[0],
        )
    prefix, _, rest = name.partition("/")
    public = name in DEMO or catalogue.find(name) or (prefix in PREFIXES and catalogue.find(rest))
    return replace(found, own=not public and PREFIXES.get(prefix) not in {"tfds", "mteb"})


def is_dataset(name: str, catalogue: Catalogue) -> bool:
    """True if the name or its prefix identifies a dataset; paths are not checked."""
    known = name in DEMO or name == CUSTOM or name in catalogue or is_benchmark(name)
    return known or (name.partition("/")[0] in PREFIXES and "/" in name)


def is_path(name: str, catalogue: Catalogue) -> bool:
    """True if a name is written like a path: it has a separator and does not start like a dataset name."""
    if name.startswith((".", "/", "~")) or name.endswith("/") or "\\" in name:
        return True
    first, slash, _ = name.partition("/")
    names = (*DEMO, *catalogue.spellings())
    return bool(slash) and not any(known.startswith(f"{first.lower()}/") for known in names)


def no_such_path(name: str) -> UnknownNameError:
    """Create the error for a path that does not exist, with the closest existing name."""
    path = Path(name).expanduser()
    folder = path.parent
    near = nearest(path.name, [item.name for item in folder.iterdir()], count=1) if folder.is_dir() else []
    where = UserMessage("Did you mean {names}?", names=folder / near[0]) if near else "Check the path."
    return UnknownNameError("There is no such folder or file: {name}", advice=where, name=name)


def plain_name(name: str) -> str:
    """Return the name as used in paths: without ``wds/``."""
    return name.removeprefix("wds/")


def _find(spec: DatasetSpec, catalogue: Catalogue) -> DatasetSpec:
    name = spec.name
    if name in DEMO:
        return _place(spec, "wds", str(data_folder(name.removeprefix("demo/"))))
    if name == CUSTOM:  # such as EvalScope's
        root = Path(spec.root)
        found = _detect(spec, root) if root.exists() else None
        if found is None or (found.reader == "folder" and not any(map(class_folders, (root, *subfolders(root))))):
            raise DataError(
                "There is no {path}.",
                advice="Custom data ({--dataset_root}) need {file} for retrieval; {first}, or one folder of images "
                "per class, for classification.",
                path=root / annotation_files.QUERIES_FILE,
                file=annotation_files.QUERIES_FILE,
                first=LABELS[0],
            )
        return found
    entry = catalogue.find(name)
    if entry:
        return choose_source(spec, entry, catalogue)
    prefix, slash, rest = name.partition("/")
    if slash and prefix in PREFIXES:
        return _prefixed(spec, PREFIXES[prefix], rest, catalogue)
    path = Path(name).expanduser()
    if path.exists():
        return _detect(spec, path)
    if is_path(name, catalogue):
        raise no_such_path(name)
    near = nearest(name, [*DEMO, CUSTOM, *catalogue.spellings(), *question_names()], cutoff=0.0)
    raise UnknownNameError(
        "Unknown dataset: {name!r}.",
        advice="Did you mean {near} or {near2}? Otherwise pass wds/NAME with {--dataset_root}, or the path of a "
        "folder or table. `eyechart list datasets` shows all names.",
        name=name,
        near=", ".join(near[:-1]),
        near2=near[-1],
    )


def _prefixed(spec: DatasetSpec, reader: str, rest: str, catalogue: Catalogue) -> DatasetSpec:
    root = spec.root
    if reader == "tfds":
        source = {"dataset": rest, "label": "label"}
        return _place(spec, "tfds", root, source=source, prompts={"templates": rest})
    if reader == "mmeb":  # those that are supported are in the catalogue
        raise not_supported(rest, catalogue.entries)
    if reader == "mteb":
        # Without local data, the library or a hub provides them.
        return _place(spec, "mteb", rest, **({"data_root": root} if Path(root).is_dir() else {}))
    entry = catalogue.find(rest) if reader == "wds" else None
    if entry is None:
        return _place(spec, reader, root)
    if not is_url(root) and not Path(root).is_dir():
        root = next((found for source in entry.sources if (found := hub_address(source, spec.options))), root)
    return _place(spec, "wds", root, **prompt_options(entry))


def _detect(spec: DatasetSpec, path: Path) -> DatasetSpec:
    if path.is_file():
        suffix = path.suffix.lower()
        if suffix not in TABLES:
            tables = UserMessage("Tables have the suffix {tables}.", tables=", ".join(sorted(TABLES)))
            raise DataError("{path} is not a dataset.", advice=OTHER_FILES.get(suffix) or tables, path=path)
        described = describe_columns(arrow_schema(path)) if suffix == ".parquet" else {}
        reader = "hugging_face" if any(column.kind == "image" for column in described.values()) else "table"
        return _place(spec, "jsonl" if path.name == annotation_files.QUERIES_FILE else reader, str(path))
    found = _format_of(path)
    if found is None and not _has_classes(path):
        nested = {folder: own for folder in by_name(subfolders(path)) if (own := _format_of(folder)) is not None}
        if len(nested) > 1:
            raise DataError(
                "{path} contains several datasets: {names}.",
                advice="Pass one of these folders.",
                path=path,
                names=", ".join(folder.name for folder in nested),
            )
        found = next(iter(nested.values()), None)
    reader, root = found or ("folder", path)
    return _place(spec, reader, str(root))


def _format_of(path: Path) -> tuple[str, Path] | None:
    """Return the reader of a folder and the path that it reads; None for class folders and unknown formats."""
    for name, reader in FILES.items():
        if (path / name).is_file():
            if name == CORPUS and has_images(path):
                return "collection", path
            return reader, path / name if reader == "table" else path
    if is_webdataset(path) or metadata_files(path):
        return "wds" if is_webdataset(path) else "metadata", path
    if _has_classes(path) or any(map(is_webdataset, subfolders(path))):
        return None
    # img2dataset writes Parquet files without images next to its tar files.
    reader = "wds" if files_by_split(path, ".tar") else "hugging_face" if hugging_face_splits(path) else ""
    return (reader, path) if reader else None


def _has_classes(path: Path) -> bool:
    splits = (folder for folder in subfolders(path) if folder.name in COMMON_SPLITS)
    return bool(class_folders(path)) or any(map(class_folders, splits))
