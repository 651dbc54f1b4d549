"""What every entry must have, and what is said about a wrong one."""

import pytest

from eyechart.datasets.catalogue import load_catalogue, make_entry
from eyechart.datasets.registry import READERS
from eyechart.errors import UsageError
from eyechart.languages import canonical

CATALOGUE = load_catalogue()
ENTRIES = list(CATALOGUE.entries.values())
GOOD = {
    "title": "T",
    "kind": "classification",
    "languages": ["en"],
    "splits": ["test"],
    "licence": "MIT",
    "citation": "me",
    "metric": "acc1",
    "sources": [{"reader": "wds"}],
}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_an_entry_says_all_that_people_ask_for(entry):
    assert entry.licence
    assert entry.citation
    assert entry.metric
    assert entry.chance is None or 0 < entry.chance < 1
    assert "test" in entry.splits
    assert len({canonical(code) for code in entry.languages}) == len(entry.languages)
    for source in entry.sources:
        assert source.reader in READERS.built_in or (source.base and not source.reader)
        assert not source.base or CATALOGUE.find(source.base)
        assert set(source.splits) <= set(entry.splits)
        assert all(entry.own_language(code) for code in source.languages)
    if entry.kind in ("classification", "multilabel") and entry.classes:
        assert entry.kind == "multilabel" or entry.chance == pytest.approx(
            (entry.groups.get("k", 1)) / entry.classes, abs=1e-6
        )


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_what_cannot_be_fetched_says_how_to_get_it(entry):
    fetched = any(
        source.huggingface or source.modelscope or source.base or source.reader in ("torchvision", "tfds", "dummy")
        for source in entry.sources
    )

    assert fetched or entry.manual


def test_every_member_of_a_collection_is_a_dataset():
    assert all(CATALOGUE.find(member) for members in CATALOGUE.collections.values() for member in members)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"titel": "x"}, "titel: unknown field; did you mean title"),
        ({"title": None}, "title: must be a text"),
        ({"kind": "video"}, "'video' is not one of classification"),
        ({"classes": 0}, "classes: must be a positive number"),
        ({"languages": "en"}, "languages: must be a list of codes"),
        ({"languages": []}, "languages: must be a list of codes"),
        ({"sources": []}, "sources: must be a list of at least one table"),
        ({"sources": [{"present": ["x"]}]}, "sources: each needs a reader or a base"),
        ({"manual": {"what": "x"}}, "manual: must have what, url and where"),
        ({"subset": "imagenet-z"}, "'imagenet-z' is not one of imagenet-a"),
        ({"splits": "test"}, "splits: must be a list of texts"),
        ({"manual": ["what", "url", "where"]}, "manual: must have what, url and where"),
        ({"groups": "x"}, "groups: must be a table"),
        ({"chance": "half"}, "chance: must be a number"),
        ({"classes": True}, "classes: must be a positive number"),
        ({"sources": [{"reader": "folder", "present": "images"}]}, "sources: present: must be a list of texts"),
        ({"sources": [{"reader": "folder", "splits": "test"}]}, "sources: splits: must be a table"),
    ],
)
def test_a_wrong_entry_is_refused_with_the_field(change, message):
    with pytest.raises(UsageError, match=message):
        make_entry("x", GOOD | change, "mine.toml")


def test_all_problems_of_an_entry_are_told_at_once():
    with pytest.raises(UsageError) as caught:
        make_entry("x", {"kind": "video"}, "mine.toml")

    assert "mine.toml: the entry of the dataset 'x'" in caught.value.message
    for field in ("title", "languages", "splits", "sources", "licence", "citation", "metric"):
        assert f"{field}: missing" in caught.value.message


def test_an_edited_catalogue_file_takes_effect_in_the_same_process(tmp_path, monkeypatch):
    for folder, member in (("a", "mnist"), ("b", "cifar10")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.toml").write_text(f'[collections]\nmine = ["{member}"]\n')

    monkeypatch.chdir(tmp_path / "a")
    assert load_catalogue(["mine.toml"]).collections["mine"] == ("mnist",)
    monkeypatch.chdir(tmp_path / "b")
    assert load_catalogue(["mine.toml"]).collections["mine"] == ("cifar10",)
    (tmp_path / "b" / "mine.toml").write_text('[collections]\nmine = ["mnist", "cifar10"]\n')
    assert load_catalogue(["mine.toml"]).collections["mine"] == ("mnist", "cifar10")


def test_an_entry_may_be_converted_by_another_thread_meanwhile():
    class Shared(dict):
        def __getitem__(self, name):
            found = super().__getitem__(name)
            self[name] = CATALOGUE.entries["mnist"]  # by the other thread, after this read
            return found

    entries = type(CATALOGUE.entries)()
    entries.data = Shared(mnist=GOOD)
    assert entries["mnist"].title == "T"
