"""Vectors in half precision: what is scored is what is stored."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from eyechart.cli import main
from eyechart.errors import ModelError
from eyechart.store.vector_store import EmbeddingStore, VectorTable, text_digests

TINY = ["--model", "eyechart-tiny", "--quiet", "--limit", "40"]
GARMENTS = ["--dataset", "demo/garments"]
HALF = ["--store-precision", "fp16"]


def keys(*names):
    return text_digests(list(names), "en")


def rows(n, seed=0, dim=8):
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)


def test_vectors_come_back_rounded_to_the_one_who_added_them_and_to_others(tmp_path):
    table = VectorTable(tmp_path, half=True)
    table.add(keys("a", "b"), rows(2))

    for found in (table.get(keys("b", "a")), VectorTable(tmp_path, half=True).get(keys("b", "a"))):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, rows(2)[::-1].astype(np.float16).astype(np.float32))
    (part,) = tmp_path.glob("*.safetensors")
    assert load_file(part)["vectors"].dtype == np.float16


def test_full_and_rounded_vectors_have_tables_of_their_own(tmp_path):
    store = EmbeddingStore(tmp_path)
    store.table("model", "image").add(keys("a"), rows(1))
    store.table("model", "image", half=True).add(keys("b"), rows(1))

    assert store.table("model", "image").missing(keys("a", "b")).tolist() == [False, True]
    assert store.table("model", "image", half=True).missing(keys("a", "b")).tolist() == [True, False]


@pytest.mark.parametrize("factor", [1e6, 1e30, 1e-6, 1e-9, 1e-30])
def test_numbers_that_half_precision_cannot_keep_are_an_error_and_not_stored(tmp_path, factor):
    vectors = rows(3)
    vectors[1] *= np.float32(factor)
    table = VectorTable(tmp_path, half=True)

    with pytest.raises(ModelError, match="1 of 3 vectors contain values outside the range of half precision") as caught:
        table.add(keys("a", "b", "c"), vectors)

    assert "--store-precision" in caught.value.advice
    assert not list(tmp_path.iterdir())


def test_zeros_and_small_numbers_among_others_are_kept(tmp_path):
    vectors = rows(3)
    vectors[0] = 0
    vectors[1, 2:4] *= np.float32(1e-9)
    table = VectorTable(tmp_path, half=True)

    table.add(keys("a", "b", "c"), vectors)

    np.testing.assert_allclose(table.get(keys("a", "b", "c")), vectors, atol=1e-3)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Start without anything stored."""
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


def run(name, *words):
    assert main(["eval", *TINY, *words, "--output", name]) == 0
    with open(name) as stream:  # noqa: PTH123 - beside this test
        return json.load(stream)


def records(result):
    with open(result["records"]["file"]) as stream:  # noqa: PTH123
        return stream.read()


def tables(cache):
    return {path.parent.name for path in (cache / "embeddings").rglob("*.safetensors")}


def encoded(result):
    return "throughput" in result["provenance"]


@pytest.mark.parametrize(
    "words",
    [GARMENTS, ["--dataset", "demo/scenes"], [*GARMENTS, "--task", "logistic_probe", "--folds", "2"]],
    ids=["classification", "retrieval", "probe"],
)
def test_a_cold_and_a_warm_run_give_the_same_numbers(cache, words):
    cold, warm = (run(f"{name}.json", *words, *HALF) for name in ("cold", "warm"))

    assert encoded(cold)
    assert not encoded(warm)
    assert warm["metrics"] == cold["metrics"]
    assert warm["metric_values"] == cold["metric_values"]
    assert records(warm) == records(cold)
    assert tables(cache) <= {"image-fp16", "text-fp16", "text-cut"}


def test_what_is_stored_in_full_is_rounded_and_not_encoded_again(cache):
    full, half = run("full.json", *GARMENTS), run("half.json", *GARMENTS, *HALF)
    fresh = run("fresh.json", *GARMENTS, *HALF)

    assert not encoded(half)
    assert "load" in full["provenance"]["profile"]
    assert "load" not in half["provenance"]["profile"]  # of the model
    assert fresh["metrics"] == half["metrics"]
    assert tables(cache) == {"image", "text", "text-cut", "image-fp16", "text-fp16"}


def test_a_result_in_full_does_not_stand_for_one_in_half_precision(cache, capsys):
    run("r.json", *GARMENTS)
    again = run("r.json", *GARMENTS, *HALF, "--skip-existing")

    assert again["job"]["settings"]["store_precision"] == "fp16"
    assert run("r.json", *GARMENTS, *HALF, "--skip-existing")["provenance"] == again["provenance"]  # skipped
    assert "store_precision" not in run("r.json", *GARMENTS, "--skip-existing")["job"]["settings"]


def test_results_in_full_and_in_half_precision_are_told_apart(cache, capsys):
    run("full.json", *GARMENTS)
    run("half.json", *GARMENTS, *HALF)
    capsys.readouterr()

    assert main(["compare", "full.json", "half.json"]) == 2
    assert "stored vectors" in capsys.readouterr().err
    assert main(["compare", "full.json", "half.json", "--allow", "stored vectors"]) == 0
    assert "store precision" in capsys.readouterr().out.replace("\n", " ")


def test_processes_store_in_half_precision_too(cache):
    words = [*GARMENTS, *HALF, "--batch-size", "2", "--processes", "2"]
    result = run("r.json", *words)

    assert tables(cache) == {"image-fp16", "text-fp16", "text-cut"}
    assert not encoded(result)  # by this process
    assert result["metrics"] == run("again.json", *GARMENTS, *HALF)["metrics"]


def test_a_classifier_is_saved_as_it_was_scored(cache, tmp_path):
    run("cold.json", *GARMENTS, *HALF, "--save-clf", "cold.safetensors")
    run("warm.json", *GARMENTS, *HALF, "--save-clf", "warm.safetensors")

    cold, warm = (load_file(tmp_path / f"{name}.safetensors") for name in ("cold", "warm"))
    assert cold.keys() == warm.keys()
    assert all(np.array_equal(cold[name], warm[name]) for name in cold)
