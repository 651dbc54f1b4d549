"""Webdatasets behind a real web server: resuming, checking, caching, and telling errors apart."""

import socket
import subprocess
import sys
import tarfile

import httpx2
import pytest

from eyechart import evaluate
from eyechart.datasets.remote import download, fetch_url
from eyechart.datasets.remote.download import read_head
from eyechart.datasets.webdataset import open_webdataset
from eyechart.errors import DataError
from eyechart.io.progress import NoProgress
from eyechart.manifest import iter_samples, read_manifest
from eyechart.types import DatasetSpec
from support.counting import CountingProgress
from support.data import write_classification, write_retrieval
from support.file_server import serving


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(download, "RETRY", download.Retry(tries=4, first_wait=0.001))
    monkeypatch.setattr(download, "QUICK", download.Retry(tries=2, first_wait=0.001))


@pytest.fixture
def site(tmp_path):
    write_classification(tmp_path / "site" / "wds_x", n=12, shards=2)
    with serving(tmp_path / "site") as server:
        yield server


def spec(server, name="wds_x", **options):
    split = options.pop("split", "test")
    return DatasetSpec(f"wds/{name}", "wds", f"{server.url}/{name}", split, options=options)


def read(*args, **options):
    dataset = open_webdataset(spec(*args, **options))
    dataset.fetch(NoProgress())
    return [(sample.id, sample.label, sample.image.read()) for sample in iter_samples(dataset)]


def local(tmp_path, name="wds_x"):
    dataset = open_webdataset(DatasetSpec("x", "wds", str(tmp_path / "site" / name)))
    return [(sample.id, sample.label, sample.image.read()) for sample in iter_samples(dataset)]


def swap_labels(shard):
    """Change labels, and neither names nor sizes."""
    with tarfile.open(shard) as archive:
        places = [member.offset_data for member in archive if member.name.endswith(".cls")]
    data = bytearray(shard.read_bytes())
    for place in places:
        data[place] = ord("0") if data[place] != ord("0") else ord("1")
    shard.write_bytes(data)


def partial_files(own_cache):
    return list(own_cache.rglob("*.part"))


def test_the_same_samples_arrive_as_from_a_folder(site, tmp_path, own_cache):
    assert read(site) == local(tmp_path)
    assert not partial_files(own_cache)


def test_planning_reads_small_files_and_sizes_only(site):
    dataset = open_webdataset(spec(site))

    assert dataset.info.classnames == ("cat", "dog", "bird")
    assert dataset.signature()
    assert site.count("GET", "wds_x/test/0.tar") == 0
    assert site.count("HEAD", "wds_x/test/0.tar") == 1


def test_the_signature_is_the_same_before_and_after_fetching_and_offline(site):
    before = open_webdataset(spec(site)).signature()
    read(site)

    assert open_webdataset(spec(site)).signature() == before
    assert open_webdataset(spec(site, offline=True)).signature() == before


def test_other_content_of_the_same_size_has_another_signature(site, tmp_path):
    before = open_webdataset(spec(site)).signature()
    shard = tmp_path / "site" / "wds_x" / "test" / "1.tar"
    shard.write_bytes(shard.read_bytes()[::-1])

    assert open_webdataset(spec(site)).signature() != before


def test_a_shard_that_is_not_counted_is_noted(site, tmp_path):
    (tmp_path / "site" / "wds_x" / "test" / "nshards.txt").write_text("1")

    (note,) = open_webdataset(spec(site)).info.notes

    assert (note.kind, note.count) == ("unread_shards", 1)
    assert site.count("GET", "wds_x/test/1.tar") == 0


def test_a_server_that_tells_no_versions_has_the_content_digested(tmp_path):
    write_classification(tmp_path / "site" / "wds_x", n=12, shards=1)
    with serving(tmp_path / "site", tags=False) as server:
        before = open_webdataset(spec(server)).signature()
        assert server.count("GET", "wds_x/test/0.tar") == 1
        assert open_webdataset(spec(server, offline=True)).signature() == before
        write_classification(tmp_path / "site" / "wds_x", n=13, shards=1)

        assert open_webdataset(spec(server)).signature() != before


def test_a_server_that_tells_no_versions_may_have_another_file_of_the_same_size(tmp_path):
    shard = tmp_path / "site" / "wds_x" / "test" / "0.tar"
    write_classification(tmp_path / "site" / "wds_x", n=12, shards=1)
    with serving(tmp_path / "site", tags=False) as server:
        before = read(server)
        swap_labels(shard)

        assert read(server) == local(tmp_path) != before
        assert read(server, offline=True) == local(tmp_path)


def test_what_is_not_known_to_be_the_same_file_is_not_glued_to_the_old_part(tmp_path):
    shard = tmp_path / "site" / "wds_x" / "test" / "0.tar"
    write_classification(tmp_path / "site" / "wds_x", n=12, shards=1)
    with serving(tmp_path / "site", tags=False) as server:
        server.cut["wds_x/test/0.tar"] = [shard.stat().st_size // 2, 0, 0, 0, 0]
        with pytest.raises(DataError):
            read(server)
        server.cut.clear()
        swap_labels(shard)

        assert read(server) == local(tmp_path)


def test_a_weak_tag_does_not_prove_that_the_rest_belongs_to_the_same_file(site, tmp_path, own_cache):
    shard = tmp_path / "site" / "wds_x" / "test" / "0.tar"
    site.weak = True
    site.cut["wds_x/test/0.tar"] = [shard.stat().st_size // 2]
    site.after_cut = lambda: swap_labels(shard)

    open_webdataset(spec(site)).fetch(NoProgress())

    (copy,) = own_cache.rglob("0.tar")
    assert copy.read_bytes() == shard.read_bytes()
    assert not any(wanted for _, _, wanted in site.requests)


@pytest.mark.parametrize(
    ("headers", "validator"),
    [
        ({"ETag": '"a"'}, '"a"'),
        ({"ETag": 'W/"a"', "Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT", "Date": "Tue, 03 Nov 2026 10:00:00 GMT"},
         ""),
        ({"Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT", "Date": "Mon, 02 Nov 2026 10:01:00 GMT"},
         "Mon, 02 Nov 2026 10:00:00 GMT"),
        ({"Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT", "Date": "Mon, 02 Nov 2026 10:00:59 GMT"}, ""),
        ({"Last-Modified": "yesterday", "Date": "Mon, 02 Nov 2026 10:00:59 GMT"}, ""),
        ({"Last-Modified": "Mon, 02 Nov 2026 10:00:00 GMT"}, ""),
        ({}, ""),
    ],
)  # fmt: skip
def test_only_strong_validators_are_resumed_by(headers, validator):
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers))

    assert read_head(httpx2.Client(transport=transport), "http://x/y").validator == validator


def test_a_part_of_another_version_is_not_glued_to_the_old_part(site, tmp_path, own_cache):
    shard = tmp_path / "site" / "wds_x" / "test" / "0.tar"
    name = "wds_x/test/0.tar"
    site.obeys_if_range = False
    site.cut[name] = [shard.stat().st_size // 2]
    site.after_cut = lambda: swap_labels(shard)

    open_webdataset(spec(site)).fetch(NoProgress())

    (copy,) = own_cache.rglob("0.tar")
    assert copy.read_bytes() == shard.read_bytes()


def test_a_server_that_compresses_what_it_may(site, tmp_path):
    site.compresses = True

    assert read(site) == local(tmp_path)


@pytest.mark.parametrize("offline", [False, True])
def test_what_was_changed_in_the_cache_is_not_what_was_fetched(site, tmp_path, own_cache, offline):
    read(site)
    for shard in own_cache.rglob("0.tar"):
        swap_labels(shard)
    for names in own_cache.rglob("classnames.txt"):
        names.write_text("dog\ncat\nbird\n")

    if offline:
        with pytest.raises(DataError, match=r"0\.tar .* is not cached"):
            read(site, offline=True)
        with pytest.raises(DataError, match=r"classnames\.txt .* is not cached"):
            open_webdataset(spec(site, offline=True)).info  # noqa: B018 - it is read now
    else:
        assert read(site) == local(tmp_path)
        assert open_webdataset(spec(site)).info.classnames == ("cat", "dog", "bird")


@pytest.mark.parametrize("note", ["{", "[1]", '{"size": 1}', ""])
def test_damaged_notes_in_the_cache_are_written_anew(site, tmp_path, own_cache, note):
    read(site)
    for path in own_cache.rglob(".eyechart/*.json"):
        path.write_text(note)

    with pytest.raises(DataError, match="is not cached"):
        read(site, offline=True)
    assert read(site) == local(tmp_path)
    assert read(site, offline=True) == local(tmp_path)


def test_no_two_addresses_share_a_place_in_the_cache(site, tmp_path):
    names = ["a/b", "a--b", "a-/b", "a/-b", "root"]
    for n, name in enumerate(names, 4):
        write_classification(tmp_path / "site" / name, n=n, shards=1)
    for name in names:
        read(site, name)

    assert [len(read(site, name, offline=True)) for name in names] == [4, 5, 6, 7, 8]


def test_what_is_in_the_cache_is_not_fetched_again(site, tmp_path):
    read(site)
    read(site)

    assert site.count("GET", "wds_x/test/0.tar") == 1


def test_several_processes_share_one_download(site, tmp_path):
    code = (
        "import sys\nfrom eyechart.datasets.webdataset import open_webdataset\n"
        "from eyechart.manifest import iter_samples\nfrom eyechart.types import DatasetSpec\n"
        "print(len(list(iter_samples(open_webdataset(DatasetSpec('x', 'wds', sys.argv[1]))))))\n"
    )
    words = [sys.executable, "-c", code, f"{site.url}/wds_x"]

    processes = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(4)]

    assert [process.communicate()[0].strip() for process in processes] == ["12"] * 4
    assert site.count("GET", "wds_x/test/0.tar") == 1


def test_a_connection_that_breaks_in_mid_shard_is_resumed_where_it_stopped(site, tmp_path):
    site.cut["wds_x/test/0.tar"] = [5000, 3000]

    assert read(site) == local(tmp_path)
    ranges = [wanted for method, path, wanted in site.requests if (method, path) == ("GET", "wds_x/test/0.tar")]
    assert ranges == ["", "bytes=5000-", "bytes=8000-"]


def test_a_later_run_goes_on_where_a_killed_one_stopped(site, tmp_path, own_cache):
    site.cut["wds_x/test/0.tar"] = [4096, 0, 0, 0, 0]
    with pytest.raises(DataError, match="the transfer keeps stopping"):
        read(site)
    assert [part.stat().st_size for part in partial_files(own_cache)] == [4096]
    assert not list(own_cache.rglob("0.tar"))
    site.cut.clear()

    assert read(site) == local(tmp_path)
    assert ("GET", "wds_x/test/0.tar", "bytes=4096-") in site.requests
    assert not partial_files(own_cache)


def test_a_server_without_ranges_starts_over(tmp_path):
    write_classification(tmp_path / "site" / "wds_x", n=12, shards=1)
    with serving(tmp_path / "site", ranges=False) as server:
        server.cut["wds_x/test/0.tar"] = [5000]

        assert read(server) == local(tmp_path)


def test_a_file_that_changed_meanwhile_is_not_glued_to_the_old_part(site, tmp_path, own_cache):
    site.cut["wds_x/test/0.tar"] = [4096, 0, 0, 0, 0]
    with pytest.raises(DataError):
        read(site)
    site.cut.clear()
    write_classification(tmp_path / "site" / "wds_x", n=10, shards=2)

    assert read(site) == local(tmp_path)


def test_a_shard_that_changed_on_the_server_is_fetched_again(site, tmp_path):
    read(site)
    write_classification(tmp_path / "site" / "wds_x", n=10, shards=2)

    assert read(site) == local(tmp_path)


def test_a_shard_that_is_cut_short_on_the_server_is_detected_and_not_kept(site, tmp_path, own_cache):
    shard = tmp_path / "site" / "wds_x" / "test" / "1.tar"
    shard.write_bytes(shard.read_bytes()[:4096])

    with pytest.raises(DataError, match=r"wds_x/test/1\.tar is truncated on the server"):
        read(site)

    assert not list(own_cache.rglob("1.tar"))


def test_a_server_that_fails_for_a_while_is_waited_for(site, tmp_path):
    site.statuses["wds_x/test/0.tar"] = [503]
    site.statuses["wds_x/classnames.txt"] = [500]

    assert read(site) == local(tmp_path)


# ------------------------------------------------------------------------------------------- three kinds of 404


@pytest.mark.parametrize("name", ["classnames.txt", "test/0.tar"])
def test_a_server_that_redirects_in_circles_is_told(site, name):
    site.redirects[f"wds_x/{name}"] = f"/wds_x/{name}"

    with pytest.raises(DataError, match="redirects"):
        read_manifest(open_webdataset(spec(site)))


def test_a_redirected_file_is_that_file(site, tmp_path):
    site.redirects["wds_x/test/0.tar"] = "/wds_x/test/copy.tar"
    shard = tmp_path / "site" / "wds_x" / "test" / "0.tar"
    shard.rename(shard.with_name("copy.tar"))

    assert len(read(site)) == 12


def test_an_empty_file_is_told(site, tmp_path):
    (tmp_path / "site" / "wds_x" / "test" / "0.tar").write_bytes(b"")

    with pytest.raises(DataError, match=r"0\.tar is truncated on the server"):
        read(site)


def test_an_unknown_name_is_no_dataset(site):
    with pytest.raises(DataError, match=r"There is no dataset at http://127.0.0.1:\d+/wds_y"):
        read(site, "wds_y")


def test_a_missing_split_lists_those_that_are_there(site):
    with pytest.raises(DataError, match="has no split 'valid'; available: test"):
        read(site, split="valid")


def test_no_network_is_neither(site, own_cache):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    with pytest.raises(DataError, match=rf"(?s)Cannot reach http://127.0.0.1:{port}/wds_x/.*--offline"):
        open_webdataset(DatasetSpec("x", "wds", f"http://127.0.0.1:{port}/wds_x"))


def test_a_missing_shard_is_told_when_planning(site, tmp_path):
    (tmp_path / "site" / "wds_x" / "test" / "1.tar").unlink()

    with pytest.raises(DataError, match=r"1 shard is missing, the first is .*/wds_x/test/1\.tar"):
        open_webdataset(spec(site))


def test_refused_access_says_so(site):
    site.statuses["wds_x/test/nshards.txt"] = [403, 403]

    with pytest.raises(DataError, match="denies access"):
        read(site)


def test_an_address_with_a_password_is_not_repeated(site):
    root = site.url.replace("http://", "http://me:hunter2@") + "/wds_y?token=secret"

    with pytest.raises(DataError) as caught:
        open_webdataset(DatasetSpec("x", "wds", root))

    assert "hunter2" not in str(caught.value)
    assert "secret" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------ offline


def test_offline_reads_what_was_fetched_and_asks_nobody(site, tmp_path):
    read(site)
    site.requests.clear()

    assert read(site, offline=True) == local(tmp_path)
    assert site.requests == []


def test_offline_without_a_cache_says_what_is_missing(site):
    with pytest.raises(DataError, match=r"nshards\.txt .* is not cached, and --offline disables"):
        read(site, offline=True)


def test_offline_with_half_a_cache_says_what_is_missing(site):
    open_webdataset(spec(site)).info  # noqa: B018 - fetches the small files

    with pytest.raises(DataError, match=r"0\.tar .* is not cached"):
        read(site, offline=True)


def test_the_cache_is_where_the_user_wants_it(site, tmp_path):
    read(site, cache_dir=str(tmp_path / "mine"))

    assert len(list((tmp_path / "mine").rglob("*.tar"))) == 2


def test_a_whole_evaluation_from_afar_equals_the_one_from_the_folder(site, tmp_path):
    settings = {"model_type": "onnx", "model": ["eyechart-tiny"], "dataset": ["wds/x"], "language": ["en"]}

    (near,) = evaluate(**settings, dataset_root=str(tmp_path / "site" / "wds_x"), output=str(tmp_path / "near.json"))
    (far,) = evaluate(**settings, dataset_root=f"{site.url}/wds_x", output=str(tmp_path / "far.json"))
    site.requests.clear()
    (again,) = evaluate(**settings, dataset_root=f"{site.url}/wds_x", output=str(tmp_path / "again.json"), offline=True)

    assert near.metrics == far.metrics == again.metrics
    assert near.data["fingerprint"] == far.data["fingerprint"] == again.data["fingerprint"]
    assert far.data["source"] == f"{site.url}/wds_x"
    assert site.requests == []


# ------------------------------------------------------------------------------------------------------- others


def test_captions_and_languages_work_from_afar(tmp_path):
    write_retrieval(tmp_path / "site" / "wds_r", captions=[["a", "b"], ["c"]])
    with serving(tmp_path / "site") as server:
        manifest = read_manifest(open_webdataset(spec(server, "wds_r")))

    assert [entry.texts for entry in manifest.entries] == [("a", "b"), ("c",)]


def test_a_single_file_is_fetched_through_the_cache(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "captions.txt").write_text("hello")
    with serving(tmp_path / "site") as server:
        path = fetch_url(f"{server.url}/captions.txt", {})
        again = fetch_url(f"{server.url}/captions.txt", {})
        with pytest.raises(DataError, match="There is no file at"):
            fetch_url(f"{server.url}/gone.txt", {})

        assert path.read_text() == "hello"
        assert path == again
        assert server.count("GET", "captions.txt") == 1


def test_progress_counts_every_byte_once(site):
    site.cut["wds_x/test/0.tar"] = [5000]
    seen = CountingProgress()
    dataset = open_webdataset(spec(site))

    dataset.fetch(seen)

    assert seen.totals["downloading 0.tar"] == seen.done["downloading 0.tar"] == dataset._sizes["test/0.tar"]


def test_a_transfer_is_tried_as_often_as_allowed_and_no_more(site):
    site.cut["wds_x/test/0.tar"] = [0] * 9

    with pytest.raises(DataError, match="keeps stopping"):
        read(site)

    assert site.count("GET", "wds_x/test/0.tar") == download.RETRY.tries == 4


@pytest.mark.parametrize(
    "host", ["[::1]", "::1", "LOCALHOST.", "a.localdomain", "b.local", "c.internal", "d.lan", "e.home.arpa"]
)
def test_internal_hosts_are_known_however_they_are_written(host):
    assert download.is_internal(host)
    assert not any(map(download.is_internal, ("example.org", "[2606:4700::1111]", "2606:4700::1111", "8.8.8.8")))


def test_a_file_of_unknown_length_is_downloaded_once(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "captions.txt").write_text("hello" * 50_000)
    with serving(tmp_path / "site") as server:
        server.tells_length = False

        assert fetch_url(f"{server.url}/captions.txt", {}).read_text() == "hello" * 50_000
        assert server.count("GET", "captions.txt") == 1
