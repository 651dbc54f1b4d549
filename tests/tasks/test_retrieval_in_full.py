"""What zero-shot retrieval gives besides hit rates, and retrieval in collections of texts and images."""

import numpy as np
import pytest

from eyechart.errors import DataError
from eyechart.metrics.vectors import unit
from support.data import write_retrieval
from support.encoders import literal_encoder, random_encoder
from support.retrieval_data import write_collection
from support.tasks import make_context, run_task, values

CAPTIONS = [[f"caption {i} {j}" for j in range(1 + i % 3)] for i in range(20)]


@pytest.fixture
def context(tmp_path):
    return make_context(write_retrieval(tmp_path / "data", captions=CAPTIONS), random_encoder(), tmp_path)


def trec(context, metric):
    """Compute a metric for both directions with trec_eval's own code."""
    import pytrec_eval

    entries = context.manifest.entries
    images = unit(context.model.images(context.manifest).vectors)
    captions = [(f"{i}#{j}", i, text) for i, entry in enumerate(entries) for j, text in enumerate(entry.texts)]
    texts = unit(context.model.texts([text for _, _, text in captions]))
    scores = texts @ images.T
    to_image = (
        {name: {str(i): 1} for name, i, _ in captions},
        {name: {str(i): float(s) for i, s in enumerate(scores[row])} for row, (name, _, _) in enumerate(captions)},
    )
    to_text = (
        {str(i): {name: 1 for name, owner, _ in captions if owner == i} for i in range(len(entries))},
        {
            str(i): {name: float(scores[row, i]) for row, (name, _, _) in enumerate(captions)}
            for i in range(len(entries))
        },
    )
    found = []
    for truth, run in (to_image, to_text):
        evaluated = pytrec_eval.RelevanceEvaluator(truth, {metric}).evaluate(run)
        found.append(np.mean([next(iter(scores.values())) for scores in evaluated.values()]))
    return found


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("true_recall@5", "recall.5"), ("ndcg@10", "ndcg_cut.10"), ("map@10", "map_cut.10"), ("recall@5", "success.5")],
)
def test_full_metrics_are_trec_evals(context, ours, theirs):
    outcome = values(run_task("zeroshot_retrieval", context, metrics="full"))

    assert [outcome[f"{way}_retrieval_{ours}"] for way in ("image", "text")] == pytest.approx(trec(context, theirs))


def test_mrr_and_median_rank_are_those_of_the_records(context):
    outcome = run_task("zeroshot_retrieval", context, metrics="full")

    for way, query in (("image", "text"), ("text", "image")):
        ranks = np.array([record["rank"] for record in outcome.records if record["query"] == query])
        assert outcome.metrics[f"{way}_retrieval_median_rank"].value == np.median(ranks)
        assert outcome.metrics[f"{way}_retrieval_mrr@10"].value == pytest.approx(
            np.mean(np.where(ranks <= 10, 1 / ranks, 0))
        )


def test_the_default_is_what_the_command_line_of_clip_benchmark_prints(context):
    assert set(run_task("zeroshot_retrieval", context, recall_k=[1, 5]).metrics) == {
        f"{way}_retrieval_recall@{k}" for way in ("image", "text") for k in (1, 5)
    }


def test_datacomps_main_metric_is_the_mean_of_both_directions(context):
    outcome = values(run_task("zeroshot_retrieval", context, main_metric="mean_recall@1"))

    assert outcome["mean_recall@1"] == pytest.approx(
        (outcome["image_retrieval_recall@1"] + outcome["text_retrieval_recall@1"]) / 2
    )


def test_fewer_queries_search_the_same_gallery(context):
    from eyechart.tasks.zeroshot_retrieval import ZeroshotRetrieval

    task = ZeroshotRetrieval()
    settings = task.Settings.picked({"recall_k": [1]})
    prediction = task.predict(context, settings)

    part = task.score(prediction.only(np.array([3, 7, 8])), settings)

    whole = {record["id"]: record for record in task.score(prediction, settings).records}
    assert len(part.records) == 3 + len(CAPTIONS[3] + CAPTIONS[7] + CAPTIONS[8])
    assert all(record["rank"] == whole[record["id"]]["rank"] for record in part.records)


def search(root, tmp_path, **options):
    context = make_context(root, literal_encoder(), tmp_path, reader="collection")
    return run_task("zeroshot_retrieval", context, recall_k=[1], **options)


class TestCollections:
    def test_image_to_image(self, tmp_path):
        documents = {"red": "#ff0000", "green": "#00ff00", "blue": "#0000ff"}
        root = write_collection(
            tmp_path / "data",
            documents,
            {"pink": "#ff4040", "lime": "#40ff40"},
            [("pink", "red", 1), ("lime", "blue", 1)],
        )

        outcome = search(root, tmp_path)

        assert [(record["query"], record["rank"]) for record in outcome.records] == [("image", 1), ("image", 3)]
        assert values(outcome)["hit_rate_at_1"] == 0.5
        assert outcome.details["gallery"] == {"image": 3}

    def test_a_mixed_gallery_ranks_texts_and_images_together(self, tmp_path):
        documents = {
            "image of red": "#ff0000",
            "text on red": "9 1 0",
            "text on blue": "0 0 1",
            "both": ("#10ff00", "0 1 0"),
        }
        root = write_collection(
            tmp_path / "data", documents, {"q": "1 0 0"}, [("q", "text on red", 1), ("q", "image of red", 1)]
        )

        outcome = search(root, tmp_path)

        assert outcome.records[0]["top"] == ["image of red", "text on red", "both", "text on blue"]
        assert outcome.details["gallery"] == {"image": 1, "text": 2, "image+text": 1}
        assert outcome.details["found_first"] == {"image": 1}
        assert values(outcome)["recall_at_1"] == 0.5

    def test_an_item_with_both_is_the_sum_of_its_unit_vectors(self, tmp_path):
        documents = {"both": ("#ff0000", "0 5 0"), "between": "1 1 0", "red": "#fe0000"}
        root = write_collection(tmp_path / "data", documents, {"q": "1 1 0"}, [("q", "both", 1)])

        outcome = search(root, tmp_path)

        # Red (1, 0, 0) and (0, 1, 0) lie exactly where "1 1 0" does: a tie, which counts against the right one.
        assert (outcome.records[0]["rank"], outcome.records[0]["tied"]) == (2, True)

    def test_graded_relevance_is_trec_evals_ndcg(self, tmp_path):
        import pytrec_eval

        rng = np.random.default_rng(0)
        colours = {f"d{i}": f"#{rng.integers(0, 256):02x}{rng.integers(0, 256):02x}{i:02x}" for i in range(30)}
        queries = {f"q{i}": " ".join(map(str, rng.random(3).round(3))) for i in range(8)}
        grades = {q: {d: int(rng.integers(0, 4)) for d in rng.choice(list(colours), 9, replace=False)} for q in queries}
        relevance = [(q, d, grade) for q, judged in grades.items() for d, grade in judged.items()]
        root = write_collection(tmp_path / "data", colours, queries, relevance)

        def vector(colour):
            return unit(np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)]], np.float32))[0]

        run = {
            q: {
                d: float(unit(np.array([list(map(float, text.split()))], np.float32))[0] @ vector(c))
                for d, c in colours.items()
            }
            for q, text in queries.items()
        }
        theirs = pytrec_eval.RelevanceEvaluator(grades, {"ndcg_cut.10"}).evaluate(run)

        assert values(search(root, tmp_path))["ndcg_at_10"] == pytest.approx(
            np.mean([scores["ndcg_cut_10"] for scores in theirs.values()]), abs=1e-6
        )

    def test_the_default_is_short_and_full_is_everything(self, tmp_path):
        root = write_collection(tmp_path / "data", {"a": "#ff0000", "b": "#00ff00"}, {"q": "1 0 0"}, [("q", "a", 1)])

        assert list(search(root, tmp_path).metrics) == [
            "ndcg_at_10",
            "mrr_at_10",
            "map_at_10",
            "hit_rate_at_1",
            "recall_at_1",
        ]
        assert len(search(root, tmp_path, metrics="full").metrics) == 42  # six, each at seven k

    def test_a_broken_image_leaves_its_items_out_and_is_counted(self, tmp_path):
        root = write_collection(
            tmp_path / "data",
            {"a": "#ff0000", "b": "#00ff00"},
            {"q": "1 0 0", "lost": "#0000ff"},
            [("q", "a", 1), ("lost", "b", 1)],
        )
        (root / "images" / "0000ff.png").write_bytes(b"broken")
        context = make_context(root, literal_encoder(), tmp_path, reader="collection", on_error="skip")

        outcome = run_task("zeroshot_retrieval", context)

        assert [record["id"] for record in outcome.records] == ["q"]
        assert ("unusable_items", 1) in [(notice.kind, notice.count) for notice in outcome.notices]

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ('{"_id": "a"}', "neither a text nor an image"),
            ('{"_id": "x", "text": 5}', "must be texts"),
            ('{"text": "b"}', "_id None is missing"),
            ('{"_id": "x", "text": "a"}\n{"_id": "x", "text": "b"}', "occurs twice"),
        ],
    )
    def test_a_bad_line_is_named(self, tmp_path, line, reason):
        root = write_collection(tmp_path / "data", {"a": "#ff0000"}, {"q": "1 0 0"}, [("q", "a", 1)])
        (root / "corpus.jsonl").write_text(line)

        with pytest.raises(DataError, match=reason):
            search(root, tmp_path)

    def test_texts_alone_are_sent_elsewhere(self, tmp_path):
        root = write_collection(tmp_path / "data", {"a": "x"}, {"q": "y"}, [("q", "a", 1)])

        with pytest.raises(DataError, match="texts only, no images"):
            search(root, tmp_path)
