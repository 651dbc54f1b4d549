"""Runs with ``--truncate-dim`` and ``--quantize``: the numbers, their origin, and what is refused."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import eyechart
from eyechart.config import make_config
from eyechart.errors import UsageError
from eyechart.io.stopwatch import Stopwatch
from eyechart.metrics.agreement import spearman
from eyechart.models.onnx_encoder import OnnxEncoder
from eyechart.plan import plan_jobs
from eyechart.run import run_jobs
from eyechart.session import Session
from eyechart.tasks.base import encode_images, encode_texts
from eyechart.tasks.registry import load_task
from support.data import png, write_classification, write_multilabel, write_retrieval
from support.encoders import SmallEncoder, constant_encoder, random_encoder
from support.makers import MAKERS, OPTIONS
from support.tasks import make_context, run_task
from support.text_models import minilm, save_tiny_cross_encoder

SETTINGS = {"truncate_dim": [16, 64], "quantize": ["int8", "binary"]}


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))


def run(**changes):
    settings = {"model": ["eyechart-tiny"], "dataset": ["demo/garments"], "limit": 120, "output": "r.json"}
    config = make_config({**settings, **SETTINGS, **changes})
    session = Session()
    (job,) = plan_jobs(config)
    (report,) = run_jobs([job], session, skip_existing=config.skip_existing)
    if report.error:
        raise report.error
    return report, session


def curve_of(result):
    return {(point["dim"], point["precision"]): point for point in result.details["compression"]}


def stored(report, session):
    """Return the full vectors of the images, in order, their labels and the vectors of the texts of each class."""
    encoder = session.cached_model(report.job, load_task(report.job.task), Stopwatch())
    manifest = session.manifest(report.job)
    info = manifest.info
    texts = [[template.replace("{c}", name) for template in info.templates] for name in info.classnames]
    vectors = np.stack([encoder.texts(group) for group in texts]).astype(np.float64)
    labels = np.array([entry.label for entry in manifest.entries])
    return encoder.images(manifest).vectors.astype(np.float64), labels, vectors


def normalised(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def expected_accuracy(images, labels, texts, dim, precision):
    """Compress and classify in float64 and integers; every tie counts as wrong."""
    images, texts = normalised(images[:, :dim]), normalised(texts[..., :dim])
    if precision == "binary":
        bits = np.where(images > 0, 1, -1)
        votes = np.where(texts > 0, 1, -1).sum(axis=1)  # the majority of the templates, each of which is a code
        scores = bits @ np.where(votes > 0, 1, -1).T
    else:
        if precision == "int8":
            every = np.concatenate([images, texts.reshape(-1, dim)])
            low, step = every.min(axis=0), (every.max(axis=0) - every.min(axis=0)) / 255
            decoded = [low + (np.floor((part - low) / step).clip(0, 255) + 0.5) * step for part in (images, texts)]
            images, texts = (normalised(part) for part in decoded)
        scores = images @ normalised(texts.mean(axis=1)).T
    own = scores[np.arange(len(labels)), labels]
    return float(((scores >= own[:, None]).sum(axis=1) == 1).mean())


def test_every_point_equals_an_independent_computation_on_the_stored_vectors():
    report, session = run()
    found = curve_of(report.result)

    full = 128
    assert list(found) == [
        (dim, precision) for dim in (full, 64, 16) for precision in ("float32", "int8", "binary")
    ]  # fmt: skip
    vectors = stored(report, session)
    for (dim, precision), point in found.items():
        value = point["metrics"]["acc1"]["value"]
        assert value == pytest.approx(expected_accuracy(*vectors, dim, precision)), (dim, precision)
        assert point["bytes"] == dim * {"float32": 4, "int8": 1, "binary": 1 / 8}[precision]
    assert found[full, "float32"]["metrics"]["acc1"]["value"] == report.result.metrics["acc1"]
    assert found[16, "binary"]["metrics"]["acc1"]["value"] < found[full, "float32"]["metrics"]["acc1"]["value"]
    ties = next(notice for notice in found[16, "binary"]["notices"] if notice["kind"] == "ties")
    assert ties["count"] > 0


def test_tasks_compare_decoded_codes(tmp_path):
    """One ruler for images and texts in int8; binary codes whose products are exact."""
    root = write_classification(tmp_path / "data", n=30)
    context = make_context(root, random_encoder(), tmp_path / "store")
    wanted = ((12,), ("int8", "binary"))
    context.encoder.prepare_compression(*wanted)
    texts = ["a", "b", "c d"]
    full = np.concatenate([encode_texts(context, texts)[0], encode_images(context).vectors])
    quantize = pytest.importorskip("sentence_transformers.util").quantize_embeddings

    for encoder in context.encoder.compressed(*wanted):
        compressed = replace(context, model=encoder)
        found = np.concatenate([encode_texts(compressed, texts)[0], encode_images(compressed).vectors])

        rows = normalised(full[:, : encoder.compression.dim]).astype(np.float32)
        if encoder.compression.precision == "int8":
            low, high = rows.min(axis=0), rows.max(axis=0)
            codes = quantize(rows, "int8", ranges=np.stack([low, high])) + 128.0
            expected = normalised(low + (codes + 0.5) * (high - low) / 255)
        elif encoder.compression.precision == "binary":
            expected = np.where(rows > 0, 0.25, -0.25)
            np.testing.assert_array_equal(found, expected)
        else:
            expected = rows
        np.testing.assert_allclose(found, expected, atol=2e-6)


class Cut(SmallEncoder):
    """A model whose own vectors have fewer dimensions."""

    def __init__(self, dim):
        whole = random_encoder()
        super().__init__(f"cut to {dim}", lambda content: whole.vector(content)[:dim])
        self.card = replace(self.card, embedding_dim=dim)


def test_the_paired_difference_is_that_of_compare_with_a_model_of_that_dimension(tmp_path):
    root = write_classification(tmp_path / "data", classes=tuple("abcde"), labels=[i % 5 for i in range(60)])
    files = {}
    for name, model, more in (("full", Cut(16), {"truncate_dim": [4]}), ("cut", Cut(4), {})):
        (result,) = eyechart.evaluate(model, "wds/x", dataset_root=str(root), output=f"{name}.json", **more)
        files[name] = result.path
    (line,) = eyechart.compare(*files.values()).lines
    full = json.loads(files["full"].read_text())

    paired = full["details"]["compression"][1]["metrics"]["acc1"]["paired"]

    expected = line.paired
    assert [paired[key] for key in ("difference", "low", "high", "p_value", "test")] == [
        expected.difference, expected.low, expected.high, expected.p_value, expected.test,
    ]  # fmt: skip
    assert paired["difference"] != 0


def test_p_values_are_corrected_over_all_points():
    tests = [point["metrics"]["acc1"]["paired"] for point in run()[0].result.details["compression"][1:]]

    assert [test["p_holm"] for test in tests] == eyechart.stats.holm([test["p_value"] for test in tests])


def test_nothing_is_encoded_twice_and_a_second_run_does_not_load_the_model(monkeypatch):
    seen = {"encode_images": 0, "encode_texts": 0}

    def counted(name, encode):
        def count(self, batch, **more):
            seen[name] += len(batch)
            return encode(self, batch, **more)

        return count

    for name in seen:
        monkeypatch.setattr(OnnxEncoder, name, counted(name, getattr(OnnxEncoder, name)))
    plain, _ = run(truncate_dim=[], quantize=[], output="plain.json")
    before = dict(seen)

    report, session = run()

    assert seen == before
    assert before["encode_images"] == 120
    assert not session.model(report.job.model, "encoder").loaded
    assert "compression" not in plain.result.details
    assert report.result.metrics == plain.result.metrics
    assert run(skip_existing=True)[0].skipped
    assert not run(skip_existing=True, quantize=["int8"])[0].skipped


def test_half_precision_is_the_full_precision_of_a_half_precision_store():
    found = list(curve_of(run(store_precision="fp16")[0].result).values())

    assert [(point["precision"], point["bytes"]) for point in found[:2]] == [("float16", 256), ("int8", 128)]


def test_a_dimension_equal_to_that_of_the_model_is_the_full_vector():
    result = run(truncate_dim=[128, 64], quantize=[])[0].result

    assert [point["dim"] for point in result.details["compression"]] == [128, 64]


def test_saved_classifiers_are_those_of_the_full_vectors(tmp_path):
    run(save_clf="full.safetensors", truncate_dim=[], quantize=[])
    run(save_clf="compressed.safetensors", output="other.json")

    full, other = (load_file(tmp_path / f"{name}.safetensors") for name in ("full", "compressed"))
    np.testing.assert_array_equal(full["classifier"], other["classifier"])


def test_truncated_texts_are_counted_once(tmp_path):
    model = random_encoder()
    model.card = replace(model.card, context_length=12)
    root = write_retrieval(tmp_path / "data", captions=[["short"], ["a caption of many letters"], ["word"]] * 3)

    (result,) = eyechart.evaluate(model, "wds/x", dataset_root=str(root), output="r.json", quantize=["int8", "binary"])

    assert [notice["count"] for notice in result.notices if notice["kind"] == "truncated_texts"] == [1]
    assert list(result.details["compression"][1]["metrics"]) == list(result.primary)


def test_an_image_that_failed_is_missing_from_every_point(tmp_path):
    folder = tmp_path / "photos"
    for i in range(12):
        (folder / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        (folder / "ab"[i % 2] / f"{i}.png").write_bytes(b"broken" if i == 5 else png(i))

    (result,) = eyechart.evaluate(random_encoder(), folder, on_error="skip", output="r.json", quantize="binary")

    assert result.counts["failed"] == 1
    assert result.details["compression"][1]["metrics"]["acc1"]["paired"]["difference"] is not None


def test_several_labels_and_training_draws_have_paired_tests(tmp_path):
    several = write_multilabel(
        tmp_path / "several", labels=[[i % 2, i % 3 == 0, 1 - i % 2] for i in range(40)], classes=("a", "b", "c")
    )
    root = write_classification(tmp_path / "probe", n=30)
    write_classification(root, n=60, split="train", first=100)
    probe = {"task": "logistic_probe", "fewshot_k": 4, "fewshot_repeats": 3}
    for data, settings in ((several, {}), (root, probe)):
        (result,) = eyechart.evaluate(
            random_encoder(),
            "wds/x",
            dataset_root=str(data),
            output=f"{data.name}.json",
            quantize="binary",
            truncate_dim=4,
            **settings,
        )

        for point in result.details["compression"][1:]:
            (metric,) = point["metrics"].values()
            assert metric["paired"]["low"] <= metric["paired"]["difference"] <= metric["paired"]["high"]
            assert metric["paired"]["p_holm"] >= metric["paired"]["p_value"]
    assert metric["paired"]["test"] == "paired test over training draws"


SAME = {
    "constant": np.ones_like,
    "one direction": lambda vectors: np.linspace(-1, 1, 16, dtype=np.float32) * np.abs(vectors[:, :1]),
    "the same signs": lambda vectors: np.sign(np.linspace(-1, 1, 16, dtype=np.float32)) * np.abs(vectors),
}


@pytest.mark.parametrize("how", SAME)
@pytest.mark.parametrize("name", [name for name in MAKERS if "lopsided" not in name])
def test_an_encoder_that_knows_nothing_gets_chance_or_less_in_every_precision(tmp_path, name, how):
    maker = MAKERS[name]
    root = maker.write(tmp_path / "data")
    encoder = random_encoder()
    for method in ("encode_images", "encode_texts"):
        encode = getattr(encoder, method)
        setattr(encoder, method, lambda *args, encode=encode, **more: SAME[how](encode(*args, **more)))
    context = make_context(root, encoder, tmp_path / "store", reader=maker.reader)
    wanted = ((4,), ("int8", "binary"))
    context.encoder.prepare_compression(*wanted)
    run_task(maker.task, context, **{**OPTIONS, **maker.options})

    for compressed in context.encoder.compressed(*wanted):
        if how == "the same signs" and compressed.compression.precision != "binary":
            continue  # the model distinguishes its inputs; only its codes do not
        found = run_task(maker.task, replace(context, model=compressed), **{**OPTIONS, **maker.options})

        judged = {metric: value for metric, value in found.metrics.items() if value.chance is not None}
        assert judged
        for metric, value in judged.items():
            assert value.value <= value.chance + 1e-9, (compressed.compression, metric)


@pytest.mark.filterwarnings("ignore")  # of mteb
def test_a_task_of_mteb_scores_the_compressed_vectors(local_task):
    pytest.importorskip("mteb")
    settings = {"dataset": ["mteb/ClipartSTS"], "model": [minilm()], "truncate_dim": [64], "limit": None}
    report, session = run(**settings, quantize=["int8"])
    pairs = [json.loads(line) for line in Path("sts/test.jsonl").read_text().splitlines()]
    encoder = session.cached_model(report.job, load_task("mteb"), Stopwatch())
    first, second = (
        normalised(encoder.texts([pair[side] for pair in pairs])[:, :64].astype(np.float64))
        for side in ("sentence1", "sentence2")
    )

    found = {key: point["metrics"]["main_score"] for key, point in curve_of(report.result).items()}

    expected = spearman((first * second).sum(axis=1), [pair["score"] for pair in pairs])
    assert found[64, "float32"]["value"] == pytest.approx(expected, abs=1e-6)
    assert list(found) == [(384, "float32"), (384, "int8"), (64, "float32"), (64, "int8")]
    for metric in list(found.values())[1:]:
        difference = metric["value"] - report.result.metrics["main_score"]
        assert metric["paired"]["difference"] == pytest.approx(difference)
    with pytest.raises(UsageError, match="MTEB breaks ties of binary codes"):
        run(**settings, quantize=["binary"])


class TestRefusals:
    def test_more_dimensions_than_the_model_has_once_they_are_known(self, tmp_path):
        with pytest.raises(UsageError, match="eyechart-tiny has 128 dimensions, fewer than --truncate-dim 500"):
            run(truncate_dim=[64, 500], dataset=["demo/garments"])  # the model was loaded, no data were read
        assert not (tmp_path / "cache" / "embeddings").exists()
        with pytest.raises(UsageError, match="128 dimensions"):
            plan_jobs(make_config({"model": ["eyechart-tiny"], "dataset": ["demo/garments"], "truncate_dim": [500]}))

    def test_more_dimensions_than_the_first_vectors_have(self, tmp_path):
        model = constant_encoder()
        model.card = replace(model.card, embedding_dim=None)
        root = write_classification(tmp_path / "data")

        context = make_context(root, model, tmp_path / "store")
        context.encoder.prepare_compression((17,), ())

        with pytest.raises(UsageError, match="16 dimensions"):
            run_task("zeroshot_classification", context)

        assert model.encoded_texts
        assert model.encoded_images == 0

    def test_models_with_several_vectors_per_item(self, tmp_path):
        model = random_encoder()
        model.card = replace(model.card, multi_vector=True)
        root = write_classification(tmp_path / "data")

        with pytest.raises(UsageError, match="several vectors per item"):
            eyechart.evaluate(model, "wds/x", dataset_root=str(root), quantize="int8")

    @pytest.mark.parametrize(
        ("settings", "reason"),
        [
            ({"task": ["captioning"]}, "captioning does not compare vectors"),
            ({"load_clfs": ["x.pt"]}, "--load-clfs loads full vectors"),
            ({"truncate_dim": [0]}, "must be 1 or more"),
            ({"quantize": ["int4"]}, "'int8' or 'binary'"),
        ],
    )
    def test_what_cannot_be_compressed(self, tmp_path, settings, reason):
        (tmp_path / "x.pt").touch()
        write = partial(write_retrieval, captions=[["a"], ["b"]]) if "task" in settings else write_classification
        root = write(tmp_path / "data")
        model = {"model": ["m"], "model_type": "api"} if "task" in settings else {}

        with pytest.raises(UsageError, match=reason):
            run(**{"dataset": ["wds/x"], "dataset_root": str(root), "truncate_dim": [64], **model, **settings})

    def test_rerankers(self, tmp_path):
        root = MAKERS["texts"].write(tmp_path / "data")

        with pytest.raises(UsageError, match="a reranker would read other documents"):
            run(dataset=[str(root)], task=["text_retrieval"], reranker=save_tiny_cross_encoder(tmp_path / "reranker"))
