"""The catalogue against the collected facts (tests/data/facts): every name, alias and figure, without a network."""

import json
import re
import socket
from pathlib import Path

import pytest

from eyechart.datasets.catalogue import load_catalogue
from eyechart.datasets.registry import READERS as KNOWN_READERS
from eyechart.datasets.resolve import resolve_dataset
from eyechart.languages import canonical
from eyechart.tasks.registry import TASK_OF_KIND

FACTS = Path(__file__).parent.parent / "data" / "facts"
DATASETS = json.loads((FACTS / "datasets.json").read_text())
DATACOMP = json.loads((FACTS / "datacomp_tasks.json").read_text())["tasks"]
EVALSCOPE = (FACTS / "evalscope_names.txt").read_text().split()
NAMED = [fact for fact in DATASETS["datasets"] if "<" not in fact["name"]]
ALIASES = [(alias, fact["name"]) for fact in NAMED for alias in fact["aliases"]]
EXTRA_LANGUAGES = {"mscoco_captions": {"zh"}}
"""Chinese of the InternVL fork, which the facts list under fork_languages."""
READERS = {
    "torchvision": {"torchvision", "imagenet"},
    "ImageFolder": {"imagenet", "folder"},
    "download": {"imagenet"},
    "custom ImageFolder": {"objectnet"},
    "custom torchvision": {"folder"},
    "custom": {"voc"},
    "fork Birdsnap": {"birdsnap"},
    "1 black image": {"dummy"},
    "tensorflow_datasets": {"tfds"},
    "CocoCaptions": {"coco_captions"},
    "Flickr30k captions": {"parallel_captions"},
    "Flickr": {"flickr_captions"},
    "XTD10": {"parallel_captions"},
    "captions.jsonl": {"crossmodal3600"},
    "HF facebook/winoground": {"winoground"},
    "COCO val2017": {"sugar_crepe"},
    "evalscope only": {"wds"},
}
"""How the facts' words for a source begin, and the reader that must be among an entry's sources."""
CATALOGUE = load_catalogue()


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*_):
        raise AssertionError("resolving a name must not open a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def names(facts):
    return [fact["name"] for fact in facts]


def test_the_facts_hold_what_the_issue_says():
    assert len(DATASETS["datasets"]) == 81
    assert len(EVALSCOPE) == 43
    assert len(DATACOMP) == 40


@pytest.mark.parametrize("fact", NAMED, ids=names(NAMED))
def test_every_name_has_its_task_classes_languages_and_sizes(fact):
    entry = CATALOGUE.find(fact["name"])

    assert TASK_OF_KIND[entry.kind] == fact["task"]
    if isinstance(fact["n_classes"], int):
        assert entry.classes == fact["n_classes"]
    wanted = {canonical(code) for code in fact["languages"]} | EXTRA_LANGUAGES.get(fact["name"], set())
    assert {canonical(code) for code in entry.languages} == wanted
    assert {canonical(code) for code in fact.get("fork_languages", [])} <= wanted
    if fact["n_test"] is not None:
        figures = [int(number) for number in re.findall(r"\d+", str(fact["n_test"]))]
        assert entry.samples == figures[0]
    if "classes_per_language" in fact:
        assert entry.classes_by_language == fact["classes_per_language"]


@pytest.mark.parametrize("fact", NAMED, ids=names(NAMED))
def test_every_name_has_its_splits_sources_and_prompt_keys(fact):
    entry = CATALOGUE.find(fact["name"])

    splits = [split.split("(")[0] for split in fact["splits"]]
    assert list(entry.splits) == (splits if splits not in (["any"], [""]) else ["test"])
    assert entry.whole == (fact["splits"][0].startswith("(ignored"))
    if fact["hf_wds_repo"]:
        assert fact["hf_wds_repo"] in {source.huggingface for source in entry.sources}
    beginning = next(words for words in READERS if fact["backend"].startswith(words))
    sources = [
        s for source in entry.sources for s in (CATALOGUE.find(source.base).sources if source.base else [source])
    ]
    assert READERS[beginning] & {source.reader for source in sources}
    key = (fact["templates_key"] or "").split(" ")[0]
    if key and "(default" not in fact["templates_key"] and key not in ("birdsnap", "nllb_dist13b_prompts.json"):
        assert entry.templates == key
    packed = re.search(r"classnames\.json\[(\w+)\]", fact["classnames_source"] or "")
    if packed:
        assert entry.classnames == packed[1]


@pytest.mark.parametrize(("alias", "name"), ALIASES, ids=[alias for alias, _ in ALIASES])
def test_every_alias_means_its_name(alias, name):
    assert CATALOGUE.find(alias.removeprefix("wds/")) is CATALOGUE.find(name)


@pytest.mark.parametrize("name", dict.fromkeys([*names(NAMED), *EVALSCOPE, *DATACOMP, *(a for a, _ in ALIASES)]))
def test_every_name_resolves_to_a_reader_that_exists(name, tmp_path):
    entry = CATALOGUE.find(name.removeprefix("wds/"))
    sources = [
        s for source in entry.sources for s in (CATALOGUE.find(source.base).sources if source.base else [source])
    ]
    for pattern in sources[-1].present[:1]:
        (tmp_path / pattern.replace("*", "x")).mkdir(parents=True)

    spec = resolve_dataset(name, str(tmp_path), language=entry.languages[0])

    assert spec.name == name
    assert spec.reader in KNOWN_READERS.built_in


@pytest.mark.parametrize("name", EVALSCOPE)
def test_the_43_names_of_evalscope_come_from_modelscope_when_asked(name, tmp_path):
    language = CATALOGUE.find(name).languages[0]

    spec = resolve_dataset(name, str(tmp_path), language=language, options={"hub": "modelscope"})

    assert spec.reader == "wds"
    assert spec.root == f"https://modelscope.cn/datasets/clip-benchmark/wds_{name}/tree/master"
    assert name in CATALOGUE.collections["evalscope"]
    assert "evalscope" in CATALOGUE.collections_of(name)


@pytest.mark.parametrize("name", DATACOMP)
def test_datacomp_s_sets_have_its_figures(name):
    task, entry = DATACOMP[name], CATALOGUE.find(name)

    assert entry.datacomp["name"] == task["name"]
    assert entry.datacomp["size"] == task["size"]
    assert entry.datacomp.get("metric") == task["main_metric"]
    assert entry.datacomp.get("random") == task.get("random_score")
    if "num_classes" in task:
        assert entry.classes == task["num_classes"]
    if task["main_metric"] not in (None, "acc1"):
        assert entry.metric == task["main_metric"]
    if "worst" in entry.metric or entry.metric.endswith("_wg"):
        assert entry.groups["metric"] == entry.metric
        assert entry.groups["field"] in entry.sources[0].settings["columns"]


@pytest.mark.parametrize("collection", DATASETS["dataset_collections"])
def test_collections_have_their_members_in_order(collection):
    assert list(CATALOGUE.collections[collection]) == DATASETS["dataset_collections"][collection]


def test_our_own_collections_are_whole():
    assert list(CATALOGUE.collections["evalscope"]) == EVALSCOPE
    assert list(CATALOGUE.collections["datacomp"]) == list(DATACOMP)


def test_any_tfds_and_wds_name_resolves():
    tfds, wds = resolve_dataset("tfds/anything", "root"), resolve_dataset("wds/anything/else", "root")

    assert (tfds.reader, tfds.options["source"]["dataset"]) == ("tfds", "anything")
    assert (wds.reader, wds.root) == ("wds", "root")
