"""Whatever a task writes can be compared and shown: text retrieval, captions, answers that are half right."""

from __future__ import annotations

import pytest

from eyechart import evaluate
from eyechart.errors import UsageError
from eyechart.report.comparison import compare
from eyechart.report.loader import load_results
from eyechart.report.page.payload import make_payload
from eyechart.report.paired_records import RecordsCache
from eyechart.report.result_table import make_table
from support.make_results import ENCODER, VLMS, chunks_of, questions, retrieval, sit, texts


@pytest.fixture(scope="module")
def text_retrieval(tmp_path_factory):
    """A weak and a strong encoder that look for texts."""
    folder = tmp_path_factory.mktemp("texts")
    evaluate(
        dataset=[str(texts(folder / "flags", n=32))], model_type=ENCODER, model=["Snellen-S", "Snellen-L"],
        output=f"{folder}/results/{{model}}.json", num_workers=0,
    )  # fmt: skip
    return load_results([folder / "results"]).found


def by_metric(found, metric=None):
    """Compare the two models of some results, the weaker first."""
    table = make_table(found)
    means = [table.values(table.columns()[0])[m] for m in (0, 1)]
    first, second = (0, 1) if means[0] < means[1] else (1, 0)
    return {line.metric: line for line in compare(RecordsCache(table), first, second, metric=metric).lines}


def test_text_retrieval_is_compared_by_the_gain_of_each_query(text_retrieval):
    line = by_metric(text_retrieval)["ndcg_at_10"]

    assert line.paired.n == 32
    assert line.paired.difference > 0
    assert line.fewer == ("1 left out", "1 left out")
    assert set(by_metric(text_retrieval, "recall_at_1")) == {"recall_at_1"}


def test_text_retrieval_is_shown_as_texts_that_look_for_documents(text_retrieval):
    payload = make_payload(text_retrieval)
    (chunk,) = chunks_of(payload)

    assert chunk["gallery"] == "documents"
    assert len(chunk["samples"]["texts"]) == 32
    assert chunk["curves"]["0"]["retrieval"][0] == pytest.approx(
        text_retrieval[0].result.metrics["hit_rate_at_1"], abs=1e-5
    )
    assert [row[6] for row in payload.overview["results"]] == [["1 left out"]] * 2


def test_answers_that_are_half_right_are_compared_by_their_score(answers):
    found = load_results(sorted(answers.glob("*descriptions*.json"))).found

    line = by_metric(found)["accuracy"]

    assert line.paired.n == 32
    assert 0 < line.first < line.second < 1
    assert line.paired.only_first is None


def test_answers_that_are_half_right_are_shown_as_such(answers):
    (chunk,) = chunks_of(make_payload(load_results(sorted(answers.glob("*descriptions*.json"))).found))

    shares = [share for own in chunk["samples"]["correct"].values() for share in own]
    assert any(0 < share < 1 for share in shares)
    assert 1 in shares


def test_multiple_choice_is_compared_and_shown_with_its_options(answers):
    found = load_results(sorted(answers.glob("*flags*.json"))).found

    line = by_metric(found)["accuracy"]
    (chunk,) = chunks_of(make_payload(found))

    assert line.paired.only_second > line.paired.only_first
    assert chunk["samples"]["questions"]["0"]["options"].keys() == set("ABCD")


def test_captions_are_compared_by_the_score_of_each_image(answers):
    line = by_metric(load_results(sorted(answers.glob("*postcards*.json"))).found)["CIDEr"]

    assert line.paired.n == 16
    assert line.paired.difference > 0


@pytest.mark.parametrize(
    ("given", "named"),
    [({"system_prompt": "Be brief."}, "prompts"), ({"metric": "anls"}, "metric")],
    ids=["another system prompt", "another rule for answers"],
)
def test_answers_to_other_prompts_or_scored_by_another_rule_are_not_compared(tmp_path, given, named):
    _, descriptions = questions(tmp_path / "data", n=8)
    asked = {"xlsx": False, "metric": "relaxed_accuracy"}
    for name, model, settings in (("a", VLMS[0], asked), ("b", VLMS[1], asked | given)):
        evaluate(
            dataset=[str(descriptions)], model=[model], num_workers=0, output=f"{tmp_path}/{name}.json",
            questions=settings,
        )  # fmt: skip

    with pytest.raises(UsageError, match=f"descriptions: {named}\n"):
        by_metric(load_results([tmp_path / "a.json", tmp_path / "b.json"]).found)


def test_captions_to_another_prompt_are_not_compared(tmp_path):
    root = retrieval(tmp_path / "postcards", n=8)
    for model, options in zip(VLMS, ({}, {"caption_prompt": "Say it shortly."}), strict=True):
        evaluate(
            dataset=["wds/postcards"], dataset_root=str(root), task=["captioning"], model=[model], num_workers=0,
            output=f"{tmp_path}/{{model}}.json", task_options=options,
        )  # fmt: skip

    with pytest.raises(UsageError, match="postcards: prompts\n"):
        by_metric(load_results(sorted(tmp_path.glob("*.json"))).found)


@pytest.mark.parametrize("other", [{"knn_k": 3}, {"folds": 4}, {"fewshot_k": 20}], ids=str)
def test_models_that_learnt_from_something_else_are_not_compared(exam_data, tmp_path, other):
    learning = {"folds": 5, "knn_k": 1}
    sit(exam_data, tmp_path / "a.json", "a", task=["knn"], task_options=learning)
    sit(exam_data, tmp_path / "b.json", "b", range(9), task=["knn"], task_options=learning | other)

    with pytest.raises(UsageError, match="exam: training\n"):
        by_metric(load_results([tmp_path / "a.json", tmp_path / "b.json"]).found)


def test_the_predictions_beside_a_result_are_no_results(answers):
    assert [path for path in answers.glob("*.jsonl") if not path.stem.endswith(".records")]
    assert load_results([answers]).skipped == ()
