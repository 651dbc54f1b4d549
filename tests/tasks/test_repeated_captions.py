"""Captions that repeat, as in any catalogue: what the published convention gives, and what it cannot tell."""

import numpy as np
import pytest

from eyechart.tasks.zeroshot_retrieval import ZeroshotRetrieval
from support.data import write_retrieval
from support.encoders import DIM, SmallEncoder, random_encoder
from support.tasks import make_context, run_task, values

KINDS = ("shoe", "shirt", "hat", "bag")
CATALOGUE = [[f"a {KINDS[i // 10]}"] for i in range(40)]
"""Ten images per caption."""


def all_knowing(root, tmp_path):
    """Return an encoder that tells every image apart, and knows the kind of each."""
    manifest = make_context(root, random_encoder(), tmp_path).manifest
    encoder = SmallEncoder("all-knowing", lambda _: np.zeros(DIM, np.float32))
    kinds = {}
    for sample in manifest.samples():
        kinds[encoder.prepare_image(sample.image.decode()).tobytes()] = KINDS.index(sample.texts[0].split()[1])

    def vector(content):
        own = np.random.default_rng(list(content[:64])).standard_normal(DIM) / 100
        known = kinds.get(content)
        return (np.eye(DIM)[KINDS.index(content.decode().split()[-1]) if known is None else known] + own).astype("f4")

    encoder.vector = vector
    return encoder


@pytest.fixture
def root(tmp_path):
    return write_retrieval(tmp_path / "data", captions=CATALOGUE)


def retrieve(root, tmp_path, encoder, **options):
    return run_task("zeroshot_retrieval", make_context(root, encoder, tmp_path / "store"), **options)


class TestCatalogue:
    def test_with_equal_captions_as_one_a_model_that_knows_everything_gets_everything(self, root, tmp_path):
        outcome = retrieve(root, tmp_path, all_knowing(root, tmp_path), recall_k=[1, 5])

        found = values(outcome)
        for way in ("image", "text"):
            assert found[f"{way}_retrieval_recall@1_distinct_texts"] == 1
        assert outcome.metrics["text_retrieval_recall@1_distinct_texts"].chance == pytest.approx(1 / 4)
        assert outcome.metrics["image_retrieval_recall@1_distinct_texts"].chance == pytest.approx(10 / 40)

    def test_the_published_convention_stays_and_says_how_far_anyone_can_get(self, root, tmp_path):
        outcome = retrieve(root, tmp_path, all_knowing(root, tmp_path), recall_k=[5, 10])

        text, image = (outcome.metrics[f"{way}_retrieval_recall@5"] for way in ("text", "image"))
        assert (text.value, text.best, text.chance) == (0, 0, 0)
        assert (image.value, image.best, image.chance) == (pytest.approx(0.5), 0.5, 5 / 40)
        assert text.primary
        assert image.primary
        at_ten = outcome.metrics["text_retrieval_recall@10"]
        assert (at_ten.value, at_ten.best, at_ten.chance) == (1, None, 0.25)

    def test_the_result_says_how_many_repeat(self, root, tmp_path):
        outcome = retrieve(root, tmp_path, random_encoder())

        assert {notice.kind: notice.count for notice in outcome.notices}["repeated_texts"] == 36

    def test_the_mean_of_both_directions_can_be_no_better_than_they(self, root, tmp_path):
        outcome = retrieve(root, tmp_path, random_encoder(), main_metric="mean_recall@5")

        assert outcome.metrics["mean_recall@5"].best == 0.25

    def test_chance_of_what_looks_at_all_captions_is_left_out(self, root, tmp_path):
        metrics = retrieve(root, tmp_path, random_encoder(), metrics="full").metrics

        assert metrics["text_retrieval_ndcg@10"].chance is None
        assert metrics["image_retrieval_ndcg@10"].chance is not None

    def test_each_text_has_one_record_that_counts_for_it(self, root, tmp_path):
        records = retrieve(root, tmp_path, random_encoder()).records

        asked = [record["text"] for record in records if record["query"] == "text" and "rank_distinct_texts" in record]
        assert asked == [f"a {kind}" for kind in KINDS]


def test_a_group_asks_its_own_texts_in_the_whole_gallery(tmp_path):
    captions = [[f"caption {i // 3}", f"caption {i} {i % 2}"] for i in range(12)]
    context = make_context(write_retrieval(tmp_path / "data", captions=captions), random_encoder(), tmp_path)
    task = ZeroshotRetrieval()
    settings = task.Settings.picked({"recall_k": [1, 3]})
    prediction = task.predict(context, settings)

    part = task.score(prediction.only(np.array([4, 5, 9])), settings)

    whole = {record["id"]: record for record in task.score(prediction, settings).records}
    counted = [record for record in part.records if "rank_distinct_texts" in record]
    # Three images; of their texts, "caption 1" is asked once for two of them.
    assert len(counted) == 3 + 5
    for record in counted:
        same_text = [r for r in whole.values() if r.get("text") == record.get("text") and r["query"] == record["query"]]
        known = whole[record["id"]] if record["query"] == "image" else same_text[0]
        assert record["rank_distinct_texts"] == known["rank_distinct_texts"]


def test_without_repeats_there_is_nothing_to_add(tmp_path):
    root = write_retrieval(tmp_path / "data", captions=[["a"], ["b"], ["c", "d"]])

    outcome = retrieve(root, tmp_path, random_encoder(), recall_k=[1])

    assert set(outcome.metrics) == {"image_retrieval_recall@1", "text_retrieval_recall@1"}
    assert all(metric.best is None for metric in outcome.metrics.values())
    assert "repeated_texts" not in {notice.kind for notice in outcome.notices}
