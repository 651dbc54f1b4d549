"""The client against a real server: concurrency, retries, budgets, laziness, ends."""

import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import count, islice

import pytest

from eyechart.api import ApiClient, Budget, Request, Retry, Usage, chat_request, user
from eyechart.api import errors as api_errors
from eyechart.api.limiter import read_retry_after
from eyechart.errors import DataError
from support.openai_server import Cut, Drip, OpenAIServer, Raw, Stall, Status, first_attempts, random_faults

QUICK = Retry(tries=8, first_wait=0.01, longest_wait=0.05)


def question(number):
    return chat_request(str(number), "test-model", [user(f"question {number}")])


def echo(body):
    return body["messages"][-1]["content"].replace("question", "answer")


def test_32_at_a_time_need_a_32nd_of_the_rounds():
    """A round ends when 32 requests are there: fewer than that in flight, at any time, and none is answered.

    The first 64 are answered as they come, so that the client sees how much the server takes.
    """
    rounds, begun = [], count()
    together = threading.Barrier(32, action=lambda: rounds.append(1), timeout=30)

    def answer(body):
        if next(begun) >= 64:
            together.wait()
        return echo(body)

    with OpenAIServer(answer=answer) as server:
        replies = list(ApiClient(server.api_base, concurrency=32).map(question(i) for i in range(256)))
    assert {reply.id: reply.value.text for reply in replies} == {str(i): f"answer {i}" for i in range(256)}
    assert (server.most_in_flight, len(rounds)) == (32, 6)


def test_every_request_is_answered_and_paid_once_though_a_fifth_fails():
    faults = random_faults(0.2, Status(500), Status(429), Cut(), Cut(in_body=False), Cut(reset=True), seed=3)
    with OpenAIServer(delay=0.01, answer=echo, fault=faults) as server:
        client = ApiClient(server.api_base, concurrency=32, retry=QUICK)
        replies = list(client.map(question(i) for i in range(200)))
    assert sorted(int(reply.id) for reply in replies) == list(range(200))
    assert all(reply.result().text == f"answer {reply.id}" for reply in replies)
    failed = [request for request in server.requests if request.outcome != "200"]
    assert len(failed) >= 20
    assert set(server.paid.values()) == {1}
    assert len(server.paid) == 200
    assert client.budget.used == Usage(requests=200 + len(failed), prompt_tokens=2000, completion_tokens=1000)
    assert sum(reply.tries for reply in replies) == 200 + len(failed)


def test_replies_come_as_they_arrive():
    slow_first = lambda path, body, attempt: Stall(0.5) if "question 0" in str(body) else None  # noqa: E731
    with OpenAIServer(fault=slow_first) as server:
        ids = [reply.id for reply in ApiClient(server.api_base, concurrency=4).map(question(i) for i in range(6))]
    assert ids[-1] == "0"
    assert sorted(ids) == [str(i) for i in range(6)]


def test_requests_are_read_only_as_fast_as_answers_are_taken():
    made = []

    def requests():
        for i in range(1000):
            made.append(i)
            yield question(i)

    with OpenAIServer() as server:
        replies = ApiClient(server.api_base, concurrency=4).map(requests())
        next(replies)
        time.sleep(0.3)
        assert len(made) <= 1 + 4 + 4 + 4, "taken, waiting to be taken, in flight, next"
        replies.close()
        seen = len(made)
        time.sleep(0.1)
        assert len(server.requests) <= len(made) == seen < 30, "leaving early ends the run"
    assert not [thread for thread in threading.enumerate() if thread.name == "eyechart-api"]


def test_bodies_are_built_when_their_turn_comes():
    built = []

    def request(i):
        def body():
            built.append(i)
            return {"model": "test-model", "messages": [{"role": "user", "content": f"question {i}"}]}

        return Request(str(i), "chat/completions", body, lambda answer: answer)

    with OpenAIServer(delay=0.02) as server:
        requests = [request(i) for i in range(50)]
        replies = ApiClient(server.api_base, concurrency=2).map(requests)
        assert len(list(islice(replies, 3))) == 3
        assert len(built) < 20
        replies.close()


def test_a_body_that_cannot_be_built_fails_alone():
    def broken():
        raise DataError("image 1: cannot be read")

    bad = Request("1", "chat/completions", broken, lambda answer: answer)
    with OpenAIServer() as server:
        replies = {reply.id: reply for reply in ApiClient(server.api_base).map([question(0), bad, question(2)])}
    assert replies["0"].error is None
    assert replies["2"].error is None
    assert replies["1"].error.message == "image 1: cannot be read"
    assert replies["1"].tries == 0


def test_when_the_source_of_requests_breaks_answers_in_flight_still_arrive():
    def requests():
        yield question(0)
        yield question(1)
        raise DataError("archive cut short")

    arrived = []
    with OpenAIServer(delay=0.2) as server, pytest.raises(DataError, match="archive cut short"):
        collect(ApiClient(server.api_base, concurrency=3).map(requests()), arrived)
    assert sorted(reply.id for reply in arrived) == ["0", "1"]


def collect(replies, into):
    for reply in replies:
        into.append(reply)


def test_a_fatal_error_stops_the_run_but_keeps_what_is_paid():
    wrong_key_later = lambda path, body, attempt: Status(401) if "question 5" in str(body) else None  # noqa: E731
    arrived = []
    with OpenAIServer(delay=0.05, fault=wrong_key_later) as server:
        replies = ApiClient(server.api_base, concurrency=2).map(question(i) for i in range(1000))
        with pytest.raises(api_errors.KeyRefusedError):
            collect(replies, arrived)
    assert sum(server.paid.values()) == len(arrived)
    assert len(server.requests) <= 8


def test_a_bug_in_a_parser_is_raised_as_it_is():
    broken = Request("0", "models", None, lambda answer: answer["no such key"])
    with OpenAIServer() as server, pytest.raises(KeyError, match="no such key"):
        ApiClient(server.api_base).call(broken)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_passing_failures_are_tried_again(status):
    with OpenAIServer(fault=first_attempts(2, Status(status)), answer=echo) as server:
        answer = ApiClient(server.api_base, retry=QUICK).call(question(1))
    assert answer.text == "answer 1"
    assert [request.outcome for request in server.requests] == [str(status), str(status), "200"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_lasting_failures_are_not(status):
    with OpenAIServer(fault=Status(status)) as server, pytest.raises(api_errors.ApiError):
        ApiClient(server.api_base, retry=QUICK).call(question(1))
    assert len(server.requests) == 1


@pytest.fixture
def pauses(monkeypatch):
    """Note the pauses that a client makes between two tries, without making them."""
    made = []

    async def pause(seconds):
        made.append(seconds)

    monkeypatch.setattr("eyechart.api.client.asyncio.sleep", pause)
    return made


def test_retry_after_in_seconds_is_honoured(pauses):
    limited = first_attempts(1, Status(429, headers={"Retry-After": "7"}))
    with OpenAIServer(fault=limited) as server:
        ApiClient(server.api_base, retry=QUICK).call(question(1))
    assert len(server.requests) == 2
    assert [7 < pause <= 7 + QUICK.first_wait for pause in pauses] == [True]


def test_retry_after_as_a_date_is_honoured(pauses):
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=200), usegmt=True)
    limited = first_attempts(1, Status(503, headers={"Retry-After": date}))
    with OpenAIServer(fault=limited) as server:
        ApiClient(server.api_base, retry=QUICK).call(question(1))
    assert len(server.requests) == 2
    assert [100 < pause <= 200 + QUICK.first_wait for pause in pauses] == [True]


def test_a_pause_of_an_hour_is_not_waited_for():
    with (
        OpenAIServer(fault=Status(429, headers={"Retry-After": "3600"})) as server,
        pytest.raises(api_errors.ServerBusyError, match="Retry-After: 3600 s"),
    ):
        ApiClient(server.api_base, retry=QUICK).call(question(1))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        ("0.02", 0.02),
        ("1e9", None),
        ("nan", None),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 40.0),
        ("Thu, 01 Jan 1970 00:00:10 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        (None, None),
        ("Thu, 99 Jan 1970 00:00:10 GMT", None),
    ],
)
def test_retry_after_forms(header, seconds):
    assert read_retry_after({"retry-after": header} if header is not None else {}, now=60.0) == seconds


def test_milliseconds_are_more_exact():
    assert read_retry_after({"retry-after-ms": "20", "retry-after": "1"}) == 0.02
    assert read_retry_after({"retry-after-ms": "soon", "retry-after": "0.25"}) == 0.25


def test_waits_double_up_to_a_limit_and_differ():
    retry = Retry(first_wait=1.0, longest_wait=8.0)
    waits = [[retry.wait(failures) for _ in range(200)] for failures in range(1, 7)]
    for wait, full in zip(waits, [1, 2, 4, 8, 8, 8], strict=True):
        assert full / 2 <= min(wait) < max(wait) <= full
        assert len(set(wait)) > 100
    assert retry.wait(10_000) <= 8


def test_the_cap_on_requests_is_exact():
    budget = Budget(max_requests=7)
    arrived = []
    with OpenAIServer(delay=0.02) as server:
        client = ApiClient(server.api_base, concurrency=4, budget=budget)
        with pytest.raises(api_errors.BudgetExceededError, match="limit of 7"):
            collect(client.map(question(i) for i in range(100)), arrived)
    assert len(server.requests) == 7
    assert len(arrived) == 7


def test_the_cap_on_tokens_stops_soon_after():
    with OpenAIServer(delay=0.02) as server:
        client = ApiClient(server.api_base, concurrency=2, budget=Budget(max_tokens=60))
        with pytest.raises(api_errors.BudgetExceededError, match="limit of 60"):
            list(client.map(question(i) for i in range(100)))
    assert 4 <= len(server.requests) <= 5, "15 tokens each, two in flight"


@pytest.mark.parametrize(
    "usage", [{}, {"prompt_tokens": None}, {"prompt_tokens": "7"}, {"prompt_tokens": -3, "completion_tokens": True}]
)
def test_nonsense_in_usage_counts_as_nothing(usage):
    with OpenAIServer(usage=usage) as server:
        client = ApiClient(server.api_base)
        client.call(question(1))
    assert client.budget.used == Usage(requests=1)


def test_a_server_that_never_answers_times_out():
    with OpenAIServer(fault=Stall(30.0)) as server:
        start = time.monotonic()
        client = ApiClient(server.api_base, timeout=0.3, retry=Retry(tries=2, first_wait=0.01))
        with pytest.raises(api_errors.AnswerTimeoutError, match=r"within 0\.3 s.*after 2 attempts"):
            client.call(question(1))
        assert time.monotonic() - start < 20


def test_a_server_that_drips_times_out_too():
    with OpenAIServer(fault=Drip(0.05)) as server:
        client = ApiClient(server.api_base, timeout=0.5, retry=Retry(tries=1))
        with pytest.raises(api_errors.AnswerTimeoutError):
            client.call(question(1))


def test_one_late_answer_does_not_stop_the_others():
    late = lambda path, body, attempt: Stall(5.0) if "question 3" in str(body) else None  # noqa: E731
    with OpenAIServer(fault=late) as server:
        client = ApiClient(server.api_base, timeout=2.0, retry=Retry(tries=1))
        replies = {reply.id: reply for reply in client.map(question(i) for i in range(10))}
    assert isinstance(replies.pop("3").error, api_errors.AnswerTimeoutError)
    assert all(reply.error is None for reply in replies.values())


def test_an_answer_beyond_the_size_limit_is_dropped():
    with OpenAIServer(fault=Raw(b"x" * 5_000_000)) as server:
        client = ApiClient(server.api_base, max_response_bytes=1_000_000)
        with pytest.raises(api_errors.BadAnswerError, match="larger than 1000000 bytes"):
            client.call(question(1))


def test_a_compressed_bomb_is_dropped_too():
    import gzip

    bomb = gzip.compress(b"0" * 50_000_000)
    with OpenAIServer(fault=Raw(bomb, {"Content-Encoding": "gzip"})) as server:
        client = ApiClient(server.api_base, max_response_bytes=1_000_000)
        with pytest.raises(api_errors.BadAnswerError, match="larger than 1000000 bytes"):
            client.call(question(1))


def test_works_inside_a_running_event_loop():
    """As in a notebook, whose cells run inside a loop of their own; that loop goes on afterwards."""
    import asyncio

    async def notebook_cell(client):
        replies = {reply.id: reply.result().text for reply in client.map(map(question, range(20)))}
        next(client.map(map(question, range(20))))  # left early
        await asyncio.sleep(0)
        return replies, client.call(question(1)).text

    with OpenAIServer(answer=echo) as server:
        replies, answer = asyncio.run(notebook_cell(ApiClient(server.api_base)))
    assert replies == {str(n): f"answer {n}" for n in range(20)}
    assert answer == "answer 1"


def test_works_in_a_thread_beside_the_loop():
    """As in a web application, which hands slow work to threads while its loop goes on."""
    import asyncio

    async def handler(client):
        return await asyncio.gather(*(asyncio.to_thread(client.call, question(n)) for n in range(3)))

    with OpenAIServer(answer=echo) as server:
        answers = asyncio.run(handler(ApiClient(server.api_base)))
    assert [answer.text for answer in answers] == ["answer 0", "answer 1", "answer 2"]


@pytest.mark.parametrize("settings", [{"concurrency": 0}, {"timeout": 0}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(ValueError, match="need concurrency"):
        ApiClient("http://localhost:1/v1", **settings)
