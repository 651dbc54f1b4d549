"""From a checkpoint of either form to a network with its weights, and which files that takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from eyechart.models.internvl.names import in_file, in_folder
from eyechart.models.internvl.read_sizes import CONFIG, sizes_of_config, sizes_of_state
from eyechart.models.internvl.tokens import siblings
from eyechart.models.internvl.weights import fill, read_shards, unwrapped_state, weight_files
from eyechart.models.towers.small_files import read_json
from eyechart.models.towers.torch_tools import input_type
from eyechart.types import ModelSpec

if TYPE_CHECKING:
    from eyechart.models.internvl.network import InternVLNetwork

HEADS = ("vision_heads", "text_heads", "pool_heads")
"""Options: what a ``.pth`` file does not say."""


def load_network(spec: ModelSpec, place: Path, vocabulary: Path) -> tuple[InternVLNetwork, list[str]]:
    """Load a folder or a ``.pth`` file; return notes of what has no place in the network, too."""
    from eyechart.models.internvl.network import empty_network

    kind = input_type(spec.precision)
    if place.is_dir():
        network = empty_network(sizes_of_config(read_json(place / CONFIG), place / CONFIG), kind)
        return network, fill(network, read_shards(weight_files(place)), in_folder, place)
    state = unwrapped_state(place)
    config = _llama_config(place, vocabulary)
    llama = read_json(config) if config else {}
    heads = {name: int(spec.options[name]) for name in HEADS if name in spec.options}
    network = empty_network(sizes_of_state(state, llama, place, **heads), kind)
    return network, fill(network, [(place, state)], in_file, place)


def files_read(place: Path, vocabulary: Path) -> list[Path]:
    """List every file that loading reads."""
    if place.is_dir():
        return [place / CONFIG, *weight_files(place), vocabulary]
    config = _llama_config(place, vocabulary)
    return [place, vocabulary, *([config] if config else [])]


def _llama_config(place: Path, vocabulary: Path) -> Path | None:
    """Find LLaMA's config, beside the vocabulary or a ``.pth`` file: it says how many heads the text tower has."""
    found = (folder / CONFIG for folder in (vocabulary.parent, *siblings(place)))
    return next((path for path in found if path.is_file() and "hidden_size" in read_json(path)), None)
