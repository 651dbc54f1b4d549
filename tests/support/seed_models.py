"""The folder ``pretrained/`` of InternVL's evaluation page, made small."""

from __future__ import annotations

from pathlib import Path

from support import zoo_internvl


def write_seed_models(folder: Path) -> None:
    """Write both forms of the checkpoint under the names of the page."""
    zoo_internvl.CASES["internvl_c_classification"](folder)
    (folder / "internvl_c_stand_in.pth").rename(folder / "internvl_c_13b_224px.pth")
