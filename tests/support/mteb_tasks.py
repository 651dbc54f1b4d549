"""Small data for real tasks of MTEB, and for tasks of one's own, in the layouts in which MTEB's data are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.clipart import ROWS

TITLES = [row["title"] for row in ROWS]
DESCRIPTIONS = [row["description"] for row in ROWS]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def distinct_rows(count: int = len(ROWS)) -> list[tuple[str, str]]:
    """Descriptions and titles, each description once, whatever its capitals: no ties."""
    found = {text.lower(): (text, title) for title, text in zip(TITLES, DESCRIPTIONS, strict=True)}
    return list(found.values())[:count]


def write_retrieval_task(
    folder: Path,
    documents: list[str],
    queries: list[str],
    relevance: dict[str, dict[str, int]],
    split: str = "dev",
    candidates: dict[str, list[str]] | None = None,
) -> Path:
    """Write a retrieval or reranking task as BEIR does; the ids are d0, d1, ... and q0, q1, ..."""
    for name, mark, texts in (("corpus", "d", documents), ("queries", "q", queries)):
        write_lines(
            folder / f"{name}.jsonl", [{"_id": f"{mark}{i}", "text": text, "title": ""} for i, text in enumerate(texts)]
        )
    lines = ["query-id\tcorpus-id\tscore"]
    lines += [f"{query}\t{name}\t{gain}" for query, row in relevance.items() for name, gain in row.items()]
    (folder / "qrels").mkdir(exist_ok=True)
    (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    if candidates:
        rows = [{"query-id": query, "corpus-ids": names} for query, names in candidates.items()]
        write_lines(folder / "top_ranked.jsonl", rows)
    return folder


def one_each(count: int) -> dict[str, dict[str, int]]:
    """Query i belongs to document i."""
    return {f"q{i}": {f"d{i}": 1} for i in range(count)}


def as_repository(folder: Path, split: str = "dev") -> Path:
    """Add what makes a folder of `write_retrieval_task` a repository that MTEB's own loader reads."""
    qrels = [line.split("\t") for line in (folder / "qrels" / f"{split}.tsv").read_text().splitlines()[1:]]
    write_lines(
        folder / "relevance" / f"{split}.jsonl",
        [{"query-id": query, "corpus-id": name, "score": int(gain)} for query, name, gain in qrels],
    )
    files = {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "default": f"relevance/{split}.jsonl"}
    if (folder / "top_ranked.jsonl").is_file():
        files["top_ranked"] = "top_ranked.jsonl"
    parts = [
        f"- config_name: {name}\n  data_files:\n  - split: {split}\n    path: {path}\n" for name, path in files.items()
    ]
    (folder / "README.md").write_text(f"---\nconfigs:\n{''.join(parts)}---\n")
    return folder


def write_page_tasks(root: Path) -> None:
    """Write data for the five tasks that EvalScope's MTEB page names, one folder each."""
    found = distinct_rows(20)
    documents, queries = [row[0] for row in found], [row[1] for row in found]
    write_retrieval_task(root / "T2Retrieval", documents, queries, one_each(20))
    candidates = {f"q{i}": [f"d{(i + 3 * j) % 20}" for j in range(6)] for i in range(20)}
    write_retrieval_task(root / "T2Reranking", documents, queries, one_each(20), candidates=candidates)
    labelled = [{"text": title, "label": i % 2} for i, title in enumerate(TITLES)]
    write_lines(root / "TNews" / "train.jsonl", labelled)
    write_lines(root / "TNews" / "validation.jsonl", labelled[::2] + labelled[1::2])
    write_lines(
        root / "CLSClusteringS2S" / "test.jsonl",
        [{"sentences": TITLES[start : start + 20], "labels": [i % 3 for i in range(20)]} for start in (0, 20, 40)],
    )
    for split in ("validation", "test"):
        pairs = [
            {"sentence1": title, "sentence2": DESCRIPTIONS[(i + i % 3) % 60], "score": i % 3}
            for i, title in enumerate(TITLES)
        ]
        write_lines(root / "ATEC" / f"{split}.jsonl", pairs)
