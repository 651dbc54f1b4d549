"""MTEB's own tasks through its library, on local data."""

from pathlib import Path

import pytest

from eyechart import run_task
from eyechart.errors import UsageError
from support.text_models import minilm

mteb = pytest.importorskip("mteb")


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
    assert (result.dataset, result.task, result.details["mteb"]["type"]) == ("ClipartSTS", "mteb", "STS")
    assert result.primary == ("main_score",)
    assert result.path == Path("outputs/model/ClipartSTS_mteb_STS.json")
    assert result.details["mteb"]["scores"]["test"][0]["cosine_spearman"] == result.metrics["cosine_spearman"]
    stamp = result.path.stat().st_mtime_ns
    run_task(config([LOCAL], tasks=["ClipartSTS"], overwrite_results=False))
    assert result.path.stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("models", "values", "said"),
    [
        ([LOCAL], {"tasks": ["T2Retrievl"]}, "Did you mean T2Retrieval"),
        ([LOCAL], {"tasks": ["STS16"], "limits": 5}, "limit does not apply"),
        ([LOCAL, {**LOCAL, "is_cross_encoder": True}], {"tasks": ["STS16"]}, "custom_tasks only"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_work_is_refused(here, models, values, said):
    with pytest.raises(UsageError) as refusal:
        run_task(config(models, **values))

    assert said in str(refusal.value)
