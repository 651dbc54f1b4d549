"""Small parts of the store become large ones; nobody who reads or writes meanwhile loses a number."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import eyechart.store.maintenance
import eyechart.store.vector_store
from eyechart.metrics.vectors import concatenate
from eyechart.store.blobs import BlobError, LocalBlobs
from eyechart.store.maintenance import compact, compact_model, list_cache
from eyechart.store.vector_store import VectorTable, damage_of_part, read_tensor, table_name, text_digests
from support.stored_vectors import same, values_of

NAMES = [f"text {i}" for i in range(30)]

TESTS = str(Path(__file__).parent.parent)


def keys(*names):
    return text_digests(list(names), "en")


def parts(folder):
    return sorted(path.name for path in folder.glob("[0-9]*.safetensors"))


def small_parts(rows, folder):
    """Store thirty vectors one by one."""
    table, vectors = VectorTable(folder), rows(len(NAMES))
    for i, name in enumerate(NAMES):
        table.add(keys(name), vectors[i : i + 1])
    return vectors


def flip(path):
    data = bytearray(path.read_bytes())
    data[-3] ^= 0x40
    path.write_bytes(data)


def test_many_small_parts_become_one_with_the_same_vectors_and_checksums(tmp_path, rows):
    vectors = small_parts(rows, tmp_path)

    done = compact(LocalBlobs(tmp_path))

    assert (done.parts, done.merged, done.into, done.damaged) == (30, 30, 1, ())
    (part,) = parts(tmp_path)
    assert damage_of_part(tmp_path / part) == ""
    same(VectorTable(tmp_path).get(keys(*NAMES)), vectors)
    assert compact(LocalBlobs(tmp_path)).merged == 0
    assert parts(tmp_path) == [part]


def test_a_merged_part_that_cannot_be_read_back_costs_no_source(tmp_path, monkeypatch, rows):
    vectors = small_parts(rows, tmp_path)
    sources = parts(tmp_path)
    write = LocalBlobs.write

    def broken(blobs, name, data):
        write(blobs, name, data)
        flip(blobs.path(name))

    monkeypatch.setattr(LocalBlobs, "write", broken)
    with pytest.raises(BlobError, match="The original parts are unchanged"):
        compact(LocalBlobs(tmp_path))

    assert parts(tmp_path) == sources
    same(VectorTable(tmp_path).get(keys(*NAMES)), vectors)


def test_a_part_of_another_model_is_not_merged(tmp_path, rows):
    ours, theirs = tmp_path / "ours" / "image", tmp_path / "theirs" / "image"
    VectorTable(theirs).add(keys("x"), rows(1, seed=5))
    vectors = small_parts(rows, ours)
    (part,) = parts(theirs)
    shutil.copy(theirs / part, ours / part)

    done = compact(LocalBlobs(ours))

    assert (done.parts, done.merged, len(done.damaged)) == (31, 30, 1)
    assert VectorTable(ours).missing(keys("x", *NAMES)).tolist() == [True] + [False] * 30
    same(VectorTable(ours).get(keys(*NAMES)), vectors)


def test_a_dry_run_says_the_same_and_changes_nothing(tmp_path, rows):
    small_parts(rows, tmp_path / "model" / "text")
    before = parts(tmp_path / "model" / "text")

    said = compact_model(tmp_path / "model", dry_run=True)

    assert parts(tmp_path / "model" / "text") == before
    assert compact_model(tmp_path / "model") == said


def test_parts_are_merged_up_to_a_size_and_large_ones_stay(tmp_path, monkeypatch, rows):
    vectors = small_parts(rows, tmp_path)
    size = (tmp_path / parts(tmp_path)[0]).stat().st_size
    VectorTable(tmp_path).add(keys("large"), rows(1, seed=4, dim=8 * size))
    large = parts(tmp_path)[-1]
    monkeypatch.setattr(eyechart.store.maintenance, "LARGE_PART", 10 * size)

    done = compact(LocalBlobs(tmp_path))

    assert (done.merged, done.into) == (30, 3)
    assert len(parts(tmp_path)) == 4
    assert large in parts(tmp_path)
    same(VectorTable(tmp_path).get(keys(*NAMES)), vectors)


def test_a_key_that_is_there_several_times_keeps_the_vector_that_counted(tmp_path, monkeypatch, rows):
    vectors = rows(3)
    for i, name in enumerate("ab"):
        VectorTable(tmp_path).add(keys(name), vectors[i : i + 1])
    filler = [f"filler {i}" for i in range(50)]
    VectorTable(tmp_path).add(keys("a", "c", *filler), concatenate([vectors[1:], rows(50)]))  # large
    VectorTable(tmp_path).add(keys("c", "b", "d"), vectors[[0, 0, 0]])
    before = VectorTable(tmp_path).get(keys("a", "b", "c", "d", *filler))
    monkeypatch.setattr(eyechart.store.maintenance, "LARGE_PART", 2000)

    compact(LocalBlobs(tmp_path))

    same(VectorTable(tmp_path).get(keys("a", "b", "c", "d", *filler)), before)
    merged, large = (read_tensor(tmp_path / name, table_name(tmp_path), "keys") for name in parts(tmp_path))
    assert (len(merged), len(large)) == (3, 52)  # a, b, d: the large part's c counted


def test_who_opened_the_table_before_finds_everything_after(tmp_path, rows):
    vectors = small_parts(rows, tmp_path)
    looked, verified, read = (VectorTable(tmp_path) for _ in range(3))
    assert not verified.missing(keys(*NAMES)).any()
    read.get(keys(*NAMES))

    compact(LocalBlobs(tmp_path))

    for table in (looked, verified, read):
        same(table.get(keys(*NAMES)), vectors)
        assert not table.missing(keys(*NAMES)).any()
        assert table.missing(keys("x")).all()
        assert table.damaged == []
    assert not list(tmp_path.glob("damaged-*"))


def test_parts_that_are_merged_between_listing_and_reading_them_lose_nothing(tmp_path, monkeypatch, rows):
    vectors = small_parts(rows, tmp_path)
    read = read_tensor

    def merge_first(*words, **settings):
        monkeypatch.setattr(eyechart.store.vector_store, "read_tensor", read)
        compact(LocalBlobs(tmp_path))
        return read(*words, **settings)

    monkeypatch.setattr(eyechart.store.vector_store, "read_tensor", merge_first)

    same(VectorTable(tmp_path).get(keys(*NAMES)), vectors)


def test_a_listing_that_missed_a_new_part_and_its_sources_is_made_again(tmp_path, monkeypatch, rows):
    vectors = small_parts(rows, tmp_path)
    glob = Path.glob

    def racy(folder, pattern):
        early = sorted(glob(folder, pattern))[:10]
        monkeypatch.setattr(Path, "glob", glob)
        compact(LocalBlobs(tmp_path))
        return iter(early)  # the merged part came too late, the other sources were gone by then

    monkeypatch.setattr(Path, "glob", racy)

    assert len(LocalBlobs(tmp_path).names()) == 1
    same(VectorTable(tmp_path).get(keys(*NAMES)), vectors)


def test_what_was_cleared_while_it_was_in_use_is_missing_and_an_error_to_read(tmp_path, rows):
    small_parts(rows, tmp_path)
    table = VectorTable(tmp_path)
    assert not table.missing(keys("text 1")).any()
    for name in parts(tmp_path):
        (tmp_path / name).unlink()

    with pytest.raises(BlobError, match="1 of 1 vector is not in the embedding store"):
        table.get(keys("text 1"))
    assert table.missing(keys("text 1")).all()


def test_a_damaged_part_is_not_merged_and_not_touched(tmp_path, rows):
    vectors = small_parts(rows, tmp_path)
    broken = parts(tmp_path)[4]
    flip(tmp_path / broken)

    done = compact(LocalBlobs(tmp_path))

    assert (done.merged, done.into) == (29, 1)
    assert [broken in line for line in done.damaged] == [True]
    assert broken in parts(tmp_path)
    table = VectorTable(tmp_path)
    assert np.flatnonzero(table.missing(keys(*NAMES))).tolist() == [4]
    same(table.get(keys(*NAMES[:4])), vectors[:4])


def test_a_copy_is_not_dropped_for_one_that_is_damaged(tmp_path, rows):
    for seed in range(3):
        VectorTable(tmp_path).add(keys("a"), rows(1, seed))
    flip(tmp_path / parts(tmp_path)[0])

    compact(LocalBlobs(tmp_path))

    same(VectorTable(tmp_path).get(keys("a")), rows(1, 1))


def test_vectors_of_several_sizes_are_not_merged_with_each_other(tmp_path, rows):
    for name, dim in (("a", 4), ("b", 8), ("c", 4), ("d", 8)):
        VectorTable(tmp_path).add(keys(name), rows(1, dim=dim))

    compact(LocalBlobs(tmp_path))

    merged = [load_file(tmp_path / name) for name in parts(tmp_path)]
    assert sorted((len(part["keys"]), part["vectors"].shape[1]) for part in merged) == [(2, 4), (2, 8)]


KILLED = """
import os, signal, sys
from pathlib import Path
from eyechart.store.blobs import LocalBlobs
from eyechart.store.maintenance import compact
folder, left = sys.argv[1], int(sys.argv[2])
def hook(event, arguments):
    global left
    if event in ("open", "os.rename", "os.remove") and str(arguments[0]).startswith(folder):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
compact(LocalBlobs(Path(folder)))
"""


def test_killed_at_any_moment_nothing_is_lost_and_the_next_one_finishes(tmp_path, rows):
    codes = []
    for step in range(20):
        folder = tmp_path / str(step)
        vectors = rows(3)
        for i, name in enumerate("abc"):
            VectorTable(folder).add(keys(name), vectors[i : i + 1])

        codes.append(subprocess.run([sys.executable, "-c", KILLED, str(folder), str(step)]).returncode)

        same(VectorTable(folder).get(keys(*"abc")), vectors)
        compact(LocalBlobs(folder))
        assert len(parts(folder)) == 1
        same(VectorTable(folder).get(keys(*"abc")), vectors)
        if codes[-1] == 0:
            break
    assert codes == [-signal.SIGKILL] * (len(codes) - 1) + [0]
    assert len(codes) > 5  # the new part's file, its rename, its folder, and three sources


WRITER = """
import sys
sys.path.insert(0, sys.argv[-1])  # for support
from pathlib import Path
from eyechart.store.vector_store import VectorTable, text_digests
from support.stored_vectors import filled, values_of
who, table, several = sys.argv[1], VectorTable(Path(sys.argv[2])), sys.argv[4] == "several"
for i in range(40):
    table.add(text_digests([f"{who}-{i}"], "en"), filled(int(who) * 100 + i, several=several))
    before = text_digests([f"{who}-{j}" for j in range(i + 1)], "en")
    assert not table.missing(before).any()
    assert values_of(table.get(before)) == [int(who) * 100 + j for j in range(i + 1)]
assert table.damaged == []
"""
MERGER = """
import sys
from pathlib import Path
from eyechart.store.blobs import LocalBlobs
from eyechart.store.maintenance import compact
while not Path(sys.argv[3]).exists():
    assert not compact(LocalBlobs(Path(sys.argv[2]))).damaged
"""


@pytest.mark.parametrize("kind", ["one", "several"])
def test_several_merge_while_others_write_and_read(tmp_path, kind):
    table, done = tmp_path / "table", tmp_path / "done"
    codes = [(WRITER, 0), (WRITER, 1), (MERGER, 2), (MERGER, 3)]
    words = [[sys.executable, "-c", code, str(who), str(table), str(done), kind, TESTS] for code, who in codes]
    processes = [subprocess.Popen(command) for command in words]
    writers = [process.wait() for process in processes[:2]]
    done.touch()
    assert writers + [process.wait() for process in processes[2:]] == [0] * 4

    compact(LocalBlobs(table))

    wanted = [(who, i) for who in (0, 1) for i in range(40)]
    found = VectorTable(table).get(keys(*(f"{who}-{i}" for who, i in wanted)))
    assert values_of(found) == [who * 100 + i for who, i in wanted]
    assert len(parts(table)) == 1
    assert not list(table.glob("damaged-*"))


def test_the_cache_is_listed_by_kind_with_the_largest_item_first(own_cache):
    for name, size in (("a", 10), ("c", 900), ("f", 300)):
        folder = own_cache / "unpacked" / (name * 32)
        folder.mkdir(parents=True)
        (folder / "x").write_bytes(b"x" * size)
    (own_cache / "responses" / ("b" * 32)).mkdir(parents=True)

    items = list_cache({"b" * 32: "a model"})

    assert [(item.kind, item.size) for item in items] == [
        ("responses", 0),
        ("unpacked", 900),
        ("unpacked", 300),
        ("unpacked", 10),
    ]
