"""MTEB's own tasks through its library, on local data."""

import json
from pathlib import Path

import pytest

from eyechart import run_task
from eyechart.errors import UsageError
from support.clipart import ROWS
from support.text_models import minilm

mteb = pytest.importorskip("mteb")


@pytest.fixture
def local_task(here, monkeypatch):
    """An MTEB task of the library's own class, with a data folder on this machine, under MTEB's own registry."""
    import sys

    from mteb.abstasks import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    Path("sts").mkdir()
    rows = [
        {
            "sentence1": row["title"],
            "sentence2": ROWS[(i + i % 3) % len(ROWS)]["description"],
            "score": float(5 - i % 3),
        }
        for i, row in enumerate(ROWS[:30])
    ]
    Path("sts/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    class ClipartSTS(AbsTaskSTS):
        metadata = TaskMetadata(
            name="ClipartSTS", dataset={"path": str(Path("sts").absolute()), "revision": "1"}, description="drawings",
            reference=None, type="STS", category="t2t", modalities=["text"], eval_splits=["test"],
            eval_langs=["eng-Latn"], main_score="cosine_spearman", date=("2004-01-01", "2010-01-01"), domains=["Web"],
            task_subtypes=[], license="cc0-1.0", annotations_creators="derived", dialect=[], sample_creation="found",
            bibtex_citation="",
        )  # fmt: skip
        min_score, max_score = 0, 5

    monkeypatch.setitem(sys.modules["mteb.get_tasks"]._TASKS_REGISTRY, "ClipartSTS", ClipartSTS)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(here / "hf"))
    return ClipartSTS


def config(models, **values):
    return {
        "work_dir": "outputs",
        "eval_config": {"tool": "MTEB", "models": models, "eval": {"verbosity": 0, **values}},
    }


LOCAL = {"model_name_or_path": minilm()}


@pytest.mark.filterwarnings("ignore")  # the library's own, and those of what it uses
def test_a_task_of_mteb_gets_the_number_that_mteb_gets_alone(local_task):
    from sentence_transformers import SentenceTransformer

    [result] = run_task(config([LOCAL], tasks=["ClipartSTS"]))

    [alone] = mteb.evaluate(SentenceTransformer(minilm(), device="cpu"), local_task(), cache=None).task_results
    assert result.metrics["main_score"] == pytest.approx(alone.get_score(), abs=1e-6)
    assert (result.dataset, result.task) == ("ClipartSTS", "mteb_STS")
    assert result.path == Path("outputs/model/ClipartSTS_mteb_STS.json")
    assert result.details["mteb"]["scores"]["test"][0]["cosine_spearman"] == result.metrics["cosine_spearman"]
    stamp = result.path.stat().st_mtime_ns
    run_task(config([LOCAL], tasks=["ClipartSTS"], overwrite_results=False))
    assert result.path.stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("models", "values", "said"),
    [
        ([LOCAL], {"tasks": ["T2Retrievl"]}, "Did you mean T2Retrieval"),
        ([LOCAL], {"tasks": ["STS16"], "limits": 5}, "limits does not apply"),
        ([LOCAL, {**LOCAL, "is_cross_encoder": True}], {"tasks": ["STS16"]}, "custom_tasks only"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_work_is_refused(here, models, values, said):
    with pytest.raises(UsageError) as refusal:
        run_task(config(models, **values))

    assert said in str(refusal.value)
