import pytest
from PIL import Image

from eyechart import media
from eyechart.errors import DataError
from eyechart.media import Picture
from support.data import encoded, picture, png


@pytest.mark.parametrize("form", ["png", "jpg", "webp"])
def test_a_picture_decodes_to_what_pillow_reads(form, tmp_path):
    path = tmp_path / f"a.{form}"
    path.write_bytes(encoded(picture(1), form))

    image = Picture.from_path(path).decode()

    assert image.tobytes() == Image.open(path).tobytes()


def test_the_digest_depends_on_content_and_not_on_the_place(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(png(1))

    assert Picture.from_path(path).digest() == Picture("elsewhere", data=png(1)).digest()
    assert Picture("a", data=png(1)).digest() != Picture("a", data=png(2)).digest()


@pytest.mark.parametrize("damage", [b"", b"not a picture", png(1)[:60], encoded(picture(1, (300, 300)), "jpg")[:900]])
def test_a_damaged_picture_is_an_error_that_names_it(damage):
    with pytest.raises(DataError, match=r"shard\.tar:s1\.png: cannot decode"):
        Picture("shard.tar:s1.png", data=damage).decode()


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(DataError, match=r"gone\.png: cannot read"):
        Picture.from_path(tmp_path / "gone.png").read()


def test_a_picture_with_too_many_pixels_is_refused_before_it_is_decoded(monkeypatch):
    monkeypatch.setattr(media, "MAX_PIXELS", 100)

    with pytest.raises(DataError, match="1200 pixels, more than the limit"):
        Picture("bomb.png", data=png(1)).decode()
