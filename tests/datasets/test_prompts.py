"""Class names and templates of named datasets: the prompt pack, other languages, the user's own files."""

import json
import zipfile
from pathlib import Path

import pytest

from eyechart.cli import make_parser
from eyechart.cli.flags.eval_flags import settings_of
from eyechart.config import make_config
from eyechart.datasets import prompt_pack
from eyechart.datasets.class_texts import subset_indices, wnids
from eyechart.datasets.registry import open_dataset
from eyechart.datasets.resolve import resolve_dataset
from eyechart.errors import DataError, EyechartError, UsageError
from eyechart.manifest import read_manifest
from eyechart.plan import plan_jobs
from support.data import encoded, noise_image, write_classification

FACTS = json.loads((Path(__file__).parent.parent / "data" / "facts" / "datasets.json").read_text())
TINY = {"model_type": "onnx", "model": ["eyechart-tiny"], "pretrained": ["eyechart-tiny"]}


def put(path, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(noise_image(seed), "jpg"))


@pytest.fixture
def imagenet(tmp_path):
    """A small ImageNet: two images of classes 0, 6 and 999."""
    root = tmp_path / "imagenet-1k"
    for index in (0, 6, 999):
        for i in range(2):
            put(root / "val" / list(wnids())[index] / f"ILSVRC2012_val_{index:04d}{i}.JPEG", index + i)
    return root


def open_named(name, root, language="en", **options):
    return open_dataset(resolve_dataset(name, str(root), language=language, options=options))


# --------------------------------------------------------------------------------------------------- the pack


def test_the_pack_has_exactly_the_published_lists(pack):
    for file in FACTS["packaged_data_files"]:
        content = prompt_pack.read_member(file["file"])
        if "languages" in (file["counts"] or {}):
            assert len(content) == file["counts"]["languages"]
        elif file["counts"]:
            assert {key: len(value) for key, value in content.items()} == file["counts"]


def test_it_is_fetched_once(pack, monkeypatch):
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("the pack is in the cache"))

    assert len(prompt_pack.classnames("imagenet1k", "en")) == 1000


def test_an_altered_pack_is_refused(pack):
    with zipfile.ZipFile(pack) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content["clip_benchmark/datasets/en_classnames.json"] += b" "
    with zipfile.ZipFile(pack, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)

    with pytest.raises(DataError, match="differs from the published file"):
        prompt_pack.classnames("imagenet1k", "en")


def test_a_broken_pack_is_refused(pack):
    pack.write_bytes(b"no archive")

    with pytest.raises(DataError, match="Cannot read en_classnames"):
        prompt_pack.classnames("imagenet1k", "en")


def test_offline_without_it_says_where_to_put_it(own_cache):
    with pytest.raises(DataError, match="--offline disables") as caught:
        prompt_pack.classnames("imagenet1k", "en", offline=True)

    assert "pip download --no-deps clip-benchmark==1.6.2" in caught.value.advice
    assert str(own_cache / "prompts" / prompt_pack.WHEEL) in caught.value.advice


def test_a_failing_pip_is_quoted(own_cache, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(DataError, match=r"pip failed: .*No matching distribution"):
        prompt_pack.classnames("imagenet1k", "en")

    assert not list(own_cache.rglob("*.whl"))


# ------------------------------------------------------------------------------------------------- languages


@pytest.mark.parametrize(
    ("language", "first", "templates"),
    [("en", "tench", 80), ("cn", "丁鲷", 80), ("zho_Hans", "丁鲷", 80), ("jp", "テンチ", 37), ("it", "una tinca", 49)],
)
def test_imagenet_speaks_the_languages_of_the_pack(pack, imagenet, language, first, templates):
    info = open_named("imagenet1k", imagenet, language).info

    assert info.language == language
    assert len(info.classnames) == 1000
    assert info.classnames[0] == first
    assert len(info.templates) == templates


def test_arabic_keeps_its_stray_spaces(pack, imagenet):
    info = open_named("imagenet1k", imagenet, "ar").info

    assert len(info.templates) == 55
    assert sum(name != name.strip() for name in info.classnames) == 18


@pytest.mark.parametrize("name", ["imagenet-a", "imagenet-r", "imagenet-o"])
def test_subsets_have_the_names_of_their_classes(pack, tmp_path, name):
    ids = list(wnids())
    indices = subset_indices(name)
    for i in (0, 100, 199):
        put(tmp_path / ids[indices[i]] / "0.jpg", i)

    manifest = read_manifest(open_named(name, tmp_path))

    assert [entry.label for entry in manifest.entries] == [0, 100, 199]
    full = prompt_pack.classnames("imagenet1k", "en")
    assert manifest.info.classnames == tuple(full[i] for i in indices)


def test_a_webdataset_of_a_known_name_speaks_the_pack_s_languages(pack, tmp_path):
    names = tuple(prompt_pack.classnames("imagenet1k", "en"))
    write_classification(tmp_path / "full", classes=names, n=3)
    write_classification(tmp_path / "part", classes=tuple(names[i] for i in subset_indices("imagenet-a")), n=3)
    chinese = prompt_pack.classnames("imagenet1k", "zh")

    full = open_named("imagenet1k", tmp_path / "full", "cn").info
    part = open_named("wds/imagenet-a", tmp_path / "part", "cn").info

    assert full.classnames == chinese
    assert part.classnames == tuple(chinese[i] for i in subset_indices("imagenet-a"))
    assert len(full.templates) == len(part.templates) == 80


def test_babel_imagenet_has_the_classes_of_a_language(pack, imagenet):
    manifest = read_manifest(open_named("babel_imagenet", imagenet, "de"))

    assert len(manifest.info.classnames) == 738
    assert len(manifest.info.templates) == 80
    assert all("{c}" in template for template in manifest.info.templates)
    indices, names = prompt_pack.babel_classes("de")
    kept = [index for index in (0, 6, 999) if index in indices]
    assert [manifest.info.classnames[entry.label] for entry in manifest.entries] == [
        names[indices.index(index)] for index in kept for _ in range(2)
    ]


def test_babel_imagenet_without_prompts_needs_the_user_s(pack, imagenet, tmp_path):
    templates = tmp_path / "latin.txt"
    templates.write_text("imago {c}\n")

    with pytest.raises(DataError, match="no prompts in 'la'"):
        open_named("babel_imagenet", imagenet, "la")

    info = open_named("babel_imagenet", imagenet, "la", template_file=str(templates)).info
    assert (len(info.classnames), info.templates) == (276, ("imago {c}",))


# ------------------------------------------------------------------------------------- templates and fallbacks


def test_borrowed_templates_are_noticed_and_counted(pack, tmp_path):
    put(tmp_path / "caltech101" / "101_ObjectCategories" / "x" / "0.jpg")
    info = open_named("objectnet", objectnet(tmp_path)).info

    assert len(info.templates) == 80
    assert [(note.kind, note.count) for note in info.notes] == [("fallback_templates", 1)]


def objectnet(root):
    mappings = root / "objectnet-1.0" / "mappings"
    mappings.mkdir(parents=True)
    (mappings / "folder_to_objectnet_label.json").write_text(json.dumps({"air_freshener": "Air freshener"}))
    (mappings / "objectnet_to_imagenet_1k.json").write_text(json.dumps({"Air freshener": "x"}))
    put(root / "objectnet-1.0" / "images" / "air_freshener" / "a.png")
    return root


def test_own_templates_are_not_borrowed(pack, imagenet):
    assert open_named("imagenet1k", imagenet).info.notes == ()


def test_a_file_of_the_pack_can_be_named(pack, imagenet):
    info = open_named("imagenet1k", imagenet, template_file="cupl_prompts.json").info

    assert len(info.class_prompts) == 998
    assert info.class_prompts["tench"][0] == "A tench is a freshwater fish of the carp family."
    assert info.notes == ()


def test_relatives_of_imagenet_find_its_entry_in_a_custom_file(pack, tmp_path, imagenet):
    put(tmp_path / "v2" / "imagenetv2-matched-frequency-format-val" / "7" / "a.jpeg")
    own = tmp_path / "own.json"
    own.write_text(json.dumps({"imagenet1k": ["{c}!"]}))

    dataset = open_named("imagenetv2", tmp_path / "v2", template_file=str(own))

    assert dataset.info.templates == ("{c}!",)
    assert dataset.info.notes == ()
    assert [entry.label for entry in read_manifest(dataset).entries] == [7]


def test_a_custom_file_without_the_dataset_lends_imagenet_s_and_says_so(pack, tmp_path):
    own = tmp_path / "own.json"
    own.write_text(json.dumps({"imagenet1k": ["{c}!"]}))

    info = open_named("dummy", tmp_path, template_file=str(own)).info

    assert info.templates == ("{c}!",)
    assert [note.kind for note in info.notes] == ["fallback_templates"]


def test_the_empty_class_name_of_clevr_is_allowed_in_the_pack(pack):
    assert "" in prompt_pack.classnames("clevr_closest_object_distance", "en")


def test_cupl_is_short_for_its_file(pack, imagenet, tmp_path):
    words = ["eval", "--dataset", "imagenet1k", "--dataset_root", str(imagenet), "--model_type", "onnx", "--model",
             "eyechart-tiny", "--cupl", "--output", str(tmp_path / "r.json")]  # fmt: skip
    parser = make_parser("eyechart", "eval")

    (job,) = plan_jobs(make_config(settings_of(parser.parse_args(words))))

    assert job.dataset.options["template_file"] == "cupl_prompts.json"
    with pytest.raises(SystemExit):
        parser.parse_args([*words, "--custom_template_file", "mine.txt"])


# -------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("template", "message"),
    [("a photo", "has no {c}"), ("a {c} {d}", "stray braces"), ("a {c", "has no {c}")],
)
def test_a_template_without_its_place_is_refused_when_planning(pack, tmp_path, template, message):
    own = tmp_path / "own.txt"
    own.write_text(template + "\n")

    with pytest.raises(EyechartError, match=message):
        plan_jobs(make_config({**TINY, "dataset": ["dummy"], "custom_template_file": own}))


def test_class_names_that_do_not_fit_the_folders_are_refused(pack, tmp_path):
    for name in ("angry", "happy"):
        put(tmp_path / "test" / name / "0.jpg")

    with pytest.raises(DataError, match="7 class names for 2 folders"):
        open_named("fer2013", tmp_path)


def test_class_names_that_do_not_fit_the_labels_are_refused(pack, imagenet, tmp_path):
    own = tmp_path / "names.json"
    own.write_text(json.dumps({"imagenet1k": ["a", "b", "c"]}))

    with pytest.raises(DataError, match="has label 6, but there are 3 class names"):
        read_manifest(open_named("imagenet1k", imagenet, classname_file=str(own)))


def test_a_custom_file_that_is_nowhere_is_refused(imagenet):
    with pytest.raises(UsageError, match=r"There is no file gone\.json"):
        open_named("imagenet1k", imagenet, template_file="gone.json", classname_file="gone.json")


@pytest.mark.parametrize(
    ("name", "language", "classes"), [("mnist", "en", 10), ("wds/mnist", "en", 10), ("wds/imagenet1k", "it", 1000)]
)
def test_a_webdataset_under_a_name_of_the_catalogue_needs_no_list_of_classes(pack, tmp_path, name, language, classes):
    root = write_classification(tmp_path, n=4, labels=[0, 1, 2, 3])
    for file in root.glob("*.txt"):
        file.unlink()

    info = open_named(name, root, language).info

    assert len(info.classnames) == classes
    assert info.templates
    assert len(read_manifest(open_named(name, root, language))) == 4


def test_a_dataset_that_the_catalogue_has_no_class_names_for_says_where_to_add_them(tmp_path):
    root = write_classification(tmp_path, n=4)
    (root / "classnames.txt").unlink()

    with pytest.raises(EyechartError, match="has no class names") as caught:
        _ = open_named("wds/anything", root).info
    assert "classnames.txt" in caught.value.advice
