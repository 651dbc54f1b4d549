"""Secrets are recognised in every encoding that servers echo them in, and nothing else is taken for one."""

import base64
import json
from dataclasses import dataclass
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eyechart.io.secrets import MIN_LENGTH, Secret, redact_settings, redact_text

KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=MIN_LENGTH, max_size=60)
ENCODINGS = {
    "plain": str,
    "json": lambda key: json.dumps(key)[1:-1],
    "json slashes": lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
    "unicode": lambda key: "".join(f"\\u{ord(char):04X}" for char in key),
    "url": lambda key: quote(key, safe=""),
    "html": lambda key: "".join(f"&#{ord(char)};" for char in key),
    "html hexadecimal": lambda key: "".join(f"&#x{ord(char):X};" for char in key),
    "hexadecimal": lambda key: key.encode().hex(),
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 without padding": lambda key: base64.b64encode(key.encode()).decode().rstrip("="),
}


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
@settings(max_examples=40)
@given(key=KEYS, before=st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x4EFF)))
def test_a_key_is_found_and_redacted_in_any_encoding(encode, key, before):
    text = f"{before} {encode(key)} {before}"

    assert Secret(key).is_in({"choices": [{"message": {"content": text}}]})
    assert Secret(key).is_in({text: 1})
    assert encode(key) not in Secret(key).redact(text)
    assert Secret(key).redact(text).startswith(f"{before} ***")


@settings(max_examples=40)
@given(key=KEYS, text=st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x4EFF)))
def test_other_texts_stay_as_they_are(key, text):
    assert not Secret(key).is_in([text, key[:-1], 1, None, {"a": [2.5]}])
    assert redact_text(f"{text}{key[:-1]}", [Secret(key)]) == f"{text}{key[:-1]}"


@pytest.mark.parametrize("key", ["", "EMPTY", "None", "x" * (MIN_LENGTH - 1)])
def test_placeholders_are_not_secrets(key):
    assert not Secret(key).is_in(f"the key {key} is a word")
    assert Secret(key).redact(f"the key {key} is a word") == f"the key {key} is a word"


def test_answers_that_are_dataclasses_or_deeply_nested_are_searched():
    @dataclass
    class Said:
        text: str

    deep = key = "sk-0123456789-0123456789"
    for _ in range(50_000):
        deep = [deep]
    assert Secret(key).is_in(Said(f"It is {key}."))
    assert Secret(key).is_in(deep)


def test_settings_are_redacted_by_type_and_by_name():
    nested = [Secret("z"), {"password": "p"}]
    found = redact_settings({"HF_TOKEN": "x", "x-api-key": "y", "max_tokens": 5, "key": "", "a": nested})

    assert found == {
        "HF_TOKEN": "***",
        "x-api-key": "***",
        "max_tokens": 5,
        "key": "",
        "a": ["***", {"password": "***"}],
    }
