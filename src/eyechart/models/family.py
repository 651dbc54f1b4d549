"""Model families: what one offers, how a model folder is recognised, and a local model's identity by content."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, UsageError, missing_extra, unknown_name
from eyechart.io.digests import editable_digest, file_digest, files_digest, remember_digests
from eyechart.messages import UserMessage, join
from eyechart.metrics.vectors import MultiVectors, unit
from eyechart.models.towers.checkpoints import read_json
from eyechart.types import Encoder, Input, ModelCard, ModelSpec, Role, digest_json

TOWERS = {
    "image": tuple(f"{place}{name}.onnx" for place in ("", "onnx/") for name in ("image", "vision_model", "visual")),
    "text": tuple(f"{place}{name}.onnx" for place in ("", "onnx/") for name in ("text", "text_model", "textual")),
}
"""File names that ONNX exporters use for the two towers, also in a subfolder."""
ALONE = ("model.onnx", "onnx/model.onnx")
"""File names of a model exported whole: an image encoder if it has an image processor and no tokenizer."""
CONFIG, OPEN_CLIP, MODULES = "config.json", "open_clip_config.json", "modules.json"
SENTENCE = "config_sentence_transformers.json"

FOLDERS: dict[Role, dict[str, tuple[str, ...]]] = {
    "encoder": {
        "onnx": TOWERS["image"],
        "open_clip": (OPEN_CLIP,),
        "sentence-transformers": (MODULES,),
        "transformers": (CONFIG,),
    },
    "generator": {"open_clip": (OPEN_CLIP,), "transformers": (CONFIG,)},
    "reranker": {"cross-encoder": (CONFIG,)},
}
"""By role: each family, and the files of which any one identifies its folder."""
WEIGHTS = ("*.safetensors", "*.bin", "*.safetensors.index.json", "*.bin.index.json")
"""Weights that transformers reads."""
PROCESSORS = ("*processor_config.json", "*/*processor_config.json")
"""Files of which any one shows that a model takes images."""


def families_in(folder: Path, role: Role) -> list[str]:
    """List the families that can load a folder in a role; several if it holds the same model in several formats.

    Two libraries also write the ``config.json`` of transformers: sentence-transformers, whose folders are its own, and
    ONNX exporters, whose folders lack weights that transformers could read. A transformers model without an image
    processor is a text model, which sentence-transformers turns into an encoder; it also loads all models with several
    vectors per input.
    """
    found = {family for family, files in FOLDERS[role].items() if any((folder / file).is_file() for file in files)}
    if role == "encoder" and found <= {"transformers"} and not _has_any(folder, (*WEIGHTS, "*token*")):
        found |= {"onnx"} if _has_any(folder, ALONE) and _has_any(folder, PROCESSORS) else set()
    if role == "encoder" and "transformers" in found:
        if other_kind(folder) == LATE:
            return ["sentence-transformers"]
        if "sentence-transformers" in found or ("onnx" in found and not _has_any(folder, WEIGHTS)):
            found.discard("transformers")
        elif found == {"transformers"} and not sees(folder):
            found = {"sentence-transformers"}
    return sorted(found)


def read_saved(folder: Path | None, name: str = CONFIG) -> dict[str, Any]:
    """Read a JSON file of a model folder; empty if there is none."""
    return read_json(folder / name) if folder is not None and (folder / name).is_file() else {}


def is_internvl(folder: Path) -> bool:
    """Whether a folder is InternVL-14B-224px, whose name alone does not determine the variant."""
    return "qllama_config" in read_saved(folder)


def sees(folder: Path) -> bool:
    """Whether the model in a folder takes images, judging by its files."""
    seen = any((folder / file).is_file() for file in (*FOLDERS["encoder"]["onnx"], OPEN_CLIP))
    return seen or _has_any(folder, PROCESSORS) or "vision_config" in read_saved(folder)


LATE, SPARSE, CROSS = "late-interaction model", "sparse encoder", "cross-encoder"
_SAVED_AS = {"MultiVectorEncoder": LATE, "ColBERT": LATE, "SparseEncoder": SPARSE, "CrossEncoder": CROSS}
"""Kinds by ``model_type`` in config_sentence_transformers.json; PyLate writes ColBERT."""
_MODULE_KINDS = {"MultiVectorMask": LATE, "Splade": SPARSE, "SparseAutoEncoder": SPARSE, "SparseStatic": SPARSE}
"""Kinds by modules of sentence-transformers that occur in no other kind."""
_LATE = re.compile(r"(HF_)?Col[A-Z]\w*|\w+ForRetrieval|col(bert|pali|qwen|smol|idefics|modernvbert)\w*")
"""Architectures and model types in config.json: ColPali, ColQwen2, Stanford's HF_ColBERT."""


def other_kind(folder: Path) -> str:
    """Return the kind of a model in a folder of (sentence-)transformers that does not give one dense vector per input.

    Empty if it does. sentence-transformers would load the other kinds as well, with mean pooling.
    """
    saved, config = read_saved(folder, SENTENCE), read_saved(folder)
    modules = (folder / MODULES).read_text(errors="replace") if (folder / MODULES).is_file() else ""
    names = [str(name) for name in (*(config.get("architectures") or ()), config.get("model_type"))]
    if kind := _SAVED_AS.get(str(saved.get("model_type"))):
        return kind
    if kind := next((kind for name, kind in _MODULE_KINDS.items() if name in modules), ""):
        return kind
    if any(map(_LATE.fullmatch, names)):
        return LATE
    return CROSS if not modules and names[0].endswith("ForSequenceClassification") else ""


_NO_VECTORS: tuple[tuple[str, str], ...] = (
    (r"xclip|videomae|vivit|timesformer|vjepa\w*|pe_\w*video\w*|video_\w+", UserMessage("it encodes videos")),
    (r"clap|wav2vec\w*|hubert|whisper|wavlm|audio\w*|pe_audio\w*|clvp|data2vec-audio", UserMessage("it encodes audio")),
    ("flava", UserMessage("it returns one vector per image patch and per token")),
)
"""Why models of a type (in config.json) cannot encode images and texts."""
_GENERATIVE = frozenset({"image_token_id", "image_token_index", "img_context_token_id"})
"""Config keys of language models that read images."""


def unsuitable(folder: Path, *, pooled: bool = False) -> str:
    """Return why a transformers model does not give one vector per image or text; empty if its config does not tell.

    ``pooled``: a library adds the pooling that a language model lacks.
    """
    config = read_saved(folder)
    kind = str(config.get("model_type"))
    if reason := next((reason for pattern, reason in _NO_VECTORS if re.fullmatch(pattern, kind)), ""):
        return reason
    retrieval = any(str(name).endswith("Retrieval") for name in config.get("architectures") or ())
    if config.keys() & _GENERATIVE and not pooled and not retrieval:
        return UserMessage("it is a language model without a pooling head (see sentence-transformers' modules.json)")
    return ""


def _has_any(folder: Path, patterns: tuple[str, ...]) -> bool:
    return any(True for pattern in patterns for _ in folder.glob(pattern))


def open_clip_names() -> frozenset[str]:
    """Return the architectures of the installed open_clip, without importing it.

    If it is imported, architectures added with ``open_clip.add_model_config`` are included.
    """
    library, loaded = find_spec("open_clip"), sys.modules.get("open_clip")
    if library is None or library.origin is None:
        return frozenset()
    return _architectures(Path(library.origin)) | frozenset(loaded.list_models() if loaded else ())


@cache
def _architectures(library: Path) -> frozenset[str]:
    return frozenset(path.stem for path in (library.parent / "model_configs").glob("*.json"))


OTHER_FORMATS = ("*.h5", "*.msgpack", "*.tflite", "*.ot", "*.mlmodel", "onnx/*", "openvino/*", "coreml/*")
"""Duplicates of the weights for other libraries."""


def content_identity(places: Iterable[Path | None], *libraries: str) -> str | None:
    """Return a text that changes with the content of files and folders and with library versions.

    A place of None is not on this machine, which makes the identity unknown.
    """
    known = list(places)
    if None in known:
        return None
    digests = list(map(place_digest, filter(None, known)))
    return digest_json([digests, ", ".join(map(_version, libraries))])


def place_digest(place: Path) -> str:
    """Digest a file, or all files of a folder with their names; unchanged files are not read again."""
    if place.is_dir():
        digest = files_digest(model_files(place), place, weights=True)
    else:
        digest = file_digest(place, weights=True).hex()
    remember_digests()
    return digest


def model_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a model folder, following links, without hidden files and other formats."""
    seen: set[str] = set()
    for here, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        folders[:] = [] if real in seen else sorted(name for name in folders if not name.startswith("."))
        if real not in seen:
            seen.add(real)
            for path in (Path(here, name) for name in sorted(files) if not name.startswith(".")):
                inside = path.relative_to(folder).as_posix()
                if path.is_file() and not any(fnmatch(inside, pattern) for pattern in OTHER_FORMATS):
                    yield path


def _version(package: str) -> str:
    code = editable_digest(package.replace("-", "_"))
    try:
        return f"{package} {version(package)} {code}"
    except PackageNotFoundError:
        return f"{package} - {code}"


COMMON_OPTIONS = frozenset({"cache_dir", "revision", "hub", "trust_remote_code", "compile"})
"""Options with their own command-line flags."""
_KINDS = {bool: "true or false", int: "a positive integer", str: "a string", dict: "a JSON object"}


@runtime_checkable
class Family(Protocol):
    """A kind of model that can be loaded by name."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse what cannot be loaded (missing library, unknown name, missing file) without loading anything."""

    def identity(self, spec: ModelSpec) -> str | None:
        """Return a text that changes whenever the model does, or None if it is only known after loading.

        It must cover the content of every file that is read (`eyechart.models.family`): it is the key under which the
        card, and with it all stored results, are found again.
        """

    def load(self, spec: ModelSpec) -> Any:
        """Load the model: an `Encoder`, a `Generator` or a `Reranker`."""


class LocalFamily:
    """Base of families whose models are files: a family declares what it needs and reads, and the class of its models.

    A family with a special case overrides `check` (and calls the base) or `places`.
    """

    needs: tuple[str, ...] = ()
    """Modules that it imports."""
    extra = ""
    """The extra that installs them."""
    read_by: tuple[str, ...]
    """Packages whose transforms or tokenizers affect the vectors or answers."""
    model: type[Any]
    """Class of its models: an `Encoder`, a `Generator` or a `Reranker`, created from the spec."""

    def check(self, spec: ModelSpec) -> None:  # noqa: ARG002 - for families that override it
        """Refuse a missing library."""
        missing = next((name for name in self.needs if find_spec(name) is None), None)
        if missing:
            raise missing_extra(missing, self.extra)

    def places(self, spec: ModelSpec) -> Iterable[Path | None]:
        """Return the files and folders that a model is read from; None for those that are not on this machine."""
        raise NotImplementedError

    def inputs(self, spec: ModelSpec) -> Sequence[Input] | None:  # noqa: ARG002 - for families that override it
        """Return what an encoder takes as far as its files show; None if only loading it tells."""
        return ("image", "text")

    def identity(self, spec: ModelSpec) -> str | None:
        """Digest the local files and the versions of the libraries that read them."""
        return content_identity(self.places(spec), *self.read_by, *self.needs)

    def load(self, spec: ModelSpec) -> Any:
        """Load the model."""
        return self.model(spec)


class BaseEncoder:
    """Base of encoders: vectors of an empty batch, and no truncation unless the encoder knows better."""

    card: ModelCard

    def no_vectors(self) -> NDArray[np.float32]:
        """Return the vectors of an empty batch."""
        return np.empty((0, self.card.embedding_dim or 0), np.float32)

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Return False for every text: truncation, if any, is not reported."""
        return [False] * len(texts)


INPUT_NAMES: Mapping[Input, str] = {
    "image": UserMessage("images"),
    "text": UserMessage("texts"),
    "image+text": UserMessage("an image and a text as one input"),
}


def need_inputs(label: str, known: Sequence[Input], wanted: Sequence[Input]) -> None:
    """Refuse an encoder that does not take the inputs that are wanted."""
    missing = [INPUT_NAMES[name] for name in wanted if name not in known]
    if missing:
        raise ModelError(
            "{label} encodes {known}, not {missing}.",
            advice="Use a model for {missing}, or a benchmark or {--task} that needs only {known}.",
            label=label,
            known=join([INPUT_NAMES[name] for name in known], ", "),
            missing=join(missing, ", "),
        )


UNSTEADY_TEXTS = UserMessage(
    "The model returns different vectors for the same text when it is encoded again or in another batch: its padding "
    "may not be masked, or it may be in training mode, and scores depend on chance or on {--batch_size}."
)


def probe_vectors(
    encode: Callable[[Any], NDArray[Any] | MultiVectors], items: Sequence[Any] | NDArray[Any], tolerance: float
) -> tuple[NDArray[Any], bool]:
    """Encode items together, and return their vectors and whether they stay the same when repeated and one by one.

    The tolerance is the largest distance between unit vectors of the same item.
    """

    def rows(some: Any) -> NDArray[Any]:
        vectors = encode(some)
        return np.array(vectors.rows if isinstance(vectors, MultiVectors) else vectors)

    together, again = rows(items), rows(items)
    alone = np.concatenate([rows(items[i : i + 1]) for i in range(len(items))])
    if not together.shape == again.shape == alone.shape:
        return together, False
    distances = [np.linalg.norm(unit(together) - unit(other), axis=1).max() for other in (again, alone)]
    return together, max(distances) <= tolerance


def probe_images(encoder: Encoder, label: str, tolerance: float) -> NDArray[Any]:
    """Return the vectors of two generated images; refuse an encoder whose vectors differ by batch or by chance."""
    ramp = Image.linear_gradient("L")
    images = [encoder.prepare_image(Image.merge("RGB", (ramp, ramp.rotate(turn), ramp))) for turn in (90, 180)]
    vectors, steady = probe_vectors(encoder.encode_images, images, tolerance)
    if not steady:
        raise ModelError(
            "{label} returns different vectors for the same image.",
            advice="It may mask patches at random. Use a model that was not saved for masked training.",
            label=label,
        )
    return vectors


def check_options(family: object, name: str, options: Mapping[str, Any]) -> None:
    """Refuse unknown options of a family and values of the wrong type.

    The family lists its options in ``own_options``; without that attribute it accepts any.
    """
    known: Mapping[str, Any] | None = getattr(family, "own_options", None)
    if known is None:
        return
    for key, value in options.items():
        if key not in {*known, *COMMON_OPTIONS}:
            raise unknown_name(UserMessage("option of the model type {name}", name=name), key, known)
        kind = known.get(key, object)
        if not isinstance(value, kind) or (kind is int and (value is True or value < 1)):
            raise UsageError(
                "Invalid value of the option {name}: {value!r}.",
                advice="Expected {kind}.",
                name=key,
                value=value,
                kind=_KINDS[kind],
            )


@runtime_checkable
class Remote(Protocol):
    """A family whose models run on a server."""

    def probe(self, spec: ModelSpec) -> None:
        """Check that the model can be reached before a long run begins: server up, key accepted."""


def check_path(text: str) -> None:
    """Refuse a text that looks like a path but does not exist."""
    is_path = text.startswith((".", "/", "~")) or text.endswith((".pt", ".pth", ".bin", ".safetensors", ".onnx"))
    if is_path and not Path(text).expanduser().exists():
        raise ModelError("Checkpoint not found: {path}.", advice="Check the path in {--pretrained}.", path=text)
