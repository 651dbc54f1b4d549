"""Tables, comparisons and one self-contained HTML page, derived from result files.

Needs neither models, datasets nor torch: only the result files and their per-sample records.
"""
