"""Results: what was measured, of what, and whether it can be believed; and the files that hold them.

Everything that people look at later (tables, intervals, comparisons, the report) is made from these files.
"""

from eyechart.io.json_text import to_json
from eyechart.results.files import read_json_lines, read_result, records_path, write_result
from eyechart.results.lines import parse_documents
from eyechart.results.parse import result_from_dict
from eyechart.results.result import IDENTITY, Result

__all__ = [
    "IDENTITY",
    "Result",
    "parse_documents",
    "read_json_lines",
    "read_result",
    "records_path",
    "result_from_dict",
    "to_json",
    "write_result",
]
