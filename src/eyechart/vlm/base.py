"""The dataset class that all benchmarks of images and questions extend. Names and meaning are VLMEvalKit's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from eyechart.errors import DataError, unknown_name
from eyechart.io.untrusted import is_file
from eyechart.metrics.cells import as_text, text_list
from eyechart.types import Notice
from eyechart.vlm.benchmarks import Benchmark, known_benchmarks
from eyechart.vlm.download import fetch
from eyechart.vlm.folders import image_folder, inside, lmu_data_root
from eyechart.vlm.images import SHARED, write_image
from eyechart.vlm.rows import Record, Table, as_record, as_table
from eyechart.vlm.tsv import read_tsv

Message = list[dict[str, str]]
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})")


def default_open_metric(table: Table) -> str:
    """Return VQA accuracy where most rows have three answers or more, else normalised equality.

    VQA accuracy, the original's default, counts how many other people gave an answer: with one answer it is always 0.
    """
    several = sum(len(text_list(row.get("answer"))) >= 3 for row in table.rows)
    return "vqa_score" if several > len(table) / 2 else "normalized_exact"


class ImageBaseDataset:
    """A benchmark in one TSV file: rows with an index, an image, a question and mostly an answer.

    A benchmark of one's own extends this class, names its file in ``DATASET_URL`` and ``DATASET_MD5``, and overrides
    ``build_prompt`` and ``evaluate`` as needed.
    """

    MODALITY = "IMAGE"
    TYPE: ClassVar[str] = "VQA"
    RATING: ClassVar[str] = "open"
    """How answers become numbers where a subclass does not override ``evaluate`` (`eyechart.vlm.ratings`)."""
    METRIC: ClassVar[str] = ""
    """Which metric of `eyechart.metrics.answers.OPEN_METRICS` compares open answers; the table decides if empty."""
    DATASET_URL: ClassVar[Mapping[str, str]] = {}
    DATASET_MD5: ClassVar[Mapping[str, str]] = {}

    def __init__(self, dataset: str = "MMBench", skip_noimg: bool = True, *, file: Path | None = None) -> None:
        self.dataset_name = dataset
        self.file = file
        self.img_root = image_folder(dataset)
        self.notices: list[Notice] = []
        table = as_table(self.load_data(dataset))
        self.meta_only = "image" not in table
        self.data = self._numbered(self._with_images(table) if skip_noimg else table)
        self._positions = {as_text(row["index"]): i for i, row in enumerate(self.data.rows)}
        self.post_build(dataset)

    @classmethod
    def supported_datasets(cls) -> list[str]:
        """List the benchmarks of this class."""
        return list(cls.DATASET_URL)

    @property
    def benchmark(self) -> Benchmark:
        """Say how this benchmark is scored: from the catalogue, else from the class and the table."""
        known = known_benchmarks().get(self.dataset_name)
        if known is not None and self.file is None:
            return known
        rating = self.rating()
        metric = self.METRIC or default_open_metric(self.data) if rating == "open" else ""
        return Benchmark(self.dataset_name, type(self).__name__, rating, "optional", metric=metric)

    def rating(self) -> str:
        """Return how answers become numbers where the catalogue does not know the benchmark."""
        return self.RATING

    def load_data(self, dataset: str) -> Any:
        """Return the table: a given file, else ``$LMUData/{dataset}.tsv``, downloaded if need be."""
        if self.file is not None:
            return read_tsv(self.file)
        path = inside(lmu_data_root(), f"{dataset}.tsv", "the benchmark's name")
        if not path.is_file():
            url = self.DATASET_URL.get(dataset)
            if not url:
                raise unknown_name("benchmark", dataset, self.supported_datasets(), advice=f"Or put it at {path}.")
            fetch(url, path, self.DATASET_MD5.get(dataset, ""))
        return read_tsv(path)

    def post_build(self, dataset: str) -> None:
        """Do what a subclass wants to do after the table was read."""

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, position: int) -> dict[str, Any]:
        return self.data.rows[position].to_dict()

    def line(self, line: Any) -> Record:
        """Return a row from its position, or from a record, dict or pandas series."""
        return self.data.rows[line] if isinstance(line, int) else as_record(line)

    def build_prompt(self, line: Any) -> Any:
        """Return the message for a row (its position or the row itself): all images, then the question."""
        row = self.line(line)
        return [*self.image_items(row), {"type": "text", "value": as_text(row.get("question"))}]

    def evaluate(self, eval_file: str | Path, **judge_kwargs: Any) -> Any:
        """Score a file of predictions (see `eyechart.vlm.evaluation.evaluate_file`)."""
        from eyechart.vlm.evaluation import evaluate_file

        return evaluate_file(self, Path(eval_file), **judge_kwargs)

    def image_items(self, row: Record) -> Message:
        """Return a row's images as items of a message."""
        return [{"type": "image", "value": path} for path in self.dump_image(row)]

    def dump_image(self, line: Any) -> list[str]:
        """Write a row's images to the image folder and return their paths, or return the paths it names."""
        row = self.line(line)
        if not row.has("image"):
            return [self._named_image(name) for name in text_list(row.get("image_path"))]
        cells = self._image_cells(row)
        paths = []
        for cell, name in zip(cells, self._image_names(row, len(cells)), strict=True):
            path = inside(self.img_root, name, self.where(row))
            write_image(cell, path, self.where(row))
            paths.append(str(path))
        return paths

    def _image_cells(self, row: Record) -> list[str]:
        cell = as_text(row["image"])
        if len(cell) <= SHARED:
            owner = self._positions.get(cell)
            lender = self.data.rows[owner] if owner is not None else None
            if lender is None or not lender.has("image") or len(as_text(lender["image"])) <= SHARED:
                raise DataError(
                    f"{self.where(row)}: the image {cell!r} is neither base64 nor the index of a row with an image."
                )
            cell = as_text(lender["image"])
        return text_list(cell)

    def _image_names(self, row: Record, count: int) -> list[str]:
        if row.has("image_path"):
            names = text_list(row["image_path"])
            if len(names) != count:
                raise DataError(f"{self.where(row)}: {count} images but {len(names)} names in image_path.")
            return names
        index = as_text(row["index"])
        return [f"{index}.png"] if count == 1 else [f"{index}_{i}.png" for i in range(count)]

    def _named_image(self, name: str) -> str:
        """Find an image that a row only names: in the image folder, or beside the table."""
        folders = [self.img_root, lmu_data_root(), *([self.file.parent] if self.file else [])]
        for folder in folders:
            try:
                path = inside(folder, name, f"{self.dataset_name}: image_path")
            except DataError:
                if folder is folders[-1]:
                    raise
                continue
            if is_file(path):
                return str(path)
        return name

    def where(self, row: Record) -> str:
        """Name a row in messages."""
        return f"{self.dataset_name}: row {as_text(row.get('index'))!r}"

    def _with_images(self, table: Table) -> Table:
        if self.meta_only:
            return table
        kept = [row for row in table.rows if row.has("image")]
        lost = len(table) - len(kept)
        if lost:
            self.notices.append(Notice("rows_without_image", lost, f"{lost} rows have no image and are not asked."))
        return Table(kept, table.columns)

    def _numbered(self, table: Table) -> Table:
        """Check the index; it is made of integers only if every row's is one (``007`` is a text)."""
        if "index" not in table:
            raise DataError(f"{self.dataset_name}: there is no column 'index'.", advice="Number the rows.")
        index = [as_text(value) for value in table["index"]]
        seen: set[str] = set()
        for value in index:
            if not value or value in seen:
                what = f"the index {value!r} occurs twice" if value else "a row has no index"
                raise DataError(f"{self.dataset_name}: {what}.", advice="Give each row its own index.")
            seen.add(value)
        table["index"] = [int(v) for v in index] if all(map(_INTEGER.fullmatch, index)) else index
        return table
