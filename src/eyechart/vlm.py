"""The names that classes written for VLMEvalKit import: another name of `eyechart.compat.vlmevalkit`."""

from eyechart.compat.vlmevalkit import *  # noqa: F403 - the same names, all of them
from eyechart.compat.vlmevalkit import __all__  # noqa: F401 - what `import *` takes from here
