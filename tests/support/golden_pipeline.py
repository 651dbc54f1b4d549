"""Golden outputs of every step between the bytes of a sample and the input of a model, for fixed inputs."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from eyechart.errors import DataError
from eyechart.io.images import ImageRef, decode_rgb
from eyechart.types import PIPELINE, Message, Prompt
from support.golden_runs import FOLDER, read_json, write_json

PIPELINES = FOLDER / "pipeline.json"
JPEGS = {
    "JPEG": (
        "/9j/4AAQSkZJRgABAQAAAQABAAD/4QAWRXhpZgAATU0AKgAAAAgAAAAAAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcg"
        "LikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09P"
        "T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAAMABADAREAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAABQb/"
        "xAAaEAACAgMAAAAAAAAAAAAAAAAABAMiBSEx/8QAGAEAAwEBAAAAAAAAAAAAAAAAAgQFBgf/xAAZEQACAwEAAAAAAAAAAAAAAAAA"
        "BAECAxH/2gAMAwEAAhEDEQA/AJRXE8qITt0FZsYVw/KgTPTQrODSi0Wqk+l5OeLa2HFFYtVHKF9bWx//2Q=="
    ),
    "JPEG turned": (
        "/9j/4AAQSkZJRgABAQAAAQABAAD/4QAiRXhpZgAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAD/2wBDAA0JCgsKCA0LCgsODg0P"
        "EyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09P"
        "T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAAMABADAREAAhEBAxEB/8QAFQABAQAAAAAA"
        "AAAAAAAAAAAABQb/xAAaEAACAgMAAAAAAAAAAAAAAAAABAMiBSEx/8QAGAEAAwEBAAAAAAAAAAAAAAAAAgQFBgf/xAAZEQACAwEA"
        "AAAAAAAAAAAAAAAABAECAxH/2gAMAwEAAhEDEQA/AJRXE8qITt0FZsYVw/KgTPTQrODSi0Wqk+l5OeLa2HFFYtVHKF9bWx//2Q=="
    ),
}
"""JPEG files in base64: another encoder would write other pixels."""
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "I;16", "I", "F", "CMYK", "YCbCr")
FAMILIES = {
    "open_clip": "pixels",
    "open_clip-nllb": "pixels",
    "clip": "library",
    "siglip2": "library",
    "sentence-transformers-clip": "library",
    "sentence-transformers-text": "",
    "internvl_c_classification": "pixels",
    "ja_clip": "pixels",
    "onnx": "pixels",
}
"""Models of the zoo, one per way of preparing images and texts: whether pixels are ours to the last bit, or are
computed by a library of which small differences are tolerated."""
TEXTS = ("a photo of a cat", "Upper CASE, (marks) & 123!", "ein Käfer", "一只猫", "😀", "", "word " * 120)


def digest(*parts: Any) -> str:
    return hashlib.sha256(
        b"\0".join(part if isinstance(part, bytes) else repr(part).encode() for part in parts)
    ).hexdigest()[:16]


def colours(width: int = 40, height: int = 30) -> Image.Image:
    """Return an image with gradients, edges and all channels different."""
    y, x = np.mgrid[0:height, 0:width]
    return Image.fromarray(np.stack([x * 6 % 256, y * 8 % 256, (x * y) % 256], axis=-1).astype(np.uint8))


def encoded() -> Iterator[tuple[str, bytes]]:
    """Yield encoded images of all modes and formats; lossless, so that no encoder changes the pixels."""
    plain = colours()
    for mode in MODES:
        if mode == "I;16":
            image = Image.fromarray(np.asarray(plain.convert("L")).astype(np.uint16) * 257 + 3)
        elif mode == "F":
            image = Image.fromarray(np.asarray(plain.convert("L")).astype(np.float32) / 255)
        elif mode in ("LA", "PA", "RGBA"):
            image = plain.copy()
            image.putalpha(plain.getchannel("G"))
            image = image.convert("LA" if mode == "LA" else "RGBA")
            image = image.quantize(16) if mode == "PA" else image
        else:
            image = plain.convert(mode)
        kind = "PNG" if mode in ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "I;16") else "TIFF"
        yield f"{kind} {mode}", _bytes(image, kind)
    yield from ((name, base64.b64decode(text)) for name, text in JPEGS.items())
    yield "BMP", _bytes(plain, "BMP")
    yield "GIF", _bytes(plain.quantize(32), "GIF")
    yield "PPM", _bytes(plain, "PPM")
    yield "WEBP", _bytes(plain, "WEBP", lossless=True)
    turned = Image.Exif()
    turned[0x0112] = 6
    yield "PNG turned", _bytes(plain, "PNG", exif=turned)
    yield "TIFF turned", _bytes(plain, "TIFF", exif=turned)
    yield "PNG large", _bytes(colours(2400, 20), "PNG")
    yield "cut", _bytes(plain, "PNG")[:-40]


def _bytes(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def _pixels(image: Image.Image) -> str:
    return digest(image.mode, image.size, image.tobytes())


def _or_refused(make: Any) -> str:
    try:
        return str(make())
    except DataError:
        return "refused"


def decode() -> dict[str, str]:
    refs = {name: ImageRef(name, data=data) for name, data in encoded()}
    refs["a crop"] = ImageRef("a crop", data=dict(encoded())["PNG RGB"]).crop(3, 4, 20, 25)
    return {name: _or_refused(lambda ref=ref: _pixels(decode_rgb(ref))) for name, ref in refs.items()}


def transform() -> dict[str, str]:
    """Return the outputs of the transform of ONNX models; those of other families are in `of_model`."""
    from eyechart.models.towers.preprocess import Preprocess

    statistics = {"image_mean": [0.48, 0.45, 0.4], "image_std": [0.26, 0.27, 0.28]}
    sizes = {
        "shorter side": {
            "size": {"shortest_edge": 16},
            "do_center_crop": True,
            "crop_size": {"height": 16, "width": 16},
        },
        "square": {"size": {"height": 24, "width": 24}},
        "larger crop": {"size": {"shortest_edge": 12}, "do_center_crop": True, "crop_size": 20},
        "as it is": {"do_resize": False},
        "levels": {"do_resize": False, "do_normalize": False, "do_rescale": False},
    }
    found = {}
    for name, size in sizes.items():
        for resample in Image.Resampling if "size" in size else (Image.Resampling.BICUBIC,):
            prepared = Preprocess.from_config({**statistics, **size, "resample": int(resample)})(colours())
            found[f"{name}, {resample.name.lower()}"] = digest(prepared.shape, str(prepared.dtype), prepared.tobytes())
    return found


def conversations() -> dict[str, tuple[Message, ...]]:
    image = ImageRef("image.png", data=dict(encoded())["PNG RGB"])
    return {
        "an image and a question": (Message("user", (image, "What is it?")),),
        "texts only": (Message("user", ("Is it", "a cat?")),),
        "two images": (Message("user", ("First", image, "then", image, "same?")),),
        "a system prompt": (Message("system", ("Be brief.",)), Message("user", (image, "What?"))),
        "turns": (Message("user", (image, "What?")), Message("assistant", ("A cat.",)), Message("user", ("Sure?",))),
    }


def prompt() -> dict[str, str]:
    """Return the bodies of requests."""
    from eyechart.api.endpoints import chat_body, rerank_request
    from eyechart.api.image_payloads import EncodedImage

    def encode(_: ImageRef) -> EncodedImage:
        return EncodedImage("image/png", b"pixels")

    options = {"temperature": 0, "max_tokens": 5}
    found = {
        name: json.dumps(chat_body("model", turns, options=options, encode=encode))
        for name, turns in conversations().items()
    }
    for form in ("jina", "tei"):
        body = rerank_request("1", "model", "a query", ["one", "two"], form).body
        found[f"rerank, {form}"] = json.dumps(body() if callable(body) else body)
    return found


def payload() -> dict[str, str]:
    """Return what is sent of an image: bytes that are passed on, else pixels, and the tables of a JPEG."""
    from eyechart.api.endpoints import encode_ref
    from eyechart.api.image_payloads import encode_image, plain_image

    found = {}
    for name, data in encoded():
        for edge in (None, 32):
            ways = {
                "a server": lambda data, edge: _sent(data, encode_ref(ImageRef("i", data=data), edge)),
                "a server of vectors": lambda data, edge: _decoded(
                    encode_image(data, max_edge=edge, format="png").data
                ),
                "a local model": lambda data, edge: _pixels(plain_image(ImageRef("i", data=data).decode(), edge)),
            }
            for way, make in ways.items():
                found[f"{name}, at most {edge}, to {way}"] = _or_refused(partial(make, data, edge))
    return found


def _decoded(data: bytes) -> str:
    return _pixels(Image.open(io.BytesIO(data)))


def _sent(data: bytes, sent: Any) -> str:
    if sent.data == data:
        return f"{sent.mime} unchanged"
    image = Image.open(io.BytesIO(sent.data))
    tables = getattr(image, "quantization", {})
    return (
        f"{sent.mime} {image.mode} {image.size} {digest(sorted((key, list(table)) for key, table in tables.items()))}"
    )


def of_model(zoo: Any, name: str) -> dict[str, Any]:
    """Return what a model of the zoo gets of an image and of texts."""
    encoder = zoo.encoder(name)
    found: dict[str, Any] = {}
    if FAMILIES[name]:
        pixels = np.asarray(encoder.prepare_image(colours(90, 60)), np.float32)
        # Of a library's arithmetic, the last bits may depend on the processor.
        values = [round(float(value), 3) for value in pixels.reshape(-1)[:: pixels.size // 12]]
        found["transform"] = digest(pixels.shape, pixels.tobytes()) if FAMILIES[name] == "pixels" else values
    if name == "onnx":
        rows = [encoding.ids for encoding in encoder._tokenize(TEXTS)]
        tokens = {key: value.tolist() for key, value in encoder.reading.pad_rows(rows).items()}
    else:
        tokens = {key: value.tolist() for key, value in encoder.tokenize(list(TEXTS), "en").items()}
    found["tokenize"] = digest(sorted(tokens.items()))
    return found


def of_generator(folder: Path, *, plain: bool) -> dict[str, Any]:
    """Return the tokens that a local generator gets of each conversation."""
    from eyechart.models.local_generators import TransformersGenerator
    from eyechart.types import ModelSpec
    from support.tiny_vlm import save_tiny_paligemma, save_tiny_vlm

    save = save_tiny_paligemma if plain else save_tiny_vlm
    model = TransformersGenerator(ModelSpec("transformers", str(save(folder)), device="cpu"))
    found = {}
    for name, turns in conversations().items():
        tokens = _or_refused(
            lambda turns=turns: digest(model._tokenize([model.prepare(Prompt("1", turns))])["input_ids"].tolist())
        )
        found[name] = tokens
    return found


STEPS = {"decode": decode, "transform": transform, "prompt": prompt, "payload": payload}
"""Steps that need no model."""
GENERATORS = {"chat template": False, "plain": True}


def outputs(zoo: Any, folder: Path) -> dict[str, dict[str, Any]]:
    """Return all outputs by step."""
    found: dict[str, dict[str, Any]] = {step: dict(make()) for step, make in STEPS.items()} | {"tokenize": {}}
    for name in FAMILIES:
        for step, value in of_model(zoo, name).items():
            found[step][f"model {name}"] = value
    for name, plain in GENERATORS.items():
        found["prompt"][f"generator, {name}"] = of_generator(folder / name, plain=plain)
    return found


def write_pipeline(folder: Path) -> None:
    """Write the golden outputs; refuse other outputs of a step whose version is the same."""
    from support.zoo_cases import Zoo

    zoo = Zoo(folder)
    found = {step: {"version": PIPELINE[step], "outputs": made} for step, made in outputs(zoo, folder / "vlm").items()}
    zoo.close()
    found = json.loads(json.dumps(found))
    known = read_json(PIPELINES) if PIPELINES.is_file() else {}
    for step, made in found.items():
        before = known.get(step, made)
        changed = [case for case, value in before["outputs"].items() if made["outputs"].get(case) != value]
        if changed and made["version"] <= before["version"]:
            raise SystemExit(
                f"{step} changed ({', '.join(changed)}): increase PIPELINE[{step!r}] in src/eyechart/types.py"
            )
    write_json(PIPELINES, found)
