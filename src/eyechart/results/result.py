"""A result as a value, read from and written to its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eyechart.errors import ResultError
from eyechart.io.safe_parse import DAMAGED
from eyechart.results.fields import SCHEMA, ResultFields, body_of, fields_of, key_of
from eyechart.results.files import is_result, read_documents, record_blocks, write_files
from eyechart.results.views import metric_frame, one_line_of, plot_results, record_frame, result_html

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Result(ResultFields):
    """One evaluation: a model on a benchmark.

    ``values`` holds the metrics; ``metrics``, ``intervals`` and ``chance`` are views of them. A notebook displays a
    result as a table.
    """

    def iter_records(self) -> Iterator[dict[str, Any]]:
        """Stream the per-sample records after verifying their digest; nothing without a records file."""
        for block in record_blocks(self):
            yield from block

    def records(self) -> pd.DataFrame:
        """Return the per-sample records as a data frame, one row each, with class names next to class indices.

        Columns that hold class indices (``label``, ``prediction``, ``top``) are followed by their names
        (``label_name``, ``prediction_name``, ``top_names``). Needs pandas: ``pip install 'eyechart[pandas]'``.
        """
        return record_frame(self)

    def to_pandas(self) -> pd.DataFrame:
        """Return the metrics as a data frame: one row each, with interval, chance level and number of samples.

        Needs pandas: ``pip install 'eyechart[pandas]'``.
        """
        return metric_frame([self])

    def plot(self, metrics: str | Sequence[str] | None = None, *, ax: Any = None) -> Any:
        """Draw metrics with their intervals and chance levels; return the axes of matplotlib.

        Args:
            metrics: Names of metrics; by default all that are fractions.
            ax: Axes to draw on; by default new ones.

        Needs matplotlib: ``pip install 'eyechart[plot]'``.
        """
        return plot_results([self], metrics, ax)

    def save(self, output: str | Path) -> Result:
        """Write the result and its records to a file, for `eyechart.read_result`, ``compare`` and ``report``.

        Args:
            output: The result file; records go to the same folder.

        Returns:
            The result as it is in the file.

        Raises:
            ResultError: If the file exists and is not a result, or holds the result of another evaluation.
        """
        path = Path(output)
        if path.is_dir() or str(output).endswith("/"):
            raise ResultError("{path} is a folder.", advice="Include a file name: results/x.json.", path=path)
        if path.exists() and key_of(body_of(read_result(path))) != key_of(body_of(self)):
            raise ResultError(
                "{path} holds the result of another evaluation.", advice="Choose another name, or move it.", path=path
            )
        unsaved = replace(self, record_info={"form": self.record_info.get("form", "")})
        return write_result(unsaved, list(self.iter_records()), path)

    def __repr__(self) -> str:
        return one_line_of(self)

    def _repr_html_(self) -> str:
        return result_html(self)


def result_from_dict(body: Mapping[str, Any], path: Path) -> Result:
    """Build a result from the JSON object of a result file: ours, or another tool's."""
    schema = body.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        text = "{path} has schema {n}, later than {known} of this version."
        raise ResultError(text, advice="Update eyechart.", path=path, n=schema, known=SCHEMA)
    try:
        return Result(**fields_of(body, path))
    except DAMAGED as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ResultError(
            "{path} is damaged: {reason}.", advice="Regenerate it, or leave it out.", path=path, reason=what
        ) from error


def read_result(path: str | Path) -> Result:
    """Read one result file: ours, or one written by CLIP_benchmark or EvalScope.

    Raises:
        ResultError: If it is not valid JSON (a half-written file), not a result, or holds several.
    """
    path = Path(path)
    found = read_documents(path)
    if len(found.bodies) > 1 or found.damaged:
        raise ResultError(
            "{path} holds {n} results, one per line.",
            advice="Read them all with eyechart.load_results.",
            path=path,
            n=len(found.bodies),
        )
    (body,) = found.bodies
    if not is_result(body):
        raise ResultError(
            "{path} is not a result file.", advice="A result has the keys dataset, model, task, metrics.", path=path
        )
    return result_from_dict(body, path)


def write_result(
    result: Result, records: Iterable[Mapping[str, Any]], output: Path, *, place: Path | None = None
) -> Result:
    """Write a result and its records (see `eyechart.results.files.write_files`); return the result as stored."""
    return result_from_dict(write_files(result, records, output, place=place), output)
