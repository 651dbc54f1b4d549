"""Caption metrics against pycocoevalcap, and the tokenizer against recorded output of Stanford's."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eyechart.metrics.captions import ptb_captions, ptb_references, ptb_tokens, score_captions

WORD = st.sampled_from(["a", "the", "cat", "dog", "sits", "on", "mat", "Mat", "", "."])
CAPTION = st.lists(WORD, max_size=12).map(" ".join)
CORPUS = st.lists(st.tuples(CAPTION, st.lists(CAPTION, min_size=1, max_size=4)), min_size=1, max_size=6)


def _pycocoevalcap(predictions, references):
    pytest.importorskip("pycocoevalcap")
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    truths = dict(enumerate(references))
    found = {image: [text] for image, text in enumerate(predictions)}
    bleus, _ = Bleu(4).compute_score(truths, found, verbose=0)
    scores = {f"Bleu_{n}": score for n, score in enumerate(bleus, 1)}
    scores["ROUGE_L"], _ = Rouge().compute_score(truths, found)
    scores["CIDEr"], _ = Cider().compute_score(truths, found)
    return {name: 100 * score for name, score in scores.items()}


@given(CORPUS)
@settings(max_examples=300, deadline=None)
def test_agrees_with_pycocoevalcap(corpus):
    predictions, references = zip(*corpus, strict=True)
    assume(any(text.split() for texts in references for text in texts))  # without a word the other program stops

    expected = _pycocoevalcap(predictions, references)

    assert score_captions(predictions, references) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_two_captions_worked_out_by_the_original():
    found = score_captions(
        ["a cat sits on the mat", "a dog runs in the park"], [["a cat sits on the mat"], ["a dog runs in the park"]]
    )

    assert found["Bleu_4"] == pytest.approx(99.99999997979168, abs=1e-9)
    assert found["ROUGE_L"] == 100.0
    assert found["CIDEr"] == pytest.approx(1000.0)


def test_capitals_and_punctuation_count_unless_the_ptb_tokenizer_is_asked_for():
    predictions, references = ["A cat.", "A dog!"], [["a cat"], ["a dog"]]

    assert score_captions(predictions, references)["Bleu_1"] < 1
    assert score_captions(predictions, references, tokenizer="ptb")["ROUGE_L"] == 100.0


def test_one_image_has_no_cider():
    assert score_captions(["a cat"], [["a cat"]])["CIDEr"] == 0.0


@pytest.mark.parametrize(
    ("predictions", "references", "tokenizer", "message"),
    [
        (["a"], [["a"], ["b"]], "whitespace", "1 predictions but references for 2"),
        ([], [], "whitespace", "at least one image"),
        (["a"], [[]], "whitespace", "at least one reference"),
        (["a"], [["a"]], "moses", "unknown tokenizer 'moses'"),
    ],
)
def test_what_cannot_be_scored_is_an_error(predictions, references, tokenizer, message):
    with pytest.raises(ValueError, match=message):
        score_captions(predictions, references, tokenizer)


STANFORD = json.loads((Path(__file__).parent / "data" / "ptb_captions.json").read_text(encoding="utf-8"))
RECORDED = STANFORD["captions"]


@pytest.mark.parametrize(("caption", "tokens"), RECORDED.items())
def test_tokens_are_those_of_stanford(caption, tokens):
    """Recorded with the PTBTokenizer of pycocoevalcap 1.2 (CoreNLP 3.4.1), which needs Java."""
    assert ptb_tokens(caption) == tokens


def test_a_full_stop_behind_a_single_letter_depends_on_what_follows_also_on_the_next_line():
    """Recorded as above, all lines in one go: COCO's evaluation gives its tokenizer one caption a line."""
    captions, tokens = zip(*STANFORD["lines"], strict=True)

    assert [" ".join(found) for found in ptb_captions(captions)] == list(tokens)
    assert ptb_references([captions[:3], captions[3:]])[1] == ptb_captions(captions)[3:]


@given(st.text())
@settings(deadline=None)
def test_tokens_of_any_text_hold_no_space_and_no_dropped_mark(text):
    for token in ptb_tokens(text):
        assert token
        assert token == token.strip()
        assert token not in {".", ",", "?", "!", "--"}


HOSTILE = ["a", " ", "\n", "1.", "1/", "a@", "-", ".", "n't", "'", "<a", "http://.", "a.", "a-"]


@pytest.mark.parametrize("piece", HOSTILE)
def test_100_kb_of_hostile_caption_takes_no_time(piece):
    text = (piece * 100_000)[:100_000]
    started = time.process_time()

    score_captions([text, "a cat"], [["a dog"], ["a cat"]], tokenizer="ptb")
    score_captions([text, "a cat"], [["a dog"], ["a cat"]])

    assert time.process_time() - started < 3.0
