"""What `eyechart list` and `eyechart info` tell."""

import json
import subprocess
import sys

import pytest

from eyechart.cli import main
from eyechart.datasets.catalogue import load_catalogue


def lines(capsys, *words):
    assert main(["list", *words]) == 0
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def names(capsys, *words):
    return {line[0] for line in lines(capsys, *words)}


def test_every_named_dataset_is_listed_with_size_and_needs(capsys):
    rows = {row[0]: row[1:] for row in lines(capsys, "datasets")}

    assert set(load_catalogue().entries) <= set(rows)
    assert rows["cifar10"][:4] == ["classification", "10", "10000", "en"]
    assert rows["flickr30k"][:4] == ["retrieval", "1000", "en,zh", "download"]


def test_the_head_is_not_part_of_the_output(capsys):
    main(["list", "datasets"])
    printed = capsys.readouterr()

    assert printed.err.startswith("NAME")
    assert not printed.out.startswith("NAME")


def test_filters_narrow_the_list(capsys):
    assert names(capsys, "datasets", "--collection", "retrieval") == {"mscoco_captions", "flickr8k", "flickr30k"}
    assert names(capsys, "datasets", "--kind", "multilabel") == {"voc2007_multilabel"}
    assert "muge" in names(capsys, "datasets", "--language", "zho_Hans")
    assert "cifar10" not in names(capsys, "datasets", "--language", "cn")
    assert names(capsys, "datasets", "--search", "sketch") == {"imagenet_sketch"}
    assert names(capsys, "datasets", "--search", "vidore") > {"vidore-v1", "vidore-v2", "vidore-v3"}
    assert {"birdsnap", "winoground"} <= names(capsys, "datasets", "--needs", "manual")
    assert "vtab/cub" in names(capsys, "datasets", "--needs", "tfds")
    assert names(capsys, "datasets", "--needs", "nothing") == {"dummy"}


def test_collections_name_their_members(capsys):
    rows = {row[0]: row[1:] for row in lines(capsys, "collections")}

    assert rows["vtab+"][:2] == ["datasets", "36"]
    assert rows["sugar_crepe"][2:4] == ["sugar_crepe/add_att", "sugar_crepe/add_obj"]
    assert rows["openai"][:3] == ["models", "4", "ViT-B-32,openai"]


def test_languages_have_their_other_codes(capsys):
    rows = {row[0]: row[1:] for row in lines(capsys, "languages")}

    assert rows["zh"][0] == "zho_Hans,cn,zh-CN,zh-Hans"
    assert int(rows["en"][1]) > 80


@pytest.mark.parametrize(("what", "name"), [("tasks", "zeroshot_retrieval"), ("families", "onnx")])
def test_tasks_and_models_say_what_they_are(capsys, what, name):
    rows = {row[0]: row[1:] for row in lines(capsys, what)}

    assert len(rows[name]) > 3


def test_families_are_those_a_user_can_select_without_markup(capsys):
    rows = {row[0]: " ".join(row[1:]) for row in lines(capsys, "families")}

    assert "object" not in rows
    assert not [text for text in rows.values() if "`" in text]


@pytest.mark.parametrize("command", ["list", "info", "bench"])
def test_a_command_without_its_argument_says_what_it_can_do(capsys, command):
    with pytest.raises(SystemExit) as ended:
        main([command])

    printed = capsys.readouterr()
    assert (ended.value.code, printed.err) == (0, "")
    assert f"examples:\n  eyechart {command} " in printed.out


def test_a_search_with_a_typo_finds_near_names(capsys):
    assert main(["list", "datasets", "--search", "cifr"]) == 0

    printed = capsys.readouterr()
    assert {"cifar10", "cifar100", "vtab/cifar100"} <= {line.split()[0] for line in printed.out.splitlines()}
    assert "imagenet1k" not in printed.out
    assert "No name or title contains 'cifr'; similar names:" in printed.err


def test_without_open_clip_a_search_for_its_models_says_how_to_get_them(capsys, monkeypatch):
    monkeypatch.setattr("eyechart.models.resolve.find_spec", lambda name: None)
    assert main(["list", "models", "--search", "siglip"]) == 0

    said = capsys.readouterr()
    assert said.out == ""
    assert "pip install 'eyechart[open-clip]'" in said.err
    assert "FAMILY" not in said.err


def test_a_search_for_nonsense_finds_nothing(capsys):
    assert names(capsys, "datasets", "--search", "zzzzqqqq") == set()


def test_models_are_listed_as_they_are_written(capsys):
    rows = {row[0]: row[1] for row in lines(capsys, "models")}

    assert rows["ViT-B-32:openai"] == rows["ViT-L-14:laion2b_s32b_b82k"] == "open_clip"
    assert rows["eyechart-tiny"] == "onnx"
    assert set(rows.values()) == {"onnx", "open_clip"}  # families have a list of their own
    assert names(capsys, "models", "--search", "vit-b-32:opnai") & {"ViT-B-32:openai"}
    assert names(capsys, "models", "--search", "vitb32") & {"ViT-B-32:openai"}


def test_info_tells_all_of_a_dataset(capsys):
    assert main(["info", "XTD", "--dataset_root", "data/coco"]) == 0

    printed = capsys.readouterr().out
    for part in ("multilingual_mscoco_captions", "ja", "image_retrieval_recall@5", "CC BY 4.0", "data/coco/val2014"):
        assert part in printed


def test_info_as_json(capsys):
    assert main(["info", "vtab_resisc45", "--json"]) == 0

    facts = json.loads(capsys.readouterr().out)
    assert facts["name"] == "vtab/resisc45"
    assert facts["classes"] == 45
    assert facts["DataComp"]["size"] == 6300


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("retrieval", "mscoco_captions"),
        ("jpn_Jpan", "Japanese"),
        ("zeroshot_classification", "acc1"),
        ("onnx", "model type"),
        ("MMBench_DEV_EN", "MCQ"),
    ],
)
def test_info_knows_other_names_too(capsys, name, part):
    assert main(["info", name]) == 0

    assert part in capsys.readouterr().out


def test_an_unknown_name_has_near_ones(capsys):
    assert main(["info", "flckr8k"]) == 2

    assert "flickr8k" in capsys.readouterr().err


def test_an_unknown_collection_is_refused(capsys):
    assert main(["list", "datasets", "--collection", "retreival"]) == 2

    assert "Did you mean retrieval?" in capsys.readouterr().err


def test_help_does_not_load_the_catalogue():
    code = (
        "import sys\nfrom eyechart.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "assert not any('catalogue' in name for name in sys.modules), 'loaded'\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "export" in done.stdout


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("xm3600", "crossmodal3600"),
        ("aro", "aro/NAME"),
        ("imagecode", "imagecode/NAME"),
        ("ImageCoDe", "imagecode/NAME"),
        ("cv_bench", "CV-Bench-2D"),
        ("cvbench", "CV-Bench-3D"),
        ("MMBench DEV", "MMBench_DEV_EN"),
        ("stanford-cars", "cars"),
    ],
)
def test_a_search_finds_other_spellings_and_formats(capsys, text, name):
    assert name in names(capsys, "datasets", "--search", text)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("xm3600", "Crossmodal-3600"), ("aro", "eyechart eval aro/NAME"), ("imagecode", "sets of ten similar images")],
)
def test_info_knows_other_spellings_and_formats(capsys, name, shown):
    assert main(["info", name]) == 0
    assert shown in " ".join(capsys.readouterr().out.split())


def test_a_name_without_its_punctuation_or_ending_is_suggested(capsys):
    assert main(["info", "cv_bench"]) == 2
    assert "CV-Bench-2D" in capsys.readouterr().err
