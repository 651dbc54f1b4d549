import pytest
from hypothesis import given
from hypothesis import strategies as st

from eyechart import evaluate
from eyechart.config import make_config
from eyechart.datasets.registry import clean_internvl, open_dataset
from eyechart.datasets.resolve import resolve_dataset
from eyechart.errors import UsageError
from eyechart.manifest import read_manifest
from eyechart.plan import plan_jobs
from support.data import write_classification, write_retrieval

TINY = {"model_type": "onnx", "model": ["eyechart-tiny"], "pretrained": ["eyechart-tiny"]}


@pytest.mark.parametrize(
    ("caption", "clean"),
    [
        ("A Dog (brown) runs!", "a dog brown runs"),
        ('He said: "no".', "he said no"),
        ("one,two-three's", "one,two-three's"),
        ("a  b\t\tc", "a b c"),
        ("一只狗。", "一只狗。"),
        (" ".join(str(i) for i in range(60)), " ".join(str(i) for i in range(50))),
    ],
)
def test_captions_are_cleaned_as_the_internvl_authors_do(caption, clean):
    assert clean_internvl(caption) == clean


@given(st.text())
def test_cleaning_leaves_none_of_the_marks_and_at_most_fifty_words(caption):
    clean = clean_internvl(caption)

    assert not set(clean) & set('.!"()*#:;~')
    assert len(clean.split(" ")) <= 50


def test_it_is_a_choice_and_it_is_recorded(tmp_path):
    write_retrieval(tmp_path / "flickr30k", captions=[["A Dog!"], ["A Cat."], ["Two Birds"]])
    settings = {**TINY, "dataset": ["flickr30k"], "dataset_root": str(tmp_path / "flickr30k"), "recall_k": [1]}

    (plain,) = evaluate(**settings, output=str(tmp_path / "plain.json"))
    (clean,) = evaluate(**settings, output=str(tmp_path / "clean.json"), caption_cleaning="internvl")

    assert clean.job["caption_cleaning"] == "internvl"
    assert plain.job["caption_cleaning"] is None
    assert "caption_cleaning" in [notice["kind"] for notice in clean.notices]
    assert clean.job["digest"] != plain.job["digest"]
    assert clean.data["fingerprint"] != plain.data["fingerprint"]


def test_captions_change_and_nothing_else(tmp_path):
    write_retrieval(tmp_path, captions=[["A Dog!", "B"], ["A Cat."]])
    plain = read_manifest(open_dataset(resolve_dataset("wds/x", str(tmp_path))))
    spec = resolve_dataset("wds/x", str(tmp_path), options={"caption_cleaning": "internvl"})

    clean = read_manifest(open_dataset(spec))

    assert [entry.texts for entry in clean.entries] == [("a dog", "b"), ("a cat",)]
    assert [entry.id for entry in clean.entries] == [entry.id for entry in plain.entries]
    assert (clean.digests == plain.digests).all()


def test_an_unknown_cleaning_is_refused(tmp_path):
    write_retrieval(tmp_path, captions=[["a"], ["b"]])

    with pytest.raises(UsageError, match="Unknown caption cleaning: 'intern'"):
        plan_jobs(
            make_config({**TINY, "dataset": ["wds/x"], "dataset_root": str(tmp_path), "caption_cleaning": "intern"})
        )


def test_there_is_nothing_to_clean_without_captions(tmp_path):
    write_classification(tmp_path)

    with pytest.raises(UsageError, match="no captions to clean"):
        open_dataset(resolve_dataset("wds/x", str(tmp_path), options={"caption_cleaning": "internvl"}))
