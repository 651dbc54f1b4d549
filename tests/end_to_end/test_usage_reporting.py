"""Libraries report no usage: a fresh home folder stays empty."""

import os
import subprocess
import sys

import pytest

from eyechart.plugins import USAGE_REPORTING_OFF

COMMAND = "from eyechart.cli import main; import sys; sys.exit(main())"
IN_PYTHON = "import eyechart; eyechart.load_model('eyechart-tiny').encode_texts(['a cat'])"


def home_after(tmp_path, *words, **variables):
    home = tmp_path / "home"
    home.mkdir()
    # onnxruntime writes no telemetry files where CI is set: without it, this test can fail there, too.
    dropped = {*USAGE_REPORTING_OFF, "XDG_CACHE_HOME", "CI", "GITHUB_ACTIONS", "TF_BUILD"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    environment = {**kept, "HOME": str(home), "EYECHART_CACHE": str(tmp_path / "cache"), **variables}
    done = subprocess.run([sys.executable, "-c", *words], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return sorted(path.name for path in home.rglob("*"))


@pytest.mark.parametrize(
    "words",
    [(COMMAND, "eval", "--model", "eyechart-tiny", "--dataset", "demo/garments", "--limit", "20"), (IN_PYTHON,)],
    ids=["command", "python"],
)
def test_a_run_leaves_no_telemetry_files_in_a_fresh_home(tmp_path, words):
    assert home_after(tmp_path, *words) == []


def test_a_user_who_wants_them_has_the_last_word(tmp_path):
    found = home_after(tmp_path, IN_PYTHON, ORT_DISABLE_TELEMETRY="0")

    assert "deviceid" in found
