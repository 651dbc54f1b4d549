"""Generators behind a real server."""

import base64
from dataclasses import replace

import pytest
from PIL import Image

from eyechart.errors import UsageError
from eyechart.io.images import ImageRef, decode_image
from eyechart.models.access import Access
from eyechart.models.api_models import ApiGeneratorFamily
from eyechart.types import BatchGenerator, Generator, Message, ModelSpec, Prompt
from support.data import encoded, noise_image
from support.openai_server import OpenAIServer, Status

FAMILY = ApiGeneratorFamily()


def spec_of(server, **options):
    return ModelSpec("api", "test-model", options={"api_base": server.api_base, **options})


def question(text="What?"):
    return (Message("system", ("Be brief.",)), Message("user", (ImageRef("test", data=encoded(noise_image(0))), text)))


def test_a_conversation_is_sent_in_order_with_its_settings():
    with OpenAIServer(answer=lambda _: "A cat.") as server:
        generator = FAMILY.load(spec_of(server, settings={"temperature": 0.5, "max_tokens": 9}))
        answer = generator.generate(question())

    body = server.requests[-1].body
    assert (answer.text, answer.finish_reason) == ("A cat.", "stop")
    assert answer.usage == {"prompt_tokens": 10, "completion_tokens": 5}
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert [part["type"] for part in body["messages"][1]["content"]] == ["image_url", "text"]
    assert (body["temperature"], body["max_tokens"]) == (0.5, 9)
    assert isinstance(generator, Generator)
    assert isinstance(generator, BatchGenerator)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "<think>Hm, ears.</think>A cat."},
        {"role": "assistant", "content": "A cat.", "reasoning_content": "Hm, ears."},
    ],
)
def test_thinking_is_set_apart(message):
    with OpenAIServer(answer=lambda _: message) as server:
        answer = FAMILY.load(spec_of(server)).generate(question())

    assert (answer.text, answer.thinking) == ("A cat.", "Hm, ears.")


def test_a_broken_image_is_an_answer_with_an_error_and_costs_nothing():
    broken = Message("user", (ImageRef("bad.png", data=b"junk"), "What?"))
    with OpenAIServer() as server:
        answers = dict(
            FAMILY.load(spec_of(server)).generate_many([Prompt("bad", (broken,)), Prompt("good", question())])
        )

    assert "bad.png" in answers["bad"].error
    assert not answers["good"].error
    assert sum(server.paid.values()) == 1


def test_only_the_part_of_an_image_that_is_meant_is_sent():
    part = ImageRef("test", data=encoded(noise_image(0))).crop(2, 3, 12, 9)
    with OpenAIServer() as server:
        FAMILY.load(spec_of(server)).generate((Message("user", (part, "What?")),))

    url = server.requests[-1].body["messages"][0]["content"][0]["image_url"]["url"]
    sent = decode_image(base64.b64decode(url.partition(",")[2]), "sent")
    assert sent.size == (10, 6)


def test_the_fingerprint_changes_with_server_model_and_settings_only():
    base = {"api_base": "http://localhost:1/v1"}
    specs = [
        ModelSpec("api", "a", options=base),
        ModelSpec("api", "b", options=base),
        ModelSpec("api", "a", options={"api_base": "http://localhost:2/v1"}),
        ModelSpec("api", "a", options={**base, "settings": {"seed": 1}}),
        ModelSpec("api", "a", options={**base, "max_edge": 100}),
    ]

    prints = [FAMILY.load(spec).card.fingerprint for spec in specs]

    assert len(set(prints)) == 5
    assert FAMILY.load(replace(specs[0], access=Access(concurrency=99, timeout=1))).card.fingerprint == prints[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs the address of its server"),
        ({"api_base": "localhost:8000"}, "not an http"),
        ({"api_base": "http://x/v1", "settings": {"messages": []}}, "reserved by Eyechart"),
    ],
)
def test_what_cannot_work_is_refused_without_asking(options, said):
    with pytest.raises(UsageError, match=said):
        FAMILY.check(ModelSpec("api", "m", options=options))


def sent(server):
    """Return the parameters of each request, without model and messages."""
    bodies = [request.body for request in server.requests if request.body]
    return [{name: value for name, value in body.items() if name not in ("model", "messages")} for body in bodies]


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, {"temperature": 0, "max_tokens": 2048}),
        ({"temperature": 0.7}, {"temperature": 0.7, "max_tokens": 2048}),
        ({"max_tokens": 9}, {"temperature": 0, "max_tokens": 9}),
        ({"temperature": None}, {"max_tokens": 2048}),
        ({"max_completion_tokens": 9}, {"temperature": 0, "max_completion_tokens": 9}),
        ({"seed": 1}, {"temperature": 0, "max_tokens": 2048, "seed": 1}),
    ],
)
def test_a_request_has_temperature_0_and_2048_tokens_unless_told_otherwise(settings, wanted):
    with OpenAIServer() as server:
        spec = spec_of(server, settings=settings)
        FAMILY.load(spec).generate(question())

    assert sent(server) == [wanted]
    assert FAMILY.parameters(spec) == wanted


def test_large_images_are_sent_in_full_unless_a_limit_is_set():
    large = Image.linear_gradient("L").resize((3000, 2500)).convert("RGB")
    prompt = (Message("user", (ImageRef("test", data=encoded(large)), "What?")),)
    with OpenAIServer() as server:
        plain, limited = FAMILY.load(spec_of(server)), FAMILY.load(spec_of(server, max_edge=300))
        plain.generate(prompt)
        limited.generate(prompt)

    urls = [request.body["messages"][0]["content"][0]["image_url"]["url"] for request in server.requests]
    sizes = [decode_image(base64.b64decode(url.partition(",")[2]), "sent").size for url in urls]
    assert sizes == [(3000, 2500), (300, 250)]
    assert [any("downscaled" in note for note in model.card.notes) for model in (plain, limited)] == [False, True]


NO_TOKENS = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
NO_WARMTH = (
    "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."
)


def reasoning(path, body, attempt):
    """Refuse parameters like a reasoning model of OpenAI."""
    if body and "max_tokens" in body:
        return Status(400, {"error": {"message": NO_TOKENS, "param": "max_tokens", "code": "unsupported_parameter"}})
    if body and "temperature" in body:
        return Status(400, {"error": {"message": NO_WARMTH, "param": "temperature", "code": "unsupported_value"}})
    return None


def refuse(status, body, *names):
    """Make a server that answers with an error as long as one of some parameters is sent."""
    return lambda path, sent, attempt: Status(status, body) if sent and set(names) & set(sent) else None


def test_parameters_that_a_reasoning_model_refuses_are_replaced_or_left_out_for_the_run():
    prompts = [Prompt(str(i), question(f"What {i}?")) for i in range(5)]
    with OpenAIServer(fault=reasoning, answer=lambda _: "A cat.") as server:
        generator = FAMILY.load(replace(spec_of(server), access=Access(concurrency=1)))
        answers = dict(generator.generate_many(prompts))

    assert [answer.error for answer in answers.values()] == [""] * 5
    assert {answer.origin["refused"] for answer in answers.values()} == {
        "max_tokens -> max_completion_tokens, temperature"
    }
    assert sent(server)[2:] == [{"max_completion_tokens": 2048}] * 5  # refused twice, then never again


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"message": NO_WARMTH}}),
        (400, {"message": "temperature is deprecated for this model", "type": "invalid_request_error"}),
        (
            422,
            {
                "detail": [
                    {"type": "extra_forbidden", "loc": ["body", "temperature"], "msg": "Extra inputs are not permitted"}
                ]
            },
        ),
        (400, {"error": {"message": "openai does not support parameters: {'temperature': 0}, for model=o1"}}),
        (400, {"error": {"message": "bad request", "param": "temperature"}}),
        (400, {"error": "`temperature` (=0) must be strictly positive"}),
    ],
)
def test_refusals_have_many_forms(status, body):
    with OpenAIServer(fault=refuse(status, body, "temperature")) as server:
        answer = FAMILY.load(spec_of(server)).generate(question())

    assert (answer.error, answer.origin["refused"]) == ("", "temperature")


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "Invalid image: the temperature chart cannot be decoded", "param": "messages"}},
        {"error": {"message": "The prompt asks for a temperature."}},
        {"error": {"message": "This model's maximum context length is 4096 tokens."}},
        {"error": {"message": "Unsupported parameter: 'seed'"}},
    ],
)
def test_an_error_for_another_reason_stays_a_failure(body):
    with OpenAIServer(fault=lambda path, sent, attempt: Status(400, body) if sent else None) as server:
        generator = FAMILY.load(spec_of(server))
        answer = generator.generate(question())

    assert "status 400" in answer.error
    assert sent(server) == [{"temperature": 0, "max_tokens": 2048}]
    assert generator.refused == {}


def test_a_request_that_fails_anyway_drops_no_parameter_for_the_others():
    """An error may name parameters although another one is the cause: what helps nothing changes nothing."""
    bad = {"error": {"message": "Invalid request: temperature=0, max_tokens=2048, image is broken"}}

    def fault(path, body, attempt):
        return Status(400, bad) if body and "broken" in str(body["messages"]) else None

    prompts = [Prompt("a", question("broken")), Prompt("b", question("whole"))]
    with OpenAIServer(fault=fault) as server:
        generator = FAMILY.load(replace(spec_of(server), access=Access(concurrency=1)))
        answers = dict(generator.generate_many(prompts))

    assert "status 400" in answers["a"].error
    assert (answers["b"].error, answers["b"].origin.get("refused")) == ("", None)
    assert sent(server)[-1] == {"temperature": 0, "max_tokens": 2048}


def test_a_server_that_refuses_a_parameter_even_without_it_is_not_asked_twice_for_every_prompt():
    stubborn = Status(400, {"error": {"message": "temperature is not supported"}})
    prompts = [Prompt(str(i), question(f"What {i}?")) for i in range(6)]
    with OpenAIServer(fault=lambda path, body, attempt: stubborn if body else None) as server:
        generator = FAMILY.load(replace(spec_of(server), access=Access(concurrency=1)))
        answers = dict(generator.generate_many(prompts))

    assert all("status 400" in answer.error for answer in answers.values())
    assert len(sent(server)) == 7


def test_a_higher_temperature_of_a_single_prompt_is_left_out_too():
    with OpenAIServer(fault=refuse(400, {"error": {"message": NO_WARMTH}}, "temperature")) as server:
        [(_, answer)] = FAMILY.load(spec_of(server)).generate_many([Prompt("", question(), temperature=0.5)])

    assert (answer.error, sent(server)[-1]) == ("", {"max_tokens": 2048})


def test_the_probe_of_a_server_without_a_list_of_models_survives_refusals():
    def fault(path, body, attempt):
        return reasoning(path, body, attempt) if body else Status(500)

    with OpenAIServer(fault=fault) as server:
        FAMILY.probe(replace(spec_of(server), access=Access(tries=1)))

    assert sent(server)[-1] == {"max_completion_tokens": 1}


def test_an_answer_keeps_what_the_server_reports():
    with OpenAIServer(report={"model": "test-model-0806", "system_fingerprint": "fp_1"}) as server:
        answer = FAMILY.load(spec_of(server)).generate(question())

    assert (answer.origin["model"], answer.origin["system_fingerprint"]) == ("test-model-0806", "fp_1")
    assert answer.origin["time"][:2] == "20"
