"""Entry point for ``clip_benchmark`` in spawned processes, which have this folder on their ``sys.path``."""

from eyechart.compat import take_over

take_over(__name__)
