"""The store in other places than a folder. Object storage is a real server of the S3 protocol (moto's) on a free port.

Its libraries do not fit the versions of the other tests, so these run in an environment of their own: `make s3-check`.
"""

import json
import os
import secrets
import subprocess
import sys

import numpy as np
import pytest

from eyechart.errors import UsageError
from eyechart.outputs import place_of
from eyechart.store.blobs import BlobError, LocalBlobs, RemoteBlobs, open_blobs
from eyechart.store.vector_store import EmbeddingStore, VectorTable, store_place, text_digests
from eyechart.types import ModelSpec

# Raised inside botocore and moto, not by our calls:
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "ResourceWarning")]


def keys(*names):
    return text_digests(list(names), "en")


def rows(n):
    return np.random.default_rng(0).standard_normal((n, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def server():
    """Start a server and tell everybody where it is, as one does on a cluster: by variables."""
    pytest.importorskip("s3fs")
    made = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    made.start()
    host, port = made.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "made-up")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield made
    made.stop()


@pytest.fixture
def bucket(server):
    """Make a bucket and return an address in it."""
    import fsspec

    name = f"vectors-{secrets.token_hex(4)}"
    fsspec.filesystem("s3").mkdir(name)
    return f"s3://{name}/store"


@pytest.fixture(params=["folder", "memory", "s3"])
def place(request, tmp_path, monkeypatch):
    """Each kind of place; fsspec's ``memory`` is a file system inside this process."""
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))
    if request.param == "s3":
        return request.getfixturevalue("bucket")
    return tmp_path / "folder" if request.param == "folder" else f"memory://{tmp_path.name}"


def test_what_one_writes_another_machine_finds(place, tmp_path, monkeypatch):
    vectors = rows(5)
    early = VectorTable(place, "model", "image")
    first = EmbeddingStore(place).table("model", "image")
    first.add(keys("a", "b"), vectors[:2])
    first.add(keys("c", "d", "e"), vectors[2:])
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache of another machine"))

    later = VectorTable(place, "model", "image")
    early.refresh()

    for table in (first, early, later):
        assert table.missing(keys("a", "x", "e")).tolist() == [False, True, False]
        np.testing.assert_array_equal(table.get(keys("e", "b")), vectors[[4, 1]])
    assert VectorTable(place, "model", "text").missing(keys("a")).all()


def test_a_blob_is_fetched_once(tmp_path, monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path))
    blobs = open_blobs(f"memory://{tmp_path.name}", "x")
    blobs.write("1.safetensors", b"content")
    blobs.path("1.safetensors").unlink()

    assert blobs.path("1.safetensors").read_bytes() == b"content"
    blobs.system.rm(blobs.root, recursive=True)
    assert blobs.path("1.safetensors").read_bytes() == b"content"


def test_what_is_gone_between_listing_and_fetching_is_in_the_next_list(tmp_path, monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))
    place = f"memory://{tmp_path.name}"
    VectorTable(place).add(keys("a"), rows(1))
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache of another machine"))
    names = RemoteBlobs.names

    def early(blobs):
        listed = names(blobs)
        monkeypatch.setattr(RemoteBlobs, "names", names)
        blobs.system.rm(blobs.root, recursive=True)
        VectorTable(place).add(keys("a", "b"), rows(2))
        return listed

    monkeypatch.setattr(RemoteBlobs, "names", early)
    table = VectorTable(place)

    np.testing.assert_array_equal(table.get(keys("b", "a")), rows(2)[::-1])
    assert table.damaged == []


def test_a_file_address_is_a_folder_so_that_writes_stay_atomic(tmp_path):
    blobs = open_blobs(f"file://{tmp_path}", "model")

    assert isinstance(blobs, LocalBlobs)
    assert blobs.folder == tmp_path / "model"


def test_the_store_is_where_the_variable_says(monkeypatch, tmp_path):
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path))
    assert store_place() == tmp_path / "embeddings"

    monkeypatch.setenv("EYECHART_STORE", "s3://bucket/folder")
    assert store_place() == "s3://bucket/folder"


def test_an_unknown_protocol_is_a_clear_error_without_the_password():
    with pytest.raises(BlobError) as caught:
        open_blobs("nonsense://me:secret@host/folder")

    assert "nonsense" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_results_are_not_written_into_a_folder_that_is_called_like_an_address():
    with pytest.raises(UsageError, match="not a URL"):
        place_of("s3://bucket/{dataset}.json", ModelSpec("onnx", "m"), "d", "en", "t")


def run(folder, *words):
    command = [sys.executable, "-m", "eyechart", "eval", "--model_type", "onnx", "--dataset", "demo/garments"]
    command += ["--limit", "60", "--batch_size", "4", "--num_workers", "1", "--quiet", "--output", "r.json", *words]
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "EYECHART_CACHE": str(folder / "cache"), "EYECHART_STORE": os.environ["STORE"]}
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE)


def objects_in(address):
    blobs = open_blobs(address)
    blobs.system.invalidate_cache()
    return blobs.system.find(blobs.root)


def result_of(folder):
    return json.loads((folder / "r.json").read_text())


def test_machines_without_a_common_disk_share_vectors_through_object_storage(bucket, tmp_path, monkeypatch):
    monkeypatch.setenv("STORE", bucket)
    assert run(tmp_path / "first").wait() == 0
    objects = objects_in(bucket)

    assert run(tmp_path / "second").wait() == 0

    first, second = result_of(tmp_path / "first"), result_of(tmp_path / "second")
    assert second["metrics"] == first["metrics"]
    assert "throughput" in first["provenance"]
    assert "throughput" not in second["provenance"]  # nothing was encoded
    assert objects_in(bucket) == objects != []


def test_several_machines_at_once_end_with_the_same_result(bucket, tmp_path, monkeypatch):
    monkeypatch.setenv("STORE", bucket)
    places = [tmp_path / str(i) for i in range(4)]

    assert [process.wait() for process in [run(place) for place in places]] == [0] * 4

    assert all(result_of(place)["metrics"] == result_of(places[0])["metrics"] for place in places)


def test_object_storage_that_refuses_is_a_clear_error(bucket, tmp_path, monkeypatch):
    monkeypatch.setenv("STORE", "s3://no-such-bucket/store")

    process = run(tmp_path / "x")

    message = process.communicate()[1].decode()
    assert process.returncode == 1
    assert "Cannot write to the embedding store at s3://no-such-bucket/store" in message
    assert "Traceback" not in message
