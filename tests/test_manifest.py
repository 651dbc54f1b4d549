import pytest

from eyechart.datasets.webdataset import open_webdataset
from eyechart.errors import DataError
from eyechart.io.images import ImageRef
from eyechart.manifest import read_manifest
from eyechart.types import DatasetInfo, DatasetSpec, Sample
from support.data import png, write_classification, write_multilabel, write_retrieval


def manifest(root, **options):
    return read_manifest(open_webdataset(DatasetSpec("wds/x", "wds", str(root))), **options)


def kinds(manifest):
    return {notice.kind: notice.count for notice in manifest.notices}


def test_every_sample_is_listed_once_in_order(tmp_path):
    found = manifest(write_classification(tmp_path, n=12))

    assert [entry.id for entry in found.entries] == [f"{i // 6}/s{i:07d}" for i in range(12)]
    assert [entry.label for entry in found.entries] == [i % 3 for i in range(12)]
    assert found.digests.shape == (12, 16)


@pytest.mark.parametrize("limit", [1, 7, 12, 100])
def test_limit_is_exact(tmp_path, limit):
    assert len(manifest(write_classification(tmp_path, n=12), limit=limit)) == min(limit, 12)


def test_a_label_out_of_range_is_an_error_that_names_the_sample(tmp_path):
    root = write_classification(tmp_path, labels=[0, 1, 77])

    with pytest.raises(DataError, match=r"sample 1/s0000002 has label 77, but there are 3 class names"):
        manifest(root)


def test_a_negative_label_is_an_error(tmp_path):
    with pytest.raises(DataError, match="label -1"):
        manifest(write_classification(tmp_path, labels=[0, -1]))


def test_a_multilabel_vector_longer_than_the_class_list_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"the \.npy member has 3 values for 2 classes"):
        manifest(write_multilabel(tmp_path, labels=[[1, 0, 1]], classes=("a", "b")))


def test_a_class_without_images_is_counted(tmp_path):
    found = manifest(write_classification(tmp_path, labels=[0, 0, 2]))

    assert kinds(found) == {"class_without_images": 1}


def test_an_image_without_caption_is_an_error_that_names_it(tmp_path):
    with pytest.raises(DataError, match="s0000001 has no caption"):
        manifest(write_retrieval(tmp_path, captions=[["a"], [""], ["b"]], shards=1))


def test_blank_captions_and_copies_of_images_are_counted():
    samples = [
        Sample("1", ImageRef("1", data=png(0)), texts=("a", " ")),
        Sample("2", ImageRef("2", data=png(0)), texts=("b",)),
    ]

    assert kinds(read_manifest(InMemory(samples))) == {"blank_captions": 1, "duplicate_images": 1}


def test_an_id_that_occurs_twice_is_an_error():
    samples = [Sample("same", ImageRef("1", data=png(i)), texts=("a",)) for i in range(2)]

    with pytest.raises(DataError, match="1 sample id occurs more than once, for example 'same'"):
        read_manifest(InMemory(samples))


def test_an_empty_dataset_is_an_error():
    with pytest.raises(DataError, match="no samples in split 'test'"):
        read_manifest(InMemory([]))


def test_the_fingerprint_changes_with_images_labels_and_captions(tmp_path):
    base = manifest(write_retrieval(tmp_path / "a", captions=[["x"], ["y"]])).fingerprint

    assert manifest(write_retrieval(tmp_path / "b", captions=[["x"], ["y"]])).fingerprint == base
    assert manifest(write_retrieval(tmp_path / "c", captions=[["x"], ["z"]])).fingerprint != base


class InMemory:
    """A dataset of the public protocol, from a list."""

    def __init__(self, samples):
        self.samples = samples
        self.info = DatasetInfo("in memory", "retrieval")
        self.name = "all"

    def shards(self):
        return [self]

    def signature(self):
        return ""

    def __iter__(self):
        return iter(self.samples)
