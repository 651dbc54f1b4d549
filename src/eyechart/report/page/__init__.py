"""The page: one self-contained HTML file, the data in it, and a server that keeps it up to date."""

from eyechart.report.page.html import make_page, write_report

__all__ = ["make_page", "write_report"]
