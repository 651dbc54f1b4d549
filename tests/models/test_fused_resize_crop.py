"""Resize and crop in one step: every bit is that of torchvision's two steps, whatever the sizes."""

import numpy as np
import pytest
from PIL import Image
from torchvision.transforms import CenterCrop, InterpolationMode, Resize

from eyechart.models.speedups import transforms
from eyechart.models.speedups.transforms import FusedResizeCrop, fuse_resize_crop
from support.data import noise_image

FILTERS = (InterpolationMode.BICUBIC, InterpolationMode.BILINEAR, InterpolationMode.LANCZOS)


def same(cut, image):
    found, wanted = cut(image), cut.plain(image)
    return found.size == wanted.size and found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("seed", range(3))
def test_every_bit_is_that_of_resize_and_crop(seed):
    rng = np.random.default_rng(seed)
    for number in range(100):
        width, height = (int(side) for side in rng.integers(5, 150, 2))
        # Half of them are hardly resized at all: there, a row more or less decides which pass comes first.
        edge = int(rng.integers(5, 90)) if number % 2 else max(4, min(width, height) + int(rng.integers(-4, 5)))
        kept = max(1, int(edge * rng.choice([1.2, 1, 0.875, 0.5])))
        cut = FusedResizeCrop(Resize(edge, FILTERS[number % 3]), CenterCrop(kept))

        assert same(cut, noise_image(number, (width, height))), (width, height, edge, kept)


@pytest.mark.parametrize("size", [(500, 375), (375, 500), (400, 600), (300, 900), (30, 3000), (3000, 30), (224, 224)])
def test_usual_and_unusual_images_at_the_size_of_most_models(size):
    cut = FusedResizeCrop(Resize(224, InterpolationMode.BICUBIC), CenterCrop(224))

    assert same(cut, noise_image(0, size))


@pytest.mark.parametrize("mode", ["L", "RGBA", "P"])
def test_other_modes_go_the_plain_way(mode):
    cut = FusedResizeCrop(Resize(32, InterpolationMode.BICUBIC), CenterCrop(32))

    assert same(cut, noise_image(0, (90, 60)).convert(mode))


def test_only_a_resize_of_the_shorter_side_and_a_crop_are_replaced():
    crop = CenterCrop(32)
    for resize in (Resize((32, 40)), Resize(32, max_size=50), Resize(32, InterpolationMode.NEAREST)):
        assert fuse_resize_crop([resize, crop]) == [resize, crop]
    assert fuse_resize_crop([crop, Resize(32)])[0] is crop
    assert isinstance(fuse_resize_crop([Resize(32), crop])[0], FusedResizeCrop)


def test_a_pillow_that_takes_the_columns_first_is_left_alone(monkeypatch):
    # On an image as tall as this, Pillow 13 does; others never do, and then there is nothing to see here.
    monkeypatch.setattr(transforms, "TALLEST", 10)
    monkeypatch.setattr(transforms, "PROBE_SIZES", ((30, 200),))
    steps, probe = [Resize(16), CenterCrop(16)], noise_image(0, (30, 200))
    columns_first = probe.resize((30, 106), Image.Resampling.BILINEAR).resize((16, 106), Image.Resampling.BILINEAR)
    tall = probe.resize((16, 106), Image.Resampling.BILINEAR).tobytes() == columns_first.tobytes()

    assert isinstance(fuse_resize_crop(steps)[0], FusedResizeCrop) is not tall
