"""Photographs that lost a part: decoders would fill it with grey, and no score would tell."""

import io
import time
from pathlib import Path

import pytest
from PIL import Image

from eyechart.errors import DataError
from eyechart.io.images import ImageRef, decode_image

photographs = pytest.importorskip("skimage.data")
FOLDER = Path(photographs.__file__).parent
FILES = ("hubble_deep_field.jpg", "retina.jpg", "rocket.jpg", "chelsea.png")


def saved(name, form, **options):
    stream = io.BytesIO()
    Image.fromarray(getattr(photographs, name)()).save(stream, form, **options)
    return stream.getvalue()


def photographs_in_every_form():
    yield from ((file, (FOLDER / file).read_bytes()) for file in FILES)
    for quality in (75, 95, 100):
        yield f"jpeg {quality}", saved("astronaut", "JPEG", quality=quality)
    yield "optimised jpeg", saved("astronaut", "JPEG", quality=98, optimize=True)
    yield "progressive jpeg", saved("astronaut", "JPEG", quality=98, progressive=True)
    yield "png", saved("astronaut", "PNG")
    yield "gif", saved("astronaut", "GIF")
    yield "webp", saved("astronaut", "WEBP", quality=80)
    yield "lossless webp", saved("astronaut", "WEBP", lossless=True, method=0)
    yield "avif", saved("astronaut", "AVIF", speed=10)


PHOTOGRAPHS = dict(photographs_in_every_form())
NOISE = "cut and padded with noise"
DAMAGES = {
    "the second half is zeros": lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
    "the last fifth is zeros": lambda data: data[: len(data) * 4 // 5] + bytes(len(data) - len(data) * 4 // 5),
    "zeros without end": lambda data: data[: len(data) // 2] + bytes(10 * len(data)),
    "cut in the middle": lambda data: data[: len(data) // 2],
    NOISE: lambda data: data[: len(data) // 2] + b"\x55\xaa" * (len(data) // 4),
}


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_a_whole_photograph_is_decoded(name):
    assert decode_image(PHOTOGRAPHS[name], name).tobytes() == Image.open(io.BytesIO(PHOTOGRAPHS[name])).tobytes()


UNMARKED = ("webp", "lossless webp", "avif")
CASES = [(name, damage) for name in PHOTOGRAPHS for damage in DAMAGES if damage != NOISE or name not in UNMARKED]
"""WebP and AVIF have neither checksums nor an end mark: noise in the place of their pixels cannot be told."""


@pytest.mark.parametrize(("name", "damage"), CASES)
def test_a_photograph_that_lost_a_part_is_refused(name, damage):
    with pytest.raises(DataError, match=r"photo: cannot decode the image"):
        ImageRef("photo", data=DAMAGES[damage](PHOTOGRAPHS[name])).decode()


@pytest.mark.parametrize("more", [b"\0" * 5000, b"\xff\xd8\xff garbage" * 99, b"\n", b"\xff" * 7])
@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_what_stands_behind_a_whole_photograph_does_not_matter(name, more):
    """Cameras and messengers append previews, comments and padding."""
    assert decode_image(PHOTOGRAPHS[name] + more, name).tobytes() == decode_image(PHOTOGRAPHS[name], name).tobytes()


def test_the_end_mark_of_a_thumbnail_is_not_that_of_the_photograph():
    exif = Image.Exif()
    exif[0x927C] = saved("coffee", "JPEG", quality=5)[:30_000]
    whole = saved("astronaut", "JPEG", quality=98, exif=exif)
    assert whole.index(b"\xff\xd9") < len(whole) // 2
    assert decode_image(whole, "with a thumbnail").size == (512, 512)

    with pytest.raises(DataError, match="no end mark"):
        decode_image(DAMAGES["the second half is zeros"](whole), "with a thumbnail")


def test_one_wrong_bit_in_a_png_is_found():
    whole = PHOTOGRAPHS["chelsea.png"]
    for at in range(1000, len(whole) - 1000, len(whole) // 50):
        with pytest.raises(DataError):
            decode_image(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], "flipped")


@pytest.mark.parametrize("form", ["JPEG", "WEBP", "PNG", "AVIF"])
@pytest.mark.parametrize("colour", ["black", "white", "grey"])
def test_a_flat_image_is_whole_though_it_is_mostly_zeros_on_disk(form, colour):
    for options in ({}, {"optimize": True}, {"lossless": True}, {"progressive": True}):
        stream = io.BytesIO()
        Image.new("RGB", (2000, 1500), colour).save(stream, form, **options)

        assert decode_image(stream.getvalue(), "flat").size == (2000, 1500)


def test_looking_takes_no_time_in_proportion():
    """A megabyte of marks that lead nowhere is passed in one go."""
    start = time.process_time()
    with pytest.raises(DataError):
        decode_image(PHOTOGRAPHS["rocket.jpg"][:5000] + b"\xff\x02\x00\x00" * 250_000, "marks")

    assert time.process_time() - start < 2
