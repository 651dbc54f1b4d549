import os
from pathlib import Path

import pytest

from eyechart.io.files import (
    TEMPORARY,
    append_cached,
    atomic_file,
    cache_root,
    sync_folder,
    without_cache_writes,
    write_atomic,
)


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


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed in /proc")
def test_syncing_a_folder_leaves_no_file_open(tmp_path):
    before = len([*Path("/proc/self/fd").iterdir()])

    for _ in range(5):
        sync_folder(tmp_path)

    assert len([*Path("/proc/self/fd").iterdir()]) == before


def test_an_unfinished_file_is_not_taken_for_a_finished_one_by_its_name(tmp_path):
    """A killed run leaves it behind, and others look for results by their suffix."""
    with atomic_file(tmp_path / "r.json") as stream:
        stream.write(b"{")

        assert list(tmp_path.glob("*.json")) == []


@pytest.fixture
def disk(monkeypatch):
    """Record what is synchronised with the disk, and renamed, in order; the calls are made for real."""
    calls = []
    sync, rename = os.fsync, os.replace

    def fsync(file):
        path = Path(f"/proc/self/fd/{file}").readlink()
        calls.append(("sync", path.name, path.stat().st_size if path.is_file() else None))
        sync(file)

    def replace(source, target, **options):
        calls.append(("rename", Path(target).name, None))
        rename(source, target, **options)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    return calls


def test_a_file_is_on_the_disk_before_it_gets_its_name_and_the_folder_after(tmp_path, disk):
    write_atomic(tmp_path / "file", b"four")

    (first, temporary, size), second, third = disk
    assert (first, temporary.startswith(TEMPORARY), size) == ("sync", True, 4)
    assert second == ("rename", "file", None)
    assert third == ("sync", tmp_path.name, None)


def test_a_file_that_need_not_last_is_not_synchronised(tmp_path, disk):
    write_atomic(tmp_path / "file", b"four", durable=False)

    assert disk == [("rename", "file", None)]


def test_lines_are_appended_to_a_cache_file_unless_writing_is_disabled(tmp_path):
    for line in ("a", "b"):
        append_cached(tmp_path / "new" / "file", line)
    with without_cache_writes():
        append_cached(tmp_path / "new" / "file", "c")
    append_cached(tmp_path / "new" / "file" / "impossible", "d")

    assert (tmp_path / "new" / "file").read_text() == "a\nb\n"
