"""Every setting, declared once: name, type, default, choices, description and command-line form.

The argument parser, config files, the signature of `eyechart.evaluate`, the reference pages and EvalScope's names are
derived from these classes. Importing them is cheap, so that ``--help`` stays fast: pydantic is imported when the first
values are validated.
"""
