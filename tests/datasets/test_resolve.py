"""From names to places: what is on disk first, then hubs, else advice."""

from dataclasses import replace

import pytest

from eyechart.config import make_config
from eyechart.datasets.catalogue import load_catalogue
from eyechart.datasets.resolve import prompt_options, resolve_dataset
from eyechart.errors import DataError, EyechartError, LanguageError, UsageError
from eyechart.plan import dataset_names, plan_jobs
from support.data import write_classification, write_retrieval

TINY = {"model_type": "onnx", "model": ["eyechart-tiny"], "pretrained": ["eyechart-tiny"]}


def test_a_webdataset_in_the_root_is_used_first(tmp_path):
    write_classification(tmp_path)

    spec = resolve_dataset("imagenet1k", str(tmp_path))

    assert (spec.reader, spec.root) == ("wds", str(tmp_path))


def test_the_original_layout_in_the_root_is_used_next(tmp_path):
    (tmp_path / "val" / "n01440764").mkdir(parents=True)

    spec = resolve_dataset("imagenet1k", str(tmp_path))

    assert (spec.reader, spec.root) == ("imagenet", str(tmp_path))


def test_else_the_hub_is_used():
    spec = resolve_dataset("imagenet1k", "root")  # the default, which need not exist

    assert (spec.reader, spec.root) == (
        "wds",
        "https://huggingface.co/datasets/clip-benchmark/wds_imagenet1k/tree/main",
    )


@pytest.mark.parametrize("name", ["wds/imagenet1k", "mteb/STS12"])
@pytest.mark.parametrize(("root", "missing"), [("nowhere/here", "nowhere/here"), ("nowhere/{dataset}", "nowhere")])
def test_a_missing_root_is_named_instead_of_asking_the_hub(name, root, missing):
    with pytest.raises(DataError, match=f"There is no folder {missing}\\.\nCheck --dataset-root"):
        resolve_dataset(name, root)


def test_an_address_as_root_is_a_webdataset_there():
    root = "https://huggingface.co/datasets/clip-benchmark/wds_{dataset_cleaned}/tree/main"

    spec = resolve_dataset("wds/vtab/cifar10", root)

    assert (spec.reader, spec.root) == ("wds", root.replace("{dataset_cleaned}", "vtab-cifar10"))


def test_general_templates_are_used_only_where_a_dataset_has_neither_kind():
    entry = replace(load_catalogue().entries["imagenet1k"], kind="classification", templates="", own_templates=())

    assert prompt_options(entry)["prompts"]["fallback"]
    assert "fallback" not in prompt_options(replace(entry, templates="imagenet1k"))["prompts"]
    assert "fallback" not in prompt_options(replace(entry, own_templates=("a {c}",)))["prompts"]


def test_a_library_s_own_download_goes_into_the_root():
    spec = resolve_dataset("cifar10", "root")

    assert (spec.reader, spec.root, spec.options["source"]["dataset"]) == ("torchvision", "root", "CIFAR10")


def test_a_dataset_on_another_one_s_images_is_read_through_it(tmp_path):
    (tmp_path / "val" / "n01440764").mkdir(parents=True)

    spec = resolve_dataset("babel_imagenet", str(tmp_path), language="de")

    assert (spec.reader, spec.options["base"], spec.options["language"]) == ("babel_imagenet", "imagenet", "de")


def test_a_manual_download_says_what_to_get_where_from_and_where_to_put_it():
    with pytest.raises(DataError) as caught:
        resolve_dataset("birdsnap", "data/birds")

    assert "species.txt" in caught.value.advice
    assert "https://" in caught.value.advice
    assert "data/birds/species.txt" in caught.value.advice


def test_the_steps_of_the_base_are_told():
    with pytest.raises(DataError, match=r"train2014\.zip"):
        resolve_dataset("xtd10", "root")


def test_offline_a_library_does_not_download():
    with pytest.raises(DataError, match="run once without --offline"):
        resolve_dataset("cifar100", "root", options={"offline": True})


def test_an_unknown_name_lists_the_three_nearest():
    with pytest.raises(UsageError, match="Did you mean cifar10, cifar100 or vtab_cifar10"):
        resolve_dataset("cifra10", "root")


@pytest.mark.parametrize(
    ("name", "language", "message"),
    [
        ("cifar10", "jp", r"'jp' \(Japanese\).\nAvailable: en\."),
        ("imagenet1k", "fr", "Available: ar, en, it, ja, zh"),
        ("muge", "en", "Available: zh"),
        ("xtd200", "la", "and 161 more"),
        ("flickr30k", "zho_Hant", r"Chinese \(traditional\)"),
    ],
)
def test_a_language_that_is_not_there_is_never_replaced(name, language, message, tmp_path):
    with pytest.raises(LanguageError, match=message):
        resolve_dataset(name, str(tmp_path), language=language)


def test_own_names_and_templates_bring_their_own_language():
    files = {"classname_file": "names.json", "template_file": "templates.json"}

    assert resolve_dataset("cifar10", "root", language="fr", options=files).language == "fr"


def test_a_hub_without_the_language_is_not_used(tmp_path):
    (tmp_path / "Images").mkdir()

    assert resolve_dataset("flickr30k", "root").reader == "wds"
    assert resolve_dataset("flickr30k", str(tmp_path), language="cn").reader == "flickr_captions"
    with pytest.raises(DataError, match="flickr30k_cn_test"):
        resolve_dataset("flickr30k", "nowhere", language="cn")


def test_a_split_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match="Available: train, val, test"):
        resolve_dataset("dtd", "root", split="dev")


# ------------------------------------------------------------------------------------------------- collections


def test_collections_list_files_and_names_mix_and_nothing_is_run_twice(tmp_path):
    (tmp_path / "mine.txt").write_text("mnist\n# a comment\nsun397\n")
    config = make_config({"dataset": ["retrieval", str(tmp_path / "mine.txt"), "sun397", "wds/x"]})

    assert dataset_names(config) == ["mscoco_captions", "flickr8k", "flickr30k", "mnist", "sun397", "wds/x"]


def test_vtab_plus_has_36_datasets():
    assert len(dataset_names(make_config({"dataset": ["vtab+"]}))) == 36


@pytest.fixture
def own(tmp_path, monkeypatch):
    path = tmp_path / "mine.toml"
    path.write_text(
        """
        [datasets.our_screws]
        title = "Screws from our line"
        kind = "classification"
        languages = ["en", "de"]
        splits = ["test"]
        licence = "internal"
        citation = "ourselves"
        metric = "acc1"
        classes = 3
        own_templates = ["a screw of type {c}"]
        sources = [{ reader = "folder", present = ["screws"], folders = ["screws"] }]

        [collections]
        ours = ["our_screws", "cifar10"]
        """
    )
    return path


def test_a_user_s_file_adds_datasets_and_collections(own, tmp_path):
    (tmp_path / "screws").mkdir()
    catalogue = load_catalogue([str(own)])

    spec = resolve_dataset("our_screws", str(tmp_path), options={"catalogue": [str(own)]})

    assert catalogue.collections["ours"] == ("our_screws", "cifar10")
    assert catalogue.collections["vtab+"] == load_catalogue().collections["vtab+"]
    assert (spec.reader, spec.options["source"]["folders"]) == ("folder", ["screws"])
    assert load_catalogue().find("our_screws") is None


def test_the_environment_may_name_the_file(own, monkeypatch):
    monkeypatch.setenv("EYECHART_CATALOGUE", str(own))

    assert dataset_names(make_config({"dataset": ["ours"]})) == ["our_screws", "cifar10"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[broken", "not valid TOML"),
        ("[dataset.x]\n", "unknown table 'dataset'"),
        ('[collections]\nx = "cifar10"\n', "must be a list of names"),
        ('[collections]\nvtab = ["cifar10"]\n', "already in the catalogue"),
        ("[datasets.cifar10]\n", "already in the catalogue"),
        ("[datasets.x]\n", "title: missing"),
        ("[datasets]\nx = 5\n", "'x' is invalid"),
        ("datasets = []\n", "must be tables"),
    ],
)
def test_a_wrong_file_of_the_user_is_explained(tmp_path, text, message):
    path = tmp_path / "mine.toml"
    path.write_text(text)

    with pytest.raises(EyechartError, match=message):
        load_catalogue([str(path)])


def test_a_second_file_does_not_replace_what_the_first_one_says(own, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text(own.read_text().replace("folders = [", 'note = "another", folders = ['))

    assert load_catalogue([str(own), str(own)]).find("our_screws")
    with pytest.raises(UsageError, match=r"other\.toml: 'our_screws' is already in the catalogue"):
        load_catalogue([str(own), str(other)])


@pytest.mark.parametrize("name", ["t.csv", "t.CSV", "T.Tsv", "t.JSONL"])
def test_a_table_is_known_by_its_suffix_in_any_case(name, tmp_path):
    (tmp_path / name).write_text("image,label\n")

    assert resolve_dataset(str(tmp_path / name), "unused").reader == "table"


@pytest.mark.parametrize("name", ["image_labels.csv", "image_queries.jsonl", "pairs.jsonl"])
def test_a_folder_is_known_by_the_file_in_it(name, tmp_path):
    (tmp_path / name).write_text("")
    reader = {"image_labels.csv": "table", "image_queries.jsonl": "jsonl", "pairs.jsonl": "pairs"}[name]
    place = str(tmp_path / name if reader == "table" else tmp_path)

    for spec in (resolve_dataset(str(tmp_path), ""), resolve_dataset("custom", str(tmp_path))):
        assert (spec.reader, spec.root) == (reader, place)


# --------------------------------------------------------------------------------------------------- planning


def test_languages_that_a_dataset_lacks_are_left_out_of_a_matrix_and_told(tmp_path):
    write_classification(tmp_path / "cifar10")
    write_retrieval(tmp_path / "flickr30k", captions=[["a"], ["b"]])
    said = []
    settings = {"dataset": ["cifar10"], "dataset_root": str(tmp_path / "{dataset}"), "language": ["en", "jp"]}

    jobs = plan_jobs(make_config({**TINY, **settings, "output": str(tmp_path / "{language}.json")}), say=said.append)

    assert [job.dataset.language for job in jobs] == ["en"]
    assert said == ["Skipped: cifar10 is not available in 'jp' (Japanese). Available: en."]


def test_when_nothing_is_left_it_is_an_error(tmp_path):
    write_classification(tmp_path / "cifar10")

    with pytest.raises(LanguageError):
        plan_jobs(
            make_config({**TINY, "dataset": ["cifar10"], "dataset_root": str(tmp_path / "cifar10"), "language": ["jp"]})
        )


def test_auto_takes_the_task_from_the_data_of_a_named_set(tmp_path):
    write_classification(tmp_path / "imagenet1k")
    write_retrieval(tmp_path / "mscoco_captions2017", captions=[["a"], ["b"]])
    settings = {"dataset": ["imagenet1k", "mscoco_captions2017"], "dataset_root": str(tmp_path / "{dataset}")}

    jobs = plan_jobs(make_config({**TINY, **settings, "output": str(tmp_path / "{dataset}.json")}))

    assert [job.task for job in jobs] == ["zeroshot_classification", "zeroshot_retrieval"]


def test_where_files_are_cached_does_not_make_it_another_job(tmp_path):
    write_classification(tmp_path / "x")
    settings = {**TINY, "dataset": ["wds/x"], "dataset_root": str(tmp_path / "x"), "output": str(tmp_path / "r.json")}

    (plain,) = plan_jobs(make_config(settings))
    (other,) = plan_jobs(make_config({**settings, "offline": True, "wds_cache_dir": "elsewhere"}))

    assert plain.digest == other.digest
