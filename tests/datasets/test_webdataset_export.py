"""Any dataset to a webdataset folder and back: by our reader and by the webdataset library, as the peer reads it."""

import io
import json
import signal
import subprocess
import sys
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from eyechart.cli import main
from eyechart.datasets.registry import open_dataset
from eyechart.datasets.resolve import resolve_dataset
from eyechart.datasets.row_dataset import in_memory
from eyechart.datasets.webdataset_export import export_webdataset, extension_of, recode
from eyechart.errors import DataError, UsageError
from eyechart.io.images import ImageRef, decode_image, to_upright
from eyechart.manifest import iter_samples, read_manifest
from eyechart.types import DatasetInfo, Sample
from support import torchvision_formats as formats
from support.data import encoded, noise_image, write_classification, write_multilabel, write_retrieval

library = pytest.mark.filterwarnings(
    # The webdataset library does not close the files that it reads:
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


def opened(name, root, **settings):
    return open_dataset(resolve_dataset(name, str(root), **settings))


def put(path, seed, form="jpg"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(noise_image(seed), form))


@pytest.fixture
def folder(tmp_path):
    """A plain folder with images of all three formats."""
    root = tmp_path / "source"
    put(root / "cat" / "a.jpg", 1)
    put(root / "cat" / "b.png", 2, "png")
    put(root / "dog" / "c.webp", 3, "webp")
    (root / "zeroshot_classification_templates.txt").write_text("a {c}\nthe {c}\n")
    return root


def samples(dataset):
    return [(sample.label, sample.labels, sample.texts, sample.image.read()) for sample in iter_samples(dataset)]


def members(path):
    with tarfile.open(path) as archive:
        return [member.name for member in archive]


def by_webdataset(root, split, target):
    """Read as CLIP_benchmark does: the webdataset library, images by Pillow."""
    import webdataset as wds

    n = int((root / split / "nshards.txt").read_text())
    files = [str(root / split / f"{i}.tar") for i in range(n)]
    handler = wds.autodecode.ImageHandler("pil", extensions=["webp", "png", "jpg", "jpeg"])
    reader = wds.WebDataset(files, shardshuffle=False, nodesplitter=lambda source: source).decode(handler)
    return list(reader.to_tuple(["webp", "png", "jpg", "jpeg"], target))


# ------------------------------------------------------------------------------------------------------- layout


def test_a_folder_becomes_exactly_the_known_layout(folder, tmp_path, capsys):
    out = tmp_path / "wds"

    assert main(["export", "--dataset", str(folder), "--output", str(out), "--quiet"]) == 0

    files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert files == ["classnames.txt", "test/0.tar", "test/nshards.txt", "zeroshot_classification_templates.txt"]
    assert (out / "classnames.txt").read_text() == "cat\ndog\n"
    assert (out / "zeroshot_classification_templates.txt").read_text() == "a {c}\nthe {c}\n"
    assert (out / "test" / "nshards.txt").read_text() == "1\n"
    assert members(out / "test" / "0.tar") == [
        "s0000000.cls", "s0000000.jpg", "s0000001.cls", "s0000001.png", "s0000002.cls", "s0000002.webp",
    ]  # fmt: skip


def test_files_keep_their_bytes_and_come_back_in_order(folder, tmp_path):
    source = opened(str(folder), "unused")

    export_webdataset([source], tmp_path / "wds")

    assert samples(opened("wds/x", tmp_path / "wds")) == samples(source)


@library
def test_the_webdataset_library_reads_the_same(folder, tmp_path):
    source = opened(str(folder), "unused")
    export_webdataset([source], tmp_path / "wds")

    found = by_webdataset(tmp_path / "wds", "test", "cls")

    assert [label for _, label in found] == [0, 0, 1]
    for (image, _), sample in zip(found, iter_samples(source), strict=True):
        assert image.tobytes() == sample.image.decode().tobytes()


def test_members_are_named_and_ordered_as_the_library_writes_them(folder, tmp_path):
    import webdataset as wds

    export_webdataset([opened(str(folder), "unused")], tmp_path / "wds", image_format="webp")
    with wds.ShardWriter(str(tmp_path / "%d.tar"), verbose=0) as sink:
        for i in range(3):
            sink.write({"__key__": f"s{i:07d}", "webp": b"x", "cls": 0})

    assert members(tmp_path / "wds" / "test" / "0.tar") == members(tmp_path / "0.tar")


@pytest.mark.parametrize(("flags", "shards"), [(["--max-count", "2"], 2), (["--max_size", "1"], 3), ([], 1)])
def test_shards_are_limited_in_count_and_size(folder, tmp_path, flags, shards):
    assert main(["export", "-d", str(folder), "-o", str(tmp_path / "wds"), "--quiet", *flags]) == 0

    assert (tmp_path / "wds" / "test" / "nshards.txt").read_text() == f"{shards}\n"
    assert len(read_manifest(opened("wds/x", tmp_path / "wds"))) == 3


def test_the_size_of_a_shard_is_that_of_all_its_samples(tmp_path):
    for i in range(6):
        put(tmp_path / "source" / "cat" / f"{i}.png", 1, "png")
    size = (tmp_path / "source" / "cat" / "0.png").stat().st_size

    export_webdataset([opened(str(tmp_path / "source"), "unused")], tmp_path / "wds", max_size=2 * size)

    assert (tmp_path / "wds" / "test" / "nshards.txt").read_text() == "3\n"


def test_the_same_samples_make_the_same_bytes(folder, tmp_path):
    for name in ("one", "two"):
        export_webdataset([opened(str(folder), "unused")], tmp_path / name)

    assert (tmp_path / "one/test/0.tar").read_bytes() == (tmp_path / "two/test/0.tar").read_bytes()


# -------------------------------------------------------------------------------------------- retrieval, multilabel


@library
def test_captions_are_lines_and_line_breaks_inside_are_escaped(tmp_path):
    write_retrieval(tmp_path / "in", captions=[["a dog", "zwei Hunde"], ["b"]])
    source = opened("wds/x", tmp_path / "in")

    assert main(["export", "-d", "wds/x", "-r", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--retrieval"]) == 0

    assert (tmp_path / "out" / "dataset_type.txt").read_text() == "retrieval\n"
    assert samples(opened("wds/x", tmp_path / "out")) == samples(source)
    assert [text for _, text in by_webdataset(tmp_path / "out", "test", "txt")] == ["a dog\nzwei Hunde", "b"]


@library
def test_a_line_break_inside_a_caption_is_written_as_two_characters(tmp_path):
    put(tmp_path / "a.jpg", 1)
    (tmp_path / "table.jsonl").write_text('{"image": "a.jpg", "caption": "one\\ntwo"}\n')

    export_webdataset([opened(str(tmp_path / "table.jsonl"), "unused")], tmp_path / "out")

    assert [text for _, text in by_webdataset(tmp_path / "out", "test", "txt")] == [r"one\ntwo"]


@library
def test_several_labels_become_vectors(tmp_path):
    write_multilabel(tmp_path / "in", labels=[[1, 0, 1], [0, 0, 0]], classes=("a", "b", "c"))

    done = main(["export", "-d", "wds/x", "-r", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--multilabel"])

    assert done == 0
    assert (tmp_path / "out" / "dataset_type.txt").read_text() == "multilabel\n"
    assert samples(opened("wds/x", tmp_path / "out")) == samples(opened("wds/x", tmp_path / "in"))
    vectors = [vector for _, vector in by_webdataset(tmp_path / "out", "test", "npy")]
    assert np.array_equal(vectors, np.array([[1, 0, 1], [0, 0, 0]], np.float32))


def test_other_languages_are_written_beside_the_first(tmp_path):
    (tmp_path / "test_1kcaptions_en.txt").write_text("a cat\na dog\n")
    (tmp_path / "test_1kcaptions_de.txt").write_text("eine Katze\nein Hund\n")
    (tmp_path / "test_image_names.txt").write_text("1.jpg\n2.jpg\n")
    for i in (1, 2):
        put(tmp_path / "images" / f"{i}.jpg", i)

    words = ["export", "-d", "XTD", "--dataset-root", str(tmp_path), "-o", str(tmp_path / "out")]
    assert main([*words, "--language", "en", "de", "--quiet"]) == 0

    for language, first in (("en", "a cat"), ("de", "eine Katze"), ("deu_Latn", "eine Katze")):
        dataset = opened("wds/x", tmp_path / "out", language=language)
        assert next(iter(iter_samples(dataset))).texts == (first,)


# ---------------------------------------------------------------------------------------------------- any reader


def test_arrays_become_lossless_webp(tmp_path, monkeypatch, pack):
    formats.cifar10(tmp_path, monkeypatch)
    source = opened("cifar10", tmp_path)

    export_webdataset([source], tmp_path / "out")

    assert members(tmp_path / "out" / "test" / "0.tar")[1] == "s0000000.webp"
    for mine, theirs in zip(iter_samples(opened("wds/x", tmp_path / "out")), iter_samples(source), strict=True):
        assert mine.image.decode().tobytes() == theirs.image.decode().tobytes()
        assert mine.label == theirs.label


@pytest.mark.parametrize("flag", ["--dataset_root", "--dataset-root", "-r"])
def test_the_command_of_the_seed_works_in_both_spellings(tmp_path, monkeypatch, pack, flag):
    from eyechart.cli import main_export_wds

    formats.cifar10(tmp_path, monkeypatch)
    out = tmp_path / "wds_cifar10"
    words = ["clip_benchmark_export_wds", "--dataset", "cifar10", "--split", "test", flag, str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [*words, "--output", f"{out}/"])

    assert main_export_wds() == 0

    assert (out / "classnames.txt").read_text() == "cat\ndog\ncow\n"
    assert len((out / "zeroshot_classification_templates.txt").read_text().splitlines()) == 18


def test_an_exported_split_can_be_exported_again(folder, tmp_path):
    export_webdataset([opened(str(folder), "unused")], tmp_path / "one")
    export_webdataset([opened("wds/x", tmp_path / "one")], tmp_path / "two")

    assert samples(opened("wds/x", tmp_path / "two")) == samples(opened("wds/x", tmp_path / "one"))


# ------------------------------------------------------------------------------------------------- image formats


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P", "1"])
def test_lossless_means_the_same_pixels(mode):
    image = noise_image(4, mode="RGB").convert(mode)
    source = ImageRef("x", data=encoded(image))

    for form in ("webp", "png"):
        extension, data = recode(source, form)
        again = decode_image(data, "again")
        wanted = "RGBA" if mode == "RGBA" else "RGB"
        assert extension == form
        assert again.convert(wanted).tobytes() == image.convert(wanted).tobytes()


def test_colours_under_transparent_pixels_survive():
    image = noise_image(5).convert("RGBA")
    image.putalpha(0)

    _, data = recode(ImageRef("x", data=encoded(image)), "webp")

    assert decode_image(data, "x").tobytes() == image.tobytes()


def test_sixteen_bits_are_not_squeezed_into_webp():
    from PIL import Image

    deep = Image.fromarray(np.arange(600, dtype=np.uint16).reshape(20, 30) * 100)

    extension, data = recode(ImageRef("x", data=encoded(deep), made=True), None)

    assert extension == "png"
    assert np.array_equal(np.asarray(decode_image(data, "x")), np.asarray(deep))


def test_a_format_that_readers_do_not_know_is_encoded_anew():
    stream = io.BytesIO()
    noise_image(6).save(stream, "PPM")

    extension, data = recode(ImageRef("x", data=stream.getvalue()), "original")

    assert (extension, extension_of(data)) == ("webp", "webp")
    assert decode_image(data, "x").tobytes() == noise_image(6).tobytes()


def test_jpg_drops_transparency():
    extension, data = recode(ImageRef("x", data=encoded(noise_image(7, mode="RGBA"))), "jpg")

    assert (extension, decode_image(data, "x").mode) == ("jpg", "RGB")


# ------------------------------------------------------------------------------------------------ refusals, safety


def test_a_second_split_shares_the_lists(tmp_path):
    write_classification(tmp_path / "in", n=4, split="train")
    write_classification(tmp_path / "in", n=3, split="test")

    for split in ("train", "test"):
        export_webdataset([opened("wds/x", tmp_path / "in", split=split)], tmp_path / "out")

    assert [len(read_manifest(opened("wds/x", tmp_path / "out", split=split))) for split in ("train", "test")] == [4, 3]


def test_a_folder_of_another_dataset_is_not_mixed_up(folder, tmp_path):
    write_classification(tmp_path / "in", split="train")
    export_webdataset([opened("wds/x", tmp_path / "in", split="train")], tmp_path / "out")

    with pytest.raises(DataError, match=r"classnames\.txt belongs to another dataset"):
        export_webdataset([opened(str(folder), "unused")], tmp_path / "out")

    assert not (tmp_path / "out" / "test").exists()


def test_a_split_that_is_there_is_replaced_only_on_request(folder, tmp_path):
    source = opened(str(folder), "unused")
    export_webdataset([source], tmp_path / "out", limit=1)

    with pytest.raises(UsageError, match="--overwrite"):
        export_webdataset([source], tmp_path / "out")
    export_webdataset([source], tmp_path / "out", overwrite=True)

    assert len(read_manifest(opened("wds/x", tmp_path / "out"))) == 3
    assert not list((tmp_path / "out").glob(".tmp-*"))


def test_an_export_that_fails_leaves_no_split(folder, tmp_path):
    (folder / "dog" / "d.jpg").write_bytes(b"no image")

    with pytest.raises(DataError, match="cannot decode"):
        export_webdataset([opened(str(folder), "unused")], tmp_path / "out", image_format="png")

    assert not (tmp_path / "out" / "test").exists()
    assert not list((tmp_path / "out").glob(".tmp-*"))


KILLED = """
import os, signal, sys
from eyechart.cli import main
from eyechart.datasets.webdataset_export import ShardWriter
write = ShardWriter.write
def write_or_die(self, *words, **named):
    if self.samples == 150:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, *words, **named)
ShardWriter.write = write_or_die
main(sys.argv[1:])
"""


def test_a_killed_export_is_not_taken_for_a_whole_one(tmp_path):
    for i in range(300):
        put(tmp_path / "in" / "cat" / f"{i:03d}.png", i, "png")
    words = ["export", "-d", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--image-format", "webp", "--quiet"]
    done = subprocess.run([sys.executable, "-c", KILLED, *words], check=False)

    assert done.returncode == -signal.SIGKILL
    assert list((tmp_path / "out").glob(".tmp-*/0.tar"))
    with pytest.raises(DataError, match="has no split 'test'"):
        opened("wds/x", tmp_path / "out")
    assert main(["export", "-d", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    assert len(read_manifest(opened("wds/x", tmp_path / "out"))) == 300


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--retrieval"], "is a classification dataset"),
        (["--image-format", "gif"], "Unknown image format: 'gif'"),
        (["--max-count", "0"], "must be 1 or more"),
        (["--split", "nothing", "--dataset", "mnist", "--dataset_root", "x"], "Available: train, test"),
    ],
)
def test_what_cannot_be_exported_is_refused(folder, tmp_path, capsys, flags, message):
    assert main(["export", "--dataset", str(folder), "--output", str(tmp_path / "out"), *flags]) == 2

    assert message in capsys.readouterr().err


def test_prompts_of_classes_are_not_lost_in_silence(folder, tmp_path, capsys):
    prompts = tmp_path / "prompts.json"
    prompts.write_text(json.dumps({"source": {"cat": ["a furry cat"], "dog": ["a loyal dog"]}}))
    words = ["--dataset", str(folder), "--custom_template_file", str(prompts), "--output", str(tmp_path / "wds")]

    assert main(["export", *words]) == 2
    assert "per-class prompts" in capsys.readouterr().err


def test_a_blank_last_caption_is_kept(tmp_path):
    put(tmp_path / "source" / "a.png", 1, "png")
    row = {"image_path": "a.png", "query": ["a cat", ""]}
    (tmp_path / "source" / "image_queries.jsonl").write_text(json.dumps(row) + "\n")

    assert main(["export", "--dataset", str(tmp_path / "source"), "--output", str(tmp_path / "wds")]) == 0
    assert [texts for _, _, texts, _ in samples(opened(str(tmp_path / "wds"), "unused"))] == [("a cat", "")]


HARD = st.text(st.sampled_from("a\\n\n\r\t \u2028\u0085\x0b\0\ufeff\u3000'\"\ud800\N{GRINNING FACE}"), max_size=5)
"""Texts of characters that a line of text may lose, or that look like an escape."""


def retrieval(captions, language="en"):
    """A dataset of one image per list of captions, in memory."""
    info = DatasetInfo("hard", "retrieval", "test", language)
    image = ImageRef("image", encoded(noise_image(1), "png"))
    found = [Sample(str(i), image, texts=tuple(texts)) for i, texts in enumerate(captions)]
    return in_memory(info, found)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(HARD, max_size=3), min_size=1, max_size=3))
def test_captions_come_back_exactly(captions):
    with tempfile.TemporaryDirectory() as folder:
        export_webdataset([retrieval(captions)], Path(folder))
        back = [texts for _, _, texts, _ in samples(opened(folder, "unused"))]

    assert back == [tuple(texts) for texts in captions]


def test_captions_of_two_languages_come_back_exactly(tmp_path):
    datasets = [retrieval([["one\ntwo", "b"]]), retrieval([["eins\nzwei\n"]], "de")]

    export_webdataset(datasets, tmp_path)

    assert "s0000000.de.txt.json" in members(tmp_path / "test" / "0.tar")
    for language, texts in (("en", ("one\ntwo", "b")), ("de", ("eins\nzwei\n",))):
        assert [sample[2] for sample in samples(opened(str(tmp_path), "unused", language=language))] == [texts]


def test_plain_captions_need_no_second_member(tmp_path):
    export_webdataset([retrieval([["a cat", r"a\b", " spaces ", "\u2028"]])], tmp_path)

    assert members(tmp_path / "test" / "0.tar") == ["s0000000.png", "s0000000.txt"]


@settings(max_examples=40, deadline=None)
@given(st.lists(HARD, min_size=2, max_size=3, unique=True))
def test_class_names_come_back_exactly_or_are_refused(names):
    image = ImageRef("image", encoded(noise_image(1), "png"))
    info = DatasetInfo("hard", "classification", "test", "en", classnames=tuple(names), templates=("a {c}", names[0]))
    found = [Sample(str(i), image, label=i) for i in range(len(names))]
    with tempfile.TemporaryDirectory() as folder:
        refused = ""
        try:
            export_webdataset([in_memory(info, found)], Path(folder))
        except DataError as error:
            refused = error.message
        assert not refused or (any(repr(name) in refused for name in names) and not list(Path(folder).iterdir()))
        if refused:
            return
        with suppress(DataError):  # a name with control characters is refused by the reader
            back = opened(folder, "unused", options={"allow_blank_classnames": True}).info
            assert (back.classnames, back.templates) == (info.classnames, info.templates)


@pytest.mark.parametrize("name", ["bag ", "\tbag", "bag\r", "a\nb", "\u3000bag"])
def test_a_class_name_that_a_line_would_change_is_refused_by_name(tmp_path, name):
    info = DatasetInfo("hard", "classification", "test", "en", classnames=("cat", name), templates=("a {c}",))

    with pytest.raises(DataError, match="would be read back as another text") as caught:
        export_webdataset([in_memory(info, [])], tmp_path / "out")
    assert repr(name) in caught.value.message
    assert not (tmp_path / "out").exists()


def test_the_orientation_of_a_recoded_image_is_kept():
    exif = Image.Exif()
    exif[0x0112] = 6
    stream = io.BytesIO()
    noise_image(1, (20, 10)).save(stream, "JPEG", exif=exif)

    for form in ("png", "webp", "jpg"):
        _, data = recode(ImageRef("turned.jpg", stream.getvalue()), form)
        assert decode_image(data, "back").size == (20, 10)
        assert to_upright(decode_image(data, "back")).size == (10, 20)


def test_selection_has_no_such_layout(tmp_path):
    put(tmp_path / "val2017" / "1.jpg", 1)
    entry = '{"0": {"filename": "1.jpg", "caption": "a", "negative_caption": "b"}}'
    (tmp_path / "swap_obj.json").write_text(entry)

    with pytest.raises(UsageError, match="no webdataset layout"):
        export_webdataset([opened("sugar_crepe/swap_obj", tmp_path)], tmp_path / "out")
