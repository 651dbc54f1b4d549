"""Dataset repositories through the hubs' own clients, against a stand-in server on loopback."""

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from eyechart.datasets.mteb import MODELSCOPE, MtebDataset
from eyechart.datasets.resolve import resolve_dataset
from eyechart.datasets.webdataset import open_webdataset
from eyechart.errors import DataError
from eyechart.io.progress import NoProgress
from eyechart.manifest import iter_samples
from eyechart.types import DatasetInfo, DatasetSpec
from support.counting import CountingProgress
from support.data import write_classification
from support.hub_server import hub_serving

HUBS = ["huggingface", "modelscope"]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    write_classification(tmp_path / "hub" / "clip-benchmark" / "wds_mnist", n=12, classes=tuple("0123456789"))
    with hub_serving(tmp_path / "hub") as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", server.url)
        monkeypatch.setenv("MODELSCOPE_HOME", str(tmp_path / "modelscope"))
        monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        yield server


def find(which, name="mnist", **options):
    split = options.pop("split", "test")
    return resolve_dataset(name, "nowhere", split=split, options={"hub": which, **options})


def read(spec):
    dataset = open_webdataset(spec)
    dataset.fetch(NoProgress())
    return [(sample.id, sample.label, sample.image.read()) for sample in iter_samples(dataset)]


def local(tmp_path):
    folder = tmp_path / "hub" / "clip-benchmark" / "wds_mnist"
    dataset = open_webdataset(DatasetSpec("x", "wds", str(folder)))
    return [(sample.id, sample.label, sample.image.read()) for sample in iter_samples(dataset)]


@pytest.mark.parametrize("which", HUBS)
def test_a_named_dataset_arrives_whole_with_its_class_names(hub, tmp_path, which):
    spec = find(which)

    assert read(spec) == local(tmp_path)
    assert open_webdataset(spec).info.classnames == tuple("0123456789")


@pytest.mark.parametrize("which", HUBS)
def test_planning_fetches_no_shard(hub, which):
    dataset = open_webdataset(find(which))

    assert dataset.signature()
    assert not [name for name, _ in hub.fetched if name.endswith(".tar")]


@pytest.mark.parametrize("which", HUBS)
def test_what_is_here_is_not_fetched_again(hub, which):
    read(find(which))
    hub.fetched.clear()
    read(find(which))

    assert not [name for name, _ in hub.fetched if name.endswith(".tar")]


@pytest.mark.parametrize("which", HUBS)
def test_other_content_of_the_same_size_has_another_signature_and_is_fetched(hub, tmp_path, which):
    read(find(which))
    before = open_webdataset(find(which)).signature()
    write_classification(tmp_path / "hub/clip-benchmark/wds_mnist", n=12, classes=tuple("0123456789"), labels=[9] * 12)

    assert open_webdataset(find(which)).signature() != before
    assert read(find(which)) == local(tmp_path)
    assert {label for _, label, _ in read(find(which))} == {9}


@pytest.mark.parametrize("which", HUBS)
def test_a_shard_that_is_not_counted_is_noted(hub, tmp_path, which):
    (tmp_path / "hub/clip-benchmark/wds_mnist/test/nshards.txt").write_text("1")

    notes = open_webdataset(find(which)).info.notes

    assert [(note.kind, note.count) for note in notes] == [("unread_shards", 1)]


@pytest.mark.parametrize("which", HUBS)
def test_the_signature_is_the_same_before_and_after_fetching_and_offline(hub, which):
    before = open_webdataset(find(which)).signature()
    read(find(which))

    assert open_webdataset(find(which)).signature() == before
    assert open_webdataset(find(which, offline=True)).signature() == before


@pytest.mark.parametrize("which", HUBS)
def test_a_broken_transfer_is_resumed(hub, tmp_path, which, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1000)
    hub.cut["test/0.tar"] = 5000

    assert read(find(which)) == local(tmp_path)
    assert ("test/0.tar", "bytes=5000-") in hub.fetched


@pytest.mark.parametrize("which", HUBS)
def test_progress_counts_every_byte_once(hub, tmp_path, which):
    seen = CountingProgress()

    open_webdataset(find(which)).fetch(seen)

    sizes = {
        f"downloading test/{i}.tar": (tmp_path / "hub/clip-benchmark/wds_mnist/test" / f"{i}.tar").stat().st_size
        for i in (0, 1)
    }
    assert seen.totals == seen.done == sizes


@pytest.mark.parametrize("which", HUBS)
def test_content_that_is_not_what_the_hub_lists_is_refused(hub, which, own_cache, monkeypatch):
    hub.wrong_digest = True
    if which == "modelscope":
        monkeypatch.setattr("modelscope_hub._download.DOWNLOAD_INTEGRITY_RETRY_BACKOFF", 0.001)

    with pytest.raises(DataError):
        read(find(which))

    assert not list(own_cache.rglob("0.tar"))


@pytest.mark.parametrize("which", HUBS)
def test_an_unknown_repository_is_no_dataset(hub, which):
    with pytest.raises(DataError, match=r"There is no dataset at https://.*wds_stl10"):
        open_webdataset(find(which, "stl10"))


@pytest.mark.parametrize("which", HUBS)
def test_a_missing_split_lists_those_that_are_there(hub, which):
    with pytest.raises(DataError, match="has no split 'train'; available: test"):
        open_webdataset(find(which, split="train"))


@pytest.mark.parametrize("which", HUBS)
def test_a_hub_that_cannot_be_reached_is_told_apart(tmp_path, monkeypatch, which):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("MODELSCOPE_HOME", str(tmp_path))
    monkeypatch.setattr("modelscope_hub._legacy_api.time.sleep", lambda _: None)

    with pytest.raises(DataError, match="Cannot reach https://"):
        open_webdataset(find(which))


@pytest.mark.parametrize("which", HUBS)
def test_offline_uses_what_was_fetched(hub, tmp_path, which):
    read(find(which))
    hub.shutdown()

    assert read(find(which, offline=True)) == local(tmp_path)


@pytest.mark.parametrize("which", HUBS)
def test_what_was_changed_in_the_cache_is_not_what_was_fetched(hub, tmp_path, own_cache, which):
    read(find(which))
    (shard,) = own_cache.rglob("0.tar")
    state = shard.stat()
    data = bytearray(shard.read_bytes())
    data[600] ^= 1
    shard.write_bytes(data)
    os.utime(shard, ns=(state.st_atime_ns, state.st_mtime_ns))

    with pytest.raises(DataError, match="is not cached"):
        read(find(which, offline=True))
    assert read(find(which)) == local(tmp_path)
    assert read(find(which, offline=True)) == local(tmp_path)


@pytest.mark.parametrize("which", HUBS)
def test_a_list_that_the_hub_has_no_more_is_not_read(hub, tmp_path, which):
    own = tmp_path / "hub" / "clip-benchmark" / "wds_mnist" / "zeroshot_classification_templates.txt"
    own.write_text("one {c}\n")
    spec = replace(find(which), options={"offline": False, **find(which).options, "prompts": {}})
    assert open_webdataset(spec).info.templates == ("one {c}",)
    own.unlink()

    assert open_webdataset(spec).info.templates != ("one {c}",)


def test_offline_without_it_says_so(own_cache):
    with pytest.raises(DataError, match="not cached, and --offline disables"):
        open_webdataset(find("huggingface", offline=True))


def test_a_gated_repository_asks_for_a_login(hub):
    hub.gated.add("clip-benchmark/wds_mnist")

    with pytest.raises(DataError, match="Accept its terms"):
        open_webdataset(find("huggingface"))


def test_the_address_of_a_file_tree_works_as_root(hub, tmp_path):
    root = "https://huggingface.co/datasets/clip-benchmark/wds_{dataset_cleaned}/tree/main"

    assert read(resolve_dataset("wds/mnist", root)) == local(tmp_path)


@pytest.mark.parametrize("options", [{"folder": "here"}, {}])
def test_data_in_a_folder_are_not_downloaded_from_modelscope(tmp_path, monkeypatch, options):
    monkeypatch.setattr("eyechart.datasets.mteb._mirror", lambda *_: pytest.fail("a download was started"))
    path = "mteb/none" if options else str(tmp_path)  # the task itself may name a folder
    task = SimpleNamespace(metadata=SimpleNamespace(dataset={"path": path}))

    MtebDataset(DatasetInfo("x", "external"), task, options={"hub": MODELSCOPE, **options}).fetch(NoProgress())
