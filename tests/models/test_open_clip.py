"""What is special about open_clip: tags, activations, languages, architectures of one's own."""

import dataclasses

import numpy as np
import open_clip
import pytest
import torch
from open_clip import pretrained as tags
from transformers import NllbTokenizer

from eyechart.errors import ModelError, UnknownNameError
from eyechart.inference.embeddings import StoredEmbeddings
from eyechart.models.encoders.open_clip import OpenClipEncoder
from eyechart.models.lazy import LazyModel
from eyechart.models.registry import ENCODERS
from eyechart.store.vectors import EmbeddingStore
from eyechart.types import ModelSpec
from support import zoo_open_clip
from support.zoo import load


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
    embeddings = StoredEmbeddings(LazyModel(zoo.case("open_clip-nllb").spec, family), store)

    german, english = (embeddings.texts(["Hund"], language=language) for language in ("de", "en"))

    assert np.abs(german - english).max() > 1e-4


def test_nllb_refuses_a_language_that_it_does_not_know(zoo):
    with pytest.raises(ModelError, match="has no language 'tlh'"):
        zoo.encoder("open_clip-nllb").encode_texts(["Hab"], language="tlh")
