"""Weights of both forms into the network: one shard after the other, every weight once, none made up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.errors import ModelError
from eyechart.models.internvl.names import LORA_ALPHA, LORA_TARGETS, UNUSED, unwrapped
from eyechart.models.towers.checkpoints import read_state, some
from eyechart.models.towers.small_files import read_json

if TYPE_CHECKING:
    import torch

    from eyechart.models.internvl.network import InternVLNetwork

FORMS = (("model.safetensors", "model-*.safetensors"), ("pytorch_model.bin", "pytorch_model-*.bin"))
"""What the weights of a folder are called, whole and in shards; safetensors are taken where both are."""

State = dict[str, "torch.Tensor"]


def weight_files(folder: Path) -> list[Path]:
    """List the files that hold the weights of a folder, the index included.

    Raises:
        ModelError: If there are none, or one that the index names is not there.
    """
    for whole, shards in FORMS:
        index = folder / f"{whole}.index.json"
        if index.is_file():
            return [index, *_indexed(index)]
        found = [folder / whole] if (folder / whole).is_file() else sorted(folder.glob(shards))
        if found:
            return found
    raise ModelError(
        f"{folder} holds no weights.",
        advice=f"Download the whole folder: {' or '.join(shards for _, shards in FORMS)}, with the index.",
    )


def read_shards(files: Iterable[Path]) -> Iterator[tuple[Path, State]]:
    """Read one shard after the other; whoever asks for the next has taken the tensors out of the last."""
    for path in files:
        if path.suffix != ".json":
            yield path, unwrapped_state(path)


def unwrapped_state(path: Path) -> State:
    """Read a file's tensors, under the names that they have without peft."""
    return {unwrapped(name): tensor for name, tensor in read_state(path).items()}


def fill(
    network: InternVLNetwork, shards: Iterable[tuple[Path, State]], called: Callable[[str], str], source: Path
) -> list[str]:
    """Put all weights into the network, and merge what LoRA adds to them.

    Args:
        network: One whose weights are still empty.
        shards: The files with their tensors, which are taken out of there one by one.
        called: What this form of checkpoint calls a parameter of the network.
        source: The checkpoint, for messages.

    Returns:
        Notes of weights that have no place in the network.

    Raises:
        ModelError: If a weight is missing, of another shape, or not finite.
    """
    places = {called(name): parameter for name, parameter in network.named_parameters()}
    layers = [called(layer) for layer in _lora_layers(network)]
    pairs = {f"{layer}.lora_{letter}.weight" for layer in layers for letter in "AB"}
    missing, spare, added = {*places, *pairs}, [], {}

    def take(path: Path, name: str, tensor: torch.Tensor) -> None:
        if name in places:
            _put(tensor, places[name], f"{path}: {name}")
        elif name in pairs:
            added[name] = tensor
        elif not UNUSED.search(name):
            spare.append(name)
        missing.discard(name)

    for path, state in shards:
        while state:
            take(path, *state.popitem())
    if missing:
        raise ModelError(
            f"{source} has no weights for {len(missing)} parts of InternVL ({some(sorted(missing))}).",
            advice="They would be random. Is a shard missing, or is its config.json of another model?",
        )
    for layer in layers:
        down, up = added.pop(f"{layer}.lora_A.weight"), added.pop(f"{layer}.lora_B.weight")
        _merge(places[f"{layer}.weight"], down, up, f"{source}: {layer}")
    if not spare:
        return []
    return [f"{len(spare)} weights of the checkpoint have no place in the model ({some(sorted(spare))})."]


def _indexed(index: Path) -> list[Path]:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(name, str) for name in places.values()):
        raise ModelError(f"{index} has no weight_map of names and files.", advice="Copy or download it again.")
    files = [index.parent / name for name in sorted(set(places.values()))]
    for file in files:
        if file.parent != index.parent or file.name in ("", ".."):
            raise ModelError(f"{index} names {file}, which is not beside it.", advice="Download the folder again.")
        if not file.is_file():
            raise ModelError(f"{file} is missing: {index.name} names it.", advice="Download the whole folder.")
    return files


def _put(tensor: torch.Tensor, place: torch.Tensor, what: str) -> None:
    """Copy a weight to its place, in the place's precision."""
    _check_shape(tensor, place.shape, what)
    place.copy_(tensor)
    _check_finite(place, what)


def _check_shape(tensor: torch.Tensor, shape: torch.Size, what: str) -> None:
    import torch

    found = list(tensor.shape) if isinstance(tensor, torch.Tensor) else type(tensor).__name__
    if found != list(shape):
        raise ModelError(
            f"{what} is {found}, but the sizes of the model make it {list(shape)}.",
            advice="Config and weights are of different models.",
        )


def _check_finite(weight: torch.Tensor, what: str) -> None:
    if weight.numel() and not all(bound.isfinite() for bound in weight.aminmax()):
        raise ModelError(
            f"{what} holds values that are no numbers in {str(weight.dtype).removeprefix('torch.')}.",
            advice="Download the checkpoint again; if it is fine, use --precision fp32.",
        )


def _lora_layers(network: InternVLNetwork) -> list[str]:
    """Name the layers that LoRA weights are added to."""
    targets = {part: LORA_TARGETS[part] for part in network.sizes.lora}
    return [
        name
        for name, _ in network.named_modules()
        if any(name.startswith(part) and name.endswith(ends) for part, ends in targets.items())
    ]


def _merge(weight: torch.Tensor, down: torch.Tensor, up: torch.Tensor, what: str) -> None:
    """Add the product of LoRA's two matrices to a weight, computed in float32."""
    rank = down.shape[0]
    _check_shape(down, (rank, weight.shape[1]), f"{what}.lora_A.weight")
    _check_shape(up, (weight.shape[0], rank), f"{what}.lora_B.weight")
    weight.copy_(weight.float() + up.float() @ down.float() * (LORA_ALPHA / rank))
    _check_finite(weight, what)
