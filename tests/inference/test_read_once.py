"""A cold run reads its images once: what is digested is decoded, and what is wrong is found before any is read."""

import csv
import itertools
import os
import sys
import tracemalloc

import numpy as np
import pytest

from eyechart import run
from eyechart.config import make_config
from eyechart.datasets.registry import open_dataset
from eyechart.datasets.row_dataset import in_memory
from eyechart.datasets.tar_shards import iter_tar
from eyechart.errors import DataError
from eyechart.inference import embeddings, image_batches
from eyechart.inference.embeddings import CachedEncoder
from eyechart.io import digests
from eyechart.io.images import ImageRef, to_rgb
from eyechart.manifest import DatasetScan, read_manifest
from eyechart.plan import plan_jobs
from eyechart.session import Session
from eyechart.store.vector_store import EmbeddingStore
from eyechart.types import DatasetInfo, DatasetSpec, EncodeOptions, Sample
from support.bytes_read import BytesRead
from support.data import encoded, noise_image, write_shards, write_tar
from support.encoders import lazy, random_encoder
from support.runs import run_planned

N = 24
CLASSES = ("cat", "dog")
IMAGES = [encoded(noise_image(i, (160, 160))) for i in range(N)]


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """Believe files that were written a moment ago."""
    monkeypatch.setattr(digests, "SETTLED", -1)


def write_folder(root):
    for i, data in enumerate(IMAGES):
        path = root / CLASSES[i % 2] / f"{i:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return {"dataset": str(root)}


def write_wds(root, labels=None):
    labels = labels or [i % 2 for i in range(N)]
    root.mkdir()
    (root / "classnames.txt").write_text("\n".join(CLASSES))
    (root / "zeroshot_classification_templates.txt").write_text("a {c}")
    rows = [[(f"s{i}.png", IMAGES[i]), (f"s{i}.cls", str(label).encode())] for i, label in enumerate(labels)]
    write_shards(root / "test", rows, 2)
    return {"dataset": "wds/x", "dataset_root": str(root)}


def write_table(root):
    write_folder(root / "images")
    with (root / "list.csv").open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["image", "label"])
        rows.writerows([path.relative_to(root), path.parent.name] for path in sorted(root.glob("images/*/*")))
    return {"dataset": str(root / "list.csv")}


LAYOUTS = {"folder": write_folder, "webdataset": write_wds, "table": write_table}
READERS = {"folder": "folder", "webdataset": "wds", "table": "table"}


def opened(layout, root):
    data = LAYOUTS[layout](root)
    return open_dataset(DatasetSpec("x", READERS[layout], data.get("dataset_root", data["dataset"])))


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Plan a job on data of a layout; each cache is one of its own, in which the model's card is known."""

    def make(data, cache="cache", **changes):
        monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / cache))
        output = {"output": str(tmp_path / f"{cache}.json"), "model_type": "onnx", "thumbnails": 0}
        config = make_config({**output, **data, "batch_size": 4, **changes})
        return plan_jobs(config), config

    return make


@pytest.fixture
def passes(tmp_path, monkeypatch):
    """Count how often the images were read since this was last asked; all data are in the folder ``data``."""
    count = BytesRead(tmp_path / "data", monkeypatch)
    return lambda: count.take() / sum(map(len, IMAGES))


def result_of(planned, session=None):
    (report,) = run.run_jobs(planned[0], session) if session else run_planned(*planned)
    assert report.error is None
    return report.result


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cold_run_reads_every_image_once_and_a_warm_one_none(layout, plan, tmp_path, passes):
    data = LAYOUTS[layout](tmp_path / "data")

    result = result_of(plan(data))
    cold = passes()
    again = result_of(plan(data, output=str(tmp_path / "again.json")))

    assert 1 <= cold < 1.1
    assert passes() < 0.01
    assert again.metrics == result.metrics


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_further_model_reads_once_more(layout, tmp_path, passes):
    reading = DatasetScan(opened(layout, tmp_path / "data"))
    first, second = (CachedEncoder(lazy(random_encoder(i)), EmbeddingStore(tmp_path / "store")) for i in range(2))

    vectors = first.images(reading)
    one = passes()
    second.images(reading)
    other = passes()
    again = first.images(reading.manifest)

    assert 1 <= one < 1.1
    assert 1 <= other < 1.1
    assert passes() < 0.01
    assert (first.encoded, second.encoded) == (N, N)
    assert np.array_equal(again.vectors, vectors.vectors)


def test_numbers_fingerprints_and_batches_are_those_of_a_dataset_that_was_read_before(tmp_path, monkeypatch):
    """Also with copies, which are encoded once, and for an image that cannot be decoded."""
    monkeypatch.setattr(embeddings, "LOOKED_UP", 2)
    order = [0, 1, 0, 2, 3, 1, 4, 5, 6, 0, 7]
    for number, image in enumerate(order):
        (tmp_path / f"{number}.png").write_bytes(IMAGES[image])
    (tmp_path / "3.png").write_bytes(b"no image")
    samples = [Sample(str(i), ImageRef.from_path(tmp_path / f"{i}.png"), label=0) for i in range(len(order))]
    dataset = in_memory(DatasetInfo("x", "classification", classnames=("a",)), samples)
    found = []
    for name, listed in {"as read": DatasetScan(dataset), "before": read_manifest(dataset)}.items():
        encoder, batches = random_encoder(), []
        encode = encoder.encode_images
        encoder.encode_images = lambda batch, encode=encode, batches=batches: (
            batches.append(len(batch)) or encode(batch)
        )
        model = CachedEncoder(
            lazy(encoder), EmbeddingStore(tmp_path / name), EncodeOptions(batch_size=3), on_error="skip"
        )
        embedded = model.images(listed)
        manifest = listed.manifest if isinstance(listed, DatasetScan) else listed
        found.append((manifest.fingerprint, embedded.vectors.tobytes(), embedded.kept.tolist(), batches))
        assert [failure.id for failure in embedded.failures] == ["3"]

    assert found[0] == found[1]
    assert found[0][3] == [3, 3, 1]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_in_the_store_is_read_once_for_its_digest_and_not_decoded(layout, tmp_path, passes, monkeypatch):
    """The cache of digests is gone, the vectors are not."""
    dataset = opened(layout, tmp_path / "data")
    store, encoders = EmbeddingStore(tmp_path / "store"), [random_encoder(), random_encoder()]
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "one"))
    expected = CachedEncoder(lazy(encoders[0]), store).images(DatasetScan(dataset))
    passes()
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "other"))

    found = CachedEncoder(lazy(encoders[1]), store).images(DatasetScan(dataset))

    assert 1 <= passes() < 1.1
    assert encoders[1].encoded_images == 0
    assert np.array_equal(found.vectors, expected.vectors)


def wrong_label(root):
    return write_wds(root, labels=[*[i % 2 for i in range(N - 1)], 7])


def cut_archive(root):
    data = write_wds(root)
    shard = root / "test" / "1.tar"
    shard.write_bytes(shard.read_bytes()[: -30 * 512])
    return data


def hole_in_archive(root):
    """The last image claims to be longer than the file."""
    data = write_wds(root)
    write_tar(root / "test" / "1.tar", [("s.png", IMAGES[0]), ("s.cls", b"0"), ("t.cls", b"0"), ("t.png", IMAGES[1])])
    whole = (root / "test" / "1.tar").read_bytes()
    (root / "test" / "1.tar").write_bytes(whole[: len(whole) - 40 * 512] + bytes(1024))
    return data


def missing_image(root):
    data = write_table(root)
    (root / "images" / "dog" / "023.png").unlink()
    (root / "images" / "dog" / "023.png").mkdir()
    return data


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (wrong_label, "label 7"),
        (cut_archive, "truncated"),
        (hole_in_archive, "truncated"),
        (missing_image, "23.png"),
    ],
)
def test_what_is_wrong_with_the_last_sample_is_found_before_an_image_is_read(broken, words, plan, tmp_path, passes):
    data = broken(tmp_path / "data")
    session = Session()
    passes()

    try:
        (report,) = run.run_jobs(plan(data)[0], session)
        error = report.error
    except DataError as raised:  # when it was planned
        error = raised

    assert words in str(error)
    assert passes() < 0.1
    assert not any(model.loaded for model in session._models.values())


def test_an_image_that_nobody_may_read_is_found_before_another_is_read(plan, tmp_path, passes, monkeypatch):
    """Those who run tests in a container may read everything: the answer is what the system would give to others."""
    data = write_folder(tmp_path / "data")
    monkeypatch.setattr(os, "access", lambda path, mode: "023.png" not in str(path))

    (report,) = run_planned(*plan(data))

    assert "023.png: cannot read the image (Permission denied)" in str(report.error)
    assert passes() == 0


def test_every_cut_of_an_archive_is_found_without_reading_its_images(tmp_path):
    def make(key, image, fields):
        return Sample(key, image, label=int(fields["cls"]))

    path = tmp_path / "0.tar"
    write_tar(path, [(f"s{i}.{kind}", data) for i in range(3) for kind, data in (("png", IMAGES[i]), ("cls", b"1"))])
    whole = path.read_bytes()
    outline = list(iter_tar(path, make, outline=True))
    assert [(s.id, s.label, s.image.part, s.image.data) for s in outline] == [
        (s.id, s.label, s.image.part, None) for s in iter_tar(path, make)
    ]
    assert digests.known_digest(path, digests.file_state(path)) == digests.digest_bytes(whole)

    end = whole.rstrip(b"\0")
    for size in itertools.chain(range(0, len(end), 4096), range(0, len(whole) - 9 * 1024, 4096 - 512)):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError):
            list(iter_tar(path, make, outline=True))


def test_a_result_of_data_that_changed_while_they_were_read_is_not_taken_for_one_of_the_new_data(
    plan, tmp_path, monkeypatch
):
    data = write_folder(tmp_path / "data")
    score = run.score_with_groups

    def change(*given):
        (tmp_path / "data" / "cat" / "000.png").write_bytes(IMAGES[1])
        return score(*given)

    with monkeypatch.context() as during:
        during.setattr(run, "score_with_groups", change)
        result = result_of(plan(data))
    jobs, config = plan(data, skip_existing=True)
    (report,) = run_planned(jobs, config)

    assert result.job["identity"]["data"] is None
    assert not report.skipped
    assert report.result.job["identity"]["data"]
    (last,) = run_planned(*plan(data, skip_existing=True))
    assert last.skipped


def test_an_error_on_the_way_leaves_the_next_job_the_whole_dataset(tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "LOOKED_UP", 2)
    write_folder(tmp_path / "data")
    (tmp_path / "data" / "cat" / "004.png").write_bytes(b"no image")
    reading = DatasetScan(open_dataset(DatasetSpec("x", "folder", str(tmp_path / "data"))))
    store = EmbeddingStore(tmp_path / "store")

    with pytest.raises(DataError, match="004"):
        CachedEncoder(lazy(random_encoder(0)), store, EncodeOptions(batch_size=2)).images(reading)
    assert not reading.done
    embedded = CachedEncoder(lazy(random_encoder(1)), store, EncodeOptions(batch_size=4), on_error="skip").images(
        reading
    )

    assert len(embedded.kept) == N - 1
    assert reading.done


@pytest.mark.parametrize("layout", ["folder", "webdataset"])
def test_few_bytes_of_images_are_in_memory_at_a_time(layout, tmp_path, monkeypatch):
    """Large images and large batches: what is read ahead is limited by bytes, not by images."""
    large = [encoded(noise_image(i, (400, 400))) for i in range(N)]
    monkeypatch.setattr(sys.modules[__name__], "IMAGES", large)
    each = len(large[0])
    monkeypatch.setattr(embeddings, "LOOKED_UP_BYTES", 2 * each)
    monkeypatch.setattr(image_batches, "AHEAD_BYTES", 3 * each)
    model = CachedEncoder(
        lazy(random_encoder()), EmbeddingStore(tmp_path / "store"), EncodeOptions(batch_size=N, workers=1)
    )
    dataset = opened(layout, tmp_path / "data")
    to_rgb(ImageRef("first", data=IMAGES[0]).decode())  # Pillow imports its plugins
    reading = DatasetScan(dataset)

    tracemalloc.start()
    try:
        model.images(reading)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 12 * each < N * each
