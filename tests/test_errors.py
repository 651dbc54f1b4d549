"""Windows is refused in one sentence, and the package can still be imported there."""

import os
import subprocess
import sys

import pytest

LIKE_WINDOWS = """
import asyncio, os, platform, shutil, signal, sys, tempfile  # as on this system: not what is tested
sys.platform = "win32"
for name in ("fcntl", "grp", "pwd", "resource", "termios"):  # modules that Windows does not have
    sys.modules[name] = None
del signal.pthread_sigmask
"""


def on_windows(code):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "EYECHART_LANG": "en"}
    command = [sys.executable, "-c", LIKE_WINDOWS + code]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("words", [["eval", "demo/garments"], ["--help"], []])
def test_the_command_line_is_refused_in_one_sentence(words):
    done = on_windows(f"sys.argv = ['eyechart', *{words}]\nfrom eyechart.__main__ import main\nsys.exit(main())")

    assert done.returncode == 2
    assert done.stdout == ""
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("eyechart: Windows is not supported, because Eyechart needs POSIX file locks")
    assert sentence.endswith("use WSL 2, Linux or macOS.")


def test_the_package_can_be_imported_and_says_why_it_cannot_be_used():
    code = (
        "import eyechart\nprint(eyechart.__version__)\n"
        "try:\n    eyechart.evaluate\nexcept Exception as error:\n    print(type(error).__name__, error)"
    )

    done = on_windows(code)

    assert done.returncode == 0, done.stderr
    version, refusal = done.stdout.splitlines()
    assert version[0].isdigit()
    assert refusal.startswith("UsageError Windows is not supported")
