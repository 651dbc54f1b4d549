"""How many requests are sent at a time: what the server takes, found out with few refusals."""

import asyncio
import itertools
import json

import pytest

from eyechart.api import ApiClient, Retry, chat_request, embed, rerank_request, user
from eyechart.api import errors as api_errors
from eyechart.api.embedding_forms import OPENAI, Asked
from eyechart.api.limiter import MANY, START, AdaptiveLimit, AdaptiveLimiter, RepeatedFailureError, TransientError
from support.openai_server import OpenAIServer, Raw, Status, first_attempts, random_faults

QUICK = Retry(tries=6, first_wait=0.01, longest_wait=0.05)


def question(number):
    return chat_request(str(number), "test-model", [user(f"question {number}")])


class Steps:
    """A server that takes ``room`` at a time, without time: what is sent is answered or refused, oldest first."""

    def __init__(self, flow, room):
        self.flow, self.room, self.sent, self.refused = flow, room, 0, 0

    def run(self, requests):
        serving, answered = [], 0
        while answered < requests:
            while len(serving) < self.flow.now:
                number = self.flow.round
                self.sent += 1
                if len(serving) >= self.room:
                    self.refused += 1
                    self.flow.refused(number, len(serving))
                else:
                    serving.append(number)
            serving.pop(0)
            self.flow.answered()
            answered += 1


def test_it_begins_with_few_and_grows_to_what_it_may():
    flow = AdaptiveLimit(32)
    assert flow.now == START
    for _ in range(32 - START):
        flow.answered()
    assert flow.now == 32
    flow.answered()
    assert flow.now == 32
    assert AdaptiveLimit(3).now == 3


def test_of_a_server_that_takes_eight_it_learns_that_it_is_eight():
    server = Steps(AdaptiveLimit(128), room=8)
    server.run(500)
    assert server.flow.now == 8
    assert server.refused < 12


def test_a_server_that_takes_more_later_is_sent_more():
    server = Steps(AdaptiveLimit(32), room=8)
    server.run(200)
    server.room = 32
    server.run(3000)
    assert server.flow.now == 32


def test_refusals_of_requests_that_were_under_way_together_count_once():
    flow = AdaptiveLimit(16)
    numbers = [flow.round] * 4
    for serving, number in zip((3, 2, 1, 0), numbers, strict=True):
        flow.refused(number, serving)
    assert (flow.refusals, flow.now) == (1, 1)
    flow.refused(flow.round, 0)
    assert flow.refusals == 2
    flow.answered()
    assert flow.refusals == 0


def test_nobody_passes_while_the_gate_is_held():
    async def play():
        gate, passed = AdaptiveLimiter(AdaptiveLimit(1)), []
        await gate.enter()

        async def worker(name):
            await gate.enter(first=name == "refused")
            passed.append(name)
            gate.failed()

        waiting = [asyncio.create_task(worker(name)) for name in ("new", "refused")]
        await asyncio.sleep(0)
        async with gate.hold():
            gate.failed()
            await asyncio.sleep(0)
            assert passed == []
        await asyncio.gather(*waiting)
        return passed

    assert asyncio.run(play()) == ["refused", "new"]


@pytest.mark.parametrize("concurrency", [32, 128])
def test_60_questions_to_a_server_that_takes_eight(concurrency):
    with OpenAIServer(delay=0.1, at_once=8) as server:
        client = ApiClient(server.api_base, concurrency=concurrency, retry=QUICK)
        replies = list(client.map(question(i) for i in range(60)))
    assert all(reply.error is None for reply in replies)
    assert len(server.paid) == 60
    assert set(server.paid.values()) == {1}
    assert len(server.requests) <= 60 + 20


def test_what_was_learnt_is_kept_for_the_next_requests_of_a_client():
    with OpenAIServer(delay=0.02, at_once=8) as server:
        client = ApiClient(server.api_base, concurrency=64, retry=QUICK)
        Steps(client.limit, room=8).run(200)  # as after a run, however busy this machine is
        list(client.map(question(i) for i in range(100, 140)))
        assert len(server.requests) <= 40 + 4


def test_embedding_and_rerank_servers_are_spared_too():
    with OpenAIServer(delay=0.05, at_once=2) as server:
        client = ApiClient(server.api_base, concurrency=32, retry=QUICK)
        embed(client, OPENAI, Asked("test-model"), [(f"text {i}",) for i in range(40)], batch_size=1)
        embedded = len(server.requests)
        lists = [rerank_request(str(i), "test-model", f"query {i}", ["a b", "c"]) for i in range(40)]
        assert all(reply.error is None for reply in client.map(lists))
    assert embedded <= 40 + 15
    assert len(server.requests) - embedded <= 40 + 10


def test_in_a_storm_of_refusals_nothing_is_lost_and_nothing_paid_twice():
    storm = random_faults(0.3, Status(429), Status(429, headers={"Retry-After": "0.01"}), seed=5)
    with OpenAIServer(fault=storm) as server:
        client = ApiClient(server.api_base, concurrency=16, retry=QUICK)
        replies = list(client.map(question(i) for i in range(100)))
    assert all(reply.error is None for reply in replies)
    assert (len(server.paid), set(server.paid.values())) == (100, {1})


def test_429_for_ever_stops_the_run_soon():
    with OpenAIServer(fault=Status(429)) as server:
        client = ApiClient(server.api_base, concurrency=8, retry=QUICK)
        with pytest.raises(api_errors.ServerBusyError, match="status 429"):
            list(client.map(question(i) for i in range(200)))
    assert len(server.requests) <= 8 + QUICK.refusals


def test_a_request_that_is_always_refused_fails_alone():
    always = lambda path, body, attempt: Status(429) if "question 7" in json.dumps(body) else None  # noqa: E731
    soon = Retry(tries=6, first_wait=0.001, longest_wait=0.005)  # it is tried while there are others
    with OpenAIServer(fault=always, delay=0.05) as server:
        client = ApiClient(server.api_base, concurrency=4, retry=soon)
        replies = {reply.id: reply for reply in client.map(question(i) for i in range(50) if not 70 <= i < 80)}
    assert isinstance(replies.pop("7").error, api_errors.ServerBusyError)
    assert all(reply.error is None for reply in replies.values())


@pytest.mark.parametrize("status", [400, 422, 500])
def test_requests_that_all_fail_alike_stop_the_run(status):
    with OpenAIServer(fault=Status(status)) as server:
        client = ApiClient(server.api_base, concurrency=4, retry=Retry(tries=2, first_wait=0.001))
        with pytest.raises(
            RepeatedFailureError, match=f"{MANY} consecutive requests failed with the same error.*{status}"
        ):
            list(client.map(question(i) for i in range(500)))
    assert len(server.requests) <= 2 * (MANY + 4)


def test_names_of_single_requests_do_not_make_failures_differ():
    numbers = itertools.count()

    def fault(path, body, attempt):
        return Status(500, {"error": {"message": f"failed (request id: 3f{next(numbers):08x}-7a11-req)"}})

    with OpenAIServer(fault=fault) as server:
        client = ApiClient(server.api_base, concurrency=4, retry=Retry(tries=2, first_wait=0.001))
        with pytest.raises(RepeatedFailureError, match="request id"):
            list(client.map(question(i) for i in range(500)))
    assert len(server.requests) <= 2 * (MANY + 4)


def test_images_that_are_refused_in_a_row_do_not_stop_a_run_that_has_answers():
    refused = lambda path, body, attempt: Status(400) if "question 1" in json.dumps(body) else None  # noqa: E731
    numbers = [0, *range(100, 100 + 2 * MANY), 2]
    with OpenAIServer(fault=refused) as server:
        client = ApiClient(server.api_base, concurrency=1)
        replies = [reply.error is None for reply in client.map(map(question, numbers))]
    assert replies == [True, *[False] * 2 * MANY, True]


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"message": "upstream failed", "type": "server_error"}}',
        b'{"object": "error", "message": "upstream failed"}',
        b'{"code": "InternalError", "message": "upstream failed"}',
        b'{"detail": "upstream failed"}',
        b'{"error": {"message": "slow down", "code": 429}}',
        b'{"code": 500, "msg": "busy", "success": false}',
        b'{"error": {"message": "upstream failed"}, "choices": []}',
        b'{"choices": [{"error": {"code": 502, "message": "upstream failed"}, "message": {"content": "A ha"}}]}',
        b'{"choices": null}',
        b"{}",
        b"null",
        b'{"choices": [{"message": {"content": "A half',
        b"",
    ],
)
def test_an_error_or_half_an_answer_behind_a_200_is_tried_again(body):
    with OpenAIServer(fault=first_attempts(2, Raw(body))) as server:
        answer = ApiClient(server.api_base, retry=QUICK).call(question(1))
    assert answer.text
    assert len(server.requests) == 3


def test_an_answer_that_arrives_in_many_pieces_is_whole():
    text = "".join(f"{i} " for i in range(100_000))
    body = json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode()
    with OpenAIServer(fault=Raw(body)) as server:
        answer = ApiClient(server.api_base, retry=QUICK).call(question(1))

    assert answer.text.strip() == text.strip()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"error": {"message": "no such key", "code": "invalid_api_key"}}', "KeyRefusedError"),
        (b'{"error": {"message": "who?", "code": 401}}', "KeyRefusedError"),
        (b'{"error": {"message": "pay first", "code": "insufficient_quota"}}', "KeyRefusedError"),
        (b'{"error": {"message": "what?", "code": "model_not_found"}}', "ModelNotServedError"),
        (b"<html>login</html>", "BadAnswerError"),
    ],
)
def test_what_will_not_pass_is_not_tried_again_behind_a_200_either(body, kind):
    with OpenAIServer(fault=Raw(body)) as server, pytest.raises(api_errors.ApiError) as caught:
        ApiClient(server.api_base, retry=QUICK).call(question(1))
    assert type(caught.value).__name__ == kind
    assert len(server.requests) == 1


@pytest.mark.parametrize("failures", [1, 2, 10])
def test_the_time_that_a_server_asks_for_is_exceeded_by_a_short_jitter_only(failures):
    failure = TransientError(api_errors.ApiError("busy"), retry_after=5.0)

    waits = [Retry(first_wait=0.5).after(failure, failures) for _ in range(20)]

    assert all(5.25 <= wait <= 5.5 for wait in waits)


def test_fractions_of_a_second_are_waited_for(monkeypatch):
    pauses = []

    async def pause(seconds):
        pauses.append(seconds)

    monkeypatch.setattr("eyechart.api.client.asyncio.sleep", pause)
    for headers, least in (({"Retry-After": "0.25"}, 0.25), ({"retry-after-ms": "40", "Retry-After": "1"}, 0.04)):
        with OpenAIServer(fault=first_attempts(1, Status(429, headers=headers))) as server:
            ApiClient(server.api_base, retry=QUICK).call(question(1))
        assert least <= pauses.pop() <= least + QUICK.first_wait
