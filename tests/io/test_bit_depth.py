"""Images with more than eight bits per channel keep their greys: neither white nor black, and never in silence."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

from eyechart.datasets.webdataset_export import recode
from eyechart.errors import DataError
from eyechart.io.images import ImageRef, decode_image, to_rgb
from eyechart.results.job_results import _shrunk
from eyechart.types import Sample

GREY = pytest.importorskip("skimage.data").camera()[::4, ::4]
"""A photograph in eight bits."""
DEEP = GREY.astype(np.uint16) * 257
"""The same in sixteen: 255 becomes 65535."""


def saved(image, form, **options):
    stream = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(stream, form, **options)
    return stream.getvalue()


def tiff(bits, content, sample_format=1):
    """Write a plain TIFF of grey values, which Pillow itself does not write with every number of bits."""
    height, width = GREY.shape
    tags = {256: width, 257: height, 258: bits, 259: 1, 262: 1, 273: 8, 277: 1, 278: height, 279: len(content)}
    tags[339] = sample_format
    entries = b"".join(
        struct.pack("<HHII", tag, 4 if tag in (256, 257, 273, 278, 279) else 3, 1, value) for tag, value in tags.items()
    )
    return b"II*\0" + struct.pack("<I", 8 + len(content)) + content + struct.pack("<H", len(tags)) + entries + b"\0" * 4


def pgm(largest, values):
    return f"P5 {GREY.shape[1]} {GREY.shape[0]} {largest}\n".encode() + values.astype(">u2").tobytes()


SIXTEEN = {
    "png": lambda: saved(DEEP, "PNG"),
    "tiff": lambda: saved(DEEP, "TIFF"),
    "tiff, compressed": lambda: saved(DEEP, "TIFF", compression="tiff_adobe_deflate"),
    "tiff, big end first": lambda: saved(
        Image.frombytes("I;16B", GREY.shape[::-1], DEEP.astype(">u2").tobytes()), "TIFF"
    ),
    "jpeg 2000": lambda: saved(DEEP, "JPEG2000"),
    "pgm": lambda: pgm(65535, DEEP),
    "tiff of fractions": lambda: saved((GREY / 255).astype(np.float32), "TIFF"),
}


@pytest.mark.parametrize("form", SIXTEEN)
def test_a_deep_photograph_looks_like_the_same_one_in_eight_bits(form):
    image = to_rgb(ImageRef(form, data=SIXTEEN[form]()).decode())

    assert image.mode == "RGB"
    assert (np.asarray(image) == GREY[..., None]).all()


def test_a_deep_image_with_another_largest_value_is_scaled_by_it():
    image = to_rgb(ImageRef("12 bits", data=pgm(4095, np.rint(GREY / 255 * 4095))).decode())

    assert np.abs(np.asarray(image).astype(int) - GREY[..., None]).max() <= 1


def test_a_part_of_a_deep_image_is_like_that_part():
    part = to_rgb(ImageRef("pgm", data=SIXTEEN["pgm"]()).crop(10, 20, 60, 80).decode())

    assert (np.asarray(part) == GREY[20:80, 10:60, None]).all()


UNKNOWN = {
    "32 bits": lambda: saved(DEEP.astype(np.int32), "TIFF"),
    "16 bits with a sign": lambda: tiff(16, (DEEP.astype(np.int32) - 32768).astype("<i2").tobytes(), 2),
    "fractions up to 255": lambda: saved(GREY.astype(np.float32), "TIFF"),
    "fractions below 0": lambda: saved((GREY / 255 - 0.5).astype(np.float32), "TIFF"),
    "no numbers": lambda: saved(np.full(GREY.shape, np.nan, np.float32), "TIFF"),
}


@pytest.mark.parametrize("form", UNKNOWN)
def test_values_that_could_mean_anything_are_refused(form):
    with pytest.raises(DataError, match=r"(?s)value of white is unknown.*8 or 16 bits"):
        to_rgb(ImageRef(form, data=UNKNOWN[form]()).decode())


def test_twelve_bits_that_would_be_taken_for_sixteen_are_refused():
    pairs = (DEEP >> 4).reshape(-1, 2).astype(np.uint32)
    packed = ((pairs[:, 0] << 12) | pairs[:, 1]).astype(">u4").view(np.uint8).reshape(-1, 4)[:, 1:]

    with pytest.raises(DataError, match=r"a\.tif: the image has 12 bits"):
        ImageRef("a.tif", data=tiff(12, packed.tobytes())).decode()


def test_a_thumbnail_of_a_deep_image_is_not_white():
    levels = {"bright": 60000, "dark": 9000}
    samples = [
        Sample(name, ImageRef("a.png", data=saved(np.full((9, 9), value, np.uint16), "PNG")))
        for name, value in levels.items()
    ]

    found = _shrunk(list(levels), samples, 256)

    assert found["bright"]["thumbnail"] != found["dark"]["thumbnail"]


@pytest.mark.parametrize(("wanted", "extension"), [(None, "png"), ("webp", "png"), ("png", "png"), ("jpg", "jpg")])
def test_an_export_keeps_the_greys_of_a_deep_image(wanted, extension):
    found, content = recode(ImageRef("a.tif", data=SIXTEEN["tiff"]()), wanted)

    shallow = Image.fromarray(GREY).convert("RGB")
    expected = saved(shallow, "JPEG") if extension == "jpg" else saved(shallow, "PNG")
    assert found == extension
    assert to_rgb(decode_image(content, "again")).tobytes() == decode_image(expected, "expected").tobytes()


def test_an_export_of_modes_that_the_format_lacks(tmp_path):
    cmyk = ImageRef("a.jpg", data=saved(Image.fromarray(GREY).convert("CMYK"), "JPEG"))

    for wanted in ("png", "webp"):
        _, content = recode(cmyk, wanted)
        assert to_rgb(ImageRef("again", data=content).decode()).tobytes() == to_rgb(cmyk.decode()).tobytes()
