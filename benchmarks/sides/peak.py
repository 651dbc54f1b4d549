"""Run an eyechart command and write the peak of its memory to peak_mb.txt."""

import resource
import sys
from pathlib import Path

from eyechart.cli import main

code = main(sys.argv[1:])
Path("peak_mb.txt").write_text(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
sys.exit(code)
