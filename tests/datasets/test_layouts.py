"""The folder layouts of well-known datasets, made small in their original form."""

import json
import zipfile
from dataclasses import replace

import pytest

from eyechart.datasets.catalogue import load_catalogue
from eyechart.datasets.class_texts import wnids
from eyechart.datasets.image_finder import new_folder
from eyechart.datasets.registry import open_dataset
from eyechart.datasets.resolve import resolve_dataset
from eyechart.errors import DataError
from eyechart.io.images import decode_image
from eyechart.languages import flores_codes
from eyechart.manifest import iter_samples, read_manifest
from support.data import encoded, noise_image

IDS = list(wnids())


def put(path, seed=0, size=(40, 30)):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(noise_image(seed, size), "png" if path.suffix == ".png" else "jpg"))
    return path


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")


def opened(name, root, language="en", split="test", **options):
    return open_dataset(resolve_dataset(name, str(root), language=language, split=split, options=options))


def rows(dataset):
    return [(sample.id, sample.label, sample.texts) for sample in iter_samples(dataset)]


def captions(dataset):
    return [(sample.image.path.name, sample.texts) for sample in iter_samples(dataset)]


pytestmark = pytest.mark.usefixtures("pack")


# ---------------------------------------------------------------------------------------------- classification


def test_imagenet_has_its_labels_by_wordnet_id_and_images_in_order(tmp_path):
    for index, file in ((5, "b.JPEG"), (5, "a.JPEG"), (1, "z.JPEG")):
        put(tmp_path / "val" / IDS[index] / file, index)

    dataset = opened("imagenet1k", tmp_path)

    assert rows(dataset) == [
        (f"{IDS[1]}/z.JPEG", 1, ()),
        (f"{IDS[5]}/a.JPEG", 5, ()),
        (f"{IDS[5]}/b.JPEG", 5, ()),
    ]
    assert dataset.info.source == str(tmp_path / "val")


def test_the_training_split_is_another_folder(tmp_path):
    put(tmp_path / "val" / IDS[0] / "a.JPEG")
    put(tmp_path / "train" / IDS[3] / "b.JPEG")

    assert [label for _, label, _ in rows(opened("imagenet1k-unverified", tmp_path, split="train"))] == [3]


@pytest.mark.parametrize("folder", [".", "sketch"])
def test_imagenet_sketch_may_lie_one_level_deeper(tmp_path, folder):
    put(tmp_path / folder / IDS[2] / "a.JPEG")

    assert [label for _, label, _ in rows(opened("imagenet_sketch", tmp_path))] == [2]


def test_imagenet_v2_has_numbers_for_folders(tmp_path):
    for number in ("9", "10"):
        put(tmp_path / "ImageNetV2-matched-frequency" / number / "a.jpeg", int(number))

    assert sorted(label for _, label, _ in rows(opened("imagenetv2", tmp_path))) == [9, 10]


def test_a_folder_that_is_no_class_is_refused(tmp_path):
    put(tmp_path / "val" / IDS[0] / "a.JPEG")
    put(tmp_path / "val" / "n99999999" / "a.JPEG")

    with pytest.raises(DataError, match="'n99999999'"):
        opened("imagenet1k", tmp_path)


def test_imagenet_a_refuses_a_class_that_it_does_not_have(tmp_path):
    put(tmp_path / IDS[0] / "a.jpg")

    with pytest.raises(DataError, match="imagenet-a"):
        opened("imagenet-a", tmp_path)


def test_objectnet_keeps_the_classes_that_imagenet_has(tmp_path):
    base = tmp_path / "objectnet-1.0"
    labels = {"band_aid": "Band Aid", "backpack": "Backpack", "air_freshener": "Air freshener"}
    write(base / "mappings" / "folder_to_objectnet_label.json", labels)
    write(base / "mappings" / "objectnet_to_imagenet_1k.json", {"Band Aid": "x", "Backpack": "y; z"})
    for folder in labels:
        put(base / "images" / folder / "1.png", len(folder))

    dataset = opened("objectnet", tmp_path)

    assert dataset.info.classnames == ("backpack", "band aid")
    assert rows(dataset) == [("backpack/1.png", 0, ()), ("band_aid/1.png", 1, ())]


def test_objectnet_without_its_mappings_says_what_is_missing(tmp_path):
    put(tmp_path / "objectnet-1.0" / "images" / "x" / "1.png")

    with pytest.raises(DataError, match=r"mappings/folder_to_objectnet_label\.json"):
        opened("objectnet", tmp_path)


@pytest.fixture
def voc(tmp_path):
    base = tmp_path / "VOCdevkit" / "VOC2007"
    objects = {"000001": [("dog", (1, 2, 21, 22)), ("person", (5, 5, 30, 25))], "000002": [("cat", (0, 0, 40, 30))]}
    for i, (name, boxes) in enumerate(objects.items()):
        put(base / "JPEGImages" / f"{name}.jpg", i)
        body = "".join(
            f"<object><name>{label}</name><difficult>1</difficult><bndbox><xmin>{b[0]}</xmin><ymin>{b[1]}</ymin>"
            f"<xmax>{b[2]}</xmax><ymax>{b[3]}</ymax></bndbox></object>"
            for label, b in boxes
        )
        write(base / "Annotations" / f"{name}.xml", f"<annotation>{body}</annotation>")
    write(base / "ImageSets" / "Main" / "test.txt", "000001\n000002\n")
    return tmp_path


def test_voc_has_one_crop_for_each_box(voc):
    samples = list(iter_samples(opened("voc2007", voc)))

    assert [(sample.id, sample.label) for sample in samples] == [("000001/0", 11), ("000001/1", 14), ("000002/0", 7)]
    crop = samples[0].image.decode().convert("RGB")
    whole = decode_image((voc / "VOCdevkit/VOC2007/JPEGImages/000001.jpg").read_bytes(), "whole")
    assert crop.tobytes() == whole.convert("RGB").crop((1, 2, 21, 22)).tobytes()


def test_voc_multilabel_has_all_labels_of_an_image(voc):
    dataset = opened("voc2007_multilabel", voc)

    assert dataset.info.kind == "multilabel"
    assert [(sample.id, sample.labels) for sample in iter_samples(dataset)] == [("000001", (11, 14)), ("000002", (7,))]


@pytest.mark.parametrize("line", ["../000001", "/etc/passwd", "a.b"])
def test_a_list_of_voc_with_anything_but_names_is_refused(voc, line):
    write(voc / "VOCdevkit/VOC2007/ImageSets/Main/test.txt", f"000001\n{line}\n")

    with pytest.raises(DataError, match="must contain one image name per line"):
        opened("voc2007", voc)


def test_voc_has_twenty_classes(voc):
    names = [
        "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
        "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
    ]  # fmt: skip
    box = "".join(f"<{side}>1</{side}>" for side in ("xmin", "ymin", "xmax", "ymax"))
    body = "".join(f"<object><name>{name}</name><bndbox>{box}</bndbox></object>" for name in names)
    write(voc / "VOCdevkit/VOC2007/Annotations/000001.xml", f"<annotation>{body}</annotation>")

    samples = list(iter_samples(opened("voc2007_multilabel", voc)))

    assert samples[0].labels == tuple(range(20))


def test_voc_with_a_broken_annotation_names_the_file(voc):
    write(voc / "VOCdevkit/VOC2007/Annotations/000001.xml", "<annotation><object>")

    with pytest.raises(DataError, match=r"000001\.xml is not a Pascal VOC annotation"):
        opened("voc2007", voc)


def test_caltech_keeps_the_background_class(tmp_path):
    names = ["BACKGROUND_Google", "Faces", *(f"z{i:03d}" for i in range(100))]
    for i, name in enumerate(names):
        put(tmp_path / "caltech101" / "101_ObjectCategories" / name / "image_0001.jpg", i)

    dataset = opened("caltech101", tmp_path)

    assert dataset.info.classnames[:2] == ("background", "off-center face")
    assert len(rows(dataset)) == 102


def test_fer2013_has_a_folder_for_each_split(tmp_path):
    for split in ("train", "test"):
        for i, name in enumerate(("angry", "disgust", "fear", "happy", "neutral", "sad", "surprise")):
            put(tmp_path / split / name / f"{split}.jpg", i)

    assert rows(opened("fer2013", tmp_path))[1][:2] == ("disgust/test.jpg", 1)
    assert rows(opened("fer2013", tmp_path, split="train"))[0][:2] == ("angry/train.jpg", 0)


def test_birdsnap_reads_its_species_and_the_list(tmp_path):
    write(tmp_path / "species.txt", "id\tcommon\tscientific\tdir\n1\tAcadian Flycatcher\tE. v.\tacadian_flycatcher\n")
    with (tmp_path / "species.txt").open("a") as stream:
        stream.write("2\tAcorn Woodpecker\tM. f.\tacorn_woodpecker\n")
    write(tmp_path / "test_images_valid.txt", "path\nAcorn_Woodpecker/1.jpg\nAcadian_Flycatcher/2.jpg\n")
    put(tmp_path / "Acorn_Woodpecker" / "1.jpg", 1)
    put(tmp_path / "Acadian_Flycatcher" / "2.jpg", 2)

    dataset = opened("birdsnap", tmp_path)

    assert dataset.info.classnames == ("Acadian Flycatcher", "Acorn Woodpecker")
    assert dataset.info.templates == ("a photo of a {c}, a type of bird.",)
    assert [label for _, label, _ in rows(dataset)] == [1, 0]


def test_the_dummy_is_one_black_image(tmp_path):
    (sample,) = iter_samples(opened("dummy", tmp_path))

    assert sample.label == 0
    assert not any(decode_image(sample.image.read(), "x").tobytes())
    assert sample.image.zeros
    assert sample.image.digest() != replace(sample.image, zeros=False).digest()


def test_imagenet_w_draws_its_watermark(tmp_path):
    put(tmp_path / "val" / IDS[0] / "a.JPEG", 1, size=(300, 260))

    (sample,) = iter_samples(opened("imagenet-w", tmp_path))
    (plain,) = iter_samples(opened("imagenet1k", tmp_path))

    marked = decode_image(sample.image.read(), "x")
    assert marked.size == (224, 224)
    middle, corner = (0, 90, 224, 130), (0, 0, 224, 60)
    clean = plain.image.decode().convert("RGB").resize((258, 224), 3).crop((17, 0, 241, 224))
    assert marked.crop(corner).tobytes() == clean.crop(corner).tobytes()
    assert marked.crop(middle).tobytes() != clean.crop(middle).tobytes()


# --------------------------------------------------------------------------------------------------- retrieval


@pytest.fixture
def flickr(tmp_path):
    put(tmp_path / "Images" / "1.jpg", 1)
    put(tmp_path / "Images" / "2.jpg", 2)
    write(
        tmp_path / "flickr30k_test_karpathy.txt",
        "image,caption\n2.jpg,A dog, brown, runs .\n1.jpg,Two men\n2.jpg,see x.jpg, it says\n",
    )
    write(tmp_path / "flickr30k_cn_test.txt", "image,caption\n1.jpg,两个男人\n2.jpg,一只狗\n")
    return tmp_path


def test_flickr_groups_captions_by_image_in_order_of_mention(flickr):
    assert captions(opened("flickr30k", flickr)) == [
        ("2.jpg", ("A dog, brown, runs .", "see x.jpg, it says")),
        ("1.jpg", ("Two men",)),
    ]


@pytest.mark.parametrize("line", ["1.jpg,", "1.jpg,  ", "1.png,Two men", "a line"])
def test_a_line_of_flickr_without_a_caption_is_reported(flickr, line):
    write(flickr / "flickr30k_test_karpathy.txt", f"image,caption\n1.jpg,Two men\n{line}\n")

    with pytest.raises(DataError, match=r"line 3: not 'image\.jpg,caption'"):
        captions(opened("flickr30k", flickr))


@pytest.mark.parametrize("language", ["cn", "zh", "zho_Hans"])
def test_flickr_in_chinese_reads_the_chinese_file(flickr, language):
    dataset = opened("flickr30k", flickr, language)

    assert captions(dataset) == [("1.jpg", ("两个男人",)), ("2.jpg", ("一只狗",))]
    assert dataset.info.language == language


def test_a_missing_chinese_file_is_not_replaced_by_the_english_one(flickr):
    (flickr / "flickr30k_cn_test.txt").unlink()

    with pytest.raises(DataError, match=r"flickr30k_test_zh\.txt"):
        opened("flickr30k", flickr, "cn", offline=True)


def test_an_annotation_file_may_be_given(flickr, tmp_path):
    write(tmp_path / "mine.txt", "image,caption\n1.jpg,mine\n")

    assert captions(opened("flickr30k", flickr, annotation_file=str(tmp_path / "mine.txt"))) == [("1.jpg", ("mine",))]


def test_a_file_without_a_header_loses_no_caption(flickr, tmp_path):
    write(tmp_path / "mine.txt", "1.jpg,mine\n1.jpg,ours\n")

    dataset = opened("flickr30k", flickr, annotation_file=str(tmp_path / "mine.txt"))

    assert captions(dataset) == [("1.jpg", ("mine", "ours"))]


def test_bad_lines_are_told_with_their_numbers(flickr):
    write(flickr / "flickr30k_test_karpathy.txt", "image,caption\n1.jpg,ok\nno border\n2.jpg,\n")

    with pytest.raises(DataError, match=r"(?s)line 3: .*line 4: "):
        opened("flickr30k", flickr)


def test_missing_images_are_an_error_and_not_a_smaller_set(flickr):
    (flickr / "Images" / "1.jpg").unlink()

    with pytest.raises(DataError, match=r"refers to 1 image that is not in .*: 1\.jpg"):
        opened("flickr30k", flickr)


def test_a_name_that_leaves_the_folder_is_refused(flickr):
    write(flickr / "flickr30k_test_karpathy.txt", "image,caption\n../secret.jpg,x\n")

    with pytest.raises(DataError, match="is outside"):
        opened("flickr30k", flickr)


@pytest.fixture
def coco(tmp_path):
    for i, name in enumerate(("val2014/COCO_val2014_000000000009.jpg", "train2014/COCO_train2014_000000000004.jpg")):
        put(tmp_path / name, i)
    images = [{"id": 9, "file_name": "COCO_val2014_000000000009.jpg"}]
    notes = [{"image_id": 9, "caption": "first"}, {"image_id": 9, "caption": "second"}]
    write(tmp_path / "coco_test_karpathy.json", {"images": images, "annotations": notes})
    chinese = [
        {"id": 9, "file_name": "val2014/COCO_val2014_000000000009.jpg"},
        {"id": 4, "file_name": "train2014/COCO_train2014_000000000004.jpg"},
    ]
    notes = [{"image_id": 9, "caption": "九"}, {"image_id": 4, "caption": "四"}]
    write(tmp_path / "coco-cn_test.json", {"images": chinese, "annotations": notes})
    return tmp_path


def test_an_image_id_that_occurs_twice_would_hide_an_image(coco):
    images = [{"id": 9, "file_name": "a.jpg"}, {"id": 9, "file_name": "b.jpg"}]
    write(coco / "coco_test_karpathy.json", {"images": images, "annotations": []})

    with pytest.raises(DataError, match="1 image with duplicate ids"):
        opened("mscoco_captions", coco)


def test_coco_reads_the_karpathy_file(coco):
    assert rows(opened("mscoco_captions", coco)) == [("9", None, ("first", "second"))]


def test_coco_cn_has_images_of_both_folders_by_ascending_id(coco):
    assert rows(opened("coco", coco, "cn")) == [("4", None, ("四",)), ("9", None, ("九",))]


def test_the_chinese_sets_have_names_of_their_own(coco, flickr):
    assert rows(opened("coco-cn", coco, "zh")) == rows(opened("mscoco_captions", coco, "cn"))
    assert rows(opened("flickr30k-cn", flickr, "cn")) == rows(opened("flickr30k", flickr, "zh"))


def test_coco_in_another_format_is_explained(coco):
    write(coco / "coco_test_karpathy.json", {"images": [{"id": 1}]})

    with pytest.raises(DataError, match="not in COCO's caption format"):
        opened("mscoco_captions", coco)


@pytest.mark.parametrize("caption", [None, float("nan"), ["a", "b"], {}])
def test_what_is_no_text_is_no_caption(coco, caption):
    notes = [{"image_id": 9, "caption": "first"}, {"image_id": 9, "caption": caption}]
    images = [{"id": 9, "file_name": "COCO_val2014_000000000009.jpg"}]
    write(coco / "coco_test_karpathy.json", {"images": images, "annotations": notes})

    with pytest.raises(DataError):
        opened("mscoco_captions", coco)


@pytest.fixture
def xtd(tmp_path):
    names = ["COCO_train2014_000000000002.jpg", "COCO_val2014_000000000001.jpg"]
    for i, name in enumerate(names):
        put(tmp_path / name.split("_")[1] / name, i)
    write(tmp_path / "test_image_names.txt", "\n".join(names) + "\n")
    write(tmp_path / "XTD10" / "test_1kcaptions_en.txt", "a cat\na dog\u2028here\n")
    write(tmp_path / "STAIR" / "test_1kcaptions_jp.txt", "猫\n犬\n")
    return tmp_path


def test_xtd_pairs_names_and_captions_line_by_line(xtd):
    assert [texts for _, _, texts in rows(opened("XTD", xtd))] == [("a cat",), ("a dog\u2028here",)]


@pytest.mark.parametrize("language", ["jp", "ja", "jpn_Jpan"])
def test_xtd_in_japanese_under_every_code(xtd, language):
    assert [texts for _, _, texts in rows(opened("multilingual_mscoco_captions", xtd, language))] == [("猫",), ("犬",)]


def test_xtd10_is_the_same_data_under_another_name(xtd):
    assert rows(opened("xtd10", xtd)) == rows(opened("XTD", xtd))


def test_a_caption_too_few_is_an_error(xtd):
    write(xtd / "XTD10" / "test_1kcaptions_en.txt", "a cat\n")

    with pytest.raises(DataError, match="1 caption for the 2 images"):
        opened("XTD", xtd)


@pytest.mark.parametrize("name", ["xtd200", "flickr30k-200"])
def test_xtd200_and_flickr30k_200_have_all_languages_of_flores(name):
    assert load_catalogue().entries[name].languages == flores_codes()


def test_xtd200_and_flickr30k_200_name_files_by_flores_code(tmp_path):
    put(tmp_path / "images" / "1.jpg")
    write(tmp_path / "test_image_names.txt", "1.jpg\n")
    write(tmp_path / "filenames.txt", "1.jpg\n")
    write(tmp_path / "deu_Latn.txt", "ein Hund\n")

    assert rows(opened("xtd200", tmp_path, "de"))[0][2] == ("ein Hund",)
    assert rows(opened("flickr30k-200", tmp_path, "deu_Latn"))[0][2] == ("ein Hund",)


def test_crossmodal_takes_the_first_caption(tmp_path):
    put(tmp_path / "images" / "abc.jpg")
    row = {"image/key": "abc", "de": {"caption": ["ein Tor", "noch eins"]}, "zh": {"caption": ["门"]}}
    write(tmp_path / "captions.jsonl", json.dumps(row) + "\n")

    assert rows(opened("crossmodal3600", tmp_path, "de")) == [("abc", None, ("ein Tor",))]
    assert rows(opened("crossmodal3600", tmp_path, "cn")) == [("abc", None, ("门",))]
    with pytest.raises(DataError, match="line 1: no caption in 'fr'"):
        opened("crossmodal3600", tmp_path, "fr")


# --------------------------------------------------------------------------------------------------- selection


def test_sugar_crepe_has_the_right_caption_first(tmp_path):
    put(tmp_path / "val2017" / "000000000001.jpg")
    entry = {"filename": "000000000001.jpg", "caption": "a red car", "negative_caption": "a blue car"}
    write(tmp_path / "swap_att.json", {"7": entry})

    dataset = opened("sugar_crepe/swap_att", tmp_path)

    assert dataset.info.kind == "selection"
    assert rows(dataset) == [("7", None, ("a red car", "a blue car"))]


def test_a_wrong_caption_that_is_no_text_is_refused(tmp_path):
    put(tmp_path / "val2017" / "000000000001.jpg")
    entry = {"filename": "000000000001.jpg", "caption": "a red car", "negative_caption": None}
    write(tmp_path / "swap_att.json", {"7": entry})

    with pytest.raises(DataError, match="neither a text"):
        opened("sugar_crepe/swap_att", tmp_path)


def test_winoground_has_two_samples_for_each_question(tmp_path):
    for i in (0, 1):
        put(tmp_path / "images" / f"ex_0_img_{i}.png", i)
    row = {"id": 0, "image_0": "ex_0_img_0", "image_1": "ex_0_img_1", "caption_0": "a b", "caption_1": "b a"}
    write(tmp_path / "examples.jsonl", json.dumps(row) + "\n")

    samples = list(iter_samples(opened("winoground", tmp_path)))

    assert [(sample.id, sample.texts) for sample in samples] == [("0/0", ("a b",)), ("0/1", ("b a",))]
    assert [sample.image.path.name for sample in samples] == ["ex_0_img_0.png", "ex_0_img_1.png"]
    assert {sample.meta["question"] for sample in samples} == {"0"}


def winoground_on_the_hub(folder):
    """Write the repository as the hub has it: the images in an archive."""
    row = {"id": 0, "image_0": "ex_0_img_0", "image_1": "ex_0_img_1", "caption_0": "a b", "caption_1": "b a"}
    write(folder / "data" / "examples.jsonl", json.dumps(row) + "\n")
    with zipfile.ZipFile(folder / "data" / "images.zip", "w") as archive:
        for i in (0, 1):
            archive.writestr(f"images/ex_0_img_{i}.png", encoded(noise_image(i)))
    return folder


def test_winoground_is_read_from_the_cache_of_the_hugging_face_client(tmp_path, monkeypatch):
    cache = tmp_path / "hub" / "datasets--facebook--winoground"
    write(cache / "refs" / "main", "abc123")
    winoground_on_the_hub(cache / "snapshots" / "abc123")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))

    for _ in range(2):  # the second time it is unpacked already
        samples = list(iter_samples(opened("winoground", tmp_path / "nothing here")))

        assert [(sample.id, sample.texts) for sample in samples] == [("0/0", ("a b",)), ("0/1", ("b a",))]
        assert [sample.image.read() for sample in samples] == [encoded(noise_image(i)) for i in (0, 1)]


def test_winoground_s_archive_may_lie_in_the_root(tmp_path):
    assert len(list(iter_samples(opened("winoground", winoground_on_the_hub(tmp_path / "root"))))) == 2


@pytest.mark.parametrize(
    ("member", "message"), [("../../evil.png", "is not an acceptable image"), (None, "Cannot unpack")]
)
def test_an_archive_that_is_hostile_or_damaged_is_refused(tmp_path, own_cache, member, message):
    archive = winoground_on_the_hub(tmp_path / "root") / "data" / "images.zip"
    if member:
        with zipfile.ZipFile(archive, "a") as opened_archive:
            opened_archive.writestr(member, b"x")
    else:
        archive.write_bytes(archive.read_bytes()[:-30])

    with pytest.raises(DataError, match=message):
        opened("winoground", tmp_path / "root")
    assert list((own_cache / "unpacked").iterdir()) == []


def test_winogavil_has_a_sample_for_each_candidate(tmp_path):
    for i, name in enumerate(("moon", "dog", "owl", "car", "sun")):
        put(tmp_path / "images" / f"{name}.jpg", i)
    write(
        tmp_path / "winogavil_test.csv",
        'cue,candidates,associations\nEvening,"[""moon"", ""dog"", ""owl"", ""car"", ""sun""]","[""moon"", ""owl""]"\n',
    )

    samples = list(iter_samples(opened("winogavil", tmp_path)))

    assert [sample.texts for sample in samples] == [("An evening",), (), ("An evening",), (), ()]
    assert {(sample.meta["question"], sample.meta["candidates"]) for sample in samples} == {("0", 5)}


# ------------------------------------------------------------------------------------------ metadata in shards


def test_columns_of_metadata_become_groups(tmp_path):
    fmow(tmp_path, [[3, 2016, 0], [5, 2017, 1]])

    manifest = read_manifest(opened("wilds/fmow", tmp_path))

    assert [entry.meta for entry in manifest.entries] == [
        {"region": 3, "year": 2016, "y": 0},
        {"region": 5, "year": 2017, "y": 1},
    ]
    assert [entry.label for entry in manifest.entries] == [0, 1]


def test_one_objective_of_several_is_the_label(tmp_path):
    fmow(tmp_path, [[2, 1, 0, 0], [4, 0, 1, 1]], names="race:black\nrace:white\ngender:male\ngender:female\n")
    write(tmp_path / "zeroshot_classification_templates.txt", "race:a {c} person\ngender:a {c} face\n")

    gender = read_manifest(opened("fairness/fairface/gender", tmp_path))
    race = read_manifest(opened("fairness/fairface", tmp_path))

    assert gender.info.classnames == ("male", "female")
    assert gender.info.templates == ("a {c} face",)
    assert [entry.label for entry in gender.entries] == [1, 0]
    assert [entry.label for entry in race.entries] == [0, 1]


def fmow(root, columns, names="airport\nzoo\n"):
    from support.data import labels_to_npy, png, write_shards

    write(root / "classnames.txt", names)
    write(root / "zeroshot_classification_templates.txt", "{c}\n")
    rows = [
        [(f"s{i:07d}.png", png(i)), (f"s{i:07d}.cls", str(i).encode()), (f"s{i:07d}.npy", labels_to_npy(values))]
        for i, values in enumerate(columns)
    ]
    write_shards(root / "test", rows, 1)


def test_an_archive_that_another_process_unpacked_meanwhile_is_not_replaced(tmp_path):
    """Its images may be being read."""
    target = tmp_path / "unpacked"
    with new_folder(target, overwrite=False) as folder:
        (folder / "image.png").write_bytes(b"mine")
        target.mkdir()
        (target / "image.png").write_bytes(b"theirs")

    assert [path.read_bytes() for path in tmp_path.rglob("*.png")] == [b"theirs"]
