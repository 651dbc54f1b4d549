"""Entry points of the command line: ``eyechart``, ``python -m eyechart`` and the aliases."""

import signal
import sys
from importlib import import_module

INTERRUPTED = 130


def main(entry: str = "main") -> int:
    """Run an entry point of the command line; Ctrl-C during its imports or its end prints no traceback."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else the parent process ignores it
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    run = getattr(import_module("eyechart.cli"), entry)
    try:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code: int = run()
    except KeyboardInterrupt:  # the second one
        return INTERRUPTED
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    return code


def main_clip_benchmark() -> int:
    """Entry point of the ``clip_benchmark`` alias."""
    return main("main_clip_benchmark")


def main_export_wds() -> int:
    """Entry point of the ``clip_benchmark_export_wds`` alias of ``export``."""
    return main("main_export_wds")


if __name__ == "__main__":
    sys.exit(main())
