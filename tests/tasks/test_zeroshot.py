import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from eyechart import evaluate
from eyechart.datasets.webdataset import open_webdataset
from eyechart.errors import DataError, UsageError
from eyechart.inference.embeddings import CachedEncoder
from eyechart.manifest import read_manifest
from eyechart.metrics.vectors import unit
from eyechart.report.paired_records import FUNCTIONS
from eyechart.store.vector_store import EmbeddingStore
from eyechart.tasks.base import TaskContext
from eyechart.tasks.text_classifiers import check_template, class_texts, class_vectors, fill, load_mean_classifier
from eyechart.tasks.zeroshot_classification import ZeroshotClassification
from eyechart.tasks.zeroshot_retrieval import ZeroshotRetrieval
from eyechart.types import DatasetInfo, DatasetSpec
from support.data import write_classification, write_multilabel, write_retrieval
from support.encoders import DIM, SmallEncoder, lazy, no_other_split, random_encoder


def context(root, tmp_path, encoder=None, **options):
    manifest = read_manifest(open_webdataset(DatasetSpec("wds/x", "wds", str(root), options=options)))
    model = CachedEncoder(lazy(encoder or random_encoder()), EmbeddingStore(tmp_path / "store"))
    return TaskContext(manifest, model, no_other_split, output=tmp_path / "result.json")


def run(task, context, **options):
    settings = task.Settings.picked(options)
    task.check(context.info, settings)
    return task.score(task.predict(context, settings), settings)


def matrices(outcome):
    """Return scores and what is true, images x classes, as records tell them."""
    present = np.zeros((len(outcome.records), len(outcome.details["classnames"])), bool)
    for row, record in zip(present, outcome.records, strict=True):
        row[record["labels"]] = True
    return np.array([record["scores"] for record in outcome.records]), present


def kinds(outcome):
    return {notice.kind: notice.count for notice in outcome.notices}


class TestPrompts:
    def test_a_class_name_is_put_in_literally(self):
        assert fill("a {c}, no more.", "{c.__class__} 100%") == "a {c.__class__} 100%, no more."

    def test_the_short_placeholder_works_too(self):
        assert fill("ein Foto von {}", "Hund") == "ein Foto von Hund"

    @pytest.mark.parametrize("template", ["no place", "{c} {c.__class__}", "{c", "{c} }", "{0} {c}"])
    def test_a_template_that_could_go_wrong_is_refused(self, template):
        with pytest.raises(DataError):
            check_template(template, "templates.txt")

    def test_own_prompts_of_a_class_replace_the_templates(self):
        info = DatasetInfo(
            "x", "classification", classnames=("cat", "dog"), class_prompts={"cat": ("purr",), "dog": ("wag",)}
        )

        assert class_texts(info) == [("purr",), ("wag",)]

    def test_class_vectors_are_means_of_unit_vectors_made_unit(self):
        vectors = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)

        found = class_vectors(unit(vectors), [("a", "b"), ("c", "d", "e")])

        expected = unit(np.stack([unit(vectors[:2]).mean(0), unit(vectors[2:]).mean(0)]))
        np.testing.assert_allclose(found, expected, atol=1e-6)


class TestClassification:
    def test_a_model_that_knows_the_answer_gets_everything_right(self, tmp_path):
        root = write_classification(tmp_path / "data", n=12)

        outcome = run(ZeroshotClassification(), context(root, tmp_path, oracle(root)))

        assert {name: metric.value for name, metric in outcome.metrics.items()} == {
            "acc1": 1.0,
            "mean_per_class_recall": 1.0,
        }

    def test_acc5_is_there_from_five_classes_on(self, tmp_path):
        root = write_classification(tmp_path / "data", n=10, classes=("a", "b", "c", "d", "e"))

        outcome = run(ZeroshotClassification(), context(root, tmp_path))

        assert outcome.metrics["acc5"].value == 1.0
        assert outcome.metrics["acc5"].chance == 1.0

    def test_there_is_a_record_for_every_sample(self, tmp_path):
        root = write_classification(tmp_path / "data", n=12)

        outcome = run(ZeroshotClassification(), context(root, tmp_path))

        assert [record["id"] for record in outcome.records] == [f"{i // 6}/s{i:07d}" for i in range(12)]
        assert np.mean([record["correct"] for record in outcome.records]) == outcome.metrics["acc1"].value

    def test_duplicate_class_names_are_counted(self, tmp_path):
        root = write_classification(tmp_path / "data", n=12, classes=("crane", "dog", "crane"))

        assert kinds(run(ZeroshotClassification(), context(root, tmp_path))) == {"duplicate_classes": 1, "no_acc5": 1}

    def test_a_class_without_positives_is_left_out_of_the_mean_and_counted(self, tmp_path):
        root = write_multilabel(tmp_path / "data", labels=[[1, 0, 0], [1, 1, 0]], classes=("a", "b", "never"))

        outcome = run(ZeroshotClassification(), context(root, tmp_path))

        assert kinds(outcome) == {"class_without_positives": 1}
        assert set(outcome.details["per_class_ap"]) == {0, 1}

    def test_a_class_without_positives_counts_0_where_that_is_asked_for(self, tmp_path):
        labels = np.random.default_rng(0).integers(0, 2, (40, 4))
        labels[:, 3] = 0
        root = write_multilabel(tmp_path / "data", labels=labels.tolist(), classes=("a", "b", "c", "never"))

        ours = run(ZeroshotClassification(), context(root, tmp_path)).metrics["mean_average_precision"]
        outcome = run(ZeroshotClassification(), context(root, tmp_path), empty_classes="zero")

        theirs = outcome.metrics["mean_average_precision"]
        precisions = outcome.details["per_class_ap"].values()
        assert theirs.value == pytest.approx(sum(precisions) / 4)
        assert theirs.value == pytest.approx(
            FUNCTIONS["mean_average_precision_of_all_classes"].value(*matrices(outcome))
        )
        assert (theirs.low, theirs.high, theirs.chance) == pytest.approx(
            (0.75 * ours.low, 0.75 * ours.high, 0.75 * ours.chance)
        )
        assert [notice.message for notice in outcome.notices] == ["1 class has no positives and count 0."]

    def test_the_interval_of_all_classes_shrinks_with_the_share_that_has_positives(self, tmp_path):
        labels = [[int(i % 3 == 0), int(i % 5 < 2), 0, 0] for i in range(60)]
        root = write_multilabel(tmp_path / "data", labels=labels, classes=("a", "b", "c", "d"))

        ours, theirs = (
            run(ZeroshotClassification(), context(root, tmp_path), empty_classes=rule).metrics["mean_average_precision"]
            for rule in ("leave_out", "zero")
        )

        assert ours.high < 1
        assert (theirs.low, theirs.high) == pytest.approx((ours.low / 2, ours.high / 2))

    def test_an_unknown_rule_for_empty_classes_is_refused(self):
        with pytest.raises(UsageError, match="empty-classes: Input should be 'leave_out' or 'zero'"):
            ZeroshotClassification.Settings(empty_classes="one")

    def test_a_retrieval_dataset_is_refused(self, tmp_path):
        root = write_retrieval(tmp_path / "data", captions=[["a"], ["b"]])

        with pytest.raises(UsageError, match="reads classification or multilabel datasets, but wds/x is a retrieval"):
            run(ZeroshotClassification(), context(root, tmp_path))

    def test_a_saved_classifier_gives_the_same_numbers_without_encoding_a_text(self, tmp_path):
        root, path = write_classification(tmp_path / "data", n=12), tmp_path / "classes.safetensors"
        first = run(ZeroshotClassification(), context(root, tmp_path), save_clf=str(path))
        encoder = random_encoder()

        again = run(ZeroshotClassification(), context(root, tmp_path / "new", encoder), load_clfs=[str(path)])

        assert again.metrics == first.metrics
        assert encoder.encoded_texts == []

    def test_a_classifier_that_ends_in_pt_is_the_tensor_that_clip_benchmark_writes_and_reads(self, tmp_path):
        torch = pytest.importorskip("torch")
        root, path = write_classification(tmp_path / "data", n=12), tmp_path / "classes.pt"
        first = run(ZeroshotClassification(), context(root, tmp_path), save_clf=str(path))

        columns = torch.load(path, weights_only=True)
        again = run(ZeroshotClassification(), context(root, tmp_path / "new"), load_clfs=[str(path)])

        assert columns.shape == (DIM, 3)
        assert torch.allclose(columns.norm(dim=0), torch.ones(3))
        assert again.metrics == first.metrics
        assert "classifier_of_unknown_model" in kinds(again)

    def test_several_classifiers_are_averaged_as_clip_benchmark_does(self, tmp_path):
        torch = pytest.importorskip("torch")
        columns = [torch.nn.functional.normalize(torch.randn(DIM, 3), dim=0) for _ in range(2)]
        for i, tensor in enumerate(columns):
            torch.save(tensor.half() if i else tensor, tmp_path / f"{i}.pt")

        mean, _ = load_mean_classifier([tmp_path / f"{i}.pt" for i in range(2)], "model", ("a", "b", "c"))

        np.testing.assert_allclose(mean, ((columns[0] + columns[1]) / 2).T, atol=1e-3)
        assert not np.allclose(np.linalg.norm(mean, axis=1), 1, atol=1e-2)

    @pytest.mark.parametrize("content", [{"weights": 1}, "text"])
    def test_a_torch_file_that_holds_something_else_is_refused(self, tmp_path, content):
        torch = pytest.importorskip("torch")
        torch.save(content, tmp_path / "classes.pt")

        with pytest.raises(DataError, match="expected a two-dimensional tensor"):
            load_mean_classifier([tmp_path / "classes.pt"], "model", ("a",))

    def test_a_classifier_of_another_size_is_refused(self, tmp_path):
        path = tmp_path / "classes.safetensors"
        run(ZeroshotClassification(), context(write_classification(tmp_path / "a"), tmp_path), save_clf=str(path))
        other = write_classification(tmp_path / "b", classes=("x", "y"))

        with pytest.raises(DataError, match="does not match 2 classes"):
            run(ZeroshotClassification(), context(other, tmp_path), load_clfs=[str(path)])

    def test_a_classifier_of_another_model_is_refused(self, tmp_path):
        root, path = write_classification(tmp_path / "data", n=12), tmp_path / "classes.safetensors"
        save_file({"classifier": np.eye(3, DIM + 1, dtype=np.float32)}, path)

        with pytest.raises(DataError, match=f"has {DIM + 1} dimensions and the model {DIM}"):
            run(ZeroshotClassification(), context(root, tmp_path), load_clfs=[str(path)])

    def test_a_classifier_that_another_model_wrote_is_noted(self, tmp_path):
        root, path = write_classification(tmp_path / "data", n=12), str(tmp_path / "classes.safetensors")
        run(ZeroshotClassification(), context(root, tmp_path), save_clf=path)

        outcomes = [
            run(ZeroshotClassification(), context(root, tmp_path / str(seed), random_encoder(seed)), load_clfs=[path])
            for seed in (0, 1)
        ]

        kinds = [[notice.kind for notice in outcome.notices] for outcome in outcomes]
        assert ["classifier_of_another_model" in found for found in kinds] == [False, True]

    def test_a_classifier_of_the_same_classes_in_another_order_is_refused(self, tmp_path):
        path = str(tmp_path / "classes.safetensors")
        one, other = (
            write_classification(tmp_path / "".join(classes), classes=classes) for classes in (("x", "y"), ("y", "x"))
        )
        run(ZeroshotClassification(), context(one, tmp_path), save_clf=path)

        with pytest.raises(DataError, match="the same classes in a different order"):
            run(ZeroshotClassification(), context(other, tmp_path), load_clfs=[path])

    def test_a_result_of_a_classifier_that_has_changed_since_is_not_taken_for_todays(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        tiny = {"model_type": "onnx", "model": ["eyechart-tiny"], "dataset": ["demo/garments"], "limit": 50}
        loaded = tiny | {"load_clfs": ["classes.safetensors"], "skip_existing": True}
        evaluate(**tiny, save_clf="classes.safetensors", output="own.json")
        [first] = evaluate(**loaded, output="loaded.json")
        classes = load_file("classes.safetensors")["classifier"]
        save_file({"classifier": np.ascontiguousarray(classes[::-1])}, "classes.safetensors")

        [again], [fresh] = (evaluate(**loaded, output=output) for output in ("loaded.json", "fresh.json"))

        assert again.metrics == fresh.metrics != first.metrics

    def test_class_specific_prompts_are_used(self, tmp_path):
        root, path, encoder = write_classification(tmp_path / "data"), tmp_path / "cupl.json", random_encoder()
        path.write_text(json.dumps({"x": {name: [f"{name} one", f"{name} two"] for name in ("cat", "dog", "bird")}}))

        run(ZeroshotClassification(), context(root, tmp_path, encoder, template_file=str(path)))

        assert sorted(encoder.encoded_texts) == sorted(
            f"{n} {i}" for n in ("cat", "dog", "bird") for i in ("one", "two")
        )


class TestRetrieval:
    def test_uneven_captions_are_all_queries(self, tmp_path):
        root = write_retrieval(tmp_path / "data", captions=[["a"], ["b", "c", "d"], ["e", "f"]])

        outcome = run(ZeroshotRetrieval(), context(root, tmp_path), recall_k=[1])

        queries = [record["query"] for record in outcome.records]
        assert (queries.count("image"), queries.count("text")) == (3, 6)
        for query, metric in (("text", "image_retrieval_recall@1"), ("image", "text_retrieval_recall@1")):
            hits = [record["rank"] <= 1 for record in outcome.records if record["query"] == query]
            assert outcome.metrics[metric].value == pytest.approx(np.mean(hits))

    def test_only_recall_at_the_smallest_k_is_primary(self, tmp_path):
        root = write_retrieval(tmp_path / "data", captions=[["a"], ["b"], ["c"]])

        outcome = run(ZeroshotRetrieval(), context(root, tmp_path), recall_k=[2, 1])

        primary = {name for name, metric in outcome.metrics.items() if metric.primary}
        assert primary == {"image_retrieval_recall@1", "text_retrieval_recall@1"}

    def test_k_that_covers_the_gallery_is_noted_and_chance_says_it(self, tmp_path):
        root = write_retrieval(tmp_path / "data", captions=[["a"], ["b"], ["c"]])

        outcome = run(ZeroshotRetrieval(), context(root, tmp_path), recall_k=[1, 5])

        assert kinds(outcome)["k_covers_gallery"] == 1
        assert outcome.metrics["image_retrieval_recall@5"].value == 1.0
        assert outcome.metrics["image_retrieval_recall@5"].chance == 1.0

    @pytest.mark.parametrize("k", [0, -3])
    def test_k_below_one_is_refused(self, k):
        with pytest.raises(UsageError, match="recall-k must be 1 or more"):
            ZeroshotRetrieval.Settings(recall_k=[k])

    def test_the_same_caption_on_two_images_ties_and_is_reported(self, tmp_path):
        root = write_retrieval(tmp_path / "data", captions=[["same"], ["same"]])

        outcome = run(ZeroshotRetrieval(), context(root, tmp_path), recall_k=[1])

        assert outcome.metrics["text_retrieval_recall@1"].value == 0
        assert kinds(outcome)["ties"] == 2


def oracle(root) -> SmallEncoder:
    """Return an encoder that was told the answers: an image's vector is that of its class's name."""
    names = ("cat", "dog", "bird")
    manifest = read_manifest(open_webdataset(DatasetSpec("wds/x", "wds", str(root))))
    encoder = SmallEncoder("oracle", lambda _: np.zeros(DIM, np.float32))
    pixels = {}
    for sample, entry in zip(manifest.samples(), manifest.entries, strict=True):
        pixels[encoder.prepare_image(sample.image.decode()).tobytes()] = entry.label

    def vector(content: bytes) -> np.ndarray:
        number = pixels.get(content)
        if number is None:
            number = next(i for i, name in enumerate(names) if name in content.decode())
        return np.eye(DIM, dtype=np.float32)[number]

    encoder.vector = vector
    return encoder
