"""Sixty real drawings with their authors' words, and a server that describes them in those words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eyechart.api import encode_image

FOLDER = Path(__file__).parent.parent / "data" / "clipart"
ROWS: list[dict[str, Any]] = json.loads((FOLDER / "clipart.json").read_text(encoding="utf-8"))


def write_clipart(folder: Path, count: int | None = None) -> str:
    """Write ``image_queries.jsonl``: the title and the keywords of each drawing ask for it. Return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"image_path": str(FOLDER / row["file"]), "query": [row["title"], ", ".join(row["keywords"])]})
        for row in ROWS[:count]
    ]
    (folder / "image_queries.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder)


def describe(body: dict[str, Any]) -> str:
    """Answer a chat request with the description that the author of its drawing wrote."""
    [part] = [part for part in body["messages"][-1]["content"] if part["type"] == "image_url"]
    return _DESCRIPTIONS[part["image_url"]["url"]]


_DESCRIPTIONS = {encode_image((FOLDER / row["file"]).read_bytes()).data_url: row["description"] for row in ROWS}
"""By the image as it is sent."""
