"""A model of one's own is its code, its arguments, its weights and its answers: change one, and it is another model."""

import dataclasses
import importlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from PIL import Image

from eyechart.errors import ModelError
from eyechart.models.objects.model_parts import ModelParts
from eyechart.models.objects.object_encoders import ListEncoder, ModuleEncoder
from eyechart.models.registry import ENCODERS
from eyechart.types import IN_MEMORY, InMemoryObject, ModelCard, ModelSpec
from support import zoo_transformers
from support.zoo import load

MODEL = """
import numpy as np
from helper import limit

class Letters:
    def encode_images(self, batch):
        return np.ones((len(batch), 2))
    def encode_texts(self, texts):
        return np.array([[1.0, min(len(text), limit())] for text in texts])
"""
HELPER = "def limit():\n    return 1000\n"


def fingerprint(folder, name="own:Letters", pretrained=""):
    """Load a model in a process of its own, as the next run does."""
    code = (
        "import sys; from eyechart.models.registry import ENCODERS; from eyechart.types import ModelSpec\n"
        "spec = ModelSpec('python', sys.argv[1], sys.argv[2])\n"
        "print(ENCODERS.load('python')().load(spec).card.fingerprint)"
    )
    words = [sys.executable, "-c", code, f"python:{name}", pretrained]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own.py").write_text(MODEL)
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path


def test_the_same_code_is_the_same_model(folder):
    assert fingerprint(folder) == fingerprint(folder)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("own.py", "len(text)", "len(text.strip())"),
        # Longer than any of the texts by which models are recognised: their answers are the same.
        ("helper.py", "1000", "999"),
    ],
)
def test_other_code_is_another_model_although_it_answers_alike(folder, file, old, new):
    before = fingerprint(folder)
    text = (folder / file).read_text()
    (folder / file).write_text(text.replace(old, new))

    assert fingerprint(folder) != before


def test_another_class_of_the_same_file_is_another_model(folder):
    (folder / "own.py").write_text(MODEL + "\nclass Others(Letters):\n    pass\n")

    assert fingerprint(folder) != fingerprint(folder, "own:Others")


def test_other_arguments_and_other_weights_behind_the_same_path_are_another_model(folder):
    weights = folder / "weights.bin"
    weights.write_bytes(b"one")
    prints = {fingerprint(folder), fingerprint(folder, pretrained="v2"), fingerprint(folder, pretrained="weights.bin")}
    weights.write_bytes(b"two")
    prints.add(fingerprint(folder, pretrained="weights.bin"))

    assert len(prints) == 4


def spec_of(tmp_path, monkeypatch, module, code):
    (tmp_path / f"{module}.py").write_text(textwrap.dedent(code))
    monkeypatch.syspath_prepend(tmp_path)
    return ModelSpec("python", f"python:{module}:Model")


def test_the_weights_of_torch_modules_inside_count(tmp_path, monkeypatch):
    spec = spec_of(
        tmp_path,
        monkeypatch,
        "own_torch_inside",
        """
        import numpy as np, torch
        seed = 0
        class Model:
            def __init__(self):
                torch.manual_seed(seed)
                self.rare = torch.nn.Linear(2, 2)
            def encode_images(self, batch):
                return np.ones((len(batch), 2))
            def encode_texts(self, texts):
                return [self.rare(torch.ones(2)).tolist() if "never asked" in text else [1, 2] for text in texts]
        """,
    )
    first = load(spec).card.fingerprint
    assert load(spec).card.fingerprint == first
    monkeypatch.setattr("own_torch_inside.seed", 1)

    assert load(spec).card.fingerprint != first


TABLES = {
    "an array": "self.table = np.load('words.npy')",
    "an array in a dict of a part": "self.part = Part(); self.part.tables = {'words': [np.load('words.npy')]}",
    "an array of the module": "globals()['TABLE'] = np.load('words.npy')",
    "a number": "self.rare = float(np.load('words.npy')[1])",
    "a function's memory": "table = np.load('words.npy'); self.look_up = lambda word: table[word]",
}


@pytest.mark.parametrize("line", TABLES.values(), ids=TABLES)
def test_whatever_else_a_model_holds_counts(tmp_path, line):
    code = f"""
        import numpy as np
        class Part:
            pass
        class Letters:
            def __init__(self):
                {line}
            def encode_images(self, batch):
                return np.ones((len(batch), 2))
            def encode_texts(self, texts):
                return np.array([[1.0, "never asked" in text] for text in texts])
        """
    (tmp_path / "own.py").write_text(textwrap.dedent(code))
    np.save(tmp_path / "words.npy", np.array([1.0, 2.0]))
    first = fingerprint(tmp_path)
    assert fingerprint(tmp_path) == first
    np.save(tmp_path / "words.npy", np.array([1.0, 3.0]))

    assert fingerprint(tmp_path) != first


def test_the_tokenizer_and_the_transform_of_a_recipe_count(tmp_path):
    code = """
        import json, torch
        class Model(torch.nn.Module):
            def encode_image(self, pixels): return pixels.flatten(1)[:, :2]
            def encode_text(self, tokens): return tokens.float()
        class Words:
            def __init__(self): self.words = json.load(open("words.json"))
            def __call__(self, texts): return torch.tensor([[1, self.words.get(text, 0)] for text in texts])
        def make(): return Model(), lambda image: torch.ones(3, 2, 2), Words()
        """
    (tmp_path / "own.py").write_text(textwrap.dedent(code))
    (tmp_path / "words.json").write_text('{"zebra": 1}')
    first = fingerprint(tmp_path, "own:make")
    assert fingerprint(tmp_path, "own:make") == first
    (tmp_path / "words.json").write_text('{"zebra": 2}')

    assert fingerprint(tmp_path, "own:make") != first


def test_a_model_that_cannot_be_asked_is_never_known_again(tmp_path, monkeypatch):
    spec = spec_of(
        tmp_path,
        monkeypatch,
        "own_shy",
        """
        class Model:
            def encode_images(self, batch): return [[1.0]] * len(batch)
            def encode_texts(self, texts): raise KeyError(texts[0])
        """,
    )

    one, two = load(spec).card, load(spec).card

    assert one.fingerprint != two.fingerprint
    assert "its vectors are not reused" in one.notes[0]


def test_a_card_of_ones_own_is_kept_but_does_not_hide_other_code(folder):
    card = "    card = __import__('eyechart').ModelCard('mine', 'm', 'v1', 't', embedding_dim=2)\n"
    (folder / "own.py").write_text(MODEL + card)
    before = fingerprint(folder)
    (folder / "helper.py").write_text(HELPER.replace("1000", "999"))

    assert fingerprint(folder) != before


def test_the_rest_of_a_card_of_ones_own_goes_into_the_result(tmp_path, monkeypatch):
    spec = spec_of(
        tmp_path,
        monkeypatch,
        "own_with_card",
        """
        from eyechart import ModelCard
        class Model:
            card = ModelCard("mine", "m", "v1", "t", embedding_dim=1, logit_scale=7.0)
            def encode_images(self, batch): return [[1.0]] * len(batch)
            def encode_texts(self, texts): return [[1.0]] * len(texts)
        """,
    )

    card = load(spec).card

    assert isinstance(card, ModelCard)
    assert (card.family, card.name, card.logit_scale) == ("mine", "m", 7.0)


def test_what_code_computes_is_not_known_before_it_runs():
    assert ENCODERS.load("python")().identity(ModelSpec("python", "python:a:b")) is None


def test_a_card_of_ones_own_does_not_hide_other_answers(folder):
    (folder / "own.py").write_text(
        MODEL.replace("np.ones((len(batch), 2))", "np.full((len(batch), 2), float(open('weights').read()))")
        + "    card = __import__('eyechart').ModelCard('mine', 'm', 'v1', 't', embedding_dim=2)\n"
    )
    (folder / "weights").write_text("1")
    before = fingerprint(folder)
    (folder / "weights").write_text("2")

    assert fingerprint(folder) != before


@pytest.mark.parametrize(
    ("answer", "steady"),
    [
        ("np.random.standard_normal((len(batch), 3))", False),
        ("pixels(batch).mean((1, 2)) - pixels(batch).mean((0, 1, 2))", False),
        ("pixels(batch).mean((1, 2)).astype(np.float16)", True),
    ],
)
def test_a_model_whose_answers_change_says_so(tmp_path, monkeypatch, answer, steady):
    spec = spec_of(
        tmp_path,
        monkeypatch,
        f"own_unsteady_{abs(hash(answer))}",
        f"""
        import numpy as np
        def pixels(images): return np.stack([np.asarray(image) for image in images])
        class Model:
            def encode_images(self, batch): return {answer}
            def encode_texts(self, texts): return [[1.0, 2.0, 3.0]] * len(texts)
        """,
    )

    assert ["different vectors" in note for note in load(spec).card.notes] == ([] if steady else [True])


WORDS = "np.stack([np.bincount([ord(c) % 50 for c in t], minlength=50)[:50] + 1.0 for t in texts])"
STEADY_TEXTS = {
    "np.random.standard_normal((len(texts), 50))": False,
    f"{WORDS} + np.random.standard_normal((len(texts), 50)) * 0.1": False,
    f"{WORDS} - {WORDS}.mean(0) / 9": False,
    WORDS.replace("in t]", "in t.ljust(max(map(len, texts)))]"): False,  # padding without a mask
    WORDS: True,
    f"{WORDS} + np.random.standard_normal((len(texts), 50)) * 1e-5": True,
    f"({WORDS}).astype(np.float16)": True,
}


@pytest.mark.parametrize("answer", STEADY_TEXTS)
@pytest.mark.parametrize("in_memory", [False, True])
def test_a_text_tower_whose_vectors_change_says_so(tmp_path, monkeypatch, answer, in_memory):
    code = f"""
        import numpy as np
        class Model:
            def encode_images(self, batch): return [[1.0] * 50] * len(batch)
            def encode_texts(self, texts): return {answer}
        """
    module = f"own_unsteady_text_{abs(hash(answer))}_{in_memory}"
    spec = spec_of(tmp_path, monkeypatch, module, code)

    if in_memory:
        encoder = ListEncoder(ModelSpec("object", "mine"), importlib.import_module(module).Model())
    else:
        encoder = load(spec)

    notes = [note for note in encoder.card.notes if "for the same text" in note]
    assert len(notes) == (0 if STEADY_TEXTS[answer] else 1)


class TwoTowers(torch.nn.Module):
    """A module in the style of CLIP; its text tower averages over padding, or has dropout in training mode."""

    def __init__(self, masked):
        super().__init__()
        torch.manual_seed(0)
        self.masked = masked
        self.words, self.drop = torch.nn.Embedding(300, 16), torch.nn.Dropout(0.5)

    def encode_image(self, pixels):
        return pixels.flatten(1)[:, :16] + 1

    def encode_text(self, tokens):
        mask = (tokens > 0)[..., None] if self.masked else torch.ones_like(tokens)[..., None]
        return self.drop((self.words(tokens) * mask).sum(1) / mask.sum(1))


def padded(texts):
    rows = [torch.tensor([1 + byte for byte in text.encode()]) for text in texts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


@pytest.mark.parametrize(
    ("masked", "training", "steady"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_a_module_that_ignores_its_padding_mask_or_is_in_training_mode_says_so(masked, training, steady):
    model = TwoTowers(masked).train(training)
    parts = ModelParts(model, lambda image: np.asarray(image.resize((8, 8)), np.float32), padded)

    notes = ModuleEncoder(ModelSpec("object", "mine"), parts).card.notes

    assert any("for the same text" in note for note in notes) is not steady


@pytest.mark.parametrize(
    "answer", ["(np.ones((len(batch), 1)), None)", "(row for row in batch)", "np.full((len(batch), 1), 1j)"]
)
def test_what_is_no_array_of_numbers_is_a_clear_error(tmp_path, monkeypatch, answer):
    spec = spec_of(
        tmp_path,
        monkeypatch,
        f"own_odd_{abs(hash(answer))}",
        f"""
        import numpy as np
        class Model:
            def encode_images(self, batch): return {answer}
            def encode_texts(self, texts): return [[1.0]] * len(texts)
        """,
    )

    with pytest.raises(ModelError, match=r"Model\.encode_images returned a .* that is not a numeric array"):
        load(spec).encode_images(np.zeros((2, 8, 8, 3), np.uint8))


PICKY = """
    import numpy as np
    from PIL import Image
    class Model:
        def encode_images(self, images):
            assert all(isinstance(image, Image.Image) and image.mode == "RGB" for image in images)
            return [[image.width, image.height] for image in images]
        def encode_texts(self, texts): return [[1.0, 2.0]] * len(texts)
    class Prepared(Model):
        def prepare_image(self, image): return np.full((2, 2), image.width, np.float32)
        def encode_images(self, batch):
            assert batch.shape[1:] == (2, 2)
            return batch.reshape(len(batch), 4)[:, :2]
    """


@pytest.mark.parametrize(("name", "expected"), [("Model", [128, 96]), ("Prepared", [128, 128])])
def test_a_factory_and_an_object_receive_the_same_images(tmp_path, monkeypatch, name, expected):
    spec = spec_of(tmp_path, monkeypatch, "own_picky", PICKY)
    by_name = load(dataclasses.replace(spec, name=f"python:own_picky:{name}"))
    thing = getattr(importlib.import_module("own_picky"), name)()
    in_memory = load(ModelSpec(IN_MEMORY, "mine", options={IN_MEMORY: InMemoryObject(thing, "own_picky.Model")}))

    for encoder in (by_name, in_memory):
        pixels = np.stack([encoder.prepare_image(Image.new("L", (128, 96)))] * 2)
        assert encoder.encode_images(pixels).tolist() == [expected] * 2
        assert not encoder.card.notes


def test_a_factory_may_return_whatever_evaluate_takes(tmp_path):
    zoo_transformers.clip(tmp_path / "clip")
    code = """
        def make():
            from transformers import AutoModel, AutoProcessor
            return AutoProcessor.from_pretrained("clip"), AutoModel.from_pretrained("clip")
        """
    (tmp_path / "own.py").write_text(textwrap.dedent(code))
    first = fingerprint(tmp_path, "own:make")
    assert fingerprint(tmp_path, "own:make") == first
    (tmp_path / "own.py").write_text(textwrap.dedent(code) + "\n\n1 + 1\n")

    assert fingerprint(tmp_path, "own:make") != first


def test_a_recipe_hands_its_own_container_of_tokens_to_encode_text(tmp_path, monkeypatch):
    spec = spec_of(
        tmp_path,
        monkeypatch,
        "own_container",
        """
        import torch
        class Tokens(dict):
            def to(self, device): return self
        class Clip(torch.nn.Module):
            def encode_image(self, pixels): return pixels.flatten(1)[:, :2]
            def encode_text(self, tokens): return tokens["ids"].float()
        def Model():
            return Clip(), lambda image: torch.ones(3, 2, 2), lambda texts: Tokens(ids=torch.ones(len(texts), 2))
        """,
    )

    assert load(spec).encode_texts(["a", "b"]).tolist() == [[1, 1], [1, 1]]
