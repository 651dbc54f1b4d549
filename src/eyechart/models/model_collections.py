"""Lists of models that are known by one name, as CLIP_benchmark has them."""

from __future__ import annotations

from eyechart.errors import import_extra

COLLECTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "openai": (
        ("ViT-B-32", "openai"),
        ("ViT-B-16", "openai"),
        ("ViT-L-14", "openai"),
        ("ViT-L-14-336", "openai"),
    ),
    "openclip_base": (
        ("ViT-B-32-quickgelu", "laion400m_e32"),
        ("ViT-B-32", "laion2b_e16"),
        ("ViT-B-32", "laion2b_s34b_b79k"),
        ("ViT-B-16", "laion400m_e32"),
        ("ViT-B-16-plus-240", "laion400m_e32"),
        ("ViT-L-14", "laion400m_e32"),
        ("ViT-L-14", "laion2b_s32b_b82k"),
        ("ViT-H-14", "laion2b_s32b_b79k"),
        ("ViT-g-14", "laion2b_s12b_b42k"),
    ),
    "openclip_multilingual": (
        ("xlm-roberta-base-ViT-B-32", "laion5b_s13b_b90k"),
        ("xlm-roberta-large-ViT-H-14", "frozen_laion5b_s13b_b90k"),
    ),
}
"""Architecture and tag, as CLIP_benchmark lists them."""

EVERYTHING = ("openclip_all", "openclip_full")
"""All that the installed open_clip knows; the second name is the one in CLIP_benchmark's documentation."""


def collection_names() -> list[str]:
    """List the collections."""
    return [*COLLECTIONS, *EVERYTHING]


def expand_collection(name: str) -> list[tuple[str, str]] | None:
    """Return the models of a collection, or None if there is no such collection."""
    if name in EVERYTHING:
        return list(import_extra("open_clip", "open-clip").list_pretrained())
    return list(COLLECTIONS[name]) if name in COLLECTIONS else None
