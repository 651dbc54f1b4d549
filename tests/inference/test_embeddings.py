"""One embedding pass serves everything, and no sample disappears."""

import signal
import tarfile
import time

import numpy as np
import pytest

from eyechart.datasets.image_folder import open_folder
from eyechart.datasets.webdataset import open_webdataset
from eyechart.errors import DataError, ModelError
from eyechart.inference.embeddings import CachedEncoder
from eyechart.io.signals import Termination
from eyechart.manifest import read_manifest
from eyechart.store.blobs import LocalBlobs
from eyechart.store.vector_store import EmbeddingStore
from eyechart.types import DatasetSpec, EncodeOptions
from support.data import png, write_classification, write_tar
from support.encoders import SmallEncoder, lazy, random_encoder


def manifest(root):
    return read_manifest(open_webdataset(DatasetSpec("wds/x", "wds", str(root))))


def embeddings(encoder, tmp_path, on_error="fail", **options):
    store = EmbeddingStore(tmp_path / "store")
    return CachedEncoder(lazy(encoder), store, EncodeOptions(**options), on_error=on_error)


@pytest.mark.parametrize(("batch_size", "workers"), [(1, 1), (5, 2), (64, 0), (64, 8)])
def test_batch_size_and_workers_change_nothing(tmp_path, batch_size, workers):
    found = manifest(write_classification(tmp_path / "data", n=12))
    expected = embeddings(random_encoder(), tmp_path / "a").images(found).vectors

    got = embeddings(random_encoder(), tmp_path / "b", batch_size=batch_size, workers=workers).images(found)

    np.testing.assert_array_equal(got.vectors, expected)
    assert got.kept.tolist() == list(range(12))


def test_what_is_stored_is_not_encoded_again_and_loads_no_model(tmp_path):
    found = manifest(write_classification(tmp_path / "data", n=12))
    embeddings(random_encoder(), tmp_path).images(found)
    later = embeddings(random_encoder(), tmp_path)
    later.model._card = random_encoder().card

    later.images(found)

    assert not later.model.loaded


def test_an_image_that_changes_after_the_dataset_was_read_is_not_stored_under_its_old_name(tmp_path):
    for i in range(3):
        path = tmp_path / "photos" / f"class{i}" / f"{i}.png"
        path.parent.mkdir(parents=True)
        path.write_bytes(png(i))
    found = read_manifest(open_folder(DatasetSpec("photos", "folder", str(tmp_path / "photos"))))
    path.write_bytes(png(99))

    with pytest.raises(DataError, match="changed after the dataset was read"):
        embeddings(random_encoder(), tmp_path).images(found)
    left = embeddings(random_encoder(), tmp_path, on_error="skip").images(found)

    assert left.kept.tolist() == [0, 1]
    assert [failure.id for failure in left.failures] == [found.entries[2].id]


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_a_sample_that_is_gone_when_the_dataset_is_read_again_is_an_error(tmp_path, on_error):
    root = write_classification(tmp_path / "data", n=4)
    found = manifest(root)
    tar = max(root.rglob("*.tar"))
    with tarfile.open(tar) as archive:
        members = [(member.name, archive.extractfile(member).read()) for member in archive]
    gone = found.entries[-1].id
    write_tar(tar, [(name, data) for name, data in members if name.partition(".")[0] != gone.rpartition("/")[2]])

    with pytest.raises(DataError, match=f"{gone}: missing when the dataset was read a second time"):
        embeddings(random_encoder(), tmp_path, on_error=on_error).images(found)


def test_copies_of_an_image_are_encoded_once(tmp_path):
    root = write_classification(tmp_path / "data", n=2, shards=1)
    write_tar(root / "test" / "0.tar", [m for i in range(6) for m in ((f"s{i}.png", png(i % 2)), (f"s{i}.cls", b"0"))])
    encoder = random_encoder()

    got = embeddings(encoder, tmp_path).images(manifest(root))

    assert encoder.encoded_images == 2
    assert len(got.vectors) == 6


def broken_dataset(tmp_path, damage=b"not an image"):
    root = write_classification(tmp_path / "data", n=4, shards=1)
    images = [png(0), damage, png(2), damage]
    write_tar(
        root / "test" / "0.tar", [m for i, p in enumerate(images) for m in ((f"s{i}.png", p), (f"s{i}.cls", b"0"))]
    )
    return manifest(root)


@pytest.mark.parametrize("damage", [b"not an image", png(7)[:80]])
def test_a_broken_image_stops_the_job_and_is_named(tmp_path, damage):
    with pytest.raises(DataError, match=r"0/s1: .*0\.tar:s1\.png: cannot decode") as caught:
        embeddings(random_encoder(), tmp_path).images(broken_dataset(tmp_path, damage))

    assert "--on-error skip" in caught.value.advice


def test_skipped_images_are_listed_every_time_copies_included(tmp_path):
    found = broken_dataset(tmp_path)

    for _ in range(2):
        got = embeddings(random_encoder(), tmp_path, on_error="skip").images(found)

        assert got.kept.tolist() == [0, 2]
        assert [failure.id for failure in got.failures] == ["0/s1", "0/s3"]


def test_what_was_encoded_before_an_error_is_kept(tmp_path):
    found = broken_dataset(tmp_path)
    with pytest.raises(DataError):
        embeddings(random_encoder(), tmp_path, batch_size=1).images(found)
    encoder = random_encoder()

    embeddings(encoder, tmp_path, on_error="skip").images(found)

    assert encoder.encoded_images == 1


def test_each_distinct_text_is_encoded_once(tmp_path):
    encoder = random_encoder()

    got = embeddings(encoder, tmp_path).texts(["b", "a", "b"])

    assert sorted(encoder.encoded_texts) == ["a", "b"]
    np.testing.assert_array_equal(got[0], got[2])


def test_texts_are_encoded_shortest_first(tmp_path):
    encoder = random_encoder()

    embeddings(encoder, tmp_path).texts(["cccc", "bb", "a", "ddd", "aa"])

    assert encoder.encoded_texts == ["a", "aa", "bb", "ddd", "cccc"]


def test_truncated_texts_are_counted_also_when_they_come_from_the_store(tmp_path):
    def make():
        return SmallEncoder("short", random_encoder().vector, longest_text=3)

    for _ in range(2):
        model = embeddings(make(), tmp_path)
        model.texts(["abc", "abcd", "abcde"])

        assert [(notice.kind, notice.count) for notice in model.notices()] == [("truncated_texts", 2)]

    model.texts(["x", "wxyz"])
    model.texts(["x"])
    assert [notice.count for notice in model.notices()] == [3]  # of all calls, such as queries and documents


def test_a_model_that_gives_nan_is_an_error(tmp_path):
    encoder = SmallEncoder("broken", lambda _: np.full(16, np.nan, np.float32))

    with pytest.raises(ModelError, match="NaN"):
        embeddings(encoder, tmp_path).texts(["a"])


def test_many_threads_load_the_model_once(tmp_path):
    found = manifest(write_classification(tmp_path / "data", n=12))
    model = lazy(random_encoder())
    model._card = random_encoder().card
    original = model.family.load
    model.family.load = lambda spec: (time.sleep(0.05), original(spec))[1]

    CachedEncoder(model, EmbeddingStore(tmp_path / "store"), EncodeOptions(workers=8)).images(found)

    assert model.family.loads == 1


def test_a_model_may_give_the_same_memory_at_every_call(tmp_path):
    manifest = read_manifest(
        open_webdataset(DatasetSpec("x", "wds", str(write_classification(tmp_path / "data", n=9))))
    )
    right = CachedEncoder(lazy(random_encoder()), EmbeddingStore(tmp_path / "one")).images(manifest).vectors
    encoder = random_encoder()
    memory, encode = np.zeros((9, 16), np.float32), encoder.encode_images

    def reuse(batch):
        memory[: len(batch)] = encode(batch)
        return memory[: len(batch)]

    encoder.encode_images = reuse

    found = (
        CachedEncoder(lazy(encoder), EmbeddingStore(tmp_path / "two"), EncodeOptions(batch_size=2))
        .images(manifest)
        .vectors
    )

    np.testing.assert_array_equal(found, right)


def test_images_and_texts_of_different_sizes_are_not_compared(tmp_path):
    manifest = read_manifest(
        open_webdataset(DatasetSpec("x", "wds", str(write_classification(tmp_path / "data", n=3))))
    )
    encoder = random_encoder()
    encoder.encode_texts = lambda texts, *, language="en": np.ones((len(texts), 5), np.float32)
    embeddings = CachedEncoder(lazy(encoder), EmbeddingStore(tmp_path / "store"))
    embeddings.texts(["a", "b"])

    with pytest.raises(ModelError, match="vectors of 5 and of 16 dimensions"):
        embeddings.images(manifest)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_vectors_of_changing_size_are_an_error(tmp_path, batch_size):
    manifest = read_manifest(
        open_webdataset(DatasetSpec("x", "wds", str(write_classification(tmp_path / "data", n=3))))
    )
    encoder, sizes = random_encoder(), iter((4, 1, 4))
    encoder.encode_images = lambda batch: np.ones((len(batch), next(sizes)), np.float32)

    with pytest.raises(ModelError, match="vectors of shape"):
        CachedEncoder(lazy(encoder), EmbeddingStore(tmp_path / "store"), EncodeOptions(batch_size=batch_size)).images(
            manifest
        )


BOTH = [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Termination)]


class SignalledEncoder:
    """Receives a signal while it encodes its third batch of images or texts."""

    def __init__(self, number):
        self.inner, self.card = random_encoder(), random_encoder().card
        self.number, self.batches = number, 0

    def _count(self):
        self.batches += 1
        if self.batches == 3:
            signal.raise_signal(self.number)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def encode_images(self, batch):
        self._count()
        return self.inner.encode_images(batch)

    def encode_texts(self, texts, *, language="en"):
        self._count()
        return self.inner.encode_texts(texts, language=language)


@pytest.mark.usefixtures("python_signals")
@pytest.mark.parametrize(("number", "raised"), BOTH)
def test_a_signal_while_encoding_keeps_the_batches_before_it(tmp_path, number, raised):
    found = manifest(write_classification(tmp_path / "data", n=12))
    first = embeddings(SignalledEncoder(number), tmp_path, batch_size=4)

    with pytest.raises(raised):
        first.images(found)

    assert embeddings(random_encoder(), tmp_path).count_missing(found) == 4
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("python_signals")
@pytest.mark.parametrize(("number", "raised"), BOTH)
def test_a_signal_while_encoding_texts_keeps_the_batches_before_it(tmp_path, number, raised):
    texts = [f"text {i:02d}" for i in range(12)]
    with pytest.raises(raised):
        embeddings(SignalledEncoder(number), tmp_path, batch_size=4).texts(texts)
    later = SignalledEncoder(number)
    later.batches = 9

    vectors = embeddings(later, tmp_path, batch_size=4).texts(texts)

    assert later.batches == 10  # the other two are stored
    np.testing.assert_array_equal(vectors, random_encoder().encode_texts(texts))


@pytest.mark.parametrize("rows", [4, 4096])
@pytest.mark.usefixtures("python_signals")
@pytest.mark.parametrize(("number", "raised"), BOTH)
def test_a_signal_while_vectors_are_written_loses_none(tmp_path, monkeypatch, number, raised, rows):
    found = manifest(write_classification(tmp_path / "data", n=12))
    monkeypatch.setattr("eyechart.inference.pipeline.FLUSH_ROWS", rows)
    write = LocalBlobs.write

    def interrupted(blobs, name, data):
        signal.raise_signal(number)
        write(blobs, name, data)

    monkeypatch.setattr(LocalBlobs, "write", interrupted)
    with pytest.raises(raised):
        embeddings(random_encoder(), tmp_path, batch_size=4).images(found)

    assert embeddings(random_encoder(), tmp_path).count_missing(found) == (0 if rows > 12 else 8)
