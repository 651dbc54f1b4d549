import hashlib
import os

import pytest
from PIL import Image

from eyechart.errors import DataError
from eyechart.io import digests, images
from eyechart.io.images import ImageRef, to_rgb
from support.data import encoded, noise_image, png


@pytest.mark.parametrize("form", ["png", "jpg", "webp"])
def test_an_image_decodes_to_what_pillow_reads(form, tmp_path):
    path = tmp_path / f"a.{form}"
    path.write_bytes(encoded(noise_image(1), form))

    image = ImageRef.from_path(path).decode()

    assert image.tobytes() == Image.open(path).tobytes()


def test_the_digest_depends_on_content_and_not_on_the_place(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(png(1))

    assert ImageRef.from_path(path).digest() == ImageRef("elsewhere", data=png(1)).digest()
    assert ImageRef("a", data=png(1)).digest() != ImageRef("a", data=png(2)).digest()


def test_a_file_that_is_as_it_was_is_not_read_again_for_its_digest(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(png(1))
    monkeypatch.setattr(digests, "SETTLED", -1)
    ref = ImageRef.from_path(path)
    before = ref.digest()
    with monkeypatch.context() as blind:
        blind.setattr(hashlib, "file_digest", None)
        assert ref.digest() == before

    path.write_bytes(png(2))
    assert ref.digest() == digests.digest_bytes(png(2))


def test_every_part_of_an_image_has_a_digest_of_its_own(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(png(1))
    parts = [ref.crop(*box) for ref in (ImageRef.from_path(path),) for box in [(0, 0, 9, 9), (0, 0, 9, 8)]]

    assert len({ImageRef.from_path(path).digest(), *(part.digest() for part in parts)}) == 3
    assert parts[0].digest() == ImageRef("elsewhere", data=png(1)).crop(0, 0, 9, 9).digest()


def test_what_is_loaded_is_decoded_and_digested_from_the_same_bytes(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(png(1))
    loaded = ImageRef.from_path(path).crop(0, 0, 9, 9).load()

    path.write_bytes(png(2))

    assert loaded.digest() == ImageRef("a", data=png(1)).crop(0, 0, 9, 9).digest()
    assert loaded.decode().tobytes() == noise_image(1).crop((0, 0, 9, 9)).tobytes()


@pytest.mark.parametrize("what", ["digest", "read"])
def test_a_pipe_or_a_giant_is_refused_before_it_is_read(what, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "giant.png").write_bytes(png(1))
    monkeypatch.setattr(images, "MAX_BYTES", 100)

    with pytest.raises(DataError, match="not a regular file"):
        getattr(ImageRef.from_path(tmp_path / "pipe.png"), what)()
    with pytest.raises(DataError, match="more than the limit of 100"):
        getattr(ImageRef.from_path(tmp_path / "giant.png"), what)()


@pytest.mark.parametrize(
    "damage", [b"", b"not an image", png(1)[:60], encoded(noise_image(1, (300, 300)), "jpg")[:900]]
)
def test_a_damaged_image_is_an_error_that_names_it(damage):
    with pytest.raises(DataError, match=r"shard\.tar:s1\.png: cannot decode"):
        ImageRef("shard.tar:s1.png", data=damage).decode()


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(DataError, match=r"gone\.png: cannot read"):
        ImageRef.from_path(tmp_path / "gone.png").read()
    with pytest.raises(DataError, match=r"gone\.png: cannot read"):
        ImageRef.from_path(tmp_path / "gone.png").load()


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path, monkeypatch):
    def fail(path):
        raise OSError(5, "Input/output error")

    (tmp_path / "a.png").write_bytes(png())
    monkeypatch.setattr("eyechart.io.images.read_digested", fail)  # in place of a damaged disk

    with pytest.raises(DataError, match=r"a\.png: cannot read .*Input/output error"):
        ImageRef.from_path(tmp_path / "a.png").load()


def test_an_image_with_too_many_pixels_is_refused_before_it_is_decoded(monkeypatch):
    monkeypatch.setattr(images, "MAX_PIXELS", 100)

    with pytest.raises(DataError, match="1200 pixels, more than the limit"):
        ImageRef("bomb.png", data=png(1)).decode()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "CMYK"])
def test_every_mode_of_eight_bits_becomes_rgb_as_pillow_converts_it(mode):
    image = noise_image(3, mode=mode)

    assert to_rgb(image).tobytes() == image.convert("RGB").tobytes()


def test_a_palette_with_transparency_gives_its_colours_without_a_warning():
    image = noise_image(3, mode="P")
    image.info["transparency"] = bytes(range(256))

    assert to_rgb(image).tobytes() == noise_image(3, mode="P").convert("RGB").tobytes()
