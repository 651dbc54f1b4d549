"""The validated rows of a benchmark, and the images they contain or refer to."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from eyechart.datasets.questions.benchmark_files import (
    SHARED,
    decode_cell,
    image_folder,
    inside,
    lmu_data_root,
    write_image,
)
from eyechart.datasets.questions.benchmarks import PART, PART_INDEX
from eyechart.datasets.questions.prompt_items import WEB, image_in_data
from eyechart.datasets.questions.row_table import Record, RowTable
from eyechart.errors import DataError
from eyechart.io.digests import file_digest
from eyechart.io.images import ImageRef, image_size
from eyechart.io.safe_parse import is_file
from eyechart.messages import UserMessage
from eyechart.metrics.cell_values import as_text, text_list
from eyechart.types import Notice

_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})")


class QuestionTable:
    """A table with an index, questions, and images in cells or files."""

    def __init__(self, name: str, table: RowTable, *, file: Path | None = None, skip_noimg: bool = True) -> None:
        self.name, self.file = name, file
        self.image_root = image_folder(name)
        self.notices: list[Notice] = []
        self.answer_files: list[Path] = []
        self.exported: Mapping[str, str] = {}
        """How VLMEvalKit's prediction files differ from the table (`eyechart.datasets.questions.benchmarks`)."""
        self.meta_only = "image" not in table
        if skip_noimg and not self.meta_only:
            kept = [row for row in table.rows if row.has("image")]
            lost = len(table) - len(kept)
            if lost and not kept:
                raise DataError(
                    "{name}: none of the {lost} rows has an image.",
                    advice="For questions without images, omit the column 'image'.",
                    name=name,
                    lost=lost,
                )
            if lost:
                text = UserMessage("{n} rows have no image and {n:is|are} skipped.", n=lost)
                self.notices.append(Notice("rows_without_image", lost, text))
            table = RowTable(kept, table.columns)
        self.data = self._numbered(table)
        self._positions = {as_text(row["index"]): i for i, row in enumerate(self.data.rows)}

    @property
    def rows(self) -> list[Record]:
        """The validated rows."""
        return self.data.rows

    @property
    def files(self) -> list[Path]:
        """Files that the rows were read from."""
        return [*([self.file] if self.file else []), *self.answer_files]

    def row(self, index: str) -> Record:
        """Return the row with an index."""
        return self.rows[self._positions[index]]

    def where(self, row: Record) -> str:
        """Identify a row in messages."""
        return f"{self.name}: row {as_text(row.get('index'))!r}"

    def write_images(self, row: Record) -> list[str]:
        """Return the image paths of a row, after writing the images that it contains."""
        if not row.has("image"):
            named = text_list(row.get("image_path"))
            return [image_in_data(name) if name.startswith(WEB) else self._named_image(name) for name in named]
        cells, where, index = self._image_cells(row), self.where(row), as_text(row["index"])
        names = [f"{index}.png"] if len(cells) == 1 else [f"{index}_{i}.png" for i in range(len(cells))]
        if row.has("image_path"):
            names = text_list(row["image_path"])
        if len(names) != len(cells):
            raise DataError(
                "{where}: {count} images but {n} names in image_path.", where=where, count=len(cells), n=len(names)
            )
        return [
            str(write_image(cell, inside(self.image_root, name, where), where))
            for cell, name in zip(cells, names, strict=True)
        ]

    def first_image(self, row: Record) -> ImageRef | None:
        """Return the first image of a row; None if it has none or it cannot be found.

        Errors are deferred to the prompt: predictions can be scored without images.
        """
        where = self.where(row)
        if not row.has("image"):
            return next((ImageRef.from_path(path) for path in self._named_files(row)), None)
        try:
            return next((ImageRef(where, data=decode_cell(cell, where)) for cell in self._image_cells(row)), None)
        except DataError:
            return None

    def add_image_sizes(self) -> None:
        """Add the column ``image_size``, width and height of the first image, which scoring of points needs."""
        shown = (self.first_image(row) for row in self.rows)
        self.data["image_size"] = [list(image_size(image.read(), image.source)) if image else None for image in shown]

    def image_files(self) -> list[Path]:
        """List the existing image files that rows refer to."""
        named = (path for row in self.rows if not row.has("image") for path in self._named_files(row))
        return list(dict.fromkeys(named))

    def _named_files(self, row: Record) -> Iterator[Path]:
        for name in text_list(row.get("image_path")):
            try:
                path = Path(self._named_image(name))
            except DataError:
                continue  # reported with the prompt
            if path.is_absolute():
                yield path

    def _image_cells(self, row: Record) -> list[str]:
        cell = as_text(row["image"])
        if len(cell) > SHARED:
            return text_list(cell)
        shared = as_text(self.row(cell)["image"]) if cell in self._positions else ""
        if len(shared) <= SHARED:
            raise DataError(
                "{where}: the image {cell!r} is neither base64 nor the index of a row with an image.",
                where=self.where(row),
                cell=cell,
            )
        return text_list(shared)

    def _named_image(self, name: str) -> str:
        """Find an image by name: in the image folder, or next to the table."""
        folders = [self.image_root, lmu_data_root(), *([self.file.parent] if self.file else [])]
        found: list[Path] = []
        for folder in folders:
            try:
                path = inside(folder, name, f"{self.name}: image_path")
            except DataError:
                if folder is folders[-1] and not found:
                    raise
                continue
            if is_file(path):
                found.append(path.absolute())
        if len(set(found)) > 1 and len(set(map(file_digest, found))) > 1:
            raise DataError(
                "{name}: image_path {image!r} matches different images: {paths}.",
                advice="Keep the one you need, or rename the table.",
                name=self.name,
                image=name,
                paths=" and ".join(map(str, found)),
            )
        return str(found[0]) if found else name

    def _numbered(self, table: RowTable) -> RowTable:
        """Check the index; it becomes integers only if every value is one (``007`` is text)."""
        if "index" not in table:
            raise DataError("{name}: the column 'index' is missing.", advice="Number the rows.", name=self.name)
        index = [as_text(value) for value in table["index"]]
        seen: set[str] = set()
        for value in index:
            if not value or value in seen:
                what = f"the index {value!r} occurs twice" if value else "a row has no index"
                raise DataError("{name}: {what}.", advice="Give each row a unique index.", name=self.name, what=what)
            seen.add(value)
        table["index"] = [int(v) for v in index] if all(map(_INTEGER.fullmatch, index)) else index
        return table


class JoinedTable(QuestionTable):
    """The rows of several tables, renumbered, with a column that names the source table."""

    def __init__(self, name: str, parts: Mapping[str, QuestionTable]) -> None:
        self.parts = parts
        rows: list[dict[str, object]] = []
        for part, table in parts.items():
            for row in table.rows:
                cells = row.without("index", "image")
                rows.append({"index": len(rows), **cells, PART: part, PART_INDEX: row["index"]})
        super().__init__(name, RowTable(rows), skip_noimg=False)
        self.notices += [notice for table in parts.values() for notice in table.notices]

    @property
    def files(self) -> list[Path]:
        """Files of the parts."""
        return [path for table in self.parts.values() for path in table.files]

    def write_images(self, row: Record) -> list[str]:
        """Return the image files of a row, in the folder of its part."""
        table, original = self._origin(row)
        return table.write_images(original)

    def first_image(self, row: Record) -> ImageRef | None:
        """Return the first image of a row."""
        table, original = self._origin(row)
        return table.first_image(original)

    def image_files(self) -> list[Path]:
        """List the existing image files that rows refer to."""
        return list(dict.fromkeys(path for table in self.parts.values() for path in table.image_files()))

    def _origin(self, row: Record) -> tuple[QuestionTable, Record]:
        table = self.parts[as_text(row[PART])]
        return table, table.row(as_text(row[PART_INDEX]))
