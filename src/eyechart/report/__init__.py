"""From result files to what people look at: tables, comparisons and one self-contained HTML page.

Needs no model, no dataset and no torch: everything is made from the result files and their per-sample records.
"""
