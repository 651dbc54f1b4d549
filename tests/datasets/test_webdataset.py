import io
import pickle
import tarfile

import numpy as np
import pytest

from eyechart.datasets.webdataset import open_webdataset
from eyechart.errors import DataError, LanguageError
from eyechart.manifest import iter_samples
from eyechart.types import DatasetSpec
from support.data import encoded, noise_image, png, write_classification, write_multilabel, write_retrieval, write_tar


def dataset(root, **options):
    return open_webdataset(DatasetSpec("wds/x", "wds", str(root), **options))


def samples(root, **options):
    return list(iter_samples(dataset(root, **options)))


def test_classification_reads_images_labels_names_and_templates(tmp_path):
    root = write_classification(tmp_path, n=4, shards=2)

    found = samples(root)

    assert [sample.label for sample in found] == [0, 1, 2, 0]
    assert [sample.image.read() for sample in found] == [png(i) for i in range(4)]
    assert dataset(root).info.classnames == ("cat", "dog", "bird")
    assert dataset(root).info.templates == ("a photo of a {c}.", "a {c}")


def test_retrieval_reads_one_caption_a_line(tmp_path):
    root = write_retrieval(tmp_path, captions=[["a dog", "a cat"], ["ein Hund"]])

    assert [sample.texts for sample in samples(root)] == [("a dog", "a cat"), ("ein Hund",)]
    assert dataset(root).info.kind == "retrieval"


def test_multilabel_reads_the_classes_that_are_present(tmp_path):
    root = write_multilabel(tmp_path, labels=[[1, 0, 1], [0, 0, 0]], classes=("a", "b", "c"))

    assert [sample.labels for sample in samples(root)] == [(0, 2), ()]


@pytest.mark.parametrize("vector", [[1, 0], [1, 0, 1, 0], [1, 0, 1, 1], []])
def test_labels_for_another_number_of_classes_are_refused(tmp_path, vector):
    """A longer vector may be all zeros where no class is: every metric would still be a number."""
    root = write_multilabel(tmp_path, labels=[[1, 0, 1], vector], classes=("a", "b", "c"))

    with pytest.raises(DataError, match=rf"s0000001\.png: the \.npy member has {len(vector)} values for 3 classes"):
        samples(root)


@pytest.mark.parametrize("value", [2, -1])
def test_labels_that_are_neither_present_nor_absent_are_refused(tmp_path, value):
    root = write_multilabel(tmp_path, labels=[[1, 0, 1], [0, value, 1]], classes=("a", "b", "c"))

    with pytest.raises(DataError, match=r"must be a vector of zeros and ones"):
        samples(root)


@pytest.mark.parametrize(("form", "extension"), [("png", "png"), ("jpg", "jpg"), ("jpg", "jpeg"), ("webp", "webp")])
def test_all_image_formats_are_read(tmp_path, form, extension):
    root = write_classification(tmp_path, n=1, shards=1)
    write_tar(root / "test" / "0.tar", [(f"s1.{extension}", encoded(noise_image(5), form)), ("s1.cls", b"1")])

    (sample,) = samples(root)

    assert sample.image.decode().size == (40, 30)


def test_another_language_has_its_own_names_templates_and_captions(tmp_path):
    classes = write_classification(tmp_path / "c", n=1, shards=1)
    (classes / "classnames.de.txt").write_text("Katze\nHund\nVogel\n")
    (classes / "zeroshot_classification_templates.de.txt").write_text("ein Foto: {c}\n")
    captions = write_retrieval(tmp_path / "r", captions=[["a dog"]], shards=1)
    write_tar(captions / "test" / "0.tar", [("s1.png", png()), ("s1.txt", b"a dog"), ("s1.de.txt", b"ein Hund")])

    assert dataset(classes, language="de").info.classnames == ("Katze", "Hund", "Vogel")
    assert samples(captions, language="de")[0].texts == ("ein Hund",)
    assert samples(captions)[0].texts == ("a dog",)


def test_a_language_that_is_not_there_is_an_error_and_never_english(tmp_path):
    root = write_classification(tmp_path, n=1, shards=1)

    with pytest.raises(LanguageError, match=r"no class names for language 'fr' \(available: en\)"):
        _ = dataset(root, language="fr").info
    with pytest.raises(DataError, match=r"no \.fr\.txt member"):
        samples(write_retrieval(tmp_path / "r", captions=[["a"]], shards=1), language="fr")


def test_missing_templates_are_replaced_and_noted(tmp_path):
    root = write_classification(tmp_path, n=1, shards=1)
    (root / "zeroshot_classification_templates.txt").unlink()

    info = dataset(root).info

    assert info.templates == ("a photo of a {c}.",)
    assert [note.kind for note in info.notes] == ["default_templates"]


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no dataset at"):
        dataset(tmp_path / "nowhere")


def test_a_missing_split_is_an_error_that_lists_those_there_are(tmp_path):
    with pytest.raises(DataError, match="no split 'val'; available: test"):
        dataset(write_classification(tmp_path), split="val")


def test_a_missing_shard_is_found_when_the_dataset_is_opened(tmp_path):
    root = write_classification(tmp_path, shards=2)
    (root / "test" / "nshards.txt").write_text("3")

    with pytest.raises(DataError, match=r"1 shard is missing, the first is .*2\.tar"):
        dataset(root)


@pytest.mark.parametrize(("extra", "count"), [(["2.tar"], 1), (["2.tar", "3.tar"], 2), (["9.tar"], 1), (["x.tar"], 1)])
def test_shards_that_are_not_counted_are_not_read_but_noted(tmp_path, extra, count):
    """nshards.txt is what CLIP_benchmark goes by, and some make it smaller on purpose; the result says so."""
    root = write_classification(tmp_path, shards=2)
    captions = write_retrieval(tmp_path / "captions", captions=[["a"], ["b"]])
    for folder in (root, captions):
        for name in extra:
            (folder / "test" / name).write_bytes((folder / "test" / "0.tar").read_bytes())

        (note,) = dataset(folder).info.notes
        assert (note.kind, note.count) == ("unread_shards", count)
        assert f"test/{extra[0]}" in note.message
    assert len(samples(root)) == 12


def test_a_folder_with_the_shards_that_it_counts_has_no_notes(tmp_path):
    assert dataset(write_classification(tmp_path)).info.notes == ()


@pytest.mark.parametrize("text", ["", "two", "0", "-1"])
def test_a_bad_shard_count_is_an_error(tmp_path, text):
    root = write_classification(tmp_path)
    (root / "test" / "nshards.txt").write_text(text)

    with pytest.raises(DataError, match=r"nshards\.txt"):
        dataset(root)


def member_ends(path):
    with tarfile.open(path) as archive:
        return [member.offset_data + -(-member.size // 512) * 512 for member in archive]


@pytest.mark.parametrize("where", ["inside a member", "between samples", "inside a header"])
def test_a_truncated_tar_is_an_error_and_never_fewer_samples(tmp_path, where):
    root = write_classification(tmp_path, n=6, shards=1)
    path = root / "test" / "0.tar"
    border = member_ends(path)[5]
    cut = {"inside a member": border - 700, "between samples": border, "inside a header": border + 100}[where]
    path.write_bytes(path.read_bytes()[:cut])

    with pytest.raises(DataError, match="truncated"):
        samples(root)


@pytest.mark.parametrize("damage", [b"abc", b"", b"1.5", b"\xff"])
def test_a_label_that_is_no_number_is_an_error(tmp_path, damage):
    root = write_classification(tmp_path, n=1, shards=1)
    write_tar(root / "test" / "0.tar", [("s1.png", png()), ("s1.cls", damage)])

    with pytest.raises(DataError, match="is not a number"):
        samples(root)


def test_a_sample_without_label_or_image_is_an_error(tmp_path):
    root = write_classification(tmp_path, n=1, shards=1)

    write_tar(root / "test" / "0.tar", [("s1.png", png())])
    with pytest.raises(DataError, match=r"no \.cls member"):
        samples(root)

    write_tar(root / "test" / "0.tar", [("s1.cls", b"1")])
    with pytest.raises(DataError, match="has no image"):
        samples(root)


def test_a_pickle_in_an_npy_is_refused(tmp_path):
    root = write_multilabel(tmp_path, labels=[[1]], classes=("a",))
    stream = io.BytesIO()
    np.save(stream, np.array([object()], dtype=object), allow_pickle=True)
    for payload in (stream.getvalue(), pickle.dumps([1])):
        write_tar(root / "test" / "0.tar", [("s1.png", png()), ("s1.npy", payload)])

        with pytest.raises(DataError, match=r"cannot read the \.npy"):
            samples(root)


def test_a_link_in_a_tar_is_refused(tmp_path):
    root = write_classification(tmp_path, n=1, shards=1)
    with tarfile.open(root / "test" / "0.tar", "w") as archive:
        link = tarfile.TarInfo("s1.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)

    with pytest.raises(DataError, match="not a regular file"):
        samples(root)


def test_a_blank_class_name_is_an_error_unless_allowed(tmp_path):
    root = write_classification(tmp_path)
    (root / "classnames.txt").write_text("cat\n\nbird\n")

    with pytest.raises(DataError, match=r"classnames\.txt, line 2: a blank line"):
        _ = dataset(root).info
    assert dataset(root, options={"allow_blank_classnames": True}).info.classnames == ("cat", "", "bird")


def test_the_signature_changes_with_the_shards(tmp_path):
    before = dataset(write_classification(tmp_path, n=6)).signature()

    assert dataset(write_classification(tmp_path, n=9)).signature() != before
