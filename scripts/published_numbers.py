"""Pack the tables that open_clip and CLIP_benchmark publish into the package, as facts with their source and date.

Use: python scripts/published_numbers.py --date 2026-11-16 FOLDER/*.csv

The files, known by their names: open_clip's docs/openclip_results.csv (here open_clip_38_datasets.csv),
openclip_retrieval_results.csv (open_clip_retrieval.csv), openclip_multilingual_retrieval_results.csv
(open_clip_multilingual_retrieval.csv) and model_profile.csv (open_clip_model_profile.csv); CLIP_benchmark's
benchmark/benchmark.csv (clip_benchmark.csv). Others are left out: open_clip_classification.csv repeats the first.
Each is written as src/eyechart/report/reference/NAME.json.xz; `eyechart.report.reference` describes the form.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eyechart.benchmarks import benchmark_name
from eyechart.datasets.catalogue import load_catalogue
from eyechart.languages import name_of

TARGET = Path(__file__).parent.parent / "src" / "eyechart" / "report" / "reference"
TASKS = {"retrieval": "zeroshot_retrieval", "selection": "image_caption_selection"}
ZERO_SHOT = "zeroshot_classification"
Row = Mapping[str, str]
Column = dict[str, Any]
DIRECTIONS = {"image": "text to image", "text": "image to text"}


class Reference:
    """One publication: columns in the order in which they are added, and the values of each model."""

    def __init__(self, sizes: Mapping[str, Row]) -> None:
        self.sizes = sizes
        self.columns: list[Column] = []
        self.values: dict[tuple[str, str], list[float | None]] = {}
        self.tables: list[dict[str, Any]] = []

    def add(self, rows: Mapping[tuple[str, str], Row], key: str, column: Column) -> None:
        """Add a column of a table: its cells by model."""
        for model in rows:
            self.values.setdefault(model, [])
        self.columns.append(column)
        for model, values in self.values.items():
            text = rows[model][key] if model in rows else ""
            missing = [None] * (len(self.columns) - 1 - len(values))
            values.extend([*missing, float(text) if text else None])

    def write(self, name: str, **known: Any) -> None:
        """Write the file."""
        models = [[*model, self._size(model[0])] for model in self.values]
        columns = [
            {key: value for key, value in column.items() if key not in ("label", "group")} for column in self.columns
        ]
        body = {
            **known,
            "models": models,
            "columns": columns,
            "values": list(self.values.values()),
            "tables": self.tables,
        }
        data = lzma.compress(json.dumps(body, separators=(",", ":")).encode(), preset=9 | lzma.PRESET_EXTREME)
        (TARGET / f"{name}.json.xz").write_bytes(data)
        print(f"{name}: {len(models)} models, {len(columns)} columns, {len(data)} bytes")

    def _size(self, model: str) -> dict[str, float]:
        row = self.sizes.get(model)
        return {"parameters": round(float(row["mparams"]) * 1e6), "gflops": float(row["gflops"])} if row else {}

    def table(self, title: str, columns: Sequence[Column], *, digits: int, average: bool = True) -> None:
        """Set the display format of some columns."""
        keys = ("label", "group", "dataset", "language", "metric")
        parts = [{key: column[key] for key in keys if column.get(key)} for column in columns]
        derived = [["average", "average"]] if average else []
        self.tables.append({"title": title, "columns": parts, "digits": digits, "derived": derived})


def read(path: Path) -> list[Row]:
    """Read a table."""
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def by_model(rows: Sequence[Row], *keys: str) -> dict[tuple[str, str], Row]:
    """Index rows by name and weights."""
    return {(row[keys[0]], row[keys[1]]): row for row in rows}


def recalls(dataset: str, language: str, label: str, group: str = "") -> list[Column]:
    """Describe recall at 1, 5 and 10 in both directions."""
    return [
        {
            "dataset": dataset, "task": "zeroshot_retrieval", "language": language, "label": label or f"R@{k}",
            "metric": f"{kind}_retrieval_recall@{k}", "group": f"{group}{DIRECTIONS[kind]}",
        }
        for kind in DIRECTIONS
        for k in (1, 5, 10)
    ]  # fmt: skip


def add_main_metrics(reference: Reference, rows: Mapping[tuple[str, str], Row]) -> None:
    """Add the 38 datasets, each with the metric that DataComp reports according to the catalogue."""
    order = list(next(iter(rows.values())))
    columns = [
        {
            "dataset": benchmark_name(entry.name), "task": TASKS.get(entry.kind, ZERO_SHOT), "language": "en",
            "metric": entry.datacomp["metric"], "primary": True, "label": entry.datacomp["name"],
        }
        for entry in load_catalogue().entries.values()
        if "metric" in entry.datacomp and entry.datacomp["name"] in order
    ]  # fmt: skip
    columns.sort(key=lambda column: order.index(column["label"]))
    for column in columns:
        reference.add(rows, column["label"], column)
    reference.table("38 datasets, each by the main metric that DataComp chose", columns, digits=2)


def add_retrieval(reference: Reference, rows: Mapping[tuple[str, str], Row]) -> None:
    """Add the recalls of Flickr30k and MS COCO, and the published WinoGAViL numbers other than its main metric."""
    both: list[Column] = []
    for dataset, name in (("flickr30k", "Flickr"), ("mscoco_captions", "MSCOCO")):
        for column in recalls(dataset, "en", "", f"{name}, "):
            kind, _, k = column["metric"].partition("_retrieval_recall@")
            reference.add(rows, f"{name} {kind} retr. R@{k}", column)
            both.append(column)
    reference.table("Flickr30k and MS COCO", both, digits=2)
    common = {"dataset": benchmark_name("winogavil"), "task": TASKS["selection"], "language": "en"}
    reference.add(rows, "WinoGAViL avg jaccard score", {**common, "metric": "avg_jaccard_score"})
    for part in ("5", "6", "5-6", "10", "12"):
        reference.add(rows, f"WinoGAViL jaccard score {part}", {**common, "metric": f"jaccard_score_{part}"})


def add_languages(reference: Reference, rows: Mapping[tuple[str, str], Row], dataset: str, title: str) -> None:
    """Add the recalls of a dataset in all of its languages."""
    words = [name.split() for name in next(iter(rows.values())) if name.startswith(f"{dataset} ")]
    languages = sorted({language for _, _, language in words if language != "avg"}, key=name_of)
    columns = [column for code in languages for column in recalls(dataset, code, name_of(code))]
    for column in columns:
        reference.add(rows, f"{dataset} {column['metric']} {column['language']}", column)
    for kind, direction in DIRECTIONS.items():
        for k in (1, 5, 10):
            metric = f"{kind}_retrieval_recall@{k}"
            chosen = [{**column, "group": ""} for column in columns if column["metric"] == metric]
            reference.table(f"{title} in {len(languages)} languages, {direction}, R@{k}", chosen, digits=2)


OPEN_CLIP_NOTES = (
    (
        "The 38 datasets and their main metrics are DataComp's: mean per class recall for Caltech-101, FGVC Aircraft, "
        "Flowers and Pets, the mean of both recalls at 1 for Flickr and MSCOCO, the worst group for FMoW, Dollar "
        "Street and GeoDE. Each stands under its own name and meets only the same metric."
    ),
    (
        "SVHN and CLEVR distance differ from CLIP_benchmark's table for the same weights, by 3.6 and 6.2 points in the "
        "median (all others by less than 1): probably the class names are others."
    ),
)


def pack_open_clip(tables: Mapping[str, list[Row]], sizes: Mapping[str, Row], date: str) -> None:
    """Pack open_clip's four tables."""
    reference = Reference(sizes)
    add_main_metrics(reference, by_model(tables["open_clip_38_datasets"], "name", "pretrained"))
    add_retrieval(reference, by_model(tables["open_clip_retrieval"], "name", "pretrained"))
    many = by_model(tables["open_clip_multilingual_retrieval"], "model", "version")
    add_languages(reference, many, "crossmodal3600", "Crossmodal-3600")
    add_languages(reference, many, "multilingual_mscoco_captions", "XTD-10")
    reference.write(
        "open_clip",
        title="open_clip's tables",
        source="docs/openclip_results.csv, openclip_retrieval_results.csv, "
        "openclip_multilingual_retrieval_results.csv and model_profile.csv of mlfoundations/open_clip",
        date=date,
        decimals=4,
        notes=OPEN_CLIP_NOTES,
    )


def pack_clip_benchmark(rows: Sequence[Row], sizes: Mapping[str, Row], date: str) -> None:
    """Pack CLIP_benchmark's table: one row per result."""
    reference = Reference(sizes)
    metrics = (
        "acc1",
        "acc5",
        "mean_per_class_recall",
        "mean_average_precision",
        "image_retrieval_recall@5",
        "text_retrieval_recall@5",
    )
    shown = {
        "acc1": "Zero-shot classification, acc1",
        "mean_per_class_recall": "Zero-shot classification, mean per class recall",
    }
    columns = []
    for dataset, task in dict.fromkeys(
        (row["dataset"], row["task"]) for row in sorted(rows, key=lambda row: row["dataset"])
    ):
        own = by_model([row for row in rows if row["dataset"] == dataset], "model", "pretrained")
        for metric in metrics:
            if any(row[metric] for row in own.values()):
                column = {
                    "dataset": benchmark_name(dataset),
                    "task": task,
                    "language": "en",
                    "metric": metric,
                    "label": dataset.removeprefix("vtab/"),
                }
                columns.append(column)
                reference.add(own, metric, column)
    for metric, title in shown.items():
        reference.table(title, [column for column in columns if column["metric"] == metric], digits=2)
    groups = {f"{kind}_retrieval_recall@5": f"{words}, R@5" for kind, words in DIRECTIONS.items()}
    found = [
        {**column, "group": groups[metric]} for metric in groups for column in columns if column["metric"] == metric
    ]
    reference.table("Zero-shot retrieval", found, digits=2)
    reference.write(
        "clip_benchmark",
        title="CLIP_benchmark's table",
        source="benchmark/benchmark.csv of LAION-AI/CLIP_benchmark; parameters from open_clip's model_profile.csv",
        date=date,
        notes=["Numbers in full, as they were measured. acc1 of 13 models on 39 datasets; retrieval by recall at 5."],
    )


def main() -> None:
    """Read the files and write both references."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--date", required=True, help="when the files were copied; they have no date of their own")
    args = parser.parse_args()
    tables = {path.stem: read(path) for path in args.files}
    sizes = {row["model"]: row for row in tables["open_clip_model_profile"]}
    pack_open_clip(tables, sizes, args.date)
    pack_clip_benchmark(tables["clip_benchmark"], sizes, args.date)


if __name__ == "__main__":
    main()
