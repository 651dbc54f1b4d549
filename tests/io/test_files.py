from pathlib import Path

import pytest

from eyechart.io.files import atomic_file, cache_root, write_atomic


def test_the_cache_follows_our_variable_then_xdg_then_home(monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", "/own")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_root() == Path("/own")

    monkeypatch.delenv("EYECHART_CACHE")
    assert cache_root() == Path("/xdg/eyechart")

    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root() == Path("/home/me/.cache/eyechart")


def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def fail_halfway():
        with atomic_file(path) as stream:
            stream.write(b"half of the n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir() if found.is_file()] == ["file"]


def test_an_unfinished_file_is_not_taken_for_a_finished_one_by_its_name(tmp_path):
    """A killed run leaves it behind, and others look for results by their suffix."""
    with atomic_file(tmp_path / "r.json") as stream:
        stream.write(b"{")

        assert list(tmp_path.glob("*.json")) == []
