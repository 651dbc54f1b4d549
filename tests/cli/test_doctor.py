from eyechart.cli import doctor, main


def test_the_doctor_finds_this_installation_in_order(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert main(["doctor"]) == 0

    printed = capsys.readouterr().out
    for part in ("Python", "embedded model", "torch", "open_clip", "cache"):
        assert part in printed


def test_a_missing_library_comes_with_the_line_to_type(monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)

    found = {finding.what: finding for finding in doctor.examine()}

    assert found["ray"].state == "missing"
    assert found["ray"].advice == "pip install 'eyechart[ray]'"


def test_a_cache_that_cannot_be_written_is_a_problem(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)

    (finding,) = [finding for finding in doctor.examine() if finding.what == "cache"]

    assert finding.state == "problem"
    assert "EYECHART_CACHE" in finding.advice
