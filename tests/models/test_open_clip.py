"""What is special about open_clip: tags, activations, languages, architectures of one's own."""

import dataclasses
import json

import numpy as np
import open_clip
import pytest
import torch
from open_clip import pretrained as tags
from transformers import NllbTokenizer

from eyechart.config import make_config
from eyechart.errors import ModelError, UnknownNameError
from eyechart.inference.embeddings import CachedEncoder
from eyechart.models.encoders.open_clip import OpenClipEncoder
from eyechart.models.lazy_model import LazyModel
from eyechart.models.local_generators import CocaFamily
from eyechart.models.registry import ENCODERS
from eyechart.plan_models import model_specs
from eyechart.store.vector_store import EmbeddingStore
from eyechart.types import ModelSpec
from support import zoo_open_clip
from support.zoo import load
from support.zoo_tokenizers import bert_tokenizer


@pytest.fixture
def quick_gelu_tag(tmp_path, monkeypatch):
    """Give open_clip's own table an architecture with GELU and a tag whose weights were trained with QuickGELU."""
    architecture, model = zoo_open_clip.make(tmp_path, zoo_open_clip.PLAIN, "made-gelu")
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    tag = {"file": str(tmp_path / "weights.pt"), "quick_gelu": True, "mean": None, "std": None}
    monkeypatch.setitem(tags._PRETRAINED, "made-gelu", {"trained": tag})
    (tmp_path / "made-gelu-quickgelu.json").write_text(architecture.read_text())
    return architecture


def test_a_wrong_tag_names_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean laion2b_s34b_b79k"):
        load(ModelSpec("open_clip", "ViT-B-32", "laion2b_s34b_b97k"))


def test_a_wrong_architecture_names_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean ViT-B-32"):
        load(ModelSpec("open_clip", "ViT-B-23", "openai"))


def test_an_architecture_that_was_added_to_the_library_goes_by_its_name(tmp_path):
    """As in a notebook: ``open_clip.add_model_config``, then the name; no file of it is known here."""
    architecture, model = zoo_open_clip.make(tmp_path, zoo_open_clip.PLAIN, "made-added")
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    architecture.unlink()

    (spec,) = model_specs(make_config({"model": ["made-added"], "pretrained": [str(tmp_path / "weights.pt")]}))
    encoder = load(spec)

    assert spec.family == "open_clip"
    tokens = open_clip.get_tokenizer("made-added")(["a cat"])
    np.testing.assert_allclose(encoder.encode_texts(["a cat"]), model.eval().encode_text(tokens).detach(), atol=1e-5)


def test_another_architecture_of_the_same_name_is_another_model(tmp_path):
    def identity(**changes):
        config = zoo_open_clip.PLAIN | {"text_cfg": zoo_open_clip.PLAIN["text_cfg"] | changes}
        architecture, model = zoo_open_clip.make(tmp_path, config, "made-twice")
        torch.save(model.state_dict(), tmp_path / "weights.pt")
        architecture.unlink()
        return ENCODERS.load("open_clip")().identity(ModelSpec("open_clip", "made-twice", str(tmp_path / "weights.pt")))

    first, again, other = identity(), identity(), identity(heads=1)

    assert None not in (first, again, other)
    assert first == again != other


def test_the_activation_of_a_tag_is_used_and_reported(quick_gelu_tag):
    encoder = OpenClipEncoder(ModelSpec("open_clip", "made-gelu", "trained"))

    expected = open_clip.create_model("made-gelu", pretrained="trained", force_quick_gelu=True).eval()
    tokens = open_clip.get_tokenizer("made-gelu")(["a cat"])
    np.testing.assert_allclose(encoder.encode_texts(["a cat"]), expected.encode_text(tokens).detach(), atol=1e-5)
    assert "trained was trained with QuickGELU" in encoder.card.notes[0]


def test_a_checkpoint_file_for_an_architecture_with_two_activations_is_reported(quick_gelu_tag, tmp_path):
    open_clip.add_model_config(tmp_path / "made-gelu-quickgelu.json")

    encoder = load(ModelSpec("open_clip", str(quick_gelu_tag), str(tmp_path / "weights.pt")))

    assert "use --model made-gelu-quickgelu" in encoder.card.notes[0]


def test_random_weights_are_reported(zoo):
    spec = dataclasses.replace(zoo.case("open_clip").spec, pretrained="")

    assert "The weights are random" in load(spec).card.notes[0]


def test_a_sigmoid_model_has_a_bias_on_its_card(zoo):
    card = zoo.encoder("open_clip-siglip").card

    assert card.logit_bias == -10
    assert card.logit_scale == pytest.approx(14.2857, abs=1e-3)


@pytest.mark.parametrize(
    ("language", "code"), [("de", "deu_Latn"), ("zh", "zho_Hans"), ("cn", "zho_Hans"), ("jp", "jpn_Jpan")]
)
def test_nllb_reads_each_language_as_that_language(zoo, language, code):
    folder = zoo.case("open_clip-nllb").spec.name.removeprefix("local-dir:")
    reference = NllbTokenizer.from_pretrained(folder, src_lang=code)
    encoder = zoo.encoder("open_clip-nllb")

    ids = encoder.tokenize(["Hund"], language)["tokens"][0].tolist()
    in_language, in_english = (encoder.encode_texts(["Hund"], language=name) for name in (language, "en"))

    assert ids[:7] == reference("Hund")["input_ids"]
    assert ids[0] == reference.convert_tokens_to_ids(code)
    assert np.abs(in_language - in_english).max() > 1e-4


def test_the_same_text_in_two_languages_is_stored_twice(zoo, tmp_path):
    store = EmbeddingStore(tmp_path)
    family = ENCODERS.load("open_clip")()
    embeddings = CachedEncoder(LazyModel(zoo.case("open_clip-nllb").spec, family), store)

    german, english = (embeddings.texts(["Hund"], language=language) for language in ("de", "en"))

    assert np.abs(german - english).max() > 1e-4


def test_nllb_refuses_a_language_that_it_does_not_know(zoo):
    with pytest.raises(ModelError, match="does not support the language 'tlh'"):
        zoo.encoder("open_clip-nllb").encode_texts(["Hab"], language="tlh")


def folder_with(tmp_path, **preprocess):
    """Save a folder as open_clip does, with images prepared in some other way."""
    _, model = zoo_open_clip.make(tmp_path / "made", zoo_open_clip.PLAIN)
    folder = tmp_path / f"folder-{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    torch.save(model.state_dict(), folder / "open_clip_pytorch_model.bin")
    config = {"model_cfg": zoo_open_clip.PLAIN, "preprocess_cfg": preprocess}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    return folder


def test_a_setting_that_a_transform_does_not_tell_is_part_of_the_model(tmp_path):
    black, grey = (folder_with(tmp_path, resize_mode="longest", fill_color=colour) for colour in (0, 200))

    cards = [load(ModelSpec("open_clip", str(folder))).card for folder in (black, grey)]
    assert cards[0].fingerprint != cards[1].fingerprint


def test_an_architecture_of_ones_own_does_not_take_the_name_of_the_librarys(tmp_path):
    architecture, _ = zoo_open_clip.make(tmp_path, zoo_open_clip.PLAIN, "ViT-S-32")

    own = load(ModelSpec("open_clip", str(architecture)))
    assert load(ModelSpec("open_clip", "ViT-S-32")).card.embedding_dim == 384
    assert own.card.embedding_dim == load(ModelSpec("open_clip", str(architecture))).card.embedding_dim == 32


def test_a_checkpoint_that_is_ignored_is_noted(tmp_path):
    folder = folder_with(tmp_path)
    other = tmp_path / "tuned.pt"
    other.write_bytes((folder / "open_clip_pytorch_model.bin").read_bytes())

    assert not load(ModelSpec("open_clip", str(folder))).card.notes
    assert "Ignoring" in load(ModelSpec("open_clip", str(folder), str(other))).card.notes[0]


def test_a_checkpoint_that_was_chosen_among_several_is_noted(tmp_path):
    folder = folder_with(tmp_path)
    weights = folder / "open_clip_pytorch_model.bin"
    for name in ("epoch_1.bin", "epoch_2.bin"):
        (folder / name).write_bytes(weights.read_bytes())
    weights.unlink()

    assert "Multiple checkpoints" in load(ModelSpec("open_clip", str(folder))).card.notes[0]


@pytest.mark.parametrize(("mean", "noted"), [((0.0, 0.0, 0.0), True), (None, False)])
def test_a_checkpoint_file_whose_images_are_prepared_otherwise_than_all_tags_is_noted(
    tmp_path, monkeypatch, mean, noted
):
    architecture, model = zoo_open_clip.make(tmp_path, zoo_open_clip.PLAIN, "made-other-mean")
    torch.save(model.state_dict(), tmp_path / "tuned.pt")
    monkeypatch.setitem(tags._PRETRAINED, "made-other-mean", {"trained": {"url": "", "mean": mean}})

    notes = load(ModelSpec("open_clip", str(architecture), str(tmp_path / "tuned.pt"))).card.notes
    assert [note[:6] for note in notes] == ["Images"] * noted


def test_captions_of_another_tokenizer_are_refused(tmp_path):
    bert_tokenizer(tmp_path / "words")
    text = zoo_open_clip.COCA["text_cfg"] | {"hf_tokenizer_name": str(tmp_path / "words")}
    architecture, _ = zoo_open_clip.make(tmp_path, zoo_open_clip.COCA | {"text_cfg": text}, "made-coca-words")

    with pytest.raises(ModelError, match="does not use CLIP's tokenizer"):
        CocaFamily().load(ModelSpec("open_clip", str(architecture)))


def test_a_revision_that_is_not_used_is_noted(tmp_path):
    spec = ModelSpec("open_clip", str(folder_with(tmp_path)), options={"revision": "abc"})
    assert load(spec).card.notes == ("The revision was ignored: it only applies to names that start with hf-hub:.",)
