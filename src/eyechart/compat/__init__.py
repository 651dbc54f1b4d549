"""Translators from the names and conventions of other tools to Eyechart's settings, jobs and scoring."""

import sys
from importlib import import_module

__all__ = ["act_as"]


def act_as(name: str) -> None:
    """Serve ``import <name>`` from now on, whether or not the real package is installed.

    Raises:
        UsageError: If the name is unknown, or the real package has already been imported.
    """
    from eyechart.compat.import_shim import serve

    import_module("eyechart.cli.act_as")  # adds the modules that are command lines
    serve(name)


def take_over(name: str) -> None:
    """Replace the module that is being imported from a folder of `spawned` by our package."""
    del sys.modules[name]
    act_as(name)
    import_module(name)
