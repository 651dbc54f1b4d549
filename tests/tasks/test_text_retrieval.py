"""Text retrieval with the real all-MiniLM-L6-v2, with servers, in one stage and in two."""

import json
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval

from eyechart import evaluate, run_task, stats
from eyechart.api.errors import UnreachableError
from eyechart.datasets.text_collection import read_collection, write_collection
from eyechart.errors import DataError, ModelError, UsageError
from eyechart.inference.embeddings import CachedEncoder
from eyechart.io.files import cache_root
from eyechart.models.registry import open_model
from eyechart.models.rerankers import CrossEncoderReranker
from eyechart.store.vector_store import EmbeddingStore
from eyechart.types import Document, MeanOf, ModelSpec, TextCollection
from support.clipart import ROWS
from support.data import noise_image
from support.mteb_tasks import write_lines
from support.openai_server import OpenAIServer, Status
from support.text_models import minilm, save_tiny_cross_encoder

KS = (1, 3, 5, 10, 20, 100, 1000)
TREC = {"ndcg": "ndcg_cut", "map": "map_cut", "recall": "recall", "precision": "P", "hit_rate": "success"}


def clipart_collection():
    """Descriptions as documents, titles as queries; the ids of both count from 0, so they are equal."""
    return TextCollection(
        documents=tuple(Document(str(i), row["description"]) for i, row in enumerate(ROWS)),
        queries=tuple(Document(str(i), row["title"]) for i, row in enumerate(ROWS)),
        relevance={str(i): {str(i): 1.0} for i in range(len(ROWS))},
    )


@pytest.fixture(scope="module")
def warm_cache(tmp_path_factory):
    """One cache for all tests of this file: the real model reads the same texts only once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def data(here, warm_cache, monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", str(warm_cache))
    write_collection(clipart_collection(), Path("data"))
    return "data"


def config(models, data_path="data", **values):
    return {
        "work_dir": "outputs",
        "eval_backend": "RAGEval",
        "eval_config": {
            "tool": "MTEB",
            "models": models,
            "eval": {"custom_tasks": [{"data_path": data_path}], "verbosity": 0, **values},
        },
    }


def local(name=None, **values):
    return {"model_name_or_path": name or minilm(), **values}


def trec_scores(collection, queries, documents):
    """Let trec_eval score a ranking by cosine, equal scores in the pessimistic order."""
    unit = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (queries, documents)]
    # Equal documents must tie exactly; in one product, equal columns may be rounded differently.
    distinct, which = np.unique(unit[1], axis=0, return_inverse=True)
    scores = (unit[0] @ distinct.T)[:, which]
    names = [document.id for document in collection.documents]
    relevance = {query: {name: int(gain) for name, gain in row.items()} for query, row in collection.relevance.items()}
    run = {}
    for query, row in zip(collection.queries, scores, strict=True):
        gains = np.array([relevance[query.id].get(name, 0) for name in names])
        order = np.lexsort((gains, -row))
        run[query.id] = {names[item]: float(-place) for place, item in enumerate(order)}
    wanted = {f"{measure}.{','.join(map(str, KS))}" for measure in TREC.values()}
    found = pytrec_eval.RelevanceEvaluator(relevance, {*wanted, "recip_rank"}).evaluate(run)
    out = {
        f"{ours}_at_{k}": np.mean([found[query][f"{theirs}_{k}"] for query in found])
        for ours, theirs in TREC.items()
        for k in KS
    }
    ranks = [found[query]["recip_rank"] for query in found]
    return out | {f"mrr_at_{k}": np.mean([rank if rank >= 1 / k - 1e-9 else 0 for rank in ranks]) for k in KS}


def stored_vectors(texts):
    """Return the vectors that the run has stored."""
    store = EmbeddingStore(cache_root() / "embeddings")
    return CachedEncoder(open_model(ModelSpec("sentence-transformers", minilm())), store).texts(texts)


def test_all_metrics_equal_trec_evals_with_real_weights(data):
    [result] = run_task(config([local()]))

    collection = read_collection(Path("data"))
    queries, documents = ([text.text for text in part] for part in (collection.queries, collection.documents))
    expected = trec_scores(collection, stored_vectors(queries), stored_vectors(documents))
    assert set(result.metrics) == {*expected, "main_score"}
    for name, value in expected.items():
        assert result.metrics[name] == pytest.approx(value, abs=1e-9), name
    assert result.metrics["recall_at_10"] > 5 * result.chance["recall_at_10"]


def test_the_vectors_are_those_of_the_librarys_documented_usage(data):
    from sentence_transformers import SentenceTransformer

    run_task(config([local()]))

    texts = [row["title"] for row in ROWS]
    expected = SentenceTransformer(minilm(), device="cpu").encode(texts)
    np.testing.assert_allclose(stored_vectors(texts), expected, atol=1e-5)


def test_a_document_with_the_querys_own_id_is_found(data):
    # Query 0 belongs to document 0: some tools drop such a hit and report zero.
    [result] = run_task(config([local()]))

    assert result.metrics["hit_rate_at_1"] > 0.3


def test_the_result_says_what_it_is_of(data):
    [result] = run_task(config([local()]))

    body = json.loads(Path("outputs/model/CustomRetrieval_text_retrieval.json").read_text())
    assert (body["dataset"], body["model"], body["task"]) == ("CustomRetrieval", minilm(), "text_retrieval")
    assert body["counts"] == {"listed": 60, "scored": 60, "failed": 0}
    assert body["model_card"]["embedding_dim"] == 384
    value = body["metric_values"]["ndcg_at_10"]
    assert value["low"] < body["metrics"]["ndcg_at_10"] < value["high"]
    assert result.primary == ("ndcg_at_10",)
    assert any("tie" in notice["message"] for notice in result.notices)  # equal descriptions are in the data


def test_each_metric_is_the_mean_of_its_own_field_in_the_records(data):
    [result] = run_task(config([local()]))

    records = list(result.iter_records())
    assert result.record_info["form"] == "ranking"
    assert result.values["main_score"].mean_of is None  # MTEB's own figure, rounded as it rounds
    for name, metric in result.values.items():
        if name == "main_score":
            continue
        assert metric.mean_of == MeanOf(name, cluster="unit")
        values = np.array([record[metric.mean_of.field] for record in records])
        units = np.array([record[metric.mean_of.cluster] for record in records])
        assert values.mean() == pytest.approx(metric.value, abs=1e-9)
        assert len(set(units)) == metric.n
        assert (metric.low, metric.high) == pytest.approx(tuple(stats.mean_interval(values, units)), abs=1e-9)


def test_queries_for_one_document_are_one_unit(data):
    whole = clipart_collection()
    relevance = {**whole.relevance, "1": {"0": 1.0}, "2": {"0": 1.0}}
    write_collection(TextCollection(whole.documents, whole.queries, relevance), Path("data"))

    [result] = run_task(config([local()]))

    units = [record["unit"] for record in result.iter_records()]
    assert units[0] == units[1] == units[2] != units[3]
    assert result.values["ndcg_at_10"].n == 58


def test_figures_by_a_column_of_the_queries(data, capsys):
    rows = [json.loads(line) for line in Path("data/queries.jsonl").read_text().splitlines()]
    rows = [{**row, "half": "first" if i < 30 else "second"} for i, row in enumerate(rows)]
    Path("data/queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    [result] = evaluate(dataset=["data"], model=[minilm()], model_type="sentence-transformers", group_by=["half"])

    hits = [record["hit_rate_at_1"] for record in result.iter_records()]
    groups = result.details["groups"]["half"]
    assert groups["first"]["hit_rate_at_1"] == pytest.approx(np.mean(hits[:30]))
    assert groups["second"]["hit_rate_at_1"] == pytest.approx(np.mean(hits[30:]))


def test_the_first_generation_of_configs_gives_the_same(data):
    [expected] = run_task(config([local()], top_k=5))
    old = {
        "work_dir": "old",
        "eval_backend": "RAGEval",
        "eval_config": {
            "tool": "MTEB",
            "model": [
                {
                    "model_name_or_path": minilm(),
                    "pooling_mode": None,
                    "max_seq_length": 256,
                    "prompt": "",
                    "model_kwargs": {"torch_dtype": "auto"},
                    "encode_kwargs": {"batch_size": 128, "show_progress_bar": True},
                }
            ],
            "eval": {
                "tasks": ["CustomRetrieval"],
                "dataset_path": "data",
                "verbosity": 0,
                "overwrite_results": True,
                "topk": 5,
                "limits": 500,
            },
        },
    }

    [result] = run_task(old)

    assert result.metrics == pytest.approx(expected.metrics, abs=1e-9)


def test_the_limit_counts_queries_exactly_and_keeps_the_corpus(data):
    [result] = run_task(config([local()], limits=7))

    assert result.counts["scored"] == 7
    assert result.details["documents"] == 60


TITLES, DESCRIPTIONS = ({row[key] for row in ROWS} for key in ("title", "description"))


@pytest.mark.parametrize(
    ("entry", "query", "document"),
    [
        ({"prompts": {"query": "query: ", "document": "passage: "}}, "query: ", "passage: "),
        ({"prompts": {"query": "query: ", "passage": "passage: "}}, "query: ", "passage: "),
        ({"prompts": {"document": "passage: "}}, "", "passage: "),
        ({"prompt": "find: "}, "find: ", ""),
        ({"prompt": ""}, "", ""),
    ],
)
def test_queries_get_the_query_prompt_and_documents_the_document_prompt(data, entry, query, document):
    with OpenAIServer(dimension=16) as server:
        run_task(config([remote(server, dimensions=16, **entry)]))

    sent = {text for request in server.requests if request.method == "POST" for text in request.body["input"]}
    assert sent == {query + text for text in TITLES} | {document + text for text in DESCRIPTIONS}


@pytest.mark.parametrize("default", [None, "query"])
def test_the_prompts_of_the_models_authors_are_used_unless_others_are_given(data, default):
    import shutil

    folder = Path("with-prompts")
    shutil.copytree(minilm(), folder)
    path = folder / "config_sentence_transformers.json"
    by_hand = {"prompts": {"query": "a photo of: ", "document": "The stock market fell again today. "}}
    saved = {**json.loads(path.read_text()), **by_hand, "default_prompt_name": default}
    path.write_text(json.dumps(saved))

    [own] = run_task(config([local(str(folder))]))
    [given] = run_task(config([local(**by_hand)]))
    [none] = run_task(config([local(str(folder), prompts={"query": ""})]))
    [plain] = run_task(config([local()]))

    assert own.metrics == given.metrics
    assert none.metrics == plain.metrics
    assert own.metrics != plain.metrics


def test_the_text_side_of_another_family_can_be_used(data):
    [result] = run_task(config([{"model_name_or_path": "eyechart-tiny", "model_type": "onnx"}], limits=5))

    assert result.model_card["family"] == "onnx"
    assert result.counts["scored"] == 5


def remote(server, **values):
    return {"model_name": "test-model", "api_base": server.api_base, "api_key": "sk-secret-123", **values}


def test_embeddings_from_a_server_are_asked_once_ever(data):
    with OpenAIServer(dimension=16) as server:
        [first] = run_task(config([remote(server, dimensions=16, encode_kwargs={"batch_size": 10})]))
        asked = [request.body["input"] for request in server.requests if request.method == "POST"]
        [again] = run_task(config([remote(server, dimensions=16)]))

    sent = [text for batch in asked for text in batch]
    assert max(len(batch) for batch in asked) <= 10
    assert sorted(sent) == sorted({text for row in ROWS for text in (row["title"], row["description"])})
    assert again.metrics == first.metrics
    assert sum(server.paid.values()) == len(asked)


def test_embeddings_of_another_size_than_promised_are_refused(data):
    with OpenAIServer(dimension=16) as server, pytest.raises(ModelError, match="size 16, expected 24"):
        run_task(config([remote(server, dimensions=24)]))


def test_two_stages_with_a_reranker_behind_a_server(data):
    with OpenAIServer() as server:
        one, two = run_task(config([local(), remote(server, is_cross_encoder=True)], top_k=20))
        before = len(server.requests)
        run_task(config([local(), remote(server, is_cross_encoder=True)], top_k=20))
        later = [request for request in server.requests[before:] if request.method == "POST"]

    assert two.model == f"{minilm()} + test-model"
    assert two.path == Path("outputs/model+test-model/CustomRetrieval_text_retrieval.json")
    # The reranker orders what the encoder found: nothing new can be found, nothing can be lost.
    assert two.metrics["recall_at_20"] == pytest.approx(one.metrics["recall_at_20"])
    assert two.metrics["recall_at_100"] == two.metrics["recall_at_20"]
    assert two.metrics["ndcg_at_10"] != one.metrics["ndcg_at_10"]
    assert not later  # answers were kept


def test_a_reranker_of_text_embeddings_inference_is_asked_in_its_own_form_and_in_parts(data):
    with OpenAIServer(models=None) as server:
        _, other = run_task(config([local(), remote(server, is_cross_encoder=True)], top_k=40))
        _, tei = run_task(config([local(), remote(server, is_cross_encoder=True, rerank_form="tei")], top_k=40))
        asked = [request.body for request in server.requests if request.body and "texts" in request.body]

    assert sorted({len(body["texts"]) for body in asked}) == [8, 32]
    assert all(set(body) == {"query", "texts", "raw_scores"} for body in asked)
    assert tei.metrics == other.metrics  # the server scores by the same rule


def test_the_second_stage_is_scored_as_trec_eval_scores_it(data):
    with OpenAIServer() as server:
        _, two = run_task(config([local(), remote(server, is_cross_encoder=True)], top_k=20))
        answers = {request.body["query"]: request.body for request in server.requests if request.method == "POST"}

    # The server's rule: the share of the query's words that the document holds. Ties go to the wrong document.
    collection = read_collection(Path("data"))
    ids: dict[str, list[str]] = {}
    for document in collection.documents:
        ids.setdefault(document.text, []).append(document.id)
    run = {}
    for query in collection.queries:
        words = set(query.text.lower().split())
        # Of equal documents, only some may be on the list: they are taken by their vectors' order, that is by id.
        left = {text: list(names) for text, names in ids.items()}
        rows = [
            (len(words & set(text.lower().split())) / len(words), left[text].pop(0))
            for text in answers[query.text]["documents"]
        ]
        rows.sort(key=lambda row: (-row[0], row[1] == query.id))
        run[query.id] = {name: float(-place) for place, (_, name) in enumerate(rows)}
    qrels = {query: dict.fromkeys(row, 1) for query, row in collection.relevance.items()}
    found = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "map_cut.100"}).evaluate(run)
    assert two.metrics["ndcg_at_10"] == pytest.approx(np.mean([row["ndcg_cut_10"] for row in found.values()]), abs=1e-9)
    assert two.metrics["map_at_100"] == pytest.approx(np.mean([row["map_cut_100"] for row in found.values()]), abs=1e-9)


def test_two_stages_with_a_cross_encoder_on_this_machine(data):
    from sentence_transformers import CrossEncoder

    folder = save_tiny_cross_encoder(Path("cross"))
    one, two = run_task(config([local(), local(folder, is_cross_encoder=True, max_seq_length=64)], top_k=5, limits=3))

    [record, *_] = two.iter_records()
    [encoder_record, *_] = one.iter_records()
    texts = {document.id: document.text for document in read_collection(Path("data")).documents}
    pairs = [(record["text"], texts[name]) for name in encoder_record["top"]]
    scores = CrossEncoder(folder, max_length=64, device="cpu").predict(pairs)
    assert record["top"] == [encoder_record["top"][i] for i in np.argsort(-scores, kind="stable")]


@pytest.mark.parametrize(
    ("models", "values", "error", "said"),
    [
        ([{"model_name_or_path": "./nowhere"}], {}, ModelError, "Checkpoint not found"),
        (
            [{"model_name_or_path": "x", "hub": "huggingface", "is_cross_encoder": True}],
            {},
            UsageError,
            "All models are rerankers",
        ),
        (
            [{"model_name_or_path": "x", "hub": "huggingface"}],
            {"custom_tasks": [{"data_path": "nowhere"}]},
            DataError,
            "There is no folder",
        ),
        (
            [{"model_name_or_path": "x", "hub": "huggingface", "encode_kwargs": {"batchsize": 3}}],
            {},
            UsageError,
            "'batchsize'",
        ),
        (
            [{"model_name_or_path": "x", "hub": "huggingface", "prompts": {"qury": "q"}}],
            {},
            UsageError,
            "did you mean query",
        ),
        ([{"model_name_or_path": "x", "hub": "huggingface", "pooling_mode": "middle"}], {}, UsageError, "pooling_mode"),
        ([{"model_name": "m", "api_base": "http://127.0.0.1:9/v1"}], {"tries": 1}, UnreachableError, "Cannot connect"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_loaded(data, models, values, error, said):
    with pytest.raises(error) as refusal:
        run_task(config(models, **values))

    assert said in str(refusal.value)


def test_a_classifier_is_no_reranker(data):
    folder = save_tiny_cross_encoder(Path("cross"), labels=3)

    with pytest.raises(ModelError, match="has 3 outputs"):
        run_task(config([local(), local(folder, is_cross_encoder=True)]))


def test_a_rerank_request_that_is_refused_is_an_error_not_a_number(data):
    with OpenAIServer() as server:
        server.fault = lambda path, body, attempt: Status(400) if path.endswith("rerank") else None
        with pytest.raises(ModelError, match="rejected the request"):
            run_task(config([local(), remote(server, is_cross_encoder=True)]))

    assert Path("outputs/model/CustomRetrieval_text_retrieval.json").exists()  # the first stage is done and saved


@pytest.mark.parametrize("scores", [[np.nan, 1.0, 0.5], [1.0], None])
def test_a_reranker_that_leaves_documents_without_a_score_is_refused(data, monkeypatch, scores):
    def some(self, shortlists, keep):
        yield from ((one.id, scores or [0.5] * 3) for one in shortlists if scores or one.id != "0")

    monkeypatch.setattr(CrossEncoderReranker, "score", some)
    folder = save_tiny_cross_encoder(Path("cross"))

    with pytest.raises(ModelError, match="no usable scores"):
        run_task(config([local(), local(folder, is_cross_encoder=True)], top_k=3, limits=4))


def test_queries_without_an_answer_and_answers_that_are_not_there_are_counted(data):
    whole = clipart_collection()
    relevance = {**whole.relevance, "0": {"gone": 1.0, "0": 1.0}, "1": {"gone": 1.0}, "2": {"2": 0.0}}
    write_collection(TextCollection(whole.documents, whole.queries, relevance), Path("data"))

    [result] = run_task(config([local()]))

    kinds = {notice["kind"]: notice["count"] for notice in result.notices}
    assert kinds["absent_documents"] == 2
    assert kinds["queries_without_relevant"] == 1
    with OpenAIServer() as server:
        _, reranked = run_task(config([local(), remote(server, is_cross_encoder=True)], top_k=20))
    counts = {notice["kind"]: notice["count"] for notice in reranked.notices}
    assert {name: counts[name] for name in ("absent_documents", "reranked_depth")} == {
        "absent_documents": 2,
        "reranked_depth": 20,
    }
    assert result.counts == {"listed": 60, "scored": 59, "failed": 0, "left_out": 1}
    ranks = {record["id"]: record["rank"] for record in result.iter_records()}
    assert ranks["1"] is None


def test_skip_existing_looks_at_the_contents(data):
    run_task(config([local()]))
    path = Path("outputs/model/CustomRetrieval_text_retrieval.json")
    stamp = path.stat().st_mtime_ns

    run_task(config([local()], overwrite_results=False))
    assert path.stat().st_mtime_ns == stamp

    run_task(config([local()], overwrite_results=False, limits=5))
    assert path.stat().st_mtime_ns != stamp


def test_two_models_whose_names_end_alike_do_not_share_a_folder(data):
    import shutil

    copies = [str(shutil.copytree(minilm(), Path(name) / "model")) for name in ("a", "b")]
    first, second = run_task(config([local(copy) for copy in copies]))
    third, *_ = run_task(config([local()]))

    assert len({result.path.parent for result in (first, second, third)}) == 3
    assert [json.loads(result.path.read_text())["model"] for result in (first, second, third)] == [*copies, minilm()]


DOTTED = """
from eyechart.types import ModelCard

VECTORS = {"query": (1, 0), "near": (1, 0.1), "far but long": (3, 9)}


class Dotted:
    card = ModelCard("python", "dotted", "1", "own", "fp32", 2, similarity="dot")

    def encode_images(self, batch):
        raise NotImplementedError

    def encode_texts(self, texts):
        return [VECTORS[text] for text in texts]


def make():
    return Dotted()
"""


def test_vectors_of_unit_length_make_a_dot_product_the_cosine(here):
    """Without the argument, a model that compares by dot product is scored by dot product."""
    write_collection(
        TextCollection(
            (Document("0", "near"), Document("1", "far but long")), (Document("0", "query"),), {"0": {"0": 1.0}}
        ),
        Path("data"),
    )
    Path("dotted.py").write_text(DOTTED)
    model = {"model_name_or_path": "python:dotted:make", "model_type": "python"}

    [by_dot] = run_task(config([model]))
    [by_cosine] = run_task(config([model], encode_kwargs={"normalize_embeddings": True}))

    assert by_dot.metrics["recall_at_1"] == 0.0
    assert by_cosine.metrics["recall_at_1"] == 1.0


def mixed_gallery(folder):
    """Six images, six texts, and one item that is both; each query belongs to one text or one image."""
    (folder / "images").mkdir(parents=True)
    for i in range(6):
        noise_image(i).save(folder / "images" / f"{i}.png")
    items = [{"_id": f"i{i}", "image": f"{i}.png"} for i in range(6)]
    items += [{"_id": f"t{i}", "text": f"text {i}"} for i in range(6)] + [{"_id": "b", "text": "b", "image": "0.png"}]
    write_lines(folder / "corpus.jsonl", items)
    write_lines(folder / "queries.jsonl", [{"_id": f"q{i}", "text": f"text {i}"} for i in range(4)])
    found = [f"{kind}{i}" for i, kind in enumerate("ttti")]
    rows = [{"query-id": f"q{i}", "corpus-id": name, "score": 1} for i, name in enumerate(found)]
    write_lines(folder / "qrels.jsonl", rows)


@pytest.mark.parametrize("tool", ["clip_benchmark", "MTEB"])
def test_a_gallery_of_images_and_texts_is_searched_by_either_tool(here, tool):
    mixed_gallery(Path("g"))
    model = {"model_name": "eyechart-tiny", "model_type": "onnx"}
    inner = {
        "clip_benchmark": {"eval": {"models": [model], "dataset_name": ["custom"], "data_dir": "g", "verbose": False}},
        "MTEB": {"models": [model], "eval": {"custom_tasks": [{"data_path": "g"}], "verbosity": 0}},
    }

    [result] = run_task({"eval_config": {"tool": tool, **inner[tool]}})

    assert result.task == "zeroshot_retrieval"
    assert result.details["gallery"] == {"image": 6, "text": 6, "image+text": 1}
    # A text that is its own query is found first; an image of noise is not.
    assert result.metrics["hit_rate_at_1"] == pytest.approx(0.75)


def test_a_reranker_of_texts_is_refused_where_there_are_images(here):
    mixed_gallery(Path("g"))
    reader = local(save_tiny_cross_encoder(Path("cross")), is_cross_encoder=True)
    models = [{"model_name": "eyechart-tiny", "model_type": "onnx"}, reader]

    with pytest.raises(ModelError, match=r"cross scores pairs of texts, but .* contains images"):
        run_task(config(models, "g"))


@pytest.mark.parametrize("encoding", ["gbk", "utf-16-le"])
def test_a_folder_in_another_encoding_is_searched_if_the_task_names_it(here, encoding):
    Path("data/qrels").mkdir(parents=True)
    texts = {
        "corpus.jsonl": '{"_id": "文一", "text": "the stock market 一二三"}\n{"_id": "文二", "text": "a dog"}\n',
        "queries.jsonl": '{"_id": "问", "text": "a small dog"}\n',
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\n问\t文二\t1\n",
    }
    for name, text in texts.items():
        Path("data", name).write_bytes(text.encode(encoding))

    with pytest.raises(DataError, match=f"set encoding: {encoding.replace('16-', '16')}"):
        run_task(config([local()]))
    [result] = run_task(config([local()], custom_tasks=[{"data_path": "data", "encoding": encoding}]))

    assert result.counts["scored"] == 1
    assert result.metrics["hit_rate_at_1"] == 1.0
