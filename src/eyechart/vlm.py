"""Names imported by classes written for VLMEvalKit: an alias of `eyechart.compat.vlmevalkit`."""

from eyechart.compat.vlmevalkit import *  # noqa: F403 - an alias
from eyechart.compat.vlmevalkit import __all__  # noqa: F401 - used by `import *`
