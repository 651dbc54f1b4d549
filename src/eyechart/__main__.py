"""``python -m eyechart``."""

import sys

from eyechart.cli import main

if __name__ == "__main__":
    sys.exit(main())
