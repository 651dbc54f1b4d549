"""Run an eyechart command and count what it reads of a folder: python reads.py FOLDER COMMAND... prints JSON."""

import json
import resource
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from eyechart.cli import main
from support.bytes_read import BytesRead

with pytest.MonkeyPatch.context() as patch:
    count = BytesRead(Path(sys.argv[1]).absolute(), patch)
    code = main(sys.argv[2:])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([{"bytes": count.take(), "cpu": time.process_time(), "peak_mb": peak}]))
sys.exit(code)
