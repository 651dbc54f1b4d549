"""Images that are small on disk and large in memory, and files that are no images at all."""

import base64
import os
import struct
import zlib

import pytest

from eyechart.api.image_payloads import encode_image
from eyechart.compat.vlmevalkit.helpers import decode_base64_to_image
from eyechart.datasets.questions.benchmark_files import write_image
from eyechart.errors import DataError
from eyechart.io import images
from eyechart.io.images import ImageRef, decode_image, image_size
from support.data import encoded, noise_image, png


def png_of(width: int, height: int) -> bytes:
    """Write the header of an image of any size; its pixels are never reached."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    )


BOMB = png_of(60_000, 60_000)
ENTRANCES = {
    "decode": lambda data, _: ImageRef("bomb.png", data=data).decode(),
    "file": lambda data, folder: ImageRef.from_path(written(folder / "bomb.png", data)).decode(),
    "part of it": lambda data, _: ImageRef("bomb.png", data=data).crop(0, 0, 2, 2).decode(),
    "header": lambda data, _: image_size(data, "bomb.png"),
    "for a server": lambda data, _: encode_image(data, source="bomb.png"),
    "cell of a table": lambda data, folder: write_image(base64.b64encode(data).decode(), folder / "x.png", "bomb.png"),
    "base64": lambda data, _: decode_base64_to_image(base64.b64encode(data).decode()),
}


def written(path, data):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_an_image_of_too_many_pixels_is_refused_wherever_it_comes_in(entrance, tmp_path, monkeypatch):
    monkeypatch.setattr(images, "MAX_PIXELS", 1199)

    with pytest.raises(DataError, match="1200 pixels, more than the limit of 1199"):
        ENTRANCES[entrance](png(), tmp_path)


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_a_real_bomb_is_refused_wherever_it_comes_in(entrance, tmp_path):
    with pytest.raises(DataError, match="3600000000 pixels"):
        ENTRANCES[entrance](BOMB, tmp_path)


def test_a_strip_is_refused_which_a_models_transform_would_make_gigantic():
    with pytest.raises(DataError, match="one side is more than 500 times the other"):
        decode_image(png_of(1, 80_000), "strip.png")


def test_a_box_larger_than_any_image_is_refused():
    with pytest.raises(DataError, match="pixels, more than the limit"):
        ImageRef("a.png", data=png()).crop(0, 0, 50_000, 50_000).decode()


def test_bytes_have_a_limit_in_memory_and_on_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(images, "MAX_BYTES", 100)
    path = written(tmp_path / "a.png", png())

    with pytest.raises(DataError, match="bytes, more than the limit of 100"):
        decode_image(png(), "a.png")
    with pytest.raises(DataError, match="bytes, more than the limit of 100"):
        ImageRef.from_path(path).read()


def test_a_pipe_in_the_place_of_an_image_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "a.png")

    with pytest.raises(DataError, match="not a regular file"):
        ImageRef.from_path(tmp_path / "a.png").read()


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(x) print\n%%EOF\n"


def test_formats_that_start_programs_or_hold_other_files_are_not_decoded():
    with pytest.raises(DataError, match="cannot identify"):
        decode_image(POSTSCRIPT, "a.eps")
    with pytest.raises(DataError, match="cannot identify"):
        decode_image(encoded(noise_image(1, (32, 32)), "ico"), "a.ico")


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000"])
def test_the_formats_of_datasets_are_decoded(form):
    assert decode_image(encoded(noise_image(1), form), form).size == (40, 30)
