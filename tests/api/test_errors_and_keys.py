"""Every kind of failure gives one clear message, and none of them shows the key."""

import base64
import copy
import json
import logging
import pickle
import socket
import traceback

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eyechart.api import ApiClient, Budget, Request, Retry, Secret, chat_request, find_key, parse_chat, user
from eyechart.api import errors as api_errors
from eyechart.api.transport import check_api_base, is_loopback, read_error
from eyechart.errors import UsageError
from eyechart.models.api_models import read_answer
from support.openai_server import Cut, OpenAIServer, Raw, Stall, Status, first_attempts

KEY = "sk-very-secret-0123456789"
ONCE = Retry(tries=1)
QUESTION = chat_request("1", "test-model", [user("What is this?")])


def failure(server_settings, **client_settings):
    with OpenAIServer(**server_settings) as server:
        client = ApiClient(server.api_base, KEY, retry=ONCE, **client_settings)
        with pytest.raises(api_errors.ApiError) as caught:
            client.call(QUESTION)
    return caught.value


@pytest.mark.parametrize(
    ("server_settings", "kind", "words"),
    [
        ({"key": "another"}, "KeyRefusedError", "rejected the API key (status 401)"),
        ({"fault": Status(403, {"detail": "no access"})}, "KeyRefusedError", "(status 403): 'no access'"),
        ({"fault": Status(404, {"detail": "Not Found"})}, "EndpointMissingError", "has no endpoint /chat/completions"),
        ({"models": ("other",)}, "ModelNotServedError", "does not serve the model 'test-model'"),
        ({"fault": Status(400, {"error": {"message": "too long"}})}, "RequestRefusedError", "(status 400): 'too long'"),
        ({"fault": Status(422, {"detail": [{"msg": "bad"}]})}, "RequestRefusedError", '[{"msg": "bad"}]'),
        ({"fault": Status(413, b"<h1>Too Large</h1>")}, "RequestRefusedError", "<h1>Too Large</h1>"),
        ({"fault": Status(500, b"")}, "ServerBusyError", "failed with status 500"),
        ({"fault": Status(429)}, "ServerBusyError", "failed with status 429"),
        (
            {"fault": Status(429, {"error": {"message": "Quota", "code": "insufficient_quota"}})},
            "KeyRefusedError",
            "no credit left",
        ),
        (
            {"fault": Status(400, {"error": {"message": "what?", "code": "model_not_found"}})},
            "ModelNotServedError",
            "does not serve",
        ),
        ({"fault": Cut()}, "ConnectionCutError", "closed the connection"),
        ({"fault": Cut(in_body=False)}, "ConnectionCutError", "closed the connection"),
        ({"fault": Cut(reset=True)}, "ConnectionCutError", "closed the connection"),
        ({"fault": Raw(b"<html>login</html>")}, "BadAnswerError", "did not return JSON: '<html>login</html>'"),
        ({"fault": Raw(b"")}, "BadAnswerError", "did not return JSON: ''"),
        ({"fault": Raw(b"[1, 2]")}, "BadAnswerError", "did not return a JSON object: '[1, 2]'"),
        ({"fault": Raw(b"\xff\xfe\x00")}, "BadAnswerError", "did not return JSON"),
        ({"fault": Raw(b'{"a":' * 100_000)}, "BadAnswerError", "did not return JSON"),
        ({"fault": Raw(b"no gzip", {"Content-Encoding": "gzip"})}, "BadAnswerError", "cannot be decompressed"),
        ({"fault": Raw(b'{"choices": []}')}, "BadAnswerError", "not a chat completion"),
        ({"fault": Raw(b'{"error": {"message": "oops"}}')}, "BadAnswerError", "oops"),
        ({"fault": Status(302, headers={"Location": "http://evil.test/"})}, "RedirectRefusedError", "evil.test"),
        ({"fault": Stall(2.0)}, "AnswerTimeoutError", "within 0.4 s"),
    ],
)
def test_each_failure_has_its_message_and_hides_the_key(server_settings, kind, words):
    stalled = isinstance(server_settings.get("fault"), Stall)
    error = failure(server_settings, timeout=0.4 if stalled else 60)
    assert type(error).__name__ == kind
    assert words in error.message
    assert "\n" not in error.message
    assert KEY not in show_everything(error)


def show_everything(error):
    """A traceback with all causes and the variables of every frame but those of this file: the worst case."""
    while error.__traceback__.tb_frame.f_code.co_filename == __file__:
        error.__traceback__ = error.__traceback__.tb_next
    shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "eyechart" in shown
    return shown


def test_a_dead_server_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        client = ApiClient(f"http://127.0.0.1:{port}/v1", KEY, retry=Retry(tries=2, first_wait=0.01))
        with pytest.raises(api_errors.UnreachableError, match=f"Cannot connect to http://127.0.0.1:{port}/v1") as e:
            client.call(QUESTION)
    assert "Start the server" in e.value.advice
    assert KEY not in show_everything(e.value)


def test_a_host_without_address_is_named():
    client = ApiClient("http://no-such-host.invalid/v1", retry=ONCE)
    with pytest.raises(api_errors.UnreachableError, match=r"no-such-host\.invalid"):
        client.call(QUESTION)


def test_long_answers_are_cut_in_messages():
    error = failure({"fault": Raw(b"garbage " * 1000)})
    assert len(error.message) < 350
    assert error.message.count("garbage") == 25


def test_control_characters_do_not_reach_the_terminal():
    error = failure({"fault": Status(400, {"error": {"message": "a\x1b[31mred\x07\r\nb\u202e"}})})
    assert error.message.endswith("'a [31mred b'")


def test_a_wrong_key_that_the_server_repeats_is_hidden():
    error = failure({"key": "another"})
    assert "Incorrect API key provided: ***." in error.message


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_the_key_is_never_taken_to_another_server(code):
    with OpenAIServer() as other:
        elsewhere = {"Location": f"http://localhost:{other.port}/v1/chat/completions"}
        error = failure({"fault": Status(code, headers=elsewhere)})
        assert other.requests == []
    assert "set api_base to it" in error.advice


def echoing(text: str):
    """A server whose answer holds a text as it stands between the quotes of a JSON string."""
    return Raw(b'{"choices": [{"message": {"content": "I saw %s here"}}]}' % text.encode())


ESCAPED = "".join(f"\\u{ord(char):04X}" for char in KEY)


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        KEY.replace("s", "\\u0073"),
        ESCAPED,
        KEY.upper(),
        "".join(f"%{ord(char):02x}" for char in KEY),
        KEY.encode().hex(),
        base64.b64encode(KEY.encode()).decode(),
        KEY.replace("-", "&#45;"),
    ],
)
def test_an_answer_that_contains_the_key_is_a_failed_request(text):
    with OpenAIServer(fault=echoing(text)) as server:
        client = ApiClient(server.api_base, KEY, retry=Retry(tries=3, first_wait=0.01))
        request = Request("1", "chat/completions", {"model": "m"}, lambda body: read_answer(parse_chat(body)))
        with pytest.raises(api_errors.KeyInAnswerError, match="contains the API key") as caught:
            client.call(request)
    assert len(server.requests) == 1, "the answer would be the same"
    assert KEY not in show_everything(caught.value)


def test_a_key_in_several_parts_of_an_answer_is_found():
    parts = [{"type": "text", "text": KEY[:9]}, {"type": "text", "text": KEY[9:]}]
    error = failure({"fault": Raw(json.dumps({"choices": [{"message": {"content": parts}}]}).encode())})
    assert isinstance(error, api_errors.KeyInAnswerError)


def test_the_tokens_of_an_answer_that_contains_the_key_are_counted():
    with OpenAIServer(answer=lambda body: KEY) as server:
        client = ApiClient(server.api_base, KEY, retry=ONCE)
        with pytest.raises(api_errors.KeyInAnswerError):
            client.call(QUESTION)
    assert client.budget.used.tokens == 15


@pytest.mark.parametrize("key", ["None", "EMPTY", "token", "sk-no-key", KEY])
@pytest.mark.parametrize("answer", ["None of the above: the token is EMPTY, sk-no-key", "sk-very-secret-012345678"])
def test_no_answer_is_altered(key, answer):
    with OpenAIServer(answer=lambda body: answer) as server:
        assert ApiClient(server.api_base, key).call(QUESTION).text == answer


@pytest.mark.parametrize("shape", [b'{"error": {"message": "bad %s"}}', b'{"choices": "%s"}', b"bad %s", b'["%s"]'])
@pytest.mark.parametrize("status", [200, 400, 401, 500])
@pytest.mark.parametrize("text", [KEY, ESCAPED, KEY.replace("s", "\\u0073")])
def test_no_error_shows_an_escaped_key(shape, status, text):
    body = shape % text.encode()
    error = failure({"fault": Raw(body) if status == 200 else Status(status, body)})
    shown = show_everything(error)
    assert KEY not in shown
    assert text not in shown


def test_the_key_is_sent_to_the_right_server():
    with OpenAIServer(key=KEY) as server:
        ApiClient(server.api_base, KEY).call(QUESTION)
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"


def test_no_log_at_any_level_shows_the_key(caplog):
    caplog.set_level(logging.DEBUG)
    with OpenAIServer(fault=first_attempts(1, Status(500))) as server:
        ApiClient(server.api_base, KEY, retry=Retry(tries=2, first_wait=0.01)).call(QUESTION)
    assert "/v1/chat/completions" in caplog.text, "the HTTP library does log"
    assert KEY not in caplog.text


def test_nothing_that_holds_the_key_shows_it():
    client = ApiClient("http://localhost:1/v1", KEY, budget=Budget(max_requests=3))
    secret = Secret(KEY)
    shown = f"{client!r} {client.transport!r} {secret!r} {secret} {secret:>10} {[secret]} {client.budget!r}"
    assert KEY not in shown
    assert "***" in shown


def test_a_secret_is_compared_copied_and_sent_to_a_worker():
    secret = Secret(KEY)
    assert secret == Secret(KEY)
    assert secret != Secret("other")
    assert secret != KEY
    assert copy.deepcopy({"key": secret})["key"].reveal() == KEY
    assert pickle.loads(pickle.dumps(secret)).reveal() == KEY  # noqa: S301 - our own


def test_a_budget_that_is_sent_to_a_worker_goes_on_counting_there():
    budget = Budget(max_requests=3)
    budget.take_request()

    there = pickle.loads(pickle.dumps(budget))  # noqa: S301 - our own
    there.take_request()
    there.take_request()

    assert (there.used.requests, budget.used.requests) == (3, 1)
    with pytest.raises(api_errors.BudgetExceededError):
        there.take_request()


def test_keys_come_from_the_argument_then_the_environment_then_nowhere(monkeypatch):
    for name in ("EYECHART_API_KEY", "OPENAI_API_KEY", "MY_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert find_key().reveal() == "EMPTY"
    monkeypatch.setenv("OPENAI_API_KEY", "from-openai")
    assert find_key().reveal() == "from-openai"
    monkeypatch.setenv("EYECHART_API_KEY", " from-eyechart\n")
    assert find_key().reveal() == "from-eyechart"
    monkeypatch.setenv("MY_KEY", "mine")
    assert find_key(variable="MY_KEY").reveal() == "mine"
    assert find_key("given", variable="MY_KEY").reveal() == "given"
    with pytest.raises(UsageError, match="NO_SUCH_KEY is not set"):
        find_key(variable="NO_SUCH_KEY")


@pytest.mark.parametrize("key", ["sk-two\nlines", "sk with space", "sk-schlüssel", "sk-\x00"])
def test_a_key_that_no_header_can_hold_is_refused_without_showing_it(key):
    with pytest.raises(UsageError, match="line break") as caught:
        ApiClient("http://localhost:1/v1", key)
    assert key not in str(caught.value)


@pytest.mark.parametrize("address", ["localhost:8000", "ftp://x/v1", "", "http://", "http://x:port/v1", "file:///etc"])
def test_an_address_must_be_http(address):
    with pytest.raises(UsageError, match="not an http"):
        check_api_base(address)


@pytest.mark.parametrize("address", ["http://me:pw@host/v1", "http://host/v1?key=abc"])
def test_an_address_holds_no_secrets(address):
    with pytest.raises(UsageError, match="must not contain") as caught:
        check_api_base(address)
    assert "pw" not in str(caught.value)
    assert "abc" not in str(caught.value)


def test_addresses_are_tidied():
    assert check_api_base(" https://host:8000/v1/ ") == "https://host:8000/v1"
    assert is_loopback("http://localhost:1/v1")
    assert is_loopback("http://[::1]:1/v1")
    assert not is_loopback("http://192.168.0.1/v1")
    assert not is_loopback("http://localhost.example.com/v1")


def test_a_proxy_of_the_environment_is_not_asked_for_loopback(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with OpenAIServer() as server:
        ApiClient(server.api_base, retry=ONCE).call(QUESTION)


# check()


def test_check_lists_the_models():
    with OpenAIServer(models=("a", "test-model"), key=KEY) as server:
        client = ApiClient(server.api_base, KEY)
        assert client.check("test-model") == ("a", "test-model")
        assert client.check() == ("a", "test-model")
        assert client.budget.used.requests == 0, "a check is not part of the budget"


def test_check_says_which_models_are_served_and_the_nearest():
    with OpenAIServer(models=("InternVL3-8B", "Qwen2.5-VL")) as server:
        client = ApiClient(server.api_base)
        with pytest.raises(api_errors.ModelNotServedError, match=r"serves: InternVL3-8B, Qwen2\.5-VL") as caught:
            client.check("internvl3_8b")
    assert caught.value.advice == "Did you mean InternVL3-8B?"


def test_check_knows_a_wrong_key_and_a_dead_server():
    with OpenAIServer(key="another") as server:
        with pytest.raises(api_errors.KeyRefusedError):
            ApiClient(server.api_base, KEY).check("test-model")
        dead = ApiClient(server.api_base.replace(str(server.port), "9"), KEY)
        with pytest.raises(api_errors.UnreachableError):
            dead.check("test-model")


@pytest.mark.parametrize(
    "settings",
    [{"models": None}, {"fault": Status(405)}, {"fault": Raw(b"{}")}, {"fault": Raw(b'{"data": [1, null]}')}],
)
def test_check_lets_pass_servers_without_a_list(settings):
    with OpenAIServer(**settings) as server:
        assert ApiClient(server.api_base).check("test-model") == ()


def test_check_reads_other_forms_of_the_list():
    with OpenAIServer(fault=Raw(b'{"data": {"id": "one"}}')) as server:
        assert ApiClient(server.api_base).check() == ("one",)
    with OpenAIServer(fault=Raw(b'{"models": [{"name": "two"}, "three"]}')) as server:
        assert ApiClient(server.api_base).check() == ("two", "three")


@settings(max_examples=300)
@given(st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(lambda v: repr(v).encode()))
def test_error_bodies_of_any_shape_are_read(content):
    code, words = read_error(content)
    assert isinstance(code, str)
    assert isinstance(words, str)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"error": {"message": "m", "code": "c"}}', ("c", "m")),
        (b'{"error": "plain"}', ("", "plain")),
        (b'{"message": "m", "code": 404}', ("404", "m")),
        (b'{"detail": "d"}', ("", "d")),
        (b'{"error": {}}', ("", '{"error": {}}')),
        (b"text", ("", "text")),
    ],
)
def test_the_usual_error_bodies(content, expected):
    assert read_error(content) == expected
