"""The fuzzer of `make fuzz`, small: every target, and that it finds what it is there to find."""

import contextlib
import signal
import sys
import time
from pathlib import Path

import pytest

from eyechart.errors import DataError

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))
import fuzz


@pytest.fixture(autouse=True)
def alarm(monkeypatch, tmp_path):
    old = signal.signal(signal.SIGVTALRM, fuzz.ring)
    monkeypatch.setenv("LMUData", str(tmp_path / "lmu"))
    yield
    signal.signal(signal.SIGVTALRM, old)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_only_errors_of_ours_come_back(name, tmp_path):
    outcome = fuzz.fuzz(name, range(200), seed=7, saved=tmp_path / "findings")

    assert outcome.findings == {}
    assert outcome.inputs == 200


def test_every_target_gets_inputs_that_are_refused_and_inputs_that_are_read():
    assert sum(target.share for target in fuzz.TARGETS.values()) == 1000
    assert fuzz.make_input("tar", 1, 5) == fuzz.make_input("tar", 1, 5)
    assert fuzz.make_input("tar", 1, 5) != fuzz.make_input("tar", 1, 6)


def planted(monkeypatch, run):
    monkeypatch.setitem(fuzz.TARGETS, "planted", fuzz.Target(1, lambda: [b"seed"], run))


def test_a_crash_is_saved_with_the_line_that_repeats_it(monkeypatch, tmp_path):
    def crash(data, _):
        raise ZeroDivisionError("planted")

    planted(monkeypatch, crash)
    outcome = fuzz.fuzz("planted", range(3, 5), seed=9, saved=tmp_path / "findings")

    [(kind, text)] = outcome.findings.items()
    [saved] = (tmp_path / "findings").iterdir()
    assert kind == "ZeroDivisionError in test_fuzz.py:crash"
    assert saved.read_bytes() == fuzz.make_input("planted", 9, 3)
    assert str(saved) in text
    assert "--target planted --seed 9 --only 3" in text


def test_a_hang_is_ended_and_saved(monkeypatch, tmp_path):
    def hang(data, _):
        while True:
            with contextlib.suppress(Exception):  # code that swallows everything must not hide a hang
                time.process_time()

    planted(monkeypatch, hang)
    monkeypatch.setattr(fuzz, "SECONDS", 0.05)
    outcome = fuzz.fuzz("planted", range(1), seed=9, saved=tmp_path / "findings")

    [kind] = outcome.findings
    assert kind.startswith("TooSlowError")


def test_an_error_of_ours_is_a_refusal(monkeypatch, tmp_path):
    def refuse(data, _):
        raise DataError("no")

    planted(monkeypatch, refuse)

    assert fuzz.fuzz("planted", range(2), seed=9, saved=tmp_path).refused == 2
