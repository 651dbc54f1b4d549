import json

import pytest

from eyechart.datasets.webdataset import open_webdataset
from eyechart.errors import EyechartError
from eyechart.types import DatasetSpec
from support.data import write_classification


def info(root, name="wds/vtab/x", **options):
    return open_webdataset(DatasetSpec(name, "wds", str(root), options=options)).info


@pytest.fixture
def root(tmp_path):
    return write_classification(tmp_path / "data", n=3, shards=1)


@pytest.mark.parametrize("key", ["wds/vtab/x", "vtab/x", "x"])
def test_own_class_names_and_templates_are_found_under_every_form_of_the_name(root, tmp_path, key):
    names, templates = tmp_path / "names.json", tmp_path / "templates.json"
    names.write_text(json.dumps({key: ["A", "B", "C"], "other": ["no"]}))
    templates.write_text(json.dumps({key: ["{c}!"]}))

    found = info(root, classname_file=str(names), template_file=str(templates))

    assert found.classnames == ("A", "B", "C")
    assert found.templates == ("{c}!",)


def test_the_names_of_a_dataset_in_another_order_would_swap_its_labels(root, tmp_path):
    names = tmp_path / "names.txt"
    own = info(root).classnames
    names.write_text("".join(f"{name.upper()}\n" for name in own))
    assert info(root, classname_file=str(names)).classnames == tuple(map(str.upper, own))

    names.write_text("".join(f"{name.upper()}\n" for name in reversed(own)))
    with pytest.raises(EyechartError, match="a different order"):
        info(root, classname_file=str(names))


def test_own_lists_may_be_plain_text(root, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("A\nB\nC\n")

    assert info(root, classname_file=str(names)).classnames == ("A", "B", "C")


def test_a_mapping_gives_each_class_its_own_prompts(root, tmp_path):
    path = tmp_path / "cupl.json"
    path.write_text(json.dumps({"x": {"cat": ["it purrs"], "dog": ["it barks", "it wags"], "bird": ["it sings"]}}))

    found = info(root, template_file=str(path))

    assert found.class_prompts == {"cat": ("it purrs",), "dog": ("it barks", "it wags"), "bird": ("it sings",)}
    assert found.templates == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"other": ["A"]}', "no entry for 'wds/vtab/x'"),
        ("{broken", "not valid JSON"),
        ('{"x": "A"}', "must be a list"),
        ('{"x": ["A", "", "C"]}', "class 1 has no name"),
    ],
)
def test_a_bad_file_of_class_names_is_an_error(root, tmp_path, content, message):
    path = tmp_path / "names.json"
    path.write_text(content)

    with pytest.raises(EyechartError, match=message):
        info(root, classname_file=str(path))


def test_a_missing_file_is_an_error(root):
    with pytest.raises(EyechartError, match="no file nowhere"):
        info(root, classname_file="nowhere.json")


@pytest.mark.parametrize("prompt", [None, " ", 3])
def test_a_prompt_of_a_class_is_a_text(root, tmp_path, prompt):
    path = tmp_path / "cupl.json"
    path.write_text(json.dumps({"x": {"cat": ["it purrs", prompt], "dog": ["it barks"], "bird": ["it sings"]}}))

    with pytest.raises(EyechartError, match="blank or not text"):
        info(root, template_file=str(path))
