"""One self-contained HTML file: the data, a style sheet and a script, nothing from elsewhere.

Nothing from a result is ever markup: the data stands in blocks of JSON in which ``<`` cannot occur, and the script
only makes text nodes of it. A content security policy allows this very script and style, and no connection.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from eyechart.io.files import write_atomic
from eyechart.io.translate import language, words
from eyechart.report.load import Argument, load_results
from eyechart.report.page.packing import pack, plain_json
from eyechart.report.page.payload import Payload, make_payload

SCRIPTS = (
    "dom",
    "format",
    "data",
    "words",
    "averages",
    "charts",
    "scatter",
    "copy",
    "matrix",
    "overview",
    "benchmark",
    "classes",
    "confusion",
    "curves",
    "blind",
    "judges",
    "samples",
    "retrieval",
    "sample",
    "mistakes",
    "compare",
    "runs",
    "published",
    "live",
    "main",
)
"""The script's parts, in order; they share one scope."""


def write_report(
    arguments: Argument | Sequence[Argument],
    output: str | Path,
    *,
    references: str | Sequence[str] = (),
    title: str = "Eyechart report",
) -> Path:
    """Write the page of results, as ``eyechart report`` does.

    Args:
        arguments: Result files, folders of them, or results that are there already: one, or a list.
        output: The HTML file.
        references: Published numbers to stand beside, as ``--reference`` names them.
        title: Of the page.

    Returns:
        The path of the page.

    Example:
        ```python
        import eyechart

        results = eyechart.evaluate("eyechart-tiny", "demo/garments")
        eyechart.write_report(results, "report.html")
        ```
    """
    references = [references] if isinstance(references, str) else references
    loaded = load_results(arguments)
    payload = make_payload(loaded.found, skipped=loaded.skipped, references=references, title=title)
    write_atomic(Path(output), make_page(payload))
    return Path(output)


def make_page(payload: Payload, *, live: bool = False) -> bytes:
    """Write the page. A live page may ask the server it came from, and only that one, for progress."""
    style, script = _read("page.css"), _script()
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            *(["connect-src 'self'"] if live else []),
        ]
    )
    overview = payload.overview | {"live": live, "language": language()}
    blocks = [
        _json_block("overview", overview),
        _json_block("words", {part: words(part) for part in ("page", "notes")}),
        _packed_block("pairs", pack(payload.pairs)),
        _packed_block("published", pack(payload.published)),
    ]
    blocks += [_packed_block(f"chunk-{number}", chunk) for number, chunk in enumerate(payload.chunks.texts)]
    parts = {
        "policy": html.escape(policy),
        "title": html.escape(str(overview["title"])),
        "style": style,
        "data": "\n".join(blocks),
        "script": script,
    }
    page = _read("page.html")
    for name, text in parts.items():
        page = page.replace(f"<!--{name}-->", text, 1)
    return page.encode()


def _script() -> str:
    body = "\n".join(_read(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{body}\n}})();'


def _read(name: str) -> str:
    return resources.files("eyechart.report.page").joinpath("templates", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _json_block(name: str, value: Any) -> str:
    """JSON inside a script element: without ``<`` it can neither end the element nor start a comment."""
    text = plain_json(value).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'


def _packed_block(name: str, packed: str) -> str:
    return f'<script type="text/plain" id="{name}">{packed}</script>'
