"""Orientation, transparency and bit depth: what encoders and generators see, and the notices that count such images."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from eyechart.api.image_payloads import plain_image
from eyechart.datasets.image_folder import open_folder
from eyechart.errors import DataError
from eyechart.inference import image_loader
from eyechart.inference.answers import CachedGenerator
from eyechart.inference.embeddings import CachedEncoder
from eyechart.io.images import ImageRef, Trait, decode_rgb, image_traits, to_rgb, to_upright
from eyechart.manifest import DatasetScan, read_manifest
from eyechart.models.api_models import ApiFamily, ApiGeneratorFamily
from eyechart.models.lazy_model import LazyModel
from eyechart.store.answer_store import ResponseStore
from eyechart.store.vector_store import EmbeddingStore
from eyechart.types import DatasetSpec, EncodeOptions, Message, ModelSpec, Prompt
from support.data import noise_image
from support.encoders import SmallEncoder, lazy, random_encoder
from support.openai_server import OpenAIServer
from support.transforms import CLIP
from support.zoo import load

PHOTO = noise_image(0, (20, 12))


def saved(image, form, **options):
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def turned(image, orientation, form="PNG"):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved(image, form, exif=exif)


def transparent(image, alpha=0):
    whole = image.convert("RGBA")
    whole.putalpha(Image.linear_gradient("L").resize(image.size).point(lambda level: max(level, alpha)))
    return whole


def palette():
    image = Image.new("P", (20, 12), 1)
    image.putpalette([9, 9, 9, 10, 200, 30])
    image.paste(0, (0, 0, 5, 10))
    return saved(image, "PNG", transparency=0)


FILES = {
    "plain.png": (saved(PHOTO, "PNG"), Trait.NONE),
    "upright.jpg": (turned(PHOTO, 1, "JPEG"), Trait.NONE),
    "invalid orientation.jpg": (turned(PHOTO, 9, "JPEG"), Trait.NONE),
    "opaque.png": (saved(transparent(PHOTO, 255), "PNG"), Trait.NONE),
    "cmyk.jpg": (saved(PHOTO.convert("CMYK"), "JPEG"), Trait.NONE),
    "turned.jpg": (turned(PHOTO, 6, "JPEG"), Trait.ORIENTATION),
    "mirrored.webp": (turned(PHOTO, 2, "WEBP"), Trait.ORIENTATION),
    "rgba.png": (saved(transparent(PHOTO), "PNG"), Trait.ALPHA),
    "grey with alpha.png": (saved(transparent(PHOTO).convert("LA"), "PNG"), Trait.ALPHA),
    "palette.png": (palette(), Trait.ALPHA),
    "colour key.png": (saved(Image.new("RGB", (20, 12), (1, 2, 3)), "PNG", transparency=(1, 2, 3)), Trait.ALPHA),
    "turned rgba.png": (turned(transparent(PHOTO), 3), Trait.ALPHA | Trait.ORIENTATION),
    "16 bits.png": (saved(Image.fromarray(np.full((12, 20), 40_000, np.uint16)), "PNG"), Trait.DEPTH),
    "fractions.tiff": (saved(Image.fromarray(np.full((12, 20), 0.5, np.float32)), "TIFF"), Trait.DEPTH),
}
COUNTS = {
    "image_orientation": sum(Trait.ORIENTATION in traits for _, traits in FILES.values()),
    "image_alpha": sum(Trait.ALPHA in traits for _, traits in FILES.values()),
    "image_depth": sum(Trait.DEPTH in traits for _, traits in FILES.values()),
}
UNKNOWN_RANGE = {
    "32 bits": Image.fromarray(np.arange(240, dtype=np.int32).reshape(12, 20)),
    "floats beyond 1": Image.fromarray(np.linspace(0, 255, 240, dtype=np.float32).reshape(12, 20)),
    "negative floats": Image.fromarray(np.linspace(-1, 1, 240, dtype=np.float32).reshape(12, 20)),
}


@pytest.mark.parametrize("name", FILES)
def test_traits_name_what_encoders_and_generators_treat_differently(name):
    data, expected = FILES[name]
    image = ImageRef(name, data).decode()

    stored, upright = to_rgb(image), to_upright(image).convert("RGB")

    assert image_traits(image) == expected
    differ = stored.size != upright.size or np.asarray(stored).tolist() != np.asarray(upright).tolist()
    assert differ == bool(expected & (Trait.ORIENTATION | Trait.ALPHA))


@pytest.mark.parametrize("convert", [to_rgb, to_upright, lambda image: plain_image(image, None)])
@pytest.mark.parametrize("name", UNKNOWN_RANGE)
def test_grey_values_of_an_unknown_range_are_refused_by_both(name, convert):
    image = ImageRef(name, saved(UNKNOWN_RANGE[name], "TIFF")).decode()

    with pytest.raises(DataError, match="the value of white is unknown"):
        convert(image)


@pytest.fixture
def photos(tmp_path):
    for name, (data, _) in FILES.items():
        path = tmp_path / "photos" / "some" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        (path.parent / f"a copy of {name}").write_bytes(data)
    return open_folder(DatasetSpec("photos", "folder", str(tmp_path / "photos")))


def embeddings(tmp_path, encoder=None, **options):
    return CachedEncoder(lazy(encoder or random_encoder()), EmbeddingStore(tmp_path), EncodeOptions(4, **options))


def counts(model):
    return {notice.kind: notice.count for notice in model.notices() if notice.kind.startswith("image_")}


def test_an_encoder_counts_them_once_per_image_also_from_the_store(tmp_path, photos):
    first, later = embeddings(tmp_path), embeddings(tmp_path)
    later.model._card = random_encoder().card

    first.images(read_manifest(photos))
    later.images(read_manifest(photos))
    later.images(read_manifest(photos))

    assert counts(first) == COUNTS
    assert counts(later) == COUNTS
    assert not later.model.loaded
    assert "encoders and CoCa ignore" in next(
        notice.message for notice in first.notices() if notice.kind == "image_orientation"
    )


def test_a_dataset_embedded_while_it_is_read_counts_them_too(tmp_path, photos):
    model = embeddings(tmp_path)
    model.images(DatasetScan(photos))

    assert counts(model) == COUNTS


class NotOnCpu(SmallEncoder):
    """A test double of the device decision: it says that it is not on the CPU, and computes there."""

    on_gpu = True

    def encode_images(self, batch):
        return super().encode_images([np.asarray(image) for image in batch])


def test_loader_workers_report_them(tmp_path, photos, monkeypatch):
    monkeypatch.setattr(image_loader, "main_is_import_safe", lambda: True)
    encoder = NotOnCpu("random", random_encoder().vector)
    encoder.prepare_image = encoder.image_transform = CLIP
    model = embeddings(tmp_path, encoder, workers=2, decode_processes=1)
    model.images(read_manifest(photos))

    assert counts(model) == COUNTS


def test_images_without_traits_raise_no_notice(tmp_path):
    path = tmp_path / "photos" / "some" / "a.png"
    path.parent.mkdir(parents=True)
    path.write_bytes(FILES["plain.png"][0])
    model = embeddings(tmp_path)
    model.images(read_manifest(open_folder(DatasetSpec("photos", "folder", str(tmp_path / "photos")))))

    assert counts(model) == {}


def test_a_generator_counts_them_also_when_its_answers_are_stored(tmp_path):
    prompts = [
        Prompt(f"{question} {name}", (Message("user", (ImageRef(name, data), question)),))
        for name, (data, _) in FILES.items()
        for question in ("What?", "Where?")
    ]
    with OpenAIServer() as server:
        spec = ModelSpec("api", "test-model", options={"api_base": server.api_base})
        found = []
        for _ in range(2):
            model = CachedGenerator(LazyModel(spec, ApiGeneratorFamily()), ResponseStore(tmp_path))
            answers = dict(model.generate(prompts))
            assert not any(answer.error for answer in answers.values())
            about = [notice.message for notice in model.notices() if notice.kind.startswith("image_")]
            found.append((counts(model), about))

    assert sum(server.paid.values()) == len(prompts)
    assert found[0] == found[1]
    assert found[0][0] == COUNTS
    assert any("other generative models apply" in text for text in found[0][1])


@pytest.mark.parametrize("case", ["open_clip", "clip", "sentence-transformers-clip"])
def test_every_encoder_sees_images_as_stored(zoo, case):
    encoder = load(zoo.case(case).spec)
    photo = noise_image(0, (90, 60))
    both = [saved(photo, "PNG"), turned(photo, 6)]

    prepared = [encoder.prepare_image(decode_rgb(ImageRef("image", data))) for data in both]

    np.testing.assert_array_equal(*prepared)


def test_an_embedding_server_gets_images_as_stored():
    with OpenAIServer() as server:
        options = {"api_base": server.api_base, "image_form": "jina"}
        encoder = ApiFamily().load(ModelSpec("api", "test-model", options=options))
        sent = encoder.prepare_image(decode_rgb(ImageRef("image", turned(PHOTO, 6, "JPEG"))))

    assert ImageRef("sent", sent.tobytes()).decode().size == PHOTO.size


def test_a_turned_image_is_sent_upright_to_a_server():
    with OpenAIServer() as server:
        spec = ModelSpec("api", "test-model", options={"api_base": server.api_base})
        image = ImageRef("turned", turned(PHOTO, 6, "JPEG"))
        ApiGeneratorFamily().load(spec).generate((Message("user", (image, "What?")),))

    url = server.requests[-1].body["messages"][0]["content"][0]["image_url"]["url"]
    assert ImageRef("sent", base64.b64decode(url.partition(",")[2])).decode().size == PHOTO.size[::-1]
