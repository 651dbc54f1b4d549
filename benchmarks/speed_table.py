"""The table of the speed comparison, as JSON and Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
HEAD = """\
Medians, both sides in turn within each part, OMP_WAIT_POLICY=PASSIVE. Scale is the share of the images.

"""


def write_table(order: list[str], name: str, make_metric: dict[str, Any]) -> None:
    """Put a part into the table; earlier parts stay."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / "speed.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known[name] = make_metric
    parts = {part: known[part] for part in order if part in known}
    path.write_text(json.dumps(parts, indent=1) + "\n")
    rows = [{**row, "scale": found["scale"]} for found in parts.values() for row in found["rows"]]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(row.get(column, "")) for column in columns) + " |" for row in rows]
    (FOLDER / "speed.md").write_text(HEAD + "\n".join(lines) + "\n")
