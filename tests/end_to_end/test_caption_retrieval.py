"""The same tasks from `eyechart eval`: captions, text retrieval with and without a reranker, MTEB's own."""

import json
import pickle
from pathlib import Path

import pytest

from eyechart import evaluate, run_task
from eyechart.api import Budget, Secret
from eyechart.cli import main
from eyechart.config import make_config
from eyechart.datasets.resolve import resolve_dataset
from eyechart.datasets.text_collection import write_collection
from eyechart.engine.workers import missing_images
from eyechart.models.access import Access
from eyechart.plan import plan_jobs
from eyechart.results import read_result
from eyechart.session import Session
from eyechart.types import DatasetSpec, Document, Job, ModelSpec, TextCollection
from support.data import noise_image
from support.openai_server import OpenAIServer
from support.retrieval_data import caption_config, read_rows
from support.text_models import minilm, save_tiny_cross_encoder

TEXTS = TextCollection(
    documents=tuple(
        Document(str(i), text)
        for i, text in enumerate(["A cat sleeps on the sofa.", "The stock market fell.", "How to bake bread at home."])
    ),
    queries=tuple(Document(f"q{i}", text) for i, text in enumerate(["sleeping pet", "finance news", "a loaf", "?"])),
    relevance={"q0": {"0": 1.0}, "q1": {"1": 1.0}, "q2": {"2": 1.0}},
)
READS = ["--model", minilm(), "--model_type", "sentence-transformers", "--quiet"]


@pytest.fixture
def texts(here):
    write_collection(TEXTS, Path("texts"))
    return "texts"


def test_captions_are_written_beside_the_result(custom, capsys):
    with OpenAIServer(models=("vlm",), answer=lambda _: "A thing.") as server:
        code = main(
            ["eval", "--task", "image_caption", "--dataset", custom, "--model", "vlm", "--model_type", "api",
             "--api_base", server.api_base, "--caption_prompt", "What is it?", "--output", "caps/{model}.json"]
        )  # fmt: skip
        parts = [part for request in server.requests if request.body for part in request.body["messages"][0]["content"]]

    result = read_result("caps/vlm.json")
    assert code == 0
    assert {part["text"] for part in parts if "text" in part} == {"What is it?"}
    assert (result.task, result.metrics) == ("image_caption", {"captioned": 1.0})
    assert result.facts["save_path"] == "caps/vlm/retrieval_data"
    assert [row["text"] for row in read_rows("caps/vlm/retrieval_data/corpus.jsonl")] == ["A thing."] * 5


def test_captions_that_failed_are_not_searched(custom, capsys):
    """Two models fail and a third one captions all images: one of three folders is searched, and every job is shown."""
    texts = [f"outputs/{name}/custom/retrieval_data" for name in ("a", "b", "c")]
    with OpenAIServer(models=("a", "b", "c"), answer=lambda body: "A thing." if body["model"] == "c" else "") as server:
        models = [{"model_name": name, "api_base": server.api_base, "api_key": "x"} for name in ("a", "b", "c")]
        captions = caption_config(server, custom, models=models)
        searches = [
            {
                "work_dir": f"search{i}",
                "eval_backend": "RAGEval",
                "eval_config": {
                    "tool": "MTEB",
                    "models": [{"model_name_or_path": minilm()}],
                    "eval": {"custom_tasks": [{"data_path": path}], "verbosity": 0},
                },
            }
            for i, path in enumerate(texts)
        ]
        Path("tasks.json").write_text(json.dumps([captions, *searches]))
        code = main(["run", "tasks.json"])

    shown = capsys.readouterr()
    told = " ".join(shown.err.split())
    assert code == 1
    assert [f"the captions in {path} are missing or incomplete" in told for path in texts] == [True, True, False]
    assert "captioned" in shown.out
    assert "ndcg_at_10" in shown.out


def test_captions_of_two_models_do_not_meet_though_their_results_share_a_folder(custom):
    with OpenAIServer(models=("a", "b")) as server:
        first, second = evaluate(
            task=["image_caption"], dataset=[custom], model=["a", "b"], model_type="api", output="{model}.json",
            questions={"api_base": server.api_base},
        )  # fmt: skip

    assert first.facts["save_path"] != second.facts["save_path"]


def test_text_retrieval_with_a_folder_of_texts(texts, capsys):
    code = main(["eval", "--dataset", texts, *READS, "--output", "out.json"])

    result = read_result("out.json")
    assert (code, result.task, result.data["kind"]) == (0, "text_retrieval", "texts")
    assert result.metrics["hit_rate_at_1"] == 1.0
    assert result.counts == {"listed": 4, "scored": 3, "failed": 0, "left_out": 1}


def test_text_retrieval_in_two_stages(texts):
    cross = save_tiny_cross_encoder(Path("cross"))

    code = main(
        ["eval", "--dataset", "texts/mine", "--dataset_root", texts, "--task", "text_retrieval", *READS,
         "--reranker", cross, "--task_option", "top_k=2", "--output", "out.json"]
    )  # fmt: skip

    result = read_result("out.json")
    assert code == 0
    assert result.details["reranker"]["name"] == cross
    assert all(len(record["top"]) == 2 for record in result.iter_records())


def test_texts_are_no_images_to_share_between_processes(texts):
    [job] = plan_jobs(make_config({"dataset": [texts], "model": [minilm()], "model_type": "sentence-transformers"}))

    assert missing_images(job, Session()) == []


def test_a_limit_counts_queries(texts):
    [result] = evaluate(dataset=[texts], model=[minilm()], model_type="sentence-transformers", limit=2)

    assert result.counts["scored"] == 2
    assert result.details["documents"] == 3


def test_prompts_are_options_of_the_task(texts):
    [plain] = evaluate(dataset=[texts], model=[minilm()], model_type="sentence-transformers", output="a.json")
    [other] = evaluate(
        dataset=[texts], model=[minilm()], model_type="sentence-transformers", output="b.json",
        task_options={"query_prompt": "The stock market fell. "},
    )  # fmt: skip

    assert other.metrics["hit_rate_at_1"] < plain.metrics["hit_rate_at_1"]


def test_skip_existing_sees_another_corpus(texts):
    settings = {"dataset": [texts], "model": [minilm()], "model_type": "sentence-transformers", "skip_existing": True}
    [first] = evaluate(**settings)
    stamp = first.path.stat().st_mtime_ns
    evaluate(**settings)
    assert first.path.stat().st_mtime_ns == stamp

    rows = read_rows("texts/corpus.jsonl")
    Path("texts/corpus.jsonl").write_text("".join(json.dumps({**row, "text": "the same"}) + "\n" for row in rows))
    [again] = evaluate(**settings)
    assert again.metrics["hit_rate_at_1"] == 0.0  # ties never help


def test_a_task_of_mteb_is_a_dataset(local_task, here):
    [result] = evaluate(
        dataset=["mteb/ClipartSTS"], model=[minilm()], model_type="sentence-transformers", output="a.json"
    )
    [same] = run_task(
        {"eval_config": {"tool": "MTEB", "models": [{"model_name_or_path": minilm()}],
                         "eval": {"tasks": ["ClipartSTS"], "verbosity": 0}}}
    )  # fmt: skip

    assert (result.dataset, result.task) == ("mteb/ClipartSTS", "mteb")
    assert result.metrics == same.metrics


def test_a_limit_makes_another_benchmark_of_an_mteb_task_and_the_result_says_so(local_task):
    [result] = evaluate(dataset=["mteb/ClipartSTS"], model=[minilm()], model_type="sentence-transformers", limit=5)

    assert result.job["limit"] == 5
    assert [notice["count"] for notice in result.notices if notice["kind"] == "limited"] == [5]


def test_a_folder_is_recognised_by_whether_its_items_are_images(texts, here):
    assert resolve_dataset(texts, "root").reader == "text_collection"

    noise_image(0).save("texts/0.png")
    rows = read_rows("texts/corpus.jsonl")
    rows[-1] |= {"image": "0.png"}
    Path("texts/corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert resolve_dataset(texts, "root").reader == "collection"


def test_captions_that_we_wrote_are_texts(custom):
    with OpenAIServer(models=("vlm",)) as server:
        [result] = evaluate(
            task=["image_caption"], dataset=[custom], model=["vlm"], model_type="api",
            questions={"api_base": server.api_base},
        )  # fmt: skip

    assert result.path == Path("results") / f"{custom.replace('/', '_')}_vlm_image_caption.json"
    assert resolve_dataset(str(result.facts["save_path"]), "root").reader == "text_collection"


def test_a_word_in_a_text_is_no_column(here):
    document = Document("0", 'He wrote "image": "x.png" on the wall.')
    write_collection(TextCollection((document,), TEXTS.queries, {"q0": {"0": 1.0}}), Path("texts"))

    assert resolve_dataset("texts", "root").reader == "text_collection"


def test_a_job_goes_to_a_worker_with_its_key_and_its_budget_and_shows_neither():
    access = Access(key=Secret("sk-secret-123"), budget=Budget(), timeout=7.0)
    spec = ModelSpec("api", "vlm", options={"api_base": "http://127.0.0.1:9/v1"}, access=access)
    job = Job(spec, DatasetSpec("d", "wds", "d"), "image_caption", {}, Path("o.json"), extra_models={"judge": spec})

    there = pickle.loads(pickle.dumps(job))  # noqa: S301 - our own

    assert (there.digest, there.model, there.extra_models) == (job.digest, job.model, job.extra_models)
    assert there.model.access.key.reveal() == "sk-secret-123"
    assert there.model.access.timeout == 7.0
    assert "sk-secret-123" not in repr(there)
