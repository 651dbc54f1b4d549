import sys
from pathlib import Path

from eyechart.cli import doctor, main


def test_the_doctor_finds_this_installation_in_order(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert main(["doctor"]) == 0

    printed = capsys.readouterr().out
    here, works = printed.split("you can:\n")
    assert here.startswith("this installation:\n")
    assert "torch" in here
    assert "cache" in here
    assert "evaluate OpenCLIP models" in works
    assert "open_clip 3" in works


def test_what_is_missing_is_listed_by_its_purpose_with_the_pip_of_this_environment(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)  # the environment is not active
    monkeypatch.chdir(Path(sys.executable).parent.parent)

    assert main(["doctor"]) == 0

    works, missing = capsys.readouterr().out.split("missing; ")
    assert missing.startswith(f"to install one: bin/{Path(sys.executable).name} -m pip install 'eyechart[NAME]'\n")
    assert "evaluate OpenCLIP models" not in works
    rows = dict(line.strip().rsplit(maxsplit=1) for line in missing.splitlines()[1:])
    assert rows["run on a Ray cluster"] == "ray"
    assert rows["evaluate OpenCLIP models"] == "open-clip"


def test_a_cache_that_cannot_be_written_is_a_problem(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)

    (finding,) = [finding for finding in doctor.examine() if finding.what == "cache"]

    assert finding.state == "problem"
    assert "EYECHART_CACHE" in finding.advice
