"""What is in a tar file is remembered, and believed only while the file is as it was."""

import os

import pytest

from eyechart.datasets import tar_shards
from eyechart.datasets.row_dataset import in_memory
from eyechart.datasets.tar_shards import iter_tar
from eyechart.io import digests
from eyechart.manifest import read_manifest
from eyechart.types import DatasetInfo, Sample
from support.data import png, write_tar


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """Believe files that were written a moment ago."""
    monkeypatch.setattr(digests, "SETTLED", -1)


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "0.tar"
    members = [(f"s{i}.{kind}", data) for i in range(5) for kind, data in (("png", png(i)), ("cls", b"%d" % i))]
    write_tar(path, members)
    return path


def make(key, image, fields):
    return Sample(key, image, label=int(fields["cls"]))


def seen(path):
    return [
        (sample.id, sample.image.digest(), sample.image.load().read(), sample.label) for sample in iter_tar(path, make)
    ]


def streams(monkeypatch, path):
    """Tell whether reading the samples goes through the tar file."""
    calls = []
    real = tar_shards.placed_groups
    with monkeypatch.context() as watched:
        watched.setattr(
            tar_shards, "placed_groups", lambda path, *how, **named: calls.append(path) or real(path, *how, **named)
        )
        list(iter_tar(path, make))
    return bool(calls)


def test_a_shard_that_is_as_it_was_is_not_streamed_again(shard, monkeypatch):
    first = seen(shard)

    assert not streams(monkeypatch, shard)
    assert seen(shard) == first
    assert [sample.image.data for sample in iter_tar(shard, make)] == [None] * 5
    assert [data for _, _, data, _ in first] == [png(i) for i in range(5)]


def test_another_file_of_the_same_size_and_time_is_another_shard(shard):
    seen(shard)
    before = shard.stat()
    write_tar(shard, [(f"s{i}.{kind}", data) for i in range(5) for kind, data in (("png", png(i)), ("cls", b"8"))])
    os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert shard.stat().st_size == before.st_size
    assert [label for *_, label in seen(shard)] == [8] * 5


def test_a_shard_that_was_moved_here_is_read(shard, tmp_path):
    seen(shard)
    other = tmp_path / "other.tar"
    write_tar(other, [("s0.png", png(9)), ("s0.cls", b"7")])
    other.replace(shard)

    assert [label for *_, label in seen(shard)] == [7]


def test_a_shard_that_was_just_written_is_not_remembered(shard, monkeypatch):
    monkeypatch.setattr(digests, "SETTLED", 60 * 10**9)
    seen(shard)

    assert streams(monkeypatch, shard)


def test_a_reader_that_stops_early_leaves_no_half_index(shard, monkeypatch):
    next(iter_tar(shard, make))

    assert streams(monkeypatch, shard)
    assert len(seen(shard)) == 5


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"form": 1', '{"form": 1, "path": "x", "state": [], "members": [[1]]}']
)
def test_a_damaged_index_is_made_anew(shard, monkeypatch, text):
    first = seen(shard)
    tar_shards._place(shard).write_text(f"{tar_shards.digest_bytes(text.encode()).hex()}\n{text}")

    assert streams(monkeypatch, shard)
    assert seen(shard) == first


def test_an_index_in_which_a_byte_changed_is_made_anew(shard, monkeypatch):
    first = seen(shard)
    index = tar_shards._place(shard)
    text = index.read_text()
    index.write_text(
        text.replace('"txt":"', '"txt":"x', 1) if '"txt"' in text else text.replace('"cls":"', '"cls":"1', 1)
    )
    assert index.read_text() != text

    assert streams(monkeypatch, shard)
    assert seen(shard) == first


def test_long_texts_beside_images_are_not_copied_into_the_cache(shard, monkeypatch):
    monkeypatch.setattr(tar_shards, "MAX_SMALL", 0)
    seen(shard)

    assert streams(monkeypatch, shard)


def test_bytes_that_are_not_what_the_index_says_are_noticed_when_they_are_read(shard):
    seen(shard)
    (first, *_) = iter_tar(shard, make)
    shard.write_bytes(shard.read_bytes().replace(png(0), png(0)[:-1] + b"x"))

    assert first.image.load().digest() != first.image.digest()


def test_the_manifest_is_the_same_from_the_index(shard):
    info = DatasetInfo("d", "classification", classnames=tuple("abcde"))
    streamed, remembered = (read_manifest(in_memory(info, list(iter_tar(shard, make)))) for _ in range(2))

    assert streamed.fingerprint == remembered.fingerprint
    assert streamed.digests.tolist() == remembered.digests.tolist()
