"""Which words of ``eyechart eval photos/ ViT-B-32:openai`` are data and which are models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from eyechart.datasets.catalogue import Catalogue, load_catalogue, user_files
from eyechart.datasets.questions.reader import find_questions, question_names
from eyechart.datasets.resolve import DEMO, TABLES, is_dataset, is_path, no_such_path
from eyechart.demo import MODELS
from eyechart.errors import UnknownNameError, UsageError, nearest
from eyechart.models.folders import families_in
from eyechart.models.model_collections import collection_names, expand_collection
from eyechart.models.registry import FAMILIES, OWN_GENERATORS
from eyechart.models.resolve import CHECKPOINTS, HUB_ID, PREFIXES, open_clip_names
from eyechart.plugins import PYTHON

BY_FLAGS = "Say which it is: --dataset {word} or --model {word}."


def sort_targets(words: Sequence[str], catalogue_files: Sequence[str] = ()) -> dict[str, list[str]]:
    """Return the words as values of ``dataset`` and ``model``; what has no word is left out.

    Raises:
        UsageError: If a word could be either, or is neither.
    """
    catalogue = load_catalogue(user_files(catalogue_files))
    sorted_words: dict[str, list[str]] = {"dataset": [], "model": []}
    for word in words:
        data, model = _is_data(word, catalogue), _is_model(word, catalogue)
        if data and model:
            is_list = Path(word).is_file()
            advice = BY_FLAGS.replace("--model ", "--pretrained-model ") if is_list else BY_FLAGS
            raise UsageError(f"{word} could be a dataset and a model.", advice=advice.format(word=word))
        if not data and not model:
            raise _unknown(word, catalogue)
        # Shells complete the name of a folder with a slash, which is no part of a dataset's name.
        sorted_words["dataset" if data else "model"] += [word.rstrip("/") or word] if data else _models(word)
    return {kind: names for kind, names in sorted_words.items() if names}


def kinds_of(word: str, catalogue_files: Sequence[str] = ()) -> list[str]:
    """Return what a word is by name: ``dataset``, ``model``, both, or nothing."""
    catalogue = load_catalogue(user_files(catalogue_files))
    return ["dataset"] * _is_data(word, catalogue) + ["model"] * _is_model(word, catalogue)


def _is_data(word: str, catalogue: Catalogue) -> bool:
    path = Path(word).expanduser()
    if is_dataset(word, catalogue) or word.startswith(PYTHON):
        return True
    if path.is_dir():
        return not _is_model_folder(path)
    if path.is_file():
        return not _is_model_file(path)
    return find_questions(word) is not None


def _is_model(word: str, catalogue: Catalogue) -> bool:
    path = Path(word).expanduser()
    if path.is_dir() and _is_model_folder(path):
        return True
    if path.is_file():
        return _is_model_file(path) or path.suffix.lower() == ".txt"  # a list of names, of either kind
    if word.startswith((PYTHON, *PREFIXES)) or word in MODELS or word in collection_names():
        return True
    name, colon, tag = word.partition(":")
    if colon and len(name) > 1 and tag and not tag.startswith("//"):
        return True
    if word.replace("/", "-") in open_clip_names() or word in _registered():
        return True
    return _is_hub_id(word, catalogue)


def _is_hub_id(word: str, catalogue: Catalogue) -> bool:
    """Tell whether a word is ``owner/name``; below a folder that is here, or a prefix of datasets, it is a path."""
    owner = word.partition("/")[0]
    return (
        HUB_ID.fullmatch(word) is not None
        and is_path(word, catalogue)
        and not is_dataset(word, catalogue)
        and not Path(owner).exists()
        and Path(word).suffix.lower() not in TABLES
    )


def _is_model_folder(folder: Path) -> bool:
    return any(families_in(folder, role) for role in FAMILIES)


def _is_model_file(path: Path) -> bool:
    return path.suffix in (".onnx", ".json", *CHECKPOINTS)


def _registered() -> list[str]:
    """List the models that other packages brought."""
    plugins = (name for families in FAMILIES.values() for name in families.names() if name not in families.built_in)
    return [*plugins, *OWN_GENERATORS.names()]


def _models(word: str) -> list[str]:
    """Return the models of a collection, or the model itself."""
    pairs = expand_collection(word)
    return [word] if pairs is None else [f"{name}:{weights}" for name, weights in pairs]


def _unknown(word: str, catalogue: Catalogue) -> UsageError:
    if is_path(word, catalogue):
        return no_such_path(word)
    here = [item.name for item in Path().iterdir()]
    near = nearest(word, (*here, *DEMO, *catalogue.spellings(), *question_names(), *MODELS, *open_clip_names()))
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    return UnknownNameError(
        f"{word!r} is no dataset, no model and no path that is known here.", advice=hint + BY_FLAGS.format(word=word)
    )
