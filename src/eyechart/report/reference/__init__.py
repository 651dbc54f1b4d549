"""Published numbers, shown beside one's own: results as they were printed, and the tables they were printed in."""

from eyechart.report.reference.publication import Publication, load_publication, load_reference, names
from eyechart.report.reference.tables import PublishedTable, published_tables, why_not_beside

__all__ = [
    "Publication",
    "PublishedTable",
    "load_publication",
    "load_reference",
    "names",
    "published_tables",
    "why_not_beside",
]
