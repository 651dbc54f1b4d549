"""Checkpoints of InternVL in both forms: parameter names, vocabulary, and weights into the network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.errors import ModelError
from eyechart.messages import UserMessage
from eyechart.models.internvl.sizes import CONFIG, checked, sizes_of_config, sizes_of_state
from eyechart.models.towers.checkpoints import missing_weights, read_json, read_state, tokenizing, unused_notes
from eyechart.models.towers.torch_tools import input_type
from eyechart.types import ModelSpec

if TYPE_CHECKING:
    import torch

    from eyechart.models.internvl.network import InternVLNetwork


FILE_NAMES = {
    "vision_model.embeddings.patch_embedding.": "patch_embed.proj.",
    "vision_model.embeddings.position_embedding": "pos_embed",
    "vision_model.embeddings.class_embedding": "cls_token",
    "vision_model.encoder.layers.": "blocks.",
    "qllama.model.": "transformer.",
    ".ls1": ".ls1.gamma",
    ".ls2": ".ls2.gamma",
}
"""Name parts in the folder, as in our network, and in the ``.pth`` file."""
WRAPPERS = {"base_model.model.": "", ".base_layer.": ".", ".default.": "."}
"""Name parts that peft adds to a model with LoRA weights."""
UNUSED = re.compile(r"(^|\.)rotary_emb\.inv_freq$|^qllama\.lm_head\.|^itm_head\.")
"""Unused parts of published checkpoints: buffers that are recomputed, and heads for other tasks."""
LORA_TARGETS = {
    "vision_model.": ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"),
    "qllama.": (
        *(f"self_attn.{letter}_proj" for letter in "qkvo"),
        *(f"mlp.{name}_proj" for name in ("gate", "down", "up")),
    ),
}
"""Layers with LoRA weights, by tower."""
LORA_ALPHA = 256
"""Published LoRA scale, to be divided by the rank."""


def renamed(name: str, table: Mapping[str, str]) -> str:
    """Replace parts of a parameter's name."""
    for part, other in table.items():
        name = name.replace(part, other)
    return name


# InternVL's tokenizer: SentencePiece with LLaMA's special tokens, equal to the authors' tokenizer.
#
# transformers 5 merges the pieces appended to LLaMA's vocabulary (all with score 0) differently from SentencePiece.


FILE = "tokenizer.model"
SIBLINGS = ("InternVL-14B-224px", "chinese_alpaca_lora_7b")
"""Folders next to a checkpoint with the same vocabulary: the other format, and the one that the authors ship."""
CONTEXT = 80


class LlamaPieces:
    """A SentencePiece vocabulary with begin and end tokens."""

    def __init__(self, path: Path) -> None:
        from sentencepiece import SentencePieceProcessor

        with tokenizing(str(path)):
            self.sp_model = SentencePieceProcessor(model_file=str(path))
        model = self.sp_model
        if min(model.bos_id(), model.eos_id()) < 0:
            raise ModelError(
                "{path} is not a LLaMA vocabulary: it lacks a begin or end token.", advice=ADVICE, path=path
            )
        self.marks = {model.id_to_piece(i): i for i in (model.bos_id(), model.eos_id(), model.unk_id())}
        self._split = re.compile(f"({'|'.join(map(re.escape, self.marks))})")

    def __len__(self) -> int:
        return int(self.sp_model.get_piece_size())

    def encode(self, text: str, limit: int | None = None) -> list[int]:
        """Return the ids of a text with begin and end tokens, at most ``limit`` in all; the end token is kept."""
        # Text between special tokens is encoded separately; a special token written in a text becomes that token.
        body: list[int] = []
        for part in self._split.split(text):
            body += [self.marks[part]] if part in self.marks else self.sp_model.encode(part)
        room = None if limit is None else limit - 2
        return [self.sp_model.bos_id(), *body[:room], self.sp_model.eos_id()]

    def padded(self, texts: Sequence[str]) -> list[list[int]]:
        """Return ids padded to the context length with 0."""
        rows = [self.encode(text, CONTEXT) for text in texts]
        return [row + [0] * (CONTEXT - len(row)) for row in rows]


def find_vocabulary(spec: ModelSpec, checkpoint: Path) -> Path:
    """Find the vocabulary: the given path, in the checkpoint's folder, or in a folder next to it."""
    given = spec.options.get("tokenizer")
    if given:
        places = [Path(given) / FILE if Path(given).is_dir() else Path(given)]
    else:
        home = checkpoint if checkpoint.is_dir() else checkpoint.parent
        places = [folder / FILE for folder in (home, *siblings(checkpoint))]
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        raise ModelError(
            "No tokenizer found for {checkpoint}. Searched: {looked}.",
            advice=ADVICE,
            checkpoint=checkpoint,
            looked=", ".join(map(str, places)),
        )
    return found


def siblings(checkpoint: Path) -> list[Path]:
    """List folders next to a checkpoint that may hold its other files."""
    # The parent of the path as written: resolving `model/` or a link would change it.
    return [checkpoint.absolute().parent / folder for folder in SIBLINGS]


ADVICE = UserMessage(
    "Put {file} of InternVL-14B-224px or the folder {siblings} next to the checkpoint, "
    "or pass {--model_option=tokenizer=PATH}.",
    file=FILE,
    siblings=" or ".join(SIBLINGS),
)


# Load weights of both checkpoint formats into the network, one shard at a time; every weight must be present.


FORMS = (("model.safetensors", "model-*.safetensors"), ("pytorch_model.bin", "pytorch_model-*.bin"))
"""Weight files of a folder, whole and in shards; safetensors take precedence."""

State = dict[str, "torch.Tensor"]


def weight_files(folder: Path) -> list[Path]:
    """List the weight files of a folder, including the index."""
    for whole, shards in FORMS:
        index = folder / f"{whole}.index.json"
        if index.is_file():
            return [index, *_indexed(index)]
        found = [folder / whole] if (folder / whole).is_file() else sorted(folder.glob(shards))
        if found:
            return found
    raise ModelError(
        "{folder} does not contain weights.",
        advice="Download the whole folder: {forms}, with the index.",
        folder=folder,
        forms=" or ".join(shards for _, shards in FORMS),
    )


def unwrapped_state(path: Path) -> State:
    """Read the tensors of a file, under their names without peft."""
    return {renamed(name, WRAPPERS): tensor for name, tensor in read_state(path).items()}


def fill(
    network: InternVLNetwork, shards: Iterable[tuple[Path, State]], names: Mapping[str, str], source: Path
) -> list[str]:
    """Load all weights into the network, merge LoRA weights, and return notes on unused weights.

    ``names`` are name parts of the network and of this checkpoint format, if they differ. The tensors of the shards are
    removed one by one.
    """
    places = {renamed(name, names): parameter for name, parameter in network.named_parameters()}
    targets = {part: LORA_TARGETS[part] for part in network.sizes.lora}
    layers = [
        renamed(name, names)
        for name, _ in network.named_modules()
        if any(name.startswith(part) and name.endswith(ends) for part, ends in targets.items())
    ]
    pairs = {f"{layer}.lora_{letter}.weight" for layer in layers for letter in "AB"}
    missing, spare, added = {*places, *pairs}, [], {}
    for path, state in shards:
        while state:
            name, tensor = state.popitem()
            missing.discard(name)
            if name in places:
                _check_shape(tensor, places[name].shape, f"{path}: {name}")
                places[name].copy_(tensor)  # in the precision of the parameter
                _check_finite(places[name], f"{path}: {name}")
            elif name in pairs:
                added[name] = tensor
            elif not UNUSED.search(name):
                spare.append(name)
            del tensor
    if missing:
        raise missing_weights(source, "InternVL", missing)
    for layer in layers:
        # Add the product of the two LoRA matrices to a weight, in float32.
        weight = places[f"{layer}.weight"]
        down, up = added.pop(f"{layer}.lora_A.weight"), added.pop(f"{layer}.lora_B.weight")
        rank = down.shape[0]
        _check_shape(down, (rank, weight.shape[1]), f"{source}: {layer}.lora_A.weight")
        _check_shape(up, (weight.shape[0], rank), f"{source}: {layer}.lora_B.weight")
        weight.copy_(weight.float() + up.float() @ down.float() * (LORA_ALPHA / rank))
        _check_finite(weight, f"{source}: {layer}")
    return unused_notes(spare)


def _indexed(index: Path) -> list[Path]:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(name, str) for name in places.values()):
        raise ModelError("{index} has no valid weight_map.", advice="Copy or download it again.", index=index)
    files = [index.parent / name for name in sorted(set(places.values()))]
    for file in files:
        if file.parent != index.parent or file.name in ("", ".."):
            raise ModelError(
                "{index} refers to {file} outside its folder.",
                advice="Download the folder again.",
                index=index,
                file=file,
            )
        if not file.is_file():
            raise ModelError(
                "{file}, listed in {name}, is missing.", advice="Download the whole folder.", file=file, name=index.name
            )
    return files


def _check_shape(tensor: torch.Tensor, shape: Sequence[int], what: str) -> None:
    import torch

    found = list(tensor.shape) if isinstance(tensor, torch.Tensor) else type(tensor).__name__
    if found != list(shape):
        raise ModelError(
            "{what} is {found}, but the model expects {shape}.",
            advice="Config and weights belong to different models.",
            what=what,
            found=found,
            shape=list(shape),
        )


def _check_finite(weight: torch.Tensor, what: str) -> None:
    if weight.numel() and not all(bound.isfinite() for bound in weight.aminmax()):
        raise ModelError(
            "{what} has values that are not finite in {dtype}.",
            advice="Download the checkpoint again; if it is intact, use {--precision=fp32}.",
            what=what,
            dtype=str(weight.dtype).removeprefix("torch."),
        )


HEADS = ("vision_heads", "text_heads", "pool_heads")
"""Options for values that a ``.pth`` file does not contain."""


def load_network(spec: ModelSpec, place: Path, vocabulary: Path) -> tuple[InternVLNetwork, list[str]]:
    """Load a folder or a ``.pth`` file; also return notes on unused weights."""
    from eyechart.models.internvl.network import empty_network

    kind = input_type(spec.precision)
    if place.is_dir():
        config = place / CONFIG
        network = empty_network(checked(sizes_of_config(read_json(config), config), config), kind)
        files = (path for path in weight_files(place) if path.suffix != ".json")
        return network, fill(network, ((path, unwrapped_state(path)) for path in files), {}, place)
    state = unwrapped_state(place)
    found = llama_config(place, vocabulary)
    heads = {name: int(spec.options[name]) for name in HEADS if name in spec.options}
    sizes = sizes_of_state(state, read_json(found) if found else {}, place, **heads)
    network = empty_network(checked(sizes, place), kind)
    return network, fill(network, [(place, state)], FILE_NAMES, place)


def llama_config(place: Path, vocabulary: Path) -> Path | None:
    """Find LLaMA's config, next to the vocabulary or the ``.pth`` file, for the number of text heads."""
    found = (folder / CONFIG for folder in (vocabulary.parent, *siblings(place)))
    return next((path for path in found if path.is_file() and "hidden_size" in read_json(path)), None)
