"""Generators behind a real server."""

import base64
from dataclasses import replace

import pytest

from eyechart.errors import UsageError
from eyechart.io.images import ImageRef, decode_image
from eyechart.models.access import Access
from eyechart.models.api_models import ApiGeneratorFamily
from eyechart.types import BatchGenerator, Generator, Message, ModelSpec, Prompt
from support.data import encoded, noise_image
from support.openai_server import OpenAIServer

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
