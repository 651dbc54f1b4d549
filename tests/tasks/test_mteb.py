"""MTEB's own tasks through its library, on local data."""

import json
import math
import shutil
from functools import cache, partial
from itertools import product
from pathlib import Path

import pytest

from eyechart import read_result, run_task
from eyechart.errors import DataError, EyechartError
from eyechart.tasks.mteb import Mteb, MtebPrediction
from eyechart.types import DatasetInfo
from support.hub_server import hub_serving
from support.mteb_tasks import (
    DESCRIPTIONS,
    TITLES,
    as_repository,
    distinct_rows,
    one_each,
    write_lines,
    write_retrieval_task,
)
from support.retrieval_data import read_rows
from support.text_models import minilm, save_tiny_cross_encoder

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


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The real MiniLM, which compares by cosine; the same without its last layer, comparing by dot; a cross-encoder."""
    root = tmp_path_factory.mktemp("models")
    shutil.copytree(minilm(), root / "dot")
    modules = json.loads((root / "dot/modules.json").read_text())
    (root / "dot/modules.json").write_text(json.dumps([m for m in modules if "Normalize" not in m["type"]]))
    path = root / "dot/config_sentence_transformers.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "similarity_fn_name": "dot"}))
    return {"cosine": minilm(), "dot": str(root / "dot"), "cross": save_tiny_cross_encoder(root / "cross", spread=0.3)}


@pytest.fixture(scope="module")
def warm_cache(tmp_path_factory):
    """One cache for all tests of this file: the real model reads the same texts only once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def cached(here, warm_cache, monkeypatch):
    import datasets

    monkeypatch.setenv("EYECHART_CACHE", str(warm_cache))
    # It goes by the names of folders, not by what is in them: other tests' data would be read.
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", here / "hf")


def graded(folder):
    """Every query has documents of two grades, one that is judged wrong; one query has nothing right at all."""
    rows = distinct_rows()
    n = len(rows)
    relevance = {f"q{i}": {f"d{i}": 2, f"d{7 * i % n}": 1, f"d{(i + 3) % n}": 0} for i in range(n)} | {"q5": {"d9": 0}}
    return write_retrieval_task(folder, [row[0] for row in rows], [row[1] for row in rows], relevance)


def tied(folder):
    """Some documents are there twice or more: their queries tie. Only the last copy is right, so the order tells."""
    last = {text: i for i, text in enumerate(DESCRIPTIONS)}
    relevance = {f"q{i}": {f"d{last[text]}": 1} for i, text in enumerate(DESCRIPTIONS)}
    titles = [f"{title}, number {i}" for i, title in enumerate(TITLES)]  # equal queries would be equally confident
    return write_retrieval_task(folder, DESCRIPTIONS, titles, relevance)


def reranking(folder):
    """Each query looks among five to eight documents; for some, none of them is right."""
    rows = distinct_rows()
    n = len(rows)
    candidates = {f"q{i}": [f"d{(i + i % 3 + 13 * j) % n}" for j in range(5 + i % 4)] for i in range(n)}
    texts = [row[0] for row in rows], [row[1] for row in rows]
    return write_retrieval_task(folder, *texts, one_each(n), candidates=candidates)


def swapped(folder):
    """Descriptions look for titles; every query has three right answers, one of which is not in the corpus."""
    rows = distinct_rows()
    n = len(rows)
    relevance = {f"q{i}": {f"d{i}": 1, f"d{(i + 1) % n}": 1, "gone": 1} for i in range(n)}
    titles = [f"{title} ({i})" for i, (_, title) in enumerate(rows)]
    return write_retrieval_task(folder, titles, [row[0] for row in rows], relevance)


TASKS = {"graded": graded, "swapped": swapped, "reranking": reranking}


def library_task(folder, kind="Retrieval", main="ndcg_at_10"):
    """A task of the library whose own loader reads the folder."""
    from mteb.abstasks import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    class FromFolder(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name=f"FromFolder{kind}", dataset={"path": str(folder.absolute()), "revision": "1"}, description="drawings",
            reference=None, type=kind, category="t2t", modalities=["text"], eval_splits=["dev"],
            eval_langs=["eng-Latn"], main_score=main, date=("2004-01-01", "2010-01-01"), domains=["Web"],
            task_subtypes=[], license="cc0-1.0", annotations_creators="derived", dialect=[], sample_creation="found",
            bibtex_citation="",
        )  # fmt: skip

    return FromFolder()


@pytest.fixture(scope="module")
def by_the_library(models, tmp_path_factory):
    """MTEB alone, from the same files: the scores of the split, of one stage or of two."""
    from sentence_transformers import CrossEncoder, SentenceTransformer

    run = partial(mteb.evaluate, cache=None, co2_tracker=False, show_progress_bar=False)
    loaded = {name: SentenceTransformer(models[name], device="cpu") for name in ("cosine", "dot")}
    cross = CrossEncoder(models["cross"], device="cpu")

    @cache
    def scores(name, similarity, stages):
        place = tmp_path_factory.mktemp("alone")
        folder = as_repository(TASKS[name](place / "data"))
        of = ("Reranking", "map_at_1000") if name == "reranking" else ("Retrieval", "ndcg_at_10")
        if stages == 1 or name != "reranking":
            found = run(loaded[similarity], library_task(folder, *of), prediction_folder=place)
        if stages == 2:
            task = library_task(folder, *of)
            if name != "reranking":
                task.load_data()
                task.convert_to_reranking(place, top_k=10)
            found = run(cross, task)
        [scores] = found.task_results[0].scores["dev"]
        return {key: value for key, value in scores.items() if isinstance(value, int | float)}

    return scores


def assert_equal(ours, theirs):
    """All of the library's numbers are ours, to 1e-9; what it cannot say (NaN) is null here."""
    assert set(theirs) <= set(ours)
    assert len(theirs) == 149
    for key, value in theirs.items():
        assert ours[key] == (None if math.isnan(value) else pytest.approx(value, abs=1e-9)), key


# Without ties: copies of a text get vectors that differ in the last bit, by where each stood in MTEB's batches. What
# trec_eval makes of ties is in tests/tasks/test_mteb_values.py.
@pytest.mark.parametrize(("name", "stages"), [*product(TASKS, [1, 2])])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.filterwarnings("ignore")
def test_text_retrieval_says_what_mteb_says_of_the_same_files(cached, models, by_the_library, name, stages, similarity):
    as_repository(TASKS[name](Path("data")))
    entries = [{"model_name_or_path": models[similarity]}]
    entries += [{"model_name_or_path": models["cross"], "is_cross_encoder": True}] if stages == 2 else []
    task = {"name": "CustomReranking" if name == "reranking" else "CustomRetrieval", "data_path": "data"}

    *_, result = run_task(config(entries, custom_tasks=[{**task, "eval_splits": ["dev"]}]))

    theirs = by_the_library(name, similarity, stages)
    [ours] = result.details["mteb"]["scores"]["dev"]
    assert_equal(ours, theirs)
    assert result.metrics["main_score"] == theirs["main_score"]
    assert result.primary == ("map_at_1000" if name == "reranking" else "ndcg_at_10",)
    # Our own metrics are the same numbers, over the queries that have something to find.
    share = len(list(result.iter_records())) / len(distinct_rows())
    for key, metric in result.metrics.items():
        assert metric * (1 if key == "main_score" else share) == pytest.approx(theirs[key], abs=5.1e-6), key


@pytest.mark.filterwarnings("ignore")
def test_where_mteb_breaks_ties_by_the_documents_ids_our_own_number_does_not(cached, models):
    tied(Path("data"))
    tasks = [{"data_path": "data", "eval_splits": ["dev"]}]

    [result] = run_task(config([{"model_name_or_path": models["cosine"]}], custom_tasks=tasks))

    count = next(notice["count"] for notice in result.notices if notice["kind"] == "ties")
    assert count >= 5
    assert result.metrics["ndcg_at_10"] < result.metrics["main_score"] - 0.01


@pytest.mark.parametrize("layout", ["BEIR", "repository", "C-MTEB"])
@pytest.mark.filterwarnings("ignore")
def test_a_task_of_mteb_reads_a_folder_in_each_layout(cached, models, by_the_library, layout):
    folder = graded(Path("there/T2Retrieval"))
    if layout == "repository":
        as_repository(folder)
    if layout == "C-MTEB":
        as_c_mteb(folder)
    values = {"tasks": ["T2Retrieval"], "data_dir": "there"}
    cross = {"model_name_or_path": models["cross"], "is_cross_encoder": True}

    one, two = run_task(config([{"model_name_or_path": models["cosine"]}, cross], **values))

    for stages, result in ((1, one), (2, two)):
        theirs = by_the_library("graded", "cosine", stages)
        [ours] = result.details["mteb"]["scores"]["dev"]
        assert {key: ours[key] for key in theirs} == pytest.approx(theirs, abs=1e-9, nan_ok=True)
    assert two.model == f"{models['cosine']} + {models['cross']}"


@pytest.mark.filterwarnings("ignore")
def test_data_that_were_replaced_in_a_folder_are_read_anew(cached, models, by_the_library):
    # The library `datasets` would know the folder again by its name, and give the first data twice.
    values = {"tasks": ["T2Retrieval"], "data_dir": "there", "overwrite_results": False}
    for name in ("graded", "swapped"):
        as_repository(TASKS[name](Path("there/T2Retrieval")))
        [result] = run_task(config([{"model_name_or_path": models["cosine"]}], **values))
        assert result.metrics["main_score"] == by_the_library(name, "cosine", 1)["main_score"]


def as_c_mteb(folder):
    """Rewrite a BEIR folder as C-MTEB has its repositories: parquet, with relevance in another one."""
    from datasets import Dataset

    rows = {name: read_rows(folder / f"{name}.jsonl") for name in ("corpus", "queries")}
    qrels = [line.split("\t") for line in (folder / "qrels/dev.tsv").read_text().splitlines()[1:]]
    shutil.rmtree(folder)
    for name, part in rows.items():
        texts = [{"id": row["_id"], "text": row["text"]} for row in part]
        save_parquet(Dataset.from_list(texts), folder / "data" / f"{name}-00000-of-00001.parquet")
    judged = [{"qid": query, "pid": name, "score": int(gain)} for query, name, gain in qrels]
    save_parquet(
        Dataset.from_list(judged), folder.with_name(f"{folder.name}-qrels") / "data/dev-00000-of-00001.parquet"
    )


def save_parquet(dataset, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    dataset.to_parquet(str(path))


@pytest.mark.filterwarnings("ignore")
def test_data_come_from_modelscope_and_are_read_again_without_it(cached, models, monkeypatch):
    as_c_mteb(graded(Path("hub/C-MTEB/T2Retrieval")))
    entries = [{"model_name_or_path": models["cosine"]}]

    with hub_serving(Path("hub")) as server:
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", server.url)
        [result] = run_task(config(entries, tasks=["T2Retrieval"], hub="modelscope", limits=9))

    assert {name.split("-")[0] for name, _ in server.fetched} == {"data/corpus", "data/queries", "data/dev"}
    assert result.notices[-1]["kind"] == "limited"
    assert result.metrics["main_score"] > 0.2


@pytest.mark.filterwarnings("ignore")
def test_a_limit_takes_the_first_queries_or_rows_and_says_so(cached, models):
    graded(Path("cache/T2Retrieval"))  # where data that were put there by hand are found
    entries = [{"model_name_or_path": models["cosine"]}]

    [whole] = run_task(config(entries, tasks=["T2Retrieval"]))
    [first] = run_task(config(entries, tasks=["T2Retrieval"], limits=5))
    write_retrieval_task(
        Path("cut"), *([row[i] for row in distinct_rows()] for i in (0, 1)), relevance_of(Path("cache/T2Retrieval"), 5)
    )
    [by_hand] = run_task(config(entries, tasks=["T2Retrieval"], data_dir={"T2Retrieval": "cut"}))

    assert first.metrics == by_hand.metrics != whole.metrics
    assert [notice["kind"] for notice in first.notices] == ["model_note", "limited"]
    assert "limited" not in {notice["kind"] for notice in whole.notices}


def relevance_of(folder, count):
    rows = [line.split("\t") for line in (folder / "qrels/dev.tsv").read_text().splitlines()[1:]]
    kept = {f"q{i}" for i in range(count)}
    found: dict[str, dict[str, int]] = {}
    for query, name, gain in rows:
        if query in kept:
            found.setdefault(query, {})[name] = int(gain)
    return found


@pytest.mark.parametrize(
    ("models", "values", "said"),
    [
        ([LOCAL], {"tasks": ["T2Retrievl"]}, "Did you mean T2Retrieval"),
        ([LOCAL], {"tasks": ["T2Retrieval"], "splits": ["test"]}, "has no split 'test'"),
        ([LOCAL], {"tasks": ["T2Retrieval"], "splits": {"T2Retrieval": "test"}}, "has no split 'test'"),
        ([LOCAL], {"tasks": ["T2Retrieval"], "data_dir": "nowhere"}, "nowhere/T2Retrieval, does not exist"),
        ([{**LOCAL, "is_cross_encoder": True}], {"tasks": ["STS16"]}, "All models are rerankers"),
        ([LOCAL], {"tasks": ["CustomRetrieval"]}, "CustomRetrieval has no data"),
        ([LOCAL], {"tasks": ["custom_reranking"]}, "CustomReranking has no data"),
        ([LOCAL], {"tasks": ["CustomReranknig"], "dataset_path": "x"}, "Did you mean CustomReranking"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_work_is_refused(here, models, values, said):
    with pytest.raises(EyechartError) as refusal:
        run_task(config(models, **values))

    assert said in str(refusal.value)


def test_a_split_without_its_own_relevance_is_refused(here):
    tied(Path("data"))
    tasks = [{"data_path": "data", "eval_splits": ["dev", "validation"]}]

    with pytest.raises(EyechartError, match="validation") as refusal:
        run_task(config([LOCAL], custom_tasks=tasks))

    assert "qrels/validation.tsv" in str(refusal.value)
    assert not Path("outputs").exists()


def test_a_reranking_task_needs_candidates(here):
    tied(Path("data"))

    with pytest.raises(EyechartError, match="no candidates") as refusal:
        run_task(config([LOCAL], custom_tasks=[{"name": "CustomReranking", "data_path": "data", "eval_splits": "dev"}]))

    assert "top_ranked.jsonl" in str(refusal.value)


@pytest.mark.filterwarnings("ignore")
def test_a_classification_with_several_classes_leaves_undefined_metrics_out_and_is_read_back(here):
    rows = [{"text": title, "label": i % 4} for i, title in enumerate(TITLES)]
    for split in ("train", "validation"):
        write_lines(Path("there/TNews") / f"{split}.jsonl", rows)

    [result] = run_task(config([LOCAL], tasks=["TNews"], data_dir="there"))

    assert read_result(result.path).metrics == result.metrics
    assert "accuracy" in result.metrics
    assert not {"ap", "ap_weighted"} & set(result.metrics)
    (notice,) = [notice for notice in result.notices if notice["kind"] == "undefined_metrics"]
    assert notice["count"] == 2
    assert result.details["mteb"]["scores"]["validation"][0]["ap"] is None


@pytest.mark.parametrize("scores", [[math.nan], [0.5, math.nan]])
def test_an_undefined_main_score_is_an_error(scores):
    found = {"scores": {"test": [{"main_score": score, "hf_subset": str(i)} for i, score in enumerate(scores)]}}
    prediction = MtebPrediction(DatasetInfo("Tasks", "external", "test", "en"), (), (), found)

    with pytest.raises(DataError, match=r"main score of Tasks is undefined"):
        Mteb().score(prediction, Mteb.Settings())
