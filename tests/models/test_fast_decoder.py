"""The fast decoder: how far its pixels are from the exact ones, and that it refuses what the exact one refuses."""

import dataclasses
import io
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from open_clip.constants import OPENAI_DATASET_MEAN, OPENAI_DATASET_STD
from open_clip.transform import image_transform
from PIL import Image, ImageFilter
from torchvision.transforms import Compose, Grayscale, Lambda, ToTensor

from eyechart.errors import DataError, UsageError
from eyechart.inference.pipeline import Pipeline
from eyechart.io import images
from eyechart.io.images import ImageRef, to_rgb
from eyechart.io.progress import NoProgress
from eyechart.io.stopwatch import Stopwatch
from eyechart.models.encoders.transformers import TransformersFamily
from eyechart.models.lazy_model import LazyModel
from eyechart.models.speedups.transforms import FastImages, PixelTable
from eyechart.store.vector_store import EmbeddingStore
from eyechart.types import EncodeOptions, Sample
from support.data import encoded, noise_image
from support.zoo import load


@pytest.fixture(scope="module")
def pair(zoo):
    """Load the same model with either decoder."""
    spec = zoo.case("open_clip").spec
    return load(spec), load(dataclasses.replace(spec, options={**spec.options, "decoder": "fast"}))


def photograph(seed, size=(300, 200), mode="RGB", **options):
    """Make a smooth JPEG, as a camera would."""
    rough = noise_image(seed, (12, 8)).resize(size, Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(1))
    stream = io.BytesIO()
    rough.convert(mode).save(stream, "JPEG", **options)
    return ImageRef(f"{seed}.jpg", stream.getvalue())


def levels_apart(first, second, encoder):
    """Return the largest difference of prepared pixels in levels of 255."""
    std = np.array(encoder.transform.transforms[-1].std)[:, None, None]
    return np.abs((first - second) * std * 255).max()


def photographs():
    """Find the real ones that scikit-image and scikit-learn carry."""
    folders = [Path(find_spec("skimage").origin).parent / "data", Path(find_spec("sklearn").origin).parent / "datasets"]
    files = [path for folder in folders for kind in ("*.jpg", "*.png") for path in sorted(folder.rglob(kind))]
    return {path.name: ImageRef(path.name, path.read_bytes()) for path in files}


PICTURES = photographs() | {
    "smooth": photograph(0),
    "smaller than the tower": photograph(1, (20, 30)),
    "noise": ImageRef("noise.jpg", encoded(noise_image(9, (500, 375)), "jpeg")),
    "tall": ImageRef("tall.jpg", encoded(noise_image(10, (300, 900)), "jpeg")),
    "wide": ImageRef("wide.jpg", encoded(noise_image(11, (900, 300)), "jpeg")),
    "no chroma subsampling": photograph(2, subsampling=0),
    "progressive": photograph(3, progressive=True),
    "grey": photograph(4, mode="L"),
    "cmyk": photograph(5, mode="CMYK"),
    "png": ImageRef("6.png", encoded(noise_image(6, (300, 200)), "png")),
    "transparent": ImageRef("7.png", encoded(noise_image(7, (300, 200), "RGBA"), "png")),
    "a part": photograph(8).crop(10, 20, 150, 180),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pixels_are_at_most_one_level_apart(pair, name):
    exact, fast = (encoder.prepare_image(encoder.decode(PICTURES[name])) for encoder in pair)

    assert exact.shape == fast.shape
    assert levels_apart(exact, fast, pair[0]) <= 1.001


@pytest.fixture(scope="module")
def common_transform():
    """Make the transform of most CLIP models, as open_clip does: 224 pixels, while the zoo's towers are tiny."""
    return image_transform(224, is_train=False, mean=OPENAI_DATASET_MEAN, std=OPENAI_DATASET_STD)


@pytest.mark.parametrize("name", PICTURES)
def test_at_the_size_of_most_models_few_pixels_are_one_level_apart(common_transform, name):
    fast, std = FastImages(common_transform), np.array(OPENAI_DATASET_STD)[:, None, None]
    exact = common_transform(to_rgb(PICTURES[name].decode())).numpy()

    levels = np.abs(fast.prepare(fast.decode(PICTURES[name])) - exact) * std * 255

    assert levels.max() <= 1.001
    assert (levels > 0.5).mean() < 0.01


@pytest.mark.parametrize("name", photographs())
def test_the_table_of_levels_gives_every_bit_of_the_transform(common_transform, name):
    image = to_rgb(PICTURES[name].decode())

    found = PixelTable(common_transform).prepare(image)

    assert found.tobytes() == common_transform(image).numpy().tobytes()
    assert found.flags.c_contiguous


def test_a_transform_that_has_no_table_is_used_as_it_is(common_transform):
    steps = common_transform.transforms
    other = Compose([*steps[:-1], Lambda(lambda pixels: pixels.sqrt()), steps[-1]])
    grey = Compose([Grayscale(), ToTensor()])

    for transform in (other, grey):
        found = PixelTable(transform).prepare(PICTURES["smooth"].decode())
        assert found.tobytes() == transform(PICTURES["smooth"].decode()).numpy().tobytes()


def test_its_vectors_are_kept_apart_and_its_card_says_so(pair):
    exact, fast = (encoder.card for encoder in pair)

    assert exact.fingerprint != fast.fingerprint
    assert any("at most one level" in note for note in fast.notes)


@pytest.mark.parametrize("data", [b"", b"\xff\xd8\xff\xe0 not a jpeg", photograph(0).data[:2000]])
def test_what_is_no_whole_image_is_refused(pair, data):
    with pytest.raises(DataError, match=r"broken\.jpg: cannot decode"):
        pair[1].decode(ImageRef("broken.jpg", data))


def test_a_giant_image_is_refused_by_its_header(pair, monkeypatch):
    monkeypatch.setattr(images, "MAX_PIXELS", 1000)

    with pytest.raises(DataError, match="more than the limit"):
        pair[1].decode(photograph(0))


def test_an_unknown_decoder_is_refused(zoo):
    spec = zoo.case("open_clip").spec

    with pytest.raises(UsageError, match="Unknown decoder"):
        load(dataclasses.replace(spec, options={**spec.options, "decoder": "turbo"}))


def test_an_unknown_transform_is_refused():
    with pytest.raises(UsageError, match="does not support the transform of this model"):
        FastImages(lambda image: image)


def test_a_family_without_a_choice_says_so(zoo, tmp_path):
    spec = dataclasses.replace(zoo.case("clip").spec, options={"decoder": "fast"})
    line = Pipeline(LazyModel(spec, TransformersFamily()), EncodeOptions(4, 1), "fail", Stopwatch())
    listed, table = [(b"", Sample("a", photograph(0)))], EmbeddingStore(tmp_path).table("model", "image")

    with (
        pytest.raises(UsageError, match=r"The decoder of .* cannot be selected"),
        NoProgress().step("images", 1) as bar,
    ):
        line.embed_images(listed, table, bar)
