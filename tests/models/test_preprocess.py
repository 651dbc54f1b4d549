"""Preprocessing for ONNX exports, compared with transformers' slow image processor."""

import numpy as np
import pytest
from PIL import Image

from eyechart.models.towers.preprocess import Preprocess


def test_a_crop_with_an_odd_margin_starts_at_the_smaller_half():
    pixels = np.arange(7 * 5 * 3, dtype=np.uint8).reshape(5, 7, 3)
    config = {"do_resize": False, "do_center_crop": True, "crop_size": {"width": 4, "height": 2}, "do_normalize": False}

    found = Preprocess.from_config({**config, "do_rescale": False})(Image.fromarray(pixels))

    np.testing.assert_array_equal(found, pixels[1:3, 1:5].transpose(2, 0, 1))


@pytest.mark.parametrize("size", [(9, 9), (10, 9), (9, 10), (31, 17)])
@pytest.mark.parametrize("edge", [8, 7])
def test_a_crop_is_that_of_transformers(size, edge):
    from transformers.image_transforms import center_crop

    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8))
    config = {"do_resize": False, "do_center_crop": True, "crop_size": edge, "do_normalize": False, "do_rescale": False}

    found = Preprocess.from_config(config)(image)

    theirs = center_crop(np.asarray(image), (edge, edge), input_data_format="channels_last")
    np.testing.assert_array_equal(found, theirs.transpose(2, 0, 1))
