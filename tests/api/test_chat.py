"""Chat bodies and answers."""

import base64
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eyechart.api import (
    ApiClient,
    chat_body,
    chat_request,
    parse_chat,
    user,
)
from eyechart.api.errors import BadAnswerError
from eyechart.errors import UsageError
from eyechart.io.images import ImageRef
from eyechart.types import Answer, Message
from support.data import png
from support.openai_server import OpenAIServer

PICTURE = ImageRef("a picture", png())
URL = f"data:image/png;base64,{base64.b64encode(png()).decode()}"


def answer(message, **choice):
    return {"choices": [{"message": message, **choice}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}


def test_a_caption_request_is_a_system_prompt_and_an_image():
    assert chat_body("m", [Message("system", ("Describe {it}.",)), user(PICTURE)], options={"temperature": 0}) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Describe {it}."},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": URL}}]},
        ],
        "temperature": 0,
    }


def test_parts_keep_their_order():
    [turn] = chat_body("m", [user("first", PICTURE, "second")])["messages"]
    assert [part["type"] for part in turn["content"]] == ["text", "image_url", "text"]


def test_text_alone_is_a_string():
    turns = chat_body("m", [user("one", "two"), Message("assistant", ("three",)), user("four")])["messages"]
    assert turns == [
        {"role": "user", "content": "one\ntwo"},
        {"role": "assistant", "content": "three"},
        {"role": "user", "content": "four"},
    ]


@pytest.mark.parametrize("option", ["model", "messages", "stream", "n"])
def test_options_cannot_replace_what_we_set(option):
    with pytest.raises(UsageError, match=option):
        chat_body("m", [user("x")], options={option: 1})


def test_an_answer_with_everything():
    body = answer({"content": "A cat.", "reasoning_content": "Whiskers."}, finish_reason="length")
    assert parse_chat(body) == Answer("A cat.", "Whiskers.", "length", {"prompt_tokens": 3, "completion_tokens": 4})


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": None}, ""),
        ({}, ""),
        ({"content": ""}, ""),
        ({"content": [{"type": "text", "text": "A "}, {"type": "text", "text": "cat."}]}, "A cat."),
        ({"content": [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "A cat."}]}, "A cat."),
        ({"content": []}, ""),
        ({"content": [None, 3, {"type": "image"}]}, ""),
        ({"content": 7}, ""),
        ({"content": "half a pair: \ud83d."}, "half a pair: \ufffd."),
        ({"content": "a pair: \ud83d\ude00"}, "a pair: 😀"),
    ],
)
def test_contents_in_all_forms(message, text):
    assert parse_chat(answer(message)).text == text


def test_other_names_of_reasoning_and_refusals():
    assert parse_chat(answer({"content": None, "reasoning": "hm"})).thinking == "hm"
    assert parse_chat(answer({"content": None, "refusal": "No."})).refusal == "No."


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
)
names = st.sampled_from(["choices", "message", "content", "usage", "prompt_tokens", "type", "text"])
shaped = st.recursive(json_values, lambda v: st.dictionaries(names, v) | st.lists(v, max_size=3), max_leaves=12)


bodies = st.dictionaries(names, shaped) | st.builds(
    lambda content, usage: {"choices": [{"message": {"content": content}}], "usage": usage}, shaped, shaped
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(bodies)
def test_any_json_object_is_an_answer_or_a_bad_answer(body):
    try:
        text = parse_chat(body).text
    except BadAnswerError:
        return
    assert text == text.encode().decode()


def test_hostile_prompts_arrive_as_they_are():
    prompt = 'quotes " and \u202e and \x00 and {braces} and 中文 and \ud800'
    with OpenAIServer(answer=lambda _: {"content": None}) as server:
        got = ApiClient(server.api_base).call(chat_request("1", "test-model", [user(prompt)]))
    assert got.text == ""
    assert json.dumps(server.requests[0].body["messages"][0]["content"]) == json.dumps(prompt)
