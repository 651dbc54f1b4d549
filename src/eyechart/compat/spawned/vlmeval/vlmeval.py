"""How a spawned process finds ``vlmeval``: its folder is on the ``sys.path`` that the process gets."""

from eyechart.compat.acting import take_over

take_over(__name__)
