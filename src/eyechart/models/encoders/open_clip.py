"""The ``open_clip`` family: an architecture with a tag or a checkpoint file, a hub name, or a folder.

===============================  =====================================================================================
``--model``                      ``--pretrained``
===============================  =====================================================================================
``ViT-B-32``                     a tag (``openai``), a checkpoint file, or ``""`` for random weights
``path/to/architecture.json``    a checkpoint file: a custom architecture in open_clip's format
``hf-hub:org/name``              ignored; ``--revision`` and ``--hub`` apply
``folder``, ``local-dir:...``    ignored; a folder saved by open_clip
===============================  =====================================================================================
"""

from __future__ import annotations

import json
import logging
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from eyechart.errors import ModelError, unknown_name
from eyechart.io.files import cache_root, write_cached
from eyechart.languages import find_same
from eyechart.messages import UserMessage
from eyechart.models import hub, speedups
from eyechart.models.family import OPEN_CLIP, LocalFamily, check_path, open_clip_names
from eyechart.models.speedups.open_clip_towers import encode_stripped, speed_up
from eyechart.models.speedups.transforms import DECODERS, FAST_NOTE, FastImages, PixelTable
from eyechart.models.towers.checkpoints import load_errors, read_json
from eyechart.models.towers.precision import DEVICE_OPTIONS
from eyechart.models.towers.sentencepieces import exact_tokenizer
from eyechart.models.towers.torch_encoder import Inputs, TorchEncoder
from eyechart.models.towers.torch_tools import describe, no_random_start, quiet_transformers
from eyechart.types import ModelSpec, digest_json

if TYPE_CHECKING:
    import torch


HUB, FOLDER = "hf-hub:", "local-dir:"
DEFAULT_WEIGHTS = "open_clip_pytorch_model.bin"
"""Weights file of a repository that is given without a file name."""
NLLB_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json")
QUICK = "-quickgelu"
NO_WEIGHTS = "No pretrained weights loaded"
"""Start of an open_clip warning that the card's own note replaces."""
NAMES = ("hf_tokenizer_name", "hf_model_name")
"""Sources of an architecture's tokenizer and text tower; their content is digested when they are loaded."""

Tags = dict[str, dict[str, dict[str, str]]]
"""``hf_hub`` or ``url`` by architecture and tag."""


class OpenClipEncoder(TorchEncoder):
    """An open_clip model in evaluation mode."""

    family = "open_clip"
    text_speedups: Sequence[str] = ()

    def __init__(self, spec: ModelSpec) -> None:
        cache = spec.options.get("cache_dir")
        model, self.transform, self.tokenizer, notes = load_parts(spec)
        if hasattr(self.tokenizer, "tokenizer"):
            self.tokenizer.tokenizer, other = exact_tokenizer(self.tokenizer.tokenizer, cache)
            notes += other
        decoder = spec.options.get("decoder", "exact")
        if decoder not in DECODERS:
            raise unknown_name("decoder", str(decoder), DECODERS)
        fast = decoder == "fast"
        self.pixels = FastImages(self.transform) if fast else PixelTable(self.transform)
        self.decode = self.pixels.decode
        notes += [FAST_NOTE] if fast else []
        super().__init__(spec, model)
        # oneDNN weights are only supported for float32 on a CPU.
        onednn = self.device == "cpu" and self.precision == "fp32" and not self.compute.text
        if speedups.enabled():
            self.speedups, self.text_speedups = speed_up(self.model, self.tokenizer, onednn=onednn)
        self.strips_padding = "strip_padding" in self.text_speedups
        size = getattr(self.model.visual, "image_size", None)
        context = getattr(self.tokenizer, "context_length", None)
        # Cleaning, activation, heads, pooling etc. are not weights but determine the vectors.
        clean = getattr(getattr(self.tokenizer, "clean_fn", None), "__name__", "")
        quick = any(type(module).__name__ == "QuickGELU" for module in self.model.modules())
        config = architecture(spec) or {}
        text = {key: value for key, value in config.get("text_cfg", {}).items() if key not in NAMES}
        described = (
            f"{'fast on bytes ' if fast else ''}{describe(self.transform)}",
            f"{type(self.tokenizer).__name__}({context}{clean})",
            "QuickGELU" if quick else "GELU",
            digest_json({**config, "text_cfg": text}),
        )
        self.card = self.make_card(
            transform=" | ".join(described),
            image_size=int(size[0]) if isinstance(size, tuple | list) else size,
            context_length=context,
            notes=notes,
        )

    def tokenize(self, texts: Sequence[str], language: str) -> Inputs:
        """Run open_clip's tokenizer, with the language set for NLLB."""
        if hasattr(self.tokenizer, "set_lang_fn"):
            inner = self.tokenizer.tokenizer
            code = find_same(language, [token for token in inner.get_vocab() if NLLB_CODE.fullmatch(token)])
            if code is None:
                raise ModelError(
                    "The tokenizer of this model does not support the language {language!r}.",
                    advice="Use a FLORES-200 code such as zho_Hans, or a short code such as zh.",
                    language=language,
                )
            # Not open_clip's `set_language`: transformers 5 resets to `src_lang` with every call.
            inner.src_lang = code
        return {"tokens": self.tokenizer(list(texts))}

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Count tokens, including the start and end tokens."""
        return [count_tokens(self.tokenizer, text) for text in texts]

    def _image_features(self, model: Any, pixels: torch.Tensor) -> torch.Tensor:
        return model.encode_image(pixels)

    def _text_features(self, model: Any, inputs: Inputs) -> torch.Tensor:
        encode = encode_stripped if self.strips_padding else type(model).encode_text
        return encode(model, inputs["tokens"])


class OpenClipFamily(LocalFamily):
    """Loads models through the open_clip library."""

    own_options = MappingProxyType({"decoder": str, **DEVICE_OPTIONS})
    needs, extra = ("open_clip",), "open-clip"
    read_by = ("open_clip_torch", "torchvision", "transformers", "tokenizers")
    model: type[Any] = OpenClipEncoder

    def check(self, spec: ModelSpec) -> None:
        """Refuse an unknown architecture or tag and a missing checkpoint."""
        super().check(spec)
        if spec.name.startswith(HUB):
            return
        folder = folder_of(spec.name)
        if folder is not None:
            if not (folder / OPEN_CLIP).is_file():
                raise ModelError(
                    "{path} does not contain {config}.", advice="Check the path.", path=spec.name, config=OPEN_CLIP
                )
            return
        check_path(spec.pretrained)
        name, tag = plain_name(spec.name), spec.pretrained
        if not Path(spec.name).is_file() and name not in open_clip_names():
            raise unknown_name("open_clip model", spec.name, open_clip_names())
        if not tag or Path(tag).exists():
            return
        known = tags().get(name, {})
        if tag.lower().replace("-", "_") not in known:
            hint = "" if known else "This architecture has no tags; pass a checkpoint file."
            raise unknown_name(UserMessage("pretrained tag of {name}", name=spec.name), tag, known, advice=hint)

    def places(self, spec: ModelSpec) -> list[Path | None]:
        """Return the local paths of architecture, weights and tokenizer; None for missing ones."""
        own, config = own_place(spec), architecture(spec)
        if config is None:
            return [None]
        found: list[Path | None] = [own] if own is not None else []
        if spec.pretrained and (own is None or own.is_file()):
            found.append(Path(spec.pretrained) if Path(spec.pretrained).exists() else tag_checkpoint(spec))
        text = config.get("text_cfg", {})
        inner = [text.get("hf_model_name")]
        if own is None or not any((own / name).is_file() for name in TOKENIZERS):
            inner.append(text.get("hf_tokenizer_name"))
        cache = spec.options.get("cache_dir")
        return found + [Path(name) if Path(name).exists() else hub.cached_folder(name, cache) for name in inner if name]

    def identity(self, spec: ModelSpec) -> str | None:
        """Digest the local files, and an architecture without one."""
        files, added = super().identity(spec), registered(spec)
        return digest_json([files, added]) if files and added else files


def count_tokens(tokenizer: Any, text: str) -> int:
    """Count the tokens of a text as open_clip's tokenizers would, before truncation."""
    inner = getattr(tokenizer, "tokenizer", None)
    if inner is None:
        return len(tokenizer.encode(text)) + 2
    clean = getattr(tokenizer, "clean_fn", None)
    cleaned = clean(text) if clean is not None else text
    if getattr(tokenizer, "tokenizer_mode", "") == "clips":
        return len(inner(cleaned, add_special_tokens=False, verbose=False)["input_ids"]) + 3
    return len(inner(cleaned, verbose=False)["input_ids"])


def load_parts(spec: ModelSpec) -> tuple[Any, Any, Any, list[str]]:
    """Load an open_clip model with its evaluation transform, tokenizer and notes."""
    import open_clip

    # open_clip's name of the model: pinned and ModelScope names become folders, files are registered.
    name = plain_name(spec.name)
    if spec.name.startswith(HUB):
        pinned = spec.options.get("revision") or hub.name_of(spec) != hub.HUGGINGFACE
        name = f"{FOLDER}{hub.download(spec.name.removeprefix(HUB), spec)}" if pinned else spec.name
    elif (file := own_place(spec)) is not None:
        name = file.stem if folder_of(spec.name) is None else f"{FOLDER}{file}"
        # open_clip names architectures by file stem: a file of another folder may have taken this name.
        if name == file.stem and open_clip.get_model_config(name) != read_json(file):
            open_clip.add_model_config(file)
    saved = name.startswith((HUB, FOLDER))  # with its activation and preprocessing
    trained = saved or bool(spec.pretrained)
    cache = spec.options.get("cache_dir")
    quick, notes = (False, []) if saved else _quick_gelu(name, spec)
    start = no_random_start() if trained else nullcontext()
    silent = warnings.catch_warnings()
    with load_errors(f"open_clip {spec.label}"), silent, quiet_transformers(), start, _library_warnings() as warned:
        # The first warning becomes a note on the card, the second repeats the error that follows it.
        warnings.filterwarnings("ignore", message="QuickGELU mismatch")
        warnings.filterwarnings("ignore", message=".*looks like a TorchScript archive")
        model, _, transform = open_clip.create_model_and_transforms(
            name,
            pretrained=spec.pretrained or None,
            force_quick_gelu=quick,
            cache_dir=cache,
            weights_only=True,
            pretrained_text=False,
            require_pretrained=trained,
        )
        tokenizer = open_clip.get_tokenizer(name, cache_dir=cache)
    notes += warned
    if not saved:
        notes += _preprocessing_notes(name, spec, model.visual.preprocess_cfg)
    if spec.options.get("revision") and not spec.name.startswith(HUB):
        notes.append(UserMessage("The revision was ignored: it only applies to names that start with {hub}.", hub=HUB))
    if not trained:
        notes.append("The weights are random: neither a tag nor a checkpoint is given.")
    return model, transform, tokenizer, notes


def _quick_gelu(name: str, spec: ModelSpec) -> tuple[bool, list[str]]:
    """Choose the activation, with a note where open_clip's default is wrong or uncertain.

    A tag records the activation its weights were trained with; a file does not.
    """
    import open_clip

    config = open_clip.get_model_config(name)
    if config is None or config.get("quick_gelu") or not spec.pretrained:
        return False, []
    if open_clip.get_pretrained_cfg(name, spec.pretrained).get("quick_gelu"):
        text = (
            "{pretrained} was trained with QuickGELU, but {name} is defined with GELU: "
            "QuickGELU is used, as in {name}{quick}."
        )
        return True, [UserMessage(text, pretrained=spec.pretrained, name=name, quick=QUICK)]
    if Path(spec.pretrained).exists() and f"{name}{QUICK}" in open_clip.list_models():
        text = (
            "{name} uses GELU. If this checkpoint was trained with QuickGELU, as "
            "OpenAI's were, the scores are too low: use {--model={name}{quick}}."
        )
        return False, [UserMessage(text, name=name, quick=QUICK)]
    return False, []


@contextmanager
def _library_warnings() -> Iterator[list[str]]:
    """Collect open_clip's warnings while loading, such as an ignored checkpoint or a choice among several."""
    warned: list[str] = []

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if "open_clip" in record.pathname and not text.startswith(NO_WEIGHTS):
                warned.append(f"open_clip: {text}")

    handler = Notes(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        yield warned
    finally:
        logging.getLogger().removeHandler(handler)


def _preprocessing_notes(name: str, spec: ModelSpec, used: dict[str, Any]) -> list[str]:
    """Note if a checkpoint file is used with other preprocessing than every tag of its architecture.

    Tags record their preprocessing. For a file, open_clip falls back to that of OpenAI's models.
    """
    import open_clip

    if not spec.pretrained or open_clip.get_pretrained_cfg(name, spec.pretrained):
        return []
    tagged = [open_clip.get_pretrained_cfg(name, tag) for tag in open_clip.list_pretrained_tags_by_model(name)]
    keys = ("mean", "std", "interpolation", "resize_mode")
    if not tagged or any(all(list(used[key]) == list(tag[key]) for key in keys if tag.get(key)) for tag in tagged):
        return []
    text = (
        "Images are normalised with mean {mean} and std {std}, unlike for any tag of {name}. "
        "If this checkpoint was trained like those, the scores are wrong: pass its "
        "folder, with {open_clip}."
    )
    return [UserMessage(text, mean=used["mean"], std=used["std"], name=name, open_clip=OPEN_CLIP)]


# The files of a model, located without importing the library, which takes seconds.


def plain_name(name: str) -> str:
    """Return an architecture name as open_clip writes it: OpenAI's ViT-B/32 is ViT-B-32."""
    return name.replace("/", "-")


def folder_of(name: str) -> Path | None:
    """Return the folder that a name refers to: ``local-dir:folder`` or the folder itself; else None."""
    path = Path(name.removeprefix(FOLDER))
    return path if name.startswith(FOLDER) or path.is_dir() else None


def own_place(spec: ModelSpec) -> Path | None:
    """Return the path that the name refers to: a folder, or the file of an architecture."""
    folder = folder_of(spec.name)
    if folder is not None:
        return folder
    if spec.name.startswith(HUB):
        return hub.cached_place(spec.name.removeprefix(HUB), spec)
    if Path(spec.name).is_file():
        return Path(spec.name)
    library = find_spec("open_clip")
    if library is None or library.origin is None:
        return None
    path = Path(library.origin).parent / "model_configs" / f"{plain_name(spec.name)}.json"
    return path if path.is_file() else None


def architecture(spec: ModelSpec) -> dict[str, Any] | None:
    """Read an architecture that is available offline: built into the library, a file, or a saved folder."""
    own = own_place(spec)
    path = own / OPEN_CLIP if own is not None and own.is_dir() else own
    content = read_json(path) if path is not None and path.is_file() else {}
    return dict(content.get("model_cfg", content)) or registered(spec)


def registered(spec: ModelSpec) -> dict[str, Any] | None:
    """Return an architecture that was added to the library in this process without a file."""
    library = sys.modules.get("open_clip")
    if library is None or own_place(spec) is not None or spec.name.startswith(HUB):
        return None
    config: dict[str, Any] | None = library.get_model_config(plain_name(spec.name))
    return config


def tag_checkpoint(spec: ModelSpec) -> Path | None:
    """Return the checkpoint of a tag in the cache of the hub or of open_clip."""
    source = tags().get(plain_name(spec.name), {}).get(spec.pretrained.lower().replace("-", "_"), {})
    cache = spec.options.get("cache_dir")
    if source.get("hf_hub") and find_spec("huggingface_hub") is not None:
        repository, _, file = source["hf_hub"].rpartition("/")
        folder = hub.cached_folder(repository, cache)
        name = file or DEFAULT_WEIGHTS
        safe = "open_clip_model.safetensors" if name == DEFAULT_WEIGHTS else f"{Path(name).stem}.safetensors"
        names = [folder / one for one in (safe, name)] if folder else []
    else:
        names = [Path(cache or Path.home() / ".cache" / "clip") / Path(source.get("url", "")).name]
    return next((path for path in names if path.is_file()), None)


def tags() -> Tags:
    """Return open_clip's table of tags, cached per version of the library."""
    path = cache_root() / "open_clip" / f"tags-{version('open_clip_torch')}.json"
    try:
        known: Tags = json.loads(path.read_bytes())
        if all(isinstance(source, dict) for by_tag in known.values() for source in by_tag.values()):
            return known
    except (OSError, ValueError, AttributeError):
        pass  # missing or damaged: rebuilt below
    import open_clip

    found: Tags = {}
    for name, tag in open_clip.list_pretrained():
        source = open_clip.get_pretrained_cfg(name, tag)
        found.setdefault(name, {})[tag] = {key: source[key] for key in ("hf_hub", "url") if source.get(key)}
    write_cached(path, json.dumps(found).encode())
    return found
