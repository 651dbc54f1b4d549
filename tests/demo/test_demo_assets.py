"""The embedded demo is what it claims to be: small, complete, consistent, and well above chance."""

import importlib.util
import io
import json
import re
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import eyechart

DEMO = Path(eyechart.__file__).parent / "demo"
MODEL, INT8, GARMENTS, SCENES = (
    DEMO / "model",
    DEMO / "model-int8",
    DEMO / "data" / "garments",
    DEMO / "data" / "scenes",
)
CHECK = Path(__file__).parents[2] / "scripts" / "train_tiny" / "check.py"
MEGABYTE = 1_000_000


def folder_size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


def read_members(folder):
    """Every member of the shards that nshards.txt announces, in order."""
    members = []
    for shard in range(int((folder / "test" / "nshards.txt").read_text())):
        with tarfile.open(folder / "test" / f"{shard}.tar") as tar:
            members += [(member, tar.extractfile(member).read()) for member in tar]
    return members


def read_samples(folder):
    samples = {}
    for member, content in read_members(folder):
        key, _, ending = member.name.partition(".")
        samples.setdefault(key, {})[ending] = content
    return samples


@pytest.fixture(scope="module")
def garments():
    return read_samples(GARMENTS)


@pytest.fixture(scope="module")
def scenes():
    return read_samples(SCENES)


def encode(folder, batches):
    """Give the image vectors of a model folder for batches of pixels."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / "image.onnx"), providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"pixel_values": batch})[0] for batch in batches])


def test_the_int8_model_is_the_model_in_eight_bits_at_a_third_of_the_size():
    onnx = pytest.importorskip("onnx")
    kinds = [onnx.TensorProto.INT8, onnx.TensorProto.UINT8, onnx.TensorProto.INT32]
    for name in ("image.onnx", "text.onnx"):
        weights = onnx.load(INT8 / name).graph.initializer
        large = [weight for weight in weights if np.prod(weight.dims) > 10_000]
        assert large
        assert all(weight.data_type in kinds for weight in large)
    assert folder_size(INT8) < folder_size(MODEL) / 3
    cards = [json.loads((folder / "eyechart.json").read_text()) for folder in (MODEL, INT8)]
    assert cards[1] | {"name": cards[0]["name"]} == cards[0] | {"quantisation": cards[1]["quantisation"]}


def test_a_vector_of_the_int8_model_does_not_depend_on_its_neighbours_and_is_near_that_of_the_model():
    rng = np.random.default_rng(0)
    pixels = rng.normal(size=(6, 3, 64, 64)).astype(np.float32)

    alone = encode(INT8, [pixels[i : i + 1] for i in range(6)])
    whole = encode(MODEL, [pixels])

    np.testing.assert_array_equal(alone, encode(INT8, [pixels[:4], pixels[4:]]))
    cosine = (alone * whole).sum(1) / np.linalg.norm(alone, axis=1) / np.linalg.norm(whole, axis=1)
    assert cosine.min() > 0.9
    assert cosine.max() < 1 - 1e-6


def test_both_models_are_known_by_name_wherever_a_model_is_named(tmp_path, monkeypatch, capsys):
    from eyechart.cli import main
    from eyechart.demo import MODELS

    monkeypatch.chdir(tmp_path)
    assert main(["eval", "demo/garments", *MODELS, "--limit", "5", "--quiet", "--output", "results/"]) == 0
    assert main(["list", "models"]) == 0

    assert len(list(Path("results").glob("*.json"))) == len(MODELS)
    listed = {line.split(" ")[0] for line in capsys.readouterr().out.splitlines()}
    assert MODELS.keys() <= listed


def test_the_model_is_at_most_8_megabytes_and_the_data_at_most_4():
    assert folder_size(MODEL) <= 8 * MEGABYTE
    assert folder_size(DEMO / "data") <= 4 * MEGABYTE


@pytest.mark.parametrize("folder", [GARMENTS, SCENES])
def test_shards_carry_no_trace_of_the_machine_that_wrote_them(folder):
    owners = {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m, _ in read_members(folder)}
    assert owners == {(0, 0, 0, "", "")}
    shards = sorted(path.name for path in (folder / "test").glob("*.tar"))
    assert shards == [f"{i}.tar" for i in range(int((folder / "test" / "nshards.txt").read_text()))]


@pytest.mark.parametrize("name", ["image.onnx", "text.onnx"])
def test_towers_carry_no_trace_of_the_machine_that_wrote_them(name):
    content = (MODEL / name).read_bytes()
    assert not re.search(rb"\w\.py\b|/home/|site-packages", content)


def test_garments_are_balanced_over_the_named_classes(garments):
    classes = len(lines(GARMENTS / "classnames.txt"))
    counts = Counter(int(sample["cls"]) for sample in garments.values())
    assert set(counts) == set(range(classes))
    assert len(set(counts.values())) == 1
    assert 600 <= len(garments) <= 1000


def test_every_sample_has_a_running_key_and_the_files_of_its_task(garments, scenes):
    for samples, endings in ((garments, {"png", "cls"}), (scenes, {"png", "txt", "de.txt"})):
        assert list(samples) == [f"s{number:07d}" for number in range(len(samples))]
        assert all(set(sample) == endings for sample in samples.values())


def test_images_decode_to_their_known_size_and_no_two_are_equal(garments, scenes):
    for samples, size, mode in ((garments, (28, 28), "L"), (scenes, (64, 64), "RGB")):
        images = [Image.open(io.BytesIO(sample["png"])) for sample in samples.values()]
        assert {(image.size, image.mode) for image in images} == {(size, mode)}
        assert len({image.tobytes() for image in images}) == len(images)


def test_english_and_german_lists_speak_of_the_same_classes():
    english, german = lines(GARMENTS / "classnames.txt"), lines(GARMENTS / "classnames.de.txt")
    assert len(english) == len(german) == 10
    for names in (english, german):
        assert len(set(names)) == len(names)
        assert all(name == name.strip() and name for name in names)


def test_every_template_has_one_place_for_the_class():
    english, german = (lines(GARMENTS / f"zeroshot_classification_templates{suffix}.txt") for suffix in ("", ".de"))
    assert len(english) == len(german) == len(set(english)) == len(set(german))
    assert all(template.count("{c}") == 1 for template in english + german)


def test_scenes_are_marked_as_a_retrieval_set(scenes):
    assert (SCENES / "dataset_type.txt").read_text().strip() == "retrieval"
    assert not (GARMENTS / "dataset_type.txt").exists()
    assert 400 <= len(scenes) <= 500


@pytest.mark.parametrize("ending", ["txt", "de.txt"])
def test_a_caption_belongs_to_one_scene_only(scenes, ending):
    captions = [sample[ending].decode().splitlines() for sample in scenes.values()]
    assert {len(texts) for texts in captions} == {1, 2, 3}
    everything = [text for texts in captions for text in texts]
    assert len(set(everything)) == len(everything)


def test_colours_and_garments_without_their_order_fit_eight_scenes(scenes):
    synonyms = {
        "tee": "t-shirt",
        "top": "t-shirt",
        "pants": "trousers",
        "sweater": "pullover",
        "trainer": "sneaker",
        "handbag": "bag",
        "boot": "ankle",
        "cyan": "turquoise",
        "violet": "purple",
    }
    colour = r"\b(red|orange|yellow|green|turquoise|cyan|blue|purple|violet|white) ([a-z-]+)"
    groups = Counter()
    for sample in scenes.values():
        found = re.findall(colour, sample["txt"].decode().splitlines()[0])
        groups[tuple(sorted(synonyms.get(word, word) for pair in found for word in pair))] += 1
    assert {len(words) for words in groups} == {4}
    assert set(groups.values()) == {8}


@pytest.fixture(scope="module")
def tokenizer():
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(MODEL / "tokenizer.json"))


@pytest.fixture(scope="module")
def embed_texts(tokenizer):
    """Text tower with padding under the test's control."""
    import onnxruntime

    session = onnxruntime.InferenceSession(MODEL / "text.onnx")

    def embed(texts, length, filler=0):
        ids = np.full((len(texts), length), filler, dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, encoding in enumerate(tokenizer.encode_batch(texts)):
            ids[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
        return session.run(["text_embeds"], {"input_ids": ids, "attention_mask": mask})[0]

    return embed


@pytest.fixture(scope="module")
def card():
    return json.loads((MODEL / "eyechart.json").read_text())


@pytest.mark.parametrize("filler", [0, 17])
def test_padding_does_not_change_a_text_vector(embed_texts, tokenizer, card, filler):
    texts = ["a photo of a bag", "eine rote Tasche links von einem blauen Mantel"]
    lengths = [len(encoding.ids) for encoding in tokenizer.encode_batch(texts)]
    tight = embed_texts(texts, max(lengths), filler)
    np.testing.assert_allclose(embed_texts(texts, card["context_length"], filler), tight, atol=1e-5, rtol=0)
    np.testing.assert_allclose(embed_texts(texts[:1], lengths[0]), tight[:1], atol=1e-5, rtol=0)


def test_the_tokenizer_neither_pads_nor_truncates_and_knows_every_text(tokenizer):
    assert tokenizer.padding is None
    assert tokenizer.truncation is None
    assert tokenizer.decode(tokenizer.encode("Ein grüner Mantel 猫 ☂").ids).strip() == "ein grüner mantel 猫 ☂"


def test_no_caption_is_longer_than_the_context(tokenizer, card, scenes):
    texts = [t for s in scenes.values() for e in ("txt", "de.txt") for t in s[e].decode().splitlines()]
    assert max(len(encoding.ids) for encoding in tokenizer.encode_batch(texts)) <= card["context_length"]


def test_the_settings_describe_the_towers(embed_texts, card):
    import onnxruntime

    size = json.loads((MODEL / "preprocessor_config.json").read_text())["size"]
    session = onnxruntime.InferenceSession(MODEL / "image.onnx")
    for batch in (1, 3):
        pixels = np.zeros((batch, 3, size["height"], size["width"]), dtype=np.float32)
        vectors = session.run(["image_embeds"], {"pixel_values": pixels})[0]
        assert vectors.shape == (batch, card["embedding_dim"])
    assert embed_texts(["a bag"], 8).shape == (1, card["embedding_dim"])
    assert card["name"] == "eyechart-tiny"
    assert 1 <= card["logit_scale"] <= 100


@pytest.fixture(scope="module")
def check():
    """The independent scorer of the training script: onnxruntime, tokenizers, numpy and Pillow."""
    spec = importlib.util.spec_from_file_location("train_tiny_check", CHECK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_model_names_garments_in_both_languages(check):
    scores = check.classification(check.Model(MODEL), GARMENTS)
    assert set(scores) == {"en", "de"}
    assert all(metrics["acc1"] >= 0.80 for metrics in scores.values())


def test_the_model_finds_scenes_in_both_languages_and_directions(check):
    """A model blind to order would find one scene in eight of its group at rank 1, five in eight within 5."""
    scores = check.retrieval(check.Model(MODEL), SCENES)
    assert set(scores) == {"en", "de"}
    for metrics in scores.values():
        assert metrics["image_retrieval_recall@1"] > 1 / 8
        assert metrics["text_retrieval_recall@1"] > 1 / 8
        assert metrics["image_retrieval_recall@5"] > 5 / 8
        assert metrics["text_retrieval_recall@5"] > 5 / 8
