"""Entry point for ``vlmeval`` in spawned processes, which have this folder on their ``sys.path``."""

from eyechart.compat import take_over

take_over(__name__)
