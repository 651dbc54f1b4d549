"""Images in every mode become what a server can read, and look the same."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from eyechart.api import encode_image
from eyechart.errors import DataError


def gradient(width=40, height=30):
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([x, y, 255 - x], axis=2).astype(np.uint8))


def written(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def read_back(encoded):
    prefix, _, content = encoded.data_url.partition(";base64,")
    assert prefix == f"data:{encoded.mime}"
    return Image.open(io.BytesIO(base64.b64decode(content)))


def difference(first, second):
    a, b = (np.asarray(image.convert("RGB"), dtype=float) for image in (first, second))
    return np.abs(a - b).mean()


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_plain_jpeg_and_png_bytes_pass_untouched(kind, mode):
    data = written(gradient().convert(mode), kind)
    encoded = encode_image(data)
    assert encoded.data == data
    assert encoded.mime == f"image/{kind.lower()}"


def test_bytes_that_are_too_large_are_written_anew():
    data = written(gradient(400, 300), "PNG", compress_level=0)
    encoded = encode_image(data, max_bytes=100_000)
    assert encoded.mime == "image/jpeg"
    assert len(encoded.data) < 100_000


def test_the_longest_edge_is_scaled_down():
    encoded = encode_image(written(gradient(400, 300), "JPEG"), max_edge=100)
    assert read_back(encoded).size == (100, 75)
    assert read_back(encode_image(gradient(400, 300), max_edge=400)).size == (400, 300)


def test_png_can_be_asked_for_and_is_exact():
    encoded = encode_image(gradient(), format="png")
    assert encoded.mime == "image/png"
    assert difference(read_back(encoded), gradient()) == 0


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"])
def test_every_mode_becomes_a_readable_jpeg(mode):
    image = gradient().convert("RGB").convert("L" if mode == "1" else "RGB")
    if mode == "LAB":
        from PIL import ImageCms

        srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
        image = ImageCms.profileToProfile(image, srgb, lab, outputMode="LAB")
    else:
        image = image.convert(mode)
    back = read_back(encode_image(image))
    assert back.format == "JPEG"
    assert back.mode in ("L", "RGB")
    assert back.size == image.size


def test_transparent_pixels_become_white():
    image = gradient().convert("RGBA")
    image.putalpha(Image.fromarray(np.where(np.arange(40) < 20, 0, 255).astype(np.uint8)[None].repeat(30, 0)))
    back = np.asarray(read_back(encode_image(written(image, "PNG"), format="png")))
    assert (back[:, :20] == 255).all()
    np.testing.assert_array_equal(back[:, 20:], np.asarray(gradient())[:, 20:])


def test_a_palette_with_a_transparent_colour_becomes_white_there():
    image = Image.new("P", (10, 10), 1)
    image.putpalette([0, 0, 0, 10, 200, 30])
    image.paste(0, (0, 0, 5, 10))
    data = written(image, "PNG", transparency=0)
    back = np.asarray(read_back(encode_image(data, format="png")))
    assert (back[:, :5] == 255).all()
    assert (back[:, 5:] == (10, 200, 30)).all()


def test_rgb_with_a_transparent_colour_becomes_white_there():
    image = Image.new("RGB", (4, 4), (1, 2, 3))
    back = np.asarray(read_back(encode_image(written(image, "PNG", transparency=(1, 2, 3)), format="png")))
    assert (back == 255).all()


@pytest.mark.parametrize("peak", [65_535, 60_000, 200])
def test_of_sixteen_bits_the_upper_eight_are_sent(peak):
    values = np.linspace(0, peak, 256, dtype=np.uint16)[None].repeat(4, 0)
    data = written(Image.fromarray(values), "PNG")
    back = np.asarray(read_back(encode_image(data, format="png")))
    np.testing.assert_array_equal(back, values >> 8)


def test_float_images_are_expected_between_0_and_1():
    values = np.linspace(0.25, 0.75, 100, dtype=np.float32)[None].repeat(4, 0)
    back = np.asarray(read_back(encode_image(written(Image.fromarray(values), "TIFF"), format="png")))
    np.testing.assert_array_equal(back, np.rint(values * 255))


@pytest.mark.parametrize("values", [np.linspace(-2.0, 3.0, 100, dtype=np.float32), np.arange(100, dtype=np.int32)])
def test_grey_values_of_an_unknown_range_are_refused_instead_of_stretched(values):
    data = written(Image.fromarray(values[None].repeat(4, 0)), "TIFF")
    with pytest.raises(DataError, match="the value of white is unknown"):
        encode_image(data)


def test_a_cmyk_jpeg_looks_the_same_in_rgb():
    cmyk = gradient().convert("CMYK")
    encoded = encode_image(written(cmyk, "JPEG", quality=95))
    assert read_back(encoded).mode == "RGB"
    assert difference(read_back(encoded), cmyk) < 6


def test_a_turned_image_is_put_upright():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = written(gradient(), "JPEG", exif=exif, quality=95)
    back = read_back(encode_image(data))
    assert back.size == (30, 40)
    assert difference(back, gradient().transpose(Image.Transpose.ROTATE_270)) < 6


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "BMP", "TIFF"])
def test_other_formats_are_converted(kind):
    encoded = encode_image(written(gradient(), kind))
    assert encoded.mime == "image/jpeg"
    assert read_back(encoded).size == (40, 30)


def test_only_the_first_frame_of_an_animation():
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    data = written(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert read_back(encode_image(data, format="png")).convert("RGB").getpixel((0, 0)) == (255, 0, 0)


def test_the_given_image_is_not_changed():
    image = gradient(400, 300)
    encode_image(image, max_edge=10)
    assert image.size == (400, 300)


def test_bytes_that_are_no_image_are_named():
    with pytest.raises(DataError, match=r"cat\.jpg: cannot decode"):
        encode_image(b"not an image", source="cat.jpg")


def test_the_repr_does_not_hold_the_image():
    assert "data" not in repr(encode_image(gradient()))
