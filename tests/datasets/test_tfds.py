"""TensorFlow Datasets with small builders generated here, in ArrayRecord and without TensorFlow."""

import io
from importlib.util import find_spec

import numpy as np
import pytest

from eyechart.datasets import libraries as reader
from eyechart.datasets.registry import open_dataset
from eyechart.datasets.resolve import resolve_dataset
from eyechart.errors import DataError, MissingExtraError, UsageError
from eyechart.manifest import iter_samples, read_manifest
from support.data import encoded, noise_image

pytestmark = [
    pytest.mark.usefixtures("pack"),
    # Raised inside TensorFlow Datasets and its dependencies, not by our calls:
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

NAMES = ["cat", "dog", "cow"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Prepare three small datasets: one like most, one called cifar10 and one like dSprites."""
    return prepare(tmp_path_factory.mktemp("tfds"), "array_record")


def prepare(root, file_format):
    import tensorflow_datasets as tfds

    features = tfds.features
    images = features.FeaturesDict(
        {"image": features.Image(shape=(None, None, 3)), "label": features.ClassLabel(names=NAMES)}
    )
    sprites = features.FeaturesDict(
        {"image": features.Image(shape=(8, 8, 1)), "label_x_position": features.ClassLabel(num_classes=32)}
    )

    def build(builder_name, description, generate):
        class SmallBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
            name = builder_name
            VERSION = tfds.core.Version("3.0.2")
            pkg_dir_path = None

            def _info(self):
                return tfds.core.DatasetInfo(builder=self, features=description)

            def _split_generators(self, _):
                return {"train": generate(10), "test": generate(4)}

            def _generate_examples(self):
                raise NotImplementedError

        SmallBuilder(data_dir=str(root), file_format=file_format).download_and_prepare()

    build("tiny_animals", images, animals)
    build("cifar10", images, animals)
    build("dsprites", sprites, black_and_white)
    return root


def animals(n):
    for i in range(n):
        yield i, {"image": io.BytesIO(encoded(noise_image(i), "jpg")), "label": i % 3}


def black_and_white(n):
    from PIL import Image

    for i in range(n):
        flat = Image.fromarray(np.full((8, 8), i % 2, np.uint8))
        yield i, {"image": io.BytesIO(encoded(flat)), "label_x_position": i}


def opened(name, root, **options):
    split = options.pop("split", "test")
    return open_dataset(resolve_dataset(name, str(root), split=split, options=options))


def test_any_prepared_dataset_is_read_by_name(prepared):
    manifest = read_manifest(opened("tfds/tiny_animals", prepared))

    assert manifest.info.classnames == tuple(NAMES)
    assert sorted(entry.label for entry in manifest.entries) == [0, 0, 1, 2]


def test_images_keep_their_bytes(prepared):
    wanted = {encoded(noise_image(i), "jpg"): i % 3 for i in range(4)}

    found = {sample.image.read(): sample.label for sample in iter_samples(opened("tfds/tiny_animals", prepared))}

    assert found == wanted


def test_templates_of_an_unknown_name_are_borrowed_and_noticed(prepared):
    info = opened("tfds/tiny_animals", prepared).info

    assert len(info.templates) == 80
    assert [note.kind for note in info.notes] == ["fallback_templates"]


def test_templates_of_a_known_name_are_its_own(prepared):
    info = opened("tfds/cifar10", prepared).info

    assert len(info.templates) == 18
    assert info.notes == ()


def test_vtab_names_use_prepared_data_in_the_root(prepared):
    dataset = opened("vtab/cifar10", prepared)

    assert len(read_manifest(dataset)) == 4
    assert len(dataset.info.templates) == 18


def test_other_records_of_the_same_size_have_another_signature(tmp_path):
    prepare(tmp_path, "array_record")
    before = {split: opened("tfds/tiny_animals", tmp_path, split=split).signature() for split in ("train", "test")}
    (records,) = (tmp_path / "tiny_animals" / "3.0.2").glob("*test*")
    content = records.read_bytes()
    records.write_bytes(content.replace(b"JFIF", b"jfif"))

    assert opened("tfds/tiny_animals", tmp_path, split="train").signature() == before["train"]
    assert opened("tfds/tiny_animals", tmp_path, split="test").signature() != before["test"]


def test_vtab_splits_are_slices(prepared):
    assert len(read_manifest(opened("vtab/cifar10", prepared, split="trainval"))) == 10
    with pytest.raises(DataError, match=r"no split 'train\[:800\]'"):
        opened("vtab/cifar10", prepared, split="train800")


def test_dsprites_are_stretched_to_black_and_white(prepared):
    spec = resolve_dataset("vtab/dsprites_label_x_position", str(prepared))
    spec.options["source"]["splits"]["test"] = "test"  # the real one is a slice of 737280

    samples = list(iter_samples(open_dataset(spec)))

    assert {sample.label: sample.image.decode().getextrema() for sample in samples} == {
        0: (0, 0),
        1: (255, 255),
        2: (0, 0),
        3: (255, 255),
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tfds/tiny_animals", "Available: test, train|Available: train, test"),
        ("tfds/nothing", "is unknown to TensorFlow Datasets"),
    ],
)
def test_what_is_not_there_is_explained(prepared, name, message):
    with pytest.raises((UsageError, DataError), match=message):
        opened(name, prepared, split="dev")


def test_offline_does_not_prepare(tmp_path):
    with pytest.raises(DataError, match="not prepared in"):
        opened("tfds/mnist", tmp_path, offline=True)


def test_records_that_need_tensorflow_say_so(prepared, tmp_path, monkeypatch):
    import tensorflow_datasets as tfds

    library = tfds
    builder = tfds.builder("tiny_animals", data_dir=str(prepared))
    monkeypatch.setattr(type(builder.info), "file_format", tfds.core.FileFormat.TFRECORD)
    monkeypatch.setattr(reader, "find_spec", lambda _: None)
    spec = resolve_dataset("tfds/tiny_animals", str(prepared))

    with pytest.raises(MissingExtraError, match="prepared as tfrecord, which requires TensorFlow"):
        reader._rows(library, spec, builder, "test")


@pytest.mark.skipif(find_spec("tensorflow") is None, reason="needs TensorFlow: run `make tfds-check`")
def test_records_of_tensorflow_give_the_same_samples_in_the_same_order(prepared, tmp_path):
    prepare(tmp_path, "tfrecord")

    def samples(root):
        return [(sample.id, sample.label, sample.image.read()) for sample in iter_samples(opened("tfds/cifar10", root))]

    assert list(tmp_path.rglob("*.tfrecord*"))
    assert samples(tmp_path) == samples(prepared)


# ----------------------------------------------------------------------------------------- labels that VTAB makes


@pytest.mark.parametrize(("objects", "label"), [(3, 0), (10, 7)])
def test_clevr_counts_from_three(objects, label):
    assert reader.clevr_count({"objects": {"size": [0] * objects}}) == label


@pytest.mark.parametrize(("distance", "label"), [(7.9, 0), (8.2, 1), (9.7, 4), (12.0, 5)])
def test_clevr_bins_the_closest_object(distance, label):
    coordinates = np.array([[0, 0, 50.0], [0, 0, distance]])

    assert reader.clevr_distance({"objects": {"pixel_coords": coordinates}}) == label


@pytest.mark.parametrize(
    ("types", "depths", "label"),
    [([0, 5], [30.0, 2.0], 2), ([2], [5.0], 0), ([1], [15.0], 1), ([4], [3.0], 3), ([], [], 3)],
)
def test_kitti_bins_the_closest_vehicle_or_none(types, depths, label):
    location = np.array([[0, 0, depth] for depth in depths]).reshape(-1, 3)

    assert reader.kitti_vehicle_distance({"objects": {"type": np.array(types), "location": location}}) == label
