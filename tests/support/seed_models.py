"""The folder ``pretrained/`` of InternVL's evaluation page, made small."""

from __future__ import annotations

from pathlib import Path

from support.internvl import SMALL, SMALL_FILE, write_file, write_folder

TINY_FILE = SMALL_FILE | {
    "embed_dim": 128, "hidden": 16, "depth": 1, "transformer_width": 128, "transformer_hidden": 16, "layers": 1,
}  # fmt: skip
TINY_FOLDER = SMALL | {
    "vision_config": SMALL["vision_config"] | {"num_hidden_layers": 1},
    "qllama_config": SMALL["qllama_config"] | {"num_hidden_layers": 1},
}


def write_seed_models(folder: Path) -> None:
    """Write both forms of the checkpoint under the names of the page; the folder brings the tokenizer of both."""
    write_file(folder / "internvl_c_13b_224px.pth", TINY_FILE, vocabulary=False)
    write_folder(folder / "InternVL-14B-224px", TINY_FOLDER, shards=2)
