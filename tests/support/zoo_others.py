"""ONNX files, an API, own code, and the Japanese models."""

from __future__ import annotations

import base64
import io
import sys
from pathlib import Path

import numpy as np

from eyechart.types import ModelSpec
from support import zoo_transformers
from support.openai_server import OpenAIServer
from support.zoo import Case, as_array

SERVERS: list[OpenAIServer] = []
"""Closed at the end of the session."""
ONNX: dict[Path, Case] = {}
STAND_INS = Path(__file__).parent / "stand_ins"


def export(folder: Path, target: Path) -> None:
    """Export both towers of a transformers CLIP with torch's own exporter."""
    import warnings

    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder).eval()

    class Image(torch.nn.Module):
        def forward(self, pixel_values):
            return model.get_image_features(pixel_values=pixel_values).pooler_output

    class Text(torch.nn.Module):
        def forward(self, input_ids, attention_mask):
            return model.get_text_features(input_ids=input_ids, attention_mask=attention_mask).pooler_output

    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", min=2, max=77)
    ids = torch.ones(2, 9, dtype=torch.int64)
    rows = {"input_ids": {0: batch, 1: length}, "attention_mask": {0: batch, 1: length}}
    target.mkdir(parents=True, exist_ok=True)
    for tower, inputs, shapes, output in (
        (Image(), {"pixel_values": torch.zeros(2, 3, 32, 32)}, {"pixel_values": {0: batch}}, "image"),
        (Text(), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, rows, "text"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporter, about its own names of axes
            program = torch.onnx.export(
                tower.eval(), kwargs=inputs, input_names=list(inputs), output_names=[f"{output}_embeds"],
                dynamic_shapes=shapes, dynamo=True, verbose=False,
            )  # fmt: skip
        program.save(target / f"{output}.onnx")


def onnx_folder(folder: Path) -> Case:
    """A folder: both towers, the tokenizer and the transform of the model that they were exported from."""
    import torch
    from transformers import AutoModel, AutoTokenizer, CLIPImageProcessorPil

    source = folder.with_name(f"{folder.name}-source")
    zoo_transformers.clip(source)
    export(source, folder)
    model, tokenizer = AutoModel.from_pretrained(source).eval(), AutoTokenizer.from_pretrained(source)
    pixels = CLIPImageProcessorPil.from_pretrained(source)
    for part in (pixels, tokenizer, model.config):
        part.save_pretrained(folder)

    def images(refs):
        with torch.no_grad():
            inputs = pixels(images=[ref.convert("RGB") for ref in refs], return_tensors="pt")
            return as_array(model.get_image_features(**inputs).pooler_output)

    def texts(strings):
        with torch.no_grad():
            inputs = tokenizer(strings, padding=True, truncation=True, return_tensors="pt")
            return as_array(model.get_text_features(**inputs).pooler_output)

    ONNX[folder] = Case(ModelSpec("onnx", str(folder)), images, texts, parts=(folder / "image.onnx",))
    return ONNX[folder]


def onnx_files(folder: Path) -> Case:
    """Two files, with tokenizer and transform beside them; exporting takes seconds, so the folder's are used."""
    made = folder.parent / "onnx"
    case = onnx_folder(folder) if not made.is_dir() else ONNX[made]
    made = made if made.is_dir() else folder
    spec = ModelSpec("onnx", str(made / "image.onnx"), str(made / "text.onnx"))
    return Case(spec, case.images, case.texts, parts=case.parts)


def api(form: str):
    """Return a builder of a model behind a real HTTP server, which takes images in one of three dialects."""

    def build(folder: Path) -> Case:
        server = OpenAIServer(dimension=12).__enter__()
        SERVERS.append(server)

        def images(refs):
            return np.array([server.vector(_dialects(_png(ref))[form]) for ref in refs], np.float32)

        def texts(strings):
            return np.array([server.vector(string) for string in strings], np.float32)

        options = {"api_base": server.api_base, "image_form": form}
        return Case(ModelSpec("api", "test-model", options=options), images, texts, cuts_long_text=False)

    return build


def _png(ref) -> str:
    stream = io.BytesIO()
    ref.save(stream, "png")
    return base64.b64encode(stream.getvalue()).decode()


def _dialects(data: str):
    """Write an image as each server documents it."""
    url = f"data:image/png;base64,{data}"
    return {
        "jina": {"image": data},
        "infinity": url,
        "vllm": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}],
    }


def ja_clip(folder: Path) -> Case:
    """The family's loader against a stand-in of its library."""
    import torch

    sys.path.insert(0, str(STAND_INS))
    import japanese_clip

    folder.mkdir(parents=True)
    model, transform = japanese_clip.load(str(folder))
    tokenizer = japanese_clip.load_tokenizer()

    def images(refs):
        with torch.no_grad():
            return as_array(model.get_image_features(torch.stack([transform(ref) for ref in refs])))

    def texts(strings):
        with torch.no_grad():
            return as_array(model.get_text_features(**japanese_clip.tokenize(strings, tokenizer=tokenizer)))

    return Case(ModelSpec("ja_clip", "ViT-B-32-quickgelu", str(folder)), images, texts)


OWN = '''
import numpy as np

class Letters:
    """A model of one's own: images by mean colour, texts by letters."""

    def prepare_image(self, image):
        return np.asarray(image.convert("RGB").resize((8, 8)), np.float32) / 255

    def encode_images(self, batch):
        return np.asarray(batch).mean(axis=(1, 2)) + 1

    def encode_texts(self, texts):
        return np.array([(len(t) + 1, sum(map(ord, t)) % 97 + 1, t.count("a") + 1) for t in texts], np.float32)
'''
RECIPE = '''
import torch
from torchvision import transforms

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.see = torch.nn.Conv2d(3, 8, 8, 8)
        self.read = torch.nn.Embedding(300, 8)
    def encode_image(self, images):
        return self.see(images).mean((2, 3))
    def encode_text(self, tokens):
        return self.read(tokens).cumsum(1).tanh().mean(1)

def tokenizer(texts):
    rows = [[1 + ord(letter) % 299 for letter in text][:20] for text in texts]
    return torch.tensor([row + [0] * (20 - len(row)) for row in rows])

def load_own(model_name, pretrained, cache_dir=None, device="cpu"):
    """CLIP_benchmark's recipe: a tuple (model, transform, tokenizer)."""
    torch.manual_seed(int(pretrained or 0))
    size = transforms.Compose([transforms.Resize((32, 32)), lambda image: image.convert("RGB"), transforms.ToTensor()])
    return Model().to(device), size, tokenizer
'''


def own(folder: Path) -> Case:
    """A class in the user's own file."""
    module = _write_module(folder, "own_letters", OWN)
    model = module.Letters()
    return Case(
        ModelSpec("python", "python:own_letters:Letters"),
        lambda refs: model.encode_images(np.stack([model.prepare_image(ref) for ref in refs])),
        model.encode_texts,
        cuts_long_text=False,
    )


def recipe(folder: Path) -> Case:
    """The old recipe, called as CLIP_benchmark calls it."""
    import torch

    module = _write_module(folder, "old_recipe", RECIPE)
    model, transform, tokenizer = module.load_own(model_name="x", pretrained="3", cache_dir=None, device="cpu")

    def images(refs):
        with torch.no_grad():
            return as_array(model.encode_image(torch.stack([transform(ref) for ref in refs])))

    def texts(strings):
        with torch.no_grad():
            return as_array(model.encode_text(tokenizer(strings).to("cpu")))

    spec = ModelSpec("python", "x", "3", options={"factory": "old_recipe:load_own"})
    return Case(spec, images, texts, cuts_long_text=False)


def _write_module(folder: Path, name: str, code: str):
    from importlib import import_module

    folder.mkdir(parents=True)
    (folder / f"{name}.py").write_text(code)
    sys.path.insert(0, str(folder))
    return import_module(name)


CASES = {
    "api-jina": api("jina"),
    "api-infinity": api("infinity"),
    "api-vllm": api("vllm"),
    "onnx": onnx_folder,
    "onnx-files": onnx_files,
    "ja_clip": ja_clip,
    "python": own,
    "recipe": recipe,
}
