"""The ``internvl`` family: InternVL-C and InternVL-G under the six names of their authors' evaluation code.

The name decides three things: the form of the checkpoint (a ``.pth`` file, or with ``_hf`` a folder), which of the
two image vectors is taken (C, G), and the image transform (classification crops, retrieval squashes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, UsageError, missing_extra, unknown_name
from eyechart.models import hub
from eyechart.models.identity import content_identity
from eyechart.models.internvl.names import in_file, in_folder
from eyechart.models.internvl.sizes import CONFIG, sizes_of_config, sizes_of_state
from eyechart.models.internvl.tokens import CONTEXT, LlamaPieces, find_vocabulary
from eyechart.models.internvl.weights import fill, read_shards, unwrapped_state, weight_files
from eyechart.models.towers.small_files import read_json
from eyechart.models.towers.torch_encoder import Inputs, TorchEncoder
from eyechart.models.towers.torch_tools import describe, input_type
from eyechart.models.towers.trim import trim
from eyechart.types import ModelSpec, digest_json

if TYPE_CHECKING:
    import torch

    from eyechart.models.internvl.network import InternVLNetwork

PREFIX = "summarize:"
"""Stands before every text, prompts and captions alike."""
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LIBRARIES = ("torchvision", "sentencepiece")
"""They make pixels and tokens."""
GIVE = "Give the checkpoint with --pretrained: internvl_c_13b_224px.pth, or for a name with _hf InternVL-14B-224px."
HEADS = ("vision_heads", "text_heads", "pool_heads")


@dataclass(frozen=True)
class Variant:
    """What a name stands for."""

    letter: str
    folder: bool
    crop: bool


VARIANTS = {
    f"internvl_{letter}_{task}{suffix}": Variant(letter.upper(), bool(suffix), task == "classification")
    for letter, suffix in (("c", ""), ("c", "_hf"), ("g", "_hf"))
    for task in ("classification", "retrieval")
}


class InternVLFamily:
    """Loads both forms of checkpoint."""

    auto_precision = "half"
    """As its authors do on a GPU: float32 takes 50 GB."""
    own_options = MappingProxyType({"tokenizer": str, **dict.fromkeys(HEADS, int)})

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library, an unknown name, a missing checkpoint, or one of the other form."""
        missing = next((name for name in ("torch", *LIBRARIES) if find_spec(name) is None), None)
        if missing:
            raise missing_extra(missing, "transformers")
        if spec.name not in VARIANTS:
            raise unknown_name("InternVL model", spec.name, VARIANTS)
        if not spec.pretrained:
            raise UsageError(f"{spec.name} is the name of a network, not of its weights.", advice=GIVE)
        (_check_folder if VARIANTS[spec.name].folder else _check_file)(spec)

    def identity(self, spec: ModelSpec) -> str | None:
        """Name the content of the files that are read, where they are on this machine."""
        place = hub.place_of(spec.pretrained, spec)
        if place is None:
            return None
        return content_identity(_files(spec, place), *LIBRARIES)

    def load(self, spec: ModelSpec) -> InternVLEncoder:
        """Load network and tokenizer."""
        return InternVLEncoder(spec)


class InternVLEncoder(TorchEncoder):
    """One of the two image vectors, and the text vector at the end mark."""

    family = "internvl"

    def __init__(self, spec: ModelSpec) -> None:
        variant = VARIANTS[spec.name]
        self.letter = variant.letter
        place = Path(hub.download(spec.pretrained, spec) if variant.folder else spec.pretrained)
        vocabulary = find_vocabulary(spec, place)
        self.tokenizer = LlamaPieces(vocabulary)
        load = _from_folder if variant.folder else _from_file
        network, notes = load(spec, place, vocabulary)
        sizes = network.sizes
        self.transform = make_transform(sizes.image_size, crop=variant.crop)
        super().__init__(spec, network)
        self.card = self.make_card(
            transform=f"InternVL-{self.letter} {digest_json(asdict(sizes))} | {describe(self.transform)} | "
            f"{PREFIX!r} {CONTEXT}",
            image_size=sizes.image_size,
            context_length=CONTEXT,
            notes=[*notes, *_vocabulary_notes(self.tokenizer, sizes.words, vocabulary)],
        )

    def prepare_image(self, image: Image.Image) -> NDArray[np.float32]:
        """Convert to RGB, then crop or squash."""
        pixels: NDArray[np.float32] = self.transform(image.convert("RGB")).numpy()
        return pixels

    def tokenize(self, texts: Sequence[str], language: str) -> Inputs:  # noqa: ARG002 - one tokenizer for all
        """Prefix, tokenise with both marks, cut at 80, fill up with 0."""
        import torch

        return {"ids": torch.tensor(self.tokenizer.padded(self.written(texts)))}

    def text_inputs(self, tokens: Inputs) -> Inputs:
        """Cut off the padding behind the longest text: nothing looks back from there."""
        return {"ids": trim(tokens["ids"])}

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text before it is cut, marks included."""
        return [len(self.tokenizer.encode(text)) for text in self.written(texts)]

    def written(self, texts: Sequence[str]) -> list[str]:
        """Put the prefix before every text."""
        return [PREFIX + text for text in texts]

    def image_features(self, model: Any, pixels: torch.Tensor) -> torch.Tensor:
        """Run the image side of the variant."""
        return model.image_g(pixels) if self.letter == "G" else model.image_c(pixels)

    def text_features(self, model: Any, inputs: Inputs) -> torch.Tensor:
        """Run the text tower: the same one for C and G."""
        return model.encode_text(inputs["ids"])


def make_transform(size: int, *, crop: bool) -> Any:
    """Make the transform: resize the shorter side and crop (classification), or squash (retrieval)."""
    from torchvision import transforms

    bicubic = transforms.InterpolationMode.BICUBIC
    shape = [transforms.Resize(size if crop else (size, size), interpolation=bicubic)]
    shape += [transforms.CenterCrop(size)] if crop else []
    return transforms.Compose([*shape, transforms.ToTensor(), transforms.Normalize(MEAN, STD)])


def _from_folder(spec: ModelSpec, folder: Path, vocabulary: Path) -> tuple[InternVLNetwork, list[str]]:  # noqa: ARG001
    from eyechart.models.internvl.network import empty_network

    sizes = sizes_of_config(read_json(folder / CONFIG), folder / CONFIG)
    if VARIANTS[spec.name].letter == "G" and not sizes.queries:
        raise ModelError(f"{folder} has no query tokens, which InternVL-G needs.")
    network = empty_network(sizes, input_type(spec.precision))
    return network, fill(network, read_shards(weight_files(folder)), in_folder, folder)


def _from_file(spec: ModelSpec, path: Path, vocabulary: Path) -> tuple[InternVLNetwork, list[str]]:
    from eyechart.models.internvl.network import empty_network

    state = unwrapped_state(path)
    beside = _llama_config(vocabulary)
    llama = read_json(beside) if beside is not None else {}
    heads = {name: int(spec.options[name]) for name in HEADS if name in spec.options}
    network = empty_network(sizes_of_state(state, llama, path, **heads), input_type(spec.precision))
    return network, fill(network, [(path, state)], in_file, path)


def _llama_config(vocabulary: Path) -> Path | None:
    """Return LLaMA's config beside its vocabulary: the only place that says how many heads a ``.pth`` file has."""
    path = vocabulary.parent / CONFIG
    return path if path.is_file() else None


def _files(spec: ModelSpec, place: Path) -> list[Path | None]:
    """List every file that loading reads."""
    vocabulary = find_vocabulary(spec, place)
    if VARIANTS[spec.name].folder:
        return [place / CONFIG, *weight_files(place), vocabulary]
    beside = _llama_config(vocabulary)
    return [place, vocabulary, *([beside] if beside is not None else [])]


def _vocabulary_notes(tokenizer: LlamaPieces, words: int, vocabulary: Path) -> list[str]:
    """Compare the vocabulary with the rows of the text tower.

    Raises:
        ModelError: If a piece has no row.
    """
    if len(tokenizer) > words:
        raise ModelError(
            f"{vocabulary} has {len(tokenizer)} pieces, but the model has rows for {words} only.",
            advice="It is the tokenizer of another model: give the right one with --model_option tokenizer=PATH.",
        )
    rest = words - len(tokenizer)
    return [f"The tokenizer has {len(tokenizer)} pieces, the model rows for {words}: is it its own?"] if rest else []


def _check_file(spec: ModelSpec) -> None:
    path = Path(spec.pretrained)
    if path.is_dir():
        raise UsageError(
            f"{spec.name} reads a .pth file, but {path} is a folder.", advice=f"Use --model {spec.name}_hf."
        )
    if not path.is_file():
        raise ModelError(f"There is no checkpoint {path}.", advice="Check the path after --pretrained.")
    find_vocabulary(spec, path)


def _check_folder(spec: ModelSpec) -> None:
    path = Path(spec.pretrained)
    given = set(HEADS) & set(spec.options)
    if given:
        raise UsageError(f"{', '.join(sorted(given))}: for a .pth file only. A folder's {CONFIG} says it.")
    if path.is_file():
        raise UsageError(
            f"{spec.name} reads a folder, but {path} is a file.",
            advice=f"Use --model {spec.name.removesuffix('_hf')}." if "_c_" in spec.name else "",
        )
    if path.is_dir():
        if not (path / CONFIG).is_file():
            raise ModelError(f"{path} holds no {CONFIG}.", advice="Download the whole folder.")
        weight_files(path)
        find_vocabulary(spec, path)
    elif spec.pretrained.startswith((".", "/", "~")) or spec.pretrained.count("/") != 1:
        raise ModelError(
            f"There is no folder {spec.pretrained}.", advice="Check the path after --pretrained, or give a hub id."
        )
    else:
        hub.check(spec)
