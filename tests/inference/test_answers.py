"""Where answers come from: the store or the model, what a server reports, and how old a stored answer may be."""

import time
from dataclasses import replace

import pytest

from eyechart.inference.answers import CachedGenerator, CachedReranker
from eyechart.io.stopwatch import timestamp
from eyechart.models.access import Access
from eyechart.models.lazy_model import LazyModel
from eyechart.models.registry import open_model
from eyechart.models.rerankers import Shortlist
from eyechart.store.answer_store import ResponseStore
from eyechart.types import Answer, Message, ModelSpec, Prompt
from support.openai_server import OpenAIServer, Status

PROMPTS = [Prompt(str(i), (Message("user", (f"question {i}",)),)) for i in range(4)]


@pytest.fixture
def server():
    with OpenAIServer(answer=lambda body: body["messages"][-1]["content"]) as running:
        yield running


def cached(server, folder, since=None):
    """Open the model as another run does: nothing is in memory."""
    spec = ModelSpec("api", "test-model", options={"api_base": server.api_base}, access=Access(since=since))
    return CachedGenerator(open_model(spec, "generator"), ResponseStore(folder))


def notices(model):
    return {notice.kind: (notice.count, str(notice.message)) for notice in model.notices()}


def test_stored_answers_are_counted_with_their_dates(server, tmp_path):
    list(cached(server, tmp_path).generate(PROMPTS[:3]))
    again = cached(server, tmp_path)
    list(again.generate(PROMPTS))

    count, text = notices(again)["stored_answers"]
    assert (count, len(server.requests)) == (3, 4)
    assert text.startswith("3 of 4 answers of test-model are stored ones, from 20")
    assert "--max-age 0" in text
    assert again.spent()["from_store"] == 3
    assert again.origins.details()["stored"]["answers"] == 3


def test_a_first_run_uses_no_stored_answers(server, tmp_path):
    model = cached(server, tmp_path)
    list(model.generate(PROMPTS))

    assert "stored_answers" not in notices(model)
    assert "cannot be verified" in notices(model)["model_note"][1]


def test_answers_that_are_too_old_are_requested_again_and_replaced(server, tmp_path):
    list(cached(server, tmp_path).generate(PROMPTS))
    server.answer = lambda body: "other"
    start = time.time()
    refreshed = cached(server, tmp_path, since=start)

    assert len(refreshed.unanswered(PROMPTS)) == 4
    assert {answer.text for _, answer in refreshed.generate(PROMPTS)} == {"other"}
    assert {answer.text for _, answer in cached(server, tmp_path).generate(PROMPTS)} == {"other"}
    assert {answer.text for _, answer in cached(server, tmp_path, since=start).generate(PROMPTS)} == {"other"}
    assert len(server.requests) == 8
    assert "stored_answers" not in notices(refreshed)


def test_answers_of_unknown_age_count_as_too_old(server, tmp_path):
    first = cached(server, tmp_path)
    for name, answer in list(first.generate(PROMPTS)):
        key = next(key for key, found in first.table._answers.items() if found == answer)
        first.table.add(key, replace(answer, origin={}, text=f"old {name}"))

    old = cached(server, tmp_path)
    assert sorted(answer.text for _, answer in old.generate(PROMPTS)) == [f"old {i}" for i in range(4)]
    assert "from ? to ?" in notices(old)["stored_answers"][1]
    assert len(cached(server, tmp_path, since=0.0).unanswered(PROMPTS)) == 4


def test_an_answer_of_the_same_moment_is_young_enough(server, tmp_path):
    model = cached(server, tmp_path)
    list(model.generate(PROMPTS[:1]))
    [answer] = model.table._answers.values()
    moment = next(
        second
        for second in (time.time() - i / 1000 for i in range(60_000))
        if timestamp(second) == answer.origin["time"]
    )

    assert cached(server, tmp_path, since=moment).unanswered(PROMPTS[:1]) == []
    assert cached(server, tmp_path, since=moment + 0.002).unanswered(PROMPTS[:1]) == ["0"]


def test_a_model_that_changes_behind_its_name_is_reported(server, tmp_path):
    server.report = {"model": "test-model", "system_fingerprint": "fp_1"}
    list(cached(server, tmp_path).generate(PROMPTS[:3]))
    server.report = {"model": "test-model-v2", "system_fingerprint": "fp_2"}
    again = cached(server, tmp_path)
    list(again.generate(PROMPTS))

    found = notices(again)
    assert found["served_model"] == (1, "The server reports another model than test-model: test-model-v2.")
    assert found["served_versions"][0] == 1
    assert "test-model (fp_1), test-model-v2 (fp_2)" in found["served_versions"][1]
    assert again.origins.details()["served_by"] == {"test-model (fp_1)": 3, "test-model-v2 (fp_2)": 1}


@pytest.mark.parametrize("report", [{"system_fingerprint": "fp_1"}, {"model": "test-model"}, {}, {"model": 7}])
def test_a_model_that_stays_the_same_is_not_reported(server, tmp_path, report):
    server.report = report
    list(cached(server, tmp_path).generate(PROMPTS[:3]))
    again = cached(server, tmp_path)
    list(again.generate(PROMPTS))

    assert not {"served_model", "served_versions"} & notices(again).keys()


def test_refused_parameters_are_counted_also_for_stored_answers(server, tmp_path):
    message = {"error": {"message": "Unsupported value: 'temperature' does not support 0 with this model."}}
    server.fault = lambda path, body, attempt: Status(400, message) if body and "temperature" in body else None
    list(cached(server, tmp_path).generate(PROMPTS[:2]))
    again = cached(server, tmp_path)
    list(again.generate(PROMPTS))

    count, text = notices(again)["refused_parameters"]
    assert (count, text.endswith("under another name: temperature.")) == (4, True)
    assert again.origins.details() | {"stored": None} == {
        "parameters": {"max_tokens": 2048, "temperature": 0},
        "refused_parameters": {"temperature": 4},
        "stored": None,
    }


def test_scores_of_a_reranker_have_a_date_too(server, tmp_path):
    shortlists = [Shortlist("q", "red car", ("a red car", "a cow"))]

    def run(since=None):
        spec = ModelSpec("api", "test-model", options={"api_base": server.api_base}, access=Access(since=since))
        model = CachedReranker(open_model(spec, "reranker"), ResponseStore(tmp_path))
        assert dict(model.score(shortlists)) == {"q": [1.0, 0.0]}
        return notices(model)

    assert "stored_answers" not in run()
    assert run()["stored_answers"][0] == 1
    assert len(server.requests) == 1
    assert "stored_answers" not in run(since=time.time())
    assert len(server.requests) == 2


def test_answers_of_a_local_model_have_no_age(tmp_path, server):
    class Local:
        def identity(self, spec):
            return "local"

    spec = ModelSpec("local", "m", access=Access(since=time.time()))
    origins = CachedGenerator(LazyModel(spec, Local()), ResponseStore(tmp_path)).origins
    table = ResponseStore(tmp_path).table("f")
    table.add("k", next(iter(dict(cached(server, tmp_path / "api").generate(PROMPTS[:1])).values())))

    assert origins.find(table, "k") is not None
    assert origins.notices() == []


def test_a_failed_answer_is_never_stored_whatever_a_generator_hands_over(server, tmp_path):
    class Careless:
        card = cached(server, tmp_path).card
        replies = iter([Answer("", error="busy"), Answer("fine")])

        def generate(self, messages):
            return next(self.replies)

        def generate_many(self, prompts, keep=lambda *_: None):
            for prompt in prompts:
                answer = next(self.replies)
                keep(prompt.id, answer)
                yield prompt.id, answer

    made = Careless()
    for text in ("", "fine", "fine"):
        model = cached(server, tmp_path)
        model.model._model = made
        [(_, answer)] = model.generate(PROMPTS[:1])
        assert answer.text == text
