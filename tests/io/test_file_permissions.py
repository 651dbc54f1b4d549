"""Who can read what we write, and where it lands."""

import os
import stat

import numpy as np
import pytest

from eyechart.datasets.questions.benchmark_files import inside
from eyechart.datasets.remote.download import alone
from eyechart.errors import DataError, UsageError
from eyechart.io.files import make_folder, open_plain, write_atomic
from eyechart.io.progress import NoProgress, run_log
from eyechart.results import Result, write_result
from eyechart.store.answer_store import Responses
from eyechart.store.vector_store import EmbeddingStore, text_digests
from eyechart.types import Answer, Metric


@pytest.fixture(autouse=True)
def generous_umask():
    """Whoever relies on the user's umask fails here."""
    old = os.umask(0)
    yield
    os.umask(old)


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def others_can_enter(path, root) -> bool:
    """Tell whether another user gets from a root that is open to all down to a path."""
    folders = [folder for folder in path.parents if folder.is_relative_to(root) and folder != root]
    return all(mode(folder) & 0o077 for folder in folders)


def test_embeddings_and_answers_are_for_their_owner_only(tmp_path):
    vectors = np.ones((1, 3), np.float32)
    EmbeddingStore(tmp_path / "cache" / "embeddings").table("model", "image").add(text_digests(["a"], "en"), vectors)
    Responses(tmp_path / "cache" / "responses" / "model").add("key", Answer("confidential"))

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert len(files) == 2
    assert {mode(folder) for folder in folders} == {0o700}
    assert not any(others_can_enter(path, tmp_path) for path in files)


def test_everything_in_the_cache_is_for_its_owner_only(tmp_path, monkeypatch):
    """Also cards, prompt packs and fetched datasets, which may come from a private place."""
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "own" / "cache"))

    write_atomic(tmp_path / "own" / "cache" / "datasets" / "host" / "classnames.txt", b"x")
    with alone(tmp_path / "own" / "cache" / "other" / "0.tar"):
        pass

    assert mode(tmp_path / "own" / "cache") == 0o700
    assert mode(tmp_path / "own" / "cache" / "other") == 0o700
    assert mode(tmp_path / "own") == 0o777, "folders of the user's are left alone"


def test_parents_of_a_private_folder_are_private(tmp_path):
    make_folder(tmp_path / "a" / "b" / "c", private=True)

    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/c")] == [0o700] * 3


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


def test_a_result_replaces_a_link_and_does_not_follow_it(tmp_path, victim):
    output = tmp_path / "out" / "r.json"
    output.parent.mkdir()
    for name in ("r.json", "r.records.jsonl"):
        (output.parent / name).symlink_to(victim)

    write_result(Result("d", "m", "p", "t", "en", {"acc1": Metric(0.5)}), [{"id": "a"}], output)

    assert victim.read_text() == "precious"
    assert not output.is_symlink()
    assert not (output.parent / "r.records.jsonl").is_symlink()


def test_the_log_does_not_follow_a_link(tmp_path, victim):
    (tmp_path / "eval_log.log").symlink_to(victim)

    with pytest.raises(UsageError, match="Cannot write the log"), run_log(tmp_path / "eval_log.log", NoProgress(), []):
        pass
    assert victim.read_text() == "precious"


def test_the_lock_of_a_download_does_not_follow_a_link(tmp_path, victim):
    (tmp_path / ".0.tar.lock").symlink_to(victim)

    with pytest.raises(OSError, match="symbolic links"), alone(tmp_path / "0.tar"):
        pass
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("how", ["ab", "wb"])
def test_partial_downloads_do_not_follow_a_link(tmp_path, victim, how):
    (tmp_path / "part").symlink_to(victim)

    with pytest.raises(OSError, match="symbolic links"):
        open_plain(tmp_path / "part", how)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("name", ["../x.png", "/etc/x.png", "a/../../x.png", "link/x.png", "x\0.png", "", "y" * 5000])
def test_an_image_of_a_table_is_not_written_outside_its_folder(tmp_path, name):
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)

    with pytest.raises(DataError, match=r"is outside the folder|not a valid file name"):
        inside(folder, name, "row 1")
