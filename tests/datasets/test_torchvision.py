"""Every torchvision-backed name on torchvision's own on-disk format, made small."""

import numpy as np
import pytest

from eyechart.datasets.catalogue import load_catalogue
from eyechart.datasets.registry import open_dataset
from eyechart.datasets.resolve import resolve_dataset
from eyechart.errors import DataError, UsageError
from eyechart.manifest import iter_samples, read_manifest
from support import torchvision_formats as formats

NAMES = {
    "cifar10": ("cat", "dog", "cow"),
    "cifar100": ("cat", "dog", "cow"),
    "mnist": ("0", "1", "2"),
    "stl10": ("airplane", "bird", "car"),
    "food101": ("apple pie", "baby back ribs", "baklava"),
    "sun397": ("abbey", "airport terminal", "beer garden"),
    "cars": ("AM General Hummer", "Acura RL", "Audi A5"),
    "fgvc_aircraft": ("707-320", "727-200", "A300B4"),
    "dtd": ("banded", "blotchy", "braided"),
    "pets": ("Abyssinian", "American Bulldog", "Bengal"),
    "flowers": ("pink primrose", "hard-leaved pocket orchid", "canterbury bells"),
    "eurosat": ("annual crop land", "forest", "brushland or shrubland"),
    "gtsrb": ("red and white circle 20 kph speed limit",),
    "country211": ("Andorra", "United Arab Emirates", "Afghanistan"),
    "pcam": ("lymph node", "lymph node containing metastatic tumor tissue"),
    "renderedsst2": ("negative", "positive"),
}
"""The first class names of each set, from its files or from the prompt pack."""
SORTED = {"food101", "sun397", "eurosat", "country211", "renderedsst2", "dtd"}
"""Sets whose images come class by class."""
ARRAYS = {"cifar10", "cifar100", "mnist", "stl10", "pcam"}
BINARY = {"pcam", "renderedsst2"}

pytestmark = pytest.mark.usefixtures("pack")


@pytest.fixture(params=NAMES)
def small(request, tmp_path, monkeypatch):
    getattr(formats, request.param)(tmp_path, monkeypatch)
    return request.param, resolve_dataset(request.param, str(tmp_path), options={"offline": True})


def test_every_torchvision_name_of_the_catalogue_is_tested():
    backed = {
        entry.name
        for entry in load_catalogue().entries.values()
        if any(source.reader == "torchvision" for source in entry.sources)
    }

    assert backed == set(NAMES)


def test_it_reads_the_small_set(small):
    name, spec = small
    dataset = open_dataset(spec)

    manifest = read_manifest(dataset)

    labels = formats.BINARY if name in BINARY else formats.LABELS
    found = [entry.label for entry in manifest.entries]
    assert spec.reader == "torchvision"
    assert found == (sorted(labels) if name in SORTED - {"dtd"} else labels)
    assert manifest.info.classnames[: len(NAMES[name])] == NAMES[name]
    assert manifest.info.templates


def test_files_keep_their_bytes_and_arrays_their_pixels(small):
    name, spec = small
    samples = list(iter_samples(open_dataset(spec)))

    if name in ARRAYS:
        side = {"mnist": 28, "stl10": 96, "pcam": 96}.get(name, 32)
        expected = formats.pixels(4, side)[..., 0] if name == "mnist" else formats.pixels(4, side)
        assert (np.stack([np.asarray(sample.image.decode()) for sample in samples]) == expected).all()
    else:
        assert all(sample.image.path.is_file() for sample in samples)


def test_images_are_paired_with_their_labels(tmp_path, monkeypatch):
    formats.dtd(tmp_path, monkeypatch)

    samples = list(iter_samples(open_dataset(resolve_dataset("dtd", str(tmp_path)))))

    assert [sample.image.path.parent.name for sample in samples] == ["braided", "banded", "blotchy", "braided"]


def test_a_damaged_batch_is_refused_before_it_is_unpickled(tmp_path, monkeypatch):
    formats.cifar10(tmp_path, monkeypatch)
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(DataError, match="torchvision found no complete CIFAR10"):
        open_dataset(resolve_dataset("cifar10", str(tmp_path), options={"offline": True}))

    assert not (tmp_path / "pwned").exists()


def test_a_split_that_the_set_lacks_is_refused(tmp_path, monkeypatch):
    formats.mnist(tmp_path, monkeypatch)

    with pytest.raises(UsageError, match="Available: train, test"):
        resolve_dataset("mnist", str(tmp_path), split="val")


def test_the_training_split_is_read_on_request(tmp_path, monkeypatch):
    formats.mnist(tmp_path, monkeypatch)

    assert len(read_manifest(open_dataset(resolve_dataset("mnist", str(tmp_path), split="train")))) == 4


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mnist", "MNIST/raw/t10k-images-idx3-ubyte"),
        ("mnist", "MNIST/raw/t10k-labels-idx1-ubyte"),
        ("pcam", "pcam/camelyonpatch_level_2_split_test_x.h5"),
        ("dtd", "dtd/dtd/images/banded/banded_0001.jpg"),
        ("pets", "oxford-iiit-pet/images/american_bulldog_2.jpg"),
    ],
)
def test_other_data_of_the_same_size_has_another_signature(name, file, tmp_path, monkeypatch):
    getattr(formats, name)(tmp_path, monkeypatch)
    spec = resolve_dataset(name, str(tmp_path))
    before = open_dataset(spec).signature()
    assert open_dataset(spec).signature() == before
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))

    assert open_dataset(spec).signature() != before


def test_arrays_are_digested_themselves_if_nobody_knows_their_files(tmp_path, monkeypatch):
    formats.mnist(tmp_path, monkeypatch)
    spec = resolve_dataset("mnist", str(tmp_path))
    spec.options["source"]["present"] = []
    before = open_dataset(spec).signature()
    images = tmp_path / "MNIST" / "raw" / "t10k-images-idx3-ubyte"
    images.write_bytes(images.read_bytes()[:-1] + b"\0")

    assert open_dataset(spec).signature() != before


def test_what_torchvision_cannot_download_says_how_to_get_it(tmp_path):
    (tmp_path / "stanford_cars").mkdir()

    with pytest.raises(DataError, match="eyechart info cars"):
        open_dataset(resolve_dataset("cars", str(tmp_path)))
