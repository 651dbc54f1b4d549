import pytest
from PIL import Image

from eyechart.errors import DataError
from eyechart.io import media
from eyechart.io.media import ImageRef, to_rgb
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


@pytest.mark.parametrize(
    "damage", [b"", b"not an image", png(1)[:60], encoded(noise_image(1, (300, 300)), "jpg")[:900]]
)
def test_a_damaged_image_is_an_error_that_names_it(damage):
    with pytest.raises(DataError, match=r"shard\.tar:s1\.png: cannot decode"):
        ImageRef("shard.tar:s1.png", data=damage).decode()


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(DataError, match=r"gone\.png: cannot read"):
        ImageRef.from_path(tmp_path / "gone.png").read()


def test_an_image_with_too_many_pixels_is_refused_before_it_is_decoded(monkeypatch):
    monkeypatch.setattr(media, "MAX_PIXELS", 100)

    with pytest.raises(DataError, match="1200 pixels, more than the limit"):
        ImageRef("bomb.png", data=png(1)).decode()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "I;16", "CMYK"])
def test_every_mode_becomes_rgb_as_pillow_converts_it(mode):
    image = noise_image(3).convert("I").convert(mode) if mode == "I;16" else noise_image(3, mode=mode)

    assert to_rgb(image).tobytes() == image.convert("RGB").tobytes()


def test_a_palette_with_transparency_gives_its_colours_without_a_warning():
    image = noise_image(3, mode="P")
    image.info["transparency"] = bytes(range(256))

    assert to_rgb(image).tobytes() == noise_image(3, mode="P").convert("RGB").tobytes()
