"""MMEB: numbers equal the published rule, ties count against the model, other tools' rankings are rescored."""

import json
import zlib
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from PIL import Image

import eyechart
from eyechart.datasets.catalogue import load_catalogue
from eyechart.datasets.registry import open_dataset
from eyechart.datasets.resolve import resolve_dataset
from eyechart.errors import DataError, UsageError
from eyechart.inference.embeddings import CachedEncoder
from eyechart.manifest import read_manifest
from eyechart.metrics.vectors import MultiVectors
from eyechart.report.collection_means import collection_means
from eyechart.report.loader import load_results
from eyechart.report.result_table import make_table
from eyechart.store.vector_store import EmbeddingStore
from eyechart.tasks.base import TaskContext
from support.data import noise_image
from support.encoders import SmallEncoder, constant_encoder, lazy, no_other_split, random_encoder
from support.mmeb_data import PlainVectors, hit_at_1, image_rows, ndcg_at_5, write_documents, write_image_task
from support.tasks import run_task

IMAGE_TASKS = ["ImageNet-1K", "GQA", "MSCOCO_t2i", "WebQA", "CIRR", "RefCOCO-Matching"]


def run(name, encoder, root, **more):
    (result,) = eyechart.evaluate({encoder.card.name: encoder}, f"mmeb/{name}", dataset_root=root, **more)
    return result


@pytest.mark.parametrize("task", IMAGE_TASKS)
def test_an_image_task_equals_the_published_rule(task, tmp_path):
    write_image_task(tmp_path, task)
    values = set()
    for seed in range(3):
        result = run(task, random_encoder(seed), tmp_path, output=tmp_path / f"{seed}.json")
        expected = hit_at_1(PlainVectors(random_encoder(seed), tmp_path), task, image_rows(task))
        assert result.metrics["hit@1"] == pytest.approx(expected, abs=1e-9)
        assert result.metrics["mmeb_hit@1"] == pytest.approx(expected, abs=1e-9)
        assert result.primary == ("hit@1",)
        values.add(expected)
    assert len(values) > 1  # the data tell models apart


@pytest.mark.parametrize(
    ("task", "repository", "split", "languages"),
    [
        ("ViDoRe_docvqa", "docvqa_test_subsampled_beir", "test", ("english", "french")),
        ("ViDoRe_esg_reports_v2_multilingual", "esg_reports_v2", "test", ("english", "french")),
        ("ViDoRe_esg_reports_v2", "esg_reports_v2", "test", ("english",)),
        ("VisRAG_ArxivQA", "VisRAG-Ret-Test-ArxivQA", "train", ("english", "french")),
        ("ViDoSeek-page", "ViDoSeek-page-fixed", "test", ("english", "french")),
        ("ViDoSeek-doc", "ViDoSeek", "test", ("english", "french")),
    ],
)
def test_documents_equal_the_published_rule(task, repository, split, languages, tmp_path):
    write_documents(tmp_path, repository, split)
    result = run(task, random_encoder(1), tmp_path, output=tmp_path / "r.json")
    expected = ndcg_at_5(PlainVectors(random_encoder(1), tmp_path), languages)
    assert result.metrics["ndcg_linear@5"] == pytest.approx(expected, abs=1e-9)
    assert result.metrics["mmeb_ndcg_linear@5"] == pytest.approx(expected, abs=1e-9)
    assert result.primary == ("ndcg_linear@5",)
    assert len(result.records()) == (8 if len(languages) == 2 else 4)


@pytest.mark.parametrize("task", IMAGE_TASKS)
def test_a_constant_model_gets_nothing_where_mmeb_gives_it_everything(task, tmp_path):
    result = run(task, constant_encoder(), write_image_task(tmp_path, task), output=tmp_path / "r.json")
    assert (result.metrics["hit@1"], result.metrics["mmeb_hit@1"]) == (0.0, 1.0)
    assert result.values["hit@1"].chance == pytest.approx(1 / 5)


def test_a_constant_model_gets_nothing_on_documents(tmp_path):
    write_documents(tmp_path, "ViDoSeek")
    result = run("ViDoSeek-doc", constant_encoder(), tmp_path, output=tmp_path / "r.json")
    assert result.metrics["ndcg_linear@5"] == 0.0 < result.metrics["mmeb_ndcg_linear@5"]


def test_queries_about_one_image_are_one_unit_and_classes_are_none(tmp_path):
    result = run("ImageNet-1K", random_encoder(), write_image_task(tmp_path, "ImageNet-1K"), output=tmp_path / "r.json")
    assert result.values["hit@1"].n == 9  # images, for 12 queries and 7 classes
    assert result.values["hit@1"].low is not None
    assert set(result.records()["unit"]) == set(range(9))


def test_rankings_of_vlm2vec_are_scored_without_data_or_model(tmp_path):
    """Each line has the ranked names, the right ones and their relevance; both tables meet in one column."""
    write_documents(tmp_path, "ViDoSeek")
    mine = run("ViDoSeek-doc", random_encoder(), tmp_path, output=tmp_path / "mine.json")
    lines = [
        {"prediction": ["4", "0", "1", "2", "3"], "label": ["0", "9"], "rel_scores": [2, 1]},
        {"prediction": [7, 1], "label": [7], "rel_scores": [1]},
    ]
    (tmp_path / "ViDoSeek-doc_pred.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (other,) = eyechart.evaluate(
        "their-model", "mmeb/ViDoSeek-doc", predictions=tmp_path, dataset_root="none", output=tmp_path / "other.json"
    )
    first = 2 / 1.584962500721156 / (2 + 1 / 1.584962500721156)
    assert other.metrics["mmeb_ndcg_linear@5"] == pytest.approx((first + 1) / 2)
    assert other.primary == ("mmeb_ndcg_linear@5",)
    assert other.model == "their-model"
    assert "hit@1" not in other.metrics  # ties are not visible
    assert mine.values.keys() >= {"mmeb_ndcg_linear@5"}


def test_predictions_are_for_mmeb_only(tmp_path):
    with pytest.raises(UsageError, match="applies to mmeb"):
        eyechart.evaluate("their-model", "cifar10", predictions=tmp_path, output=tmp_path / "r.json")


def test_a_bad_line_of_a_ranking_is_named(tmp_path):
    path = tmp_path / "GQA_pred.jsonl"
    path.write_text('{"prediction": ["a"], "label": "a", "rel_scores": null}\n{"prediction": "a", "label": ["a"]}\n')
    with pytest.raises(DataError, match="line 2"):
        eyechart.evaluate("their-model", "mmeb/GQA", predictions=path, output=tmp_path / "r.json")


def test_video_tasks_are_refused_by_name(tmp_path):
    with pytest.raises(UsageError, match="MSR-VTT is a video task"):
        run("MSR-VTT", random_encoder(), tmp_path, output=tmp_path / "r.json")
    with pytest.raises(UsageError, match="ImageNet-1K"):
        run("ImageNet-2K", random_encoder(), tmp_path, output=tmp_path / "r.json")


def test_a_candidate_whose_image_is_broken_counts_as_not_found(tmp_path):
    write_image_task(tmp_path, "MSCOCO_t2i")
    (tmp_path / "image-tasks" / "MSCOCO_t2i" / "0.png").write_bytes(b"broken")
    result = run("MSCOCO_t2i", random_encoder(), tmp_path, output=tmp_path / "r.json", on_error="skip")
    records = result.records()
    lost = records[records["relevant"].map(len) == 0]
    assert len(lost) == 2
    assert lost["rank"].isna().all()
    assert not lost["hit_rate_at_1"].any()


def test_means_are_by_collection_and_by_group_as_published(tmp_path):
    """All 60 tasks, each with a share of right rankings of its own, from files that VLM2Vec would leave."""
    (tmp_path / "theirs").mkdir()
    catalogue, shares = load_catalogue(), {}
    for number, name in enumerate(catalogue.collections["mmeb-v2"]):
        right = number % 7
        lines = [{"prediction": [str(i >= right), "x"], "label": ["False"], "rel_scores": None} for i in range(6)]
        path = tmp_path / "theirs" / f"{name.removeprefix('mmeb/')}_pred.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        shares.setdefault(catalogue.entries[name].domain, []).append(min(right, 6) / 6)
    output = str(tmp_path / "results" / "{dataset}.json")
    eyechart.evaluate("m", "mmeb-v2", predictions=tmp_path / "theirs", dataset_root="none", output=output)
    means = {one.name: one for one in collection_means(make_table(load_results([str(tmp_path / "results")]).found))}

    image, visdoc = (
        [value for name in shares if name.startswith(kind) for value in shares[name]] for kind in ("i", "v")
    )
    expected = {"mmeb-v2": fmean(image + visdoc), "mmeb-image": fmean(image), "mmeb-visdoc": fmean(visdoc)}
    assert {name: one.values for name, one in means.items()} == {k: (pytest.approx(v),) for k, v in expected.items()}
    assert means["mmeb-v2"].groups == {name: (pytest.approx(fmean(own)),) for name, own in shares.items()}
    assert means["mmeb-v2"].size == 60


def rankings(path, rows, order):
    """Write VLM2Vec's file for rows of an image task; ``order`` sorts the names of a row."""
    with path.open("w") as file:
        for i, row in enumerate(rows):
            names = list(dict.fromkeys(row["tgt_text"]))
            file.write(json.dumps({"prediction": order(i, names), "label": [names[0]], "rel_scores": None}) + "\n")


def test_runs_of_both_tools_are_compared_sample_by_sample(tmp_path):
    """With the data at hand both have the same samples; without, the rankings of two models do."""
    write_image_task(tmp_path, "ImageNet-1K")
    write_image_task(tmp_path / "gqa", "GQA")
    (tmp_path / "one").mkdir()
    rankings(tmp_path / "one" / "ImageNet-1K_pred.jsonl", image_rows("ImageNet-1K"), lambda i, names: names)
    rankings(tmp_path / "two.jsonl", image_rows("ImageNet-1K"), lambda i, names: names[:: 1 if i % 3 else -1])
    run("ImageNet-1K", random_encoder(), tmp_path, output=tmp_path / "mine.json")

    def rescore(model, path, root):
        places = {"predictions": path, "dataset_root": root, "output": tmp_path / f"{model}.json"}
        return eyechart.evaluate(model, "mmeb/ImageNet-1K", **places)[0]

    rescore("theirs", tmp_path / "one", tmp_path)
    found = eyechart.compare(tmp_path / "mine.json", tmp_path / "theirs.json")
    assert [line.metric for line in found.lines] == ["mmeb_hit@1"]

    first, second = rescore("first", tmp_path / "one", "none"), rescore("second", tmp_path / "two.jsonl", "none")
    assert (first.metrics["mmeb_hit@1"], second.metrics["mmeb_hit@1"]) == (1.0, 8 / 12)
    (line,) = eyechart.compare(tmp_path / "first.json", tmp_path / "second.json").lines
    assert (line.paired.difference, line.paired.n) == (pytest.approx(-1 / 3), 12)
    with pytest.raises(DataError, match="not those of the dataset"):
        eyechart.evaluate(
            "x", "mmeb/GQA", predictions=tmp_path / "two.jsonl", dataset_root=tmp_path / "gqa", output="x"
        )


class JointEncoder:
    """Wraps an encoder: takes image and text at once, and notes what it was given."""

    def __init__(self, encoder, prompting):
        self.inner, self.given = encoder, []
        self.card = replace(encoder.card, inputs=("image", "text", "image+text"), prompting=prompting)
        self.prepare_image, self.truncated = encoder.prepare_image, encoder.truncated

    def encode_images(self, batch, *, instruction=""):
        self.given += [("image", "", instruction)] * len(batch)
        return self.inner.encode_images(batch)

    def encode_texts(self, texts, *, language="en", instruction=""):
        self.given += [("text", text, instruction) for text in texts]
        return self.inner.encode_texts(texts, language=language)

    def encode_joint(self, batch, texts, *, instruction=""):
        self.given += [("image+text", text, instruction) for text in texts]
        return self.inner.encode_images(batch) + self.inner.encode_texts(list(texts))


@pytest.mark.parametrize(
    ("prompting", "settings", "expected"),
    [
        ("prefix", {}, {("image+text", "\nChange: edit 0\n", ""), ("image+text", " Represent.", "")}),
        ("message", {}, {("image+text", "edit 0", "Change:"), ("image", "", "Represent.")}),
        (
            "prefix",
            {"query_prompt": "Mine: ", "document_prompt": ""},
            {("image+text", "Mine: edit 0", ""), ("image", "", "")},
        ),
        ("message", {"query_prompt": "Mine"}, {("image+text", "edit 0", "Mine"), ("image", "", "Represent.")}),
    ],
)
def test_joint_inputs_carry_the_benchmarks_instruction_or_the_users(prompting, settings, expected, tmp_path):
    write_image_task(tmp_path, "CIRR")
    encoder = JointEncoder(random_encoder(), prompting)
    manifest = read_manifest(open_dataset(resolve_dataset("mmeb/CIRR", str(tmp_path))))
    cached = CachedEncoder(lazy(encoder), EmbeddingStore(tmp_path / "store"))
    run_task(
        "zeroshot_retrieval", TaskContext(manifest, cached, no_other_split, tmp_path), main_metric="hit@1", **settings
    )
    assert expected <= set(encoder.given)
    assert {kind for kind, _, _ in encoder.given} == {kind for kind, _, _ in expected}


class SeveralVectors(SmallEncoder):
    """Two to four vectors per item, compared by MaxSim; a constant one gives the same to all."""

    def __init__(self, constant=False):
        super().__init__("several", np.ones_like)
        self.card = replace(self.card, multi_vector=True, similarity="maxsim")
        self.constant = constant

    def vectors(self, content):
        seed = 0 if self.constant else zlib.crc32(content)
        rows = np.random.default_rng(seed).standard_normal((2 + seed % 3, 8)).astype(np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def encode_images(self, batch):
        return MultiVectors.of([self.vectors(pixels.tobytes()) for pixels in batch])

    def encode_texts(self, texts, *, language="en"):
        return MultiVectors.of([self.vectors(text.encode()) for text in texts])


def run_several(task, root, encoder, main):
    manifest = read_manifest(open_dataset(resolve_dataset(f"mmeb/{task}", str(root))))
    cached = CachedEncoder(lazy(encoder), EmbeddingStore(root / encoder.card.name))
    return run_task("zeroshot_retrieval", TaskContext(manifest, cached, no_other_split, root), main_metric=main).metrics


def maxsim(query, document):
    return (query.astype(np.float64) @ document.T).max(axis=1).sum()


def test_late_interaction_models_rank_their_candidates_by_maxsim(tmp_path):
    write_image_task(tmp_path, "ImageNet-1K")
    model, hits = SeveralVectors(), []
    for row in image_rows("ImageNet-1K"):
        query = model.vectors(model.prepare_image(Image.open(tmp_path / "image-tasks" / row["qry_img_path"])).tobytes())
        hits.append(np.argmax([maxsim(query, model.vectors(text.encode())) for text in row["tgt_text"]]) == 0)
    assert 0 < np.mean(hits) < 1
    assert run_several("ImageNet-1K", tmp_path, model, "hit@1")["hit@1"].value == pytest.approx(np.mean(hits))

    write_documents(tmp_path, "ViDoSeek")
    pages = [model.vectors(model.prepare_image(noise_image(i)).tobytes()) for i in range(9)]
    best = [np.argmax([maxsim(model.vectors(f"query {i}".encode()), page) for page in pages]) for i in range(8)]
    expected = np.mean([page in ((2 * i) % 9, (2 * i + 1) % 9) for i, page in enumerate(best)])  # without instruction
    assert run_several("ViDoSeek-doc", tmp_path, model, "ndcg_linear@5")["hit@1"].value == pytest.approx(expected)


def test_a_constant_late_interaction_model_gets_nothing(tmp_path):
    write_image_task(tmp_path, "ImageNet-1K")
    found = run_several("ImageNet-1K", tmp_path, SeveralVectors(constant=True), "hit@1")
    assert (found["hit@1"].value, found["mmeb_hit@1"].value) == (0.0, 1.0)
