"""Results: the metrics of an evaluation, their provenance, and the files that hold them.

Tables, intervals, comparisons and the report are all derived from these files.
"""

from eyechart.io.safe_parse import to_json
from eyechart.results.fields import IDENTITY
from eyechart.results.files import parse_documents, records_path
from eyechart.results.result import Result, read_result, result_from_dict, write_result

__all__ = [
    "IDENTITY",
    "Result",
    "parse_documents",
    "read_result",
    "records_path",
    "result_from_dict",
    "to_json",
    "write_result",
]
