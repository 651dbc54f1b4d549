"""Fuzz targets that read texts: model responses, judge replies, server responses."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from fuzz_files import Target
from fuzz_mutate import as_text, mutate_bytes, mutate_json, mutate_value

from eyechart.api import parse_chat, parse_embeddings, parse_rerank
from eyechart.api.budget import read_usage
from eyechart.api.client import _model_names
from eyechart.api.limiter import TransientError, read_retry_after
from eyechart.api.transport import Transport, read_error
from eyechart.datasets.questions.benchmarks import known_benchmarks
from eyechart.io.secrets import Secret
from eyechart.metrics import answers, captions, choices, long_texts, math_answers
from eyechart.metrics.cell_values import literal_list, text_list
from eyechart.scorers.judging import Judge, JudgePrompts
from eyechart.scorers.rules import mathematics
from eyechart.scorers.rules.judged import DIMENSIONS
from eyechart.scorers.rules.yes_no import naturalbench_answer
from eyechart.scorers.scoring import score_rows
from eyechart.types import Answer

OPTIONS = {"A": "a cat", "B": "dog", "C": "no", "D": "3.5", "E": "", "F": None}
ANSWERS = [
    text.encode()
    for text in (
        "A",
        "The answer is B.",
        "**C**",
        "(d)",
        "A. cat\nB. dog",
        r"so \boxed{\text{B}}",
        "Answer: C",
        "I choose option A or B",
        "答案是 B",
        "First, A then B\nSTEP 2: C",
        "<think>hm A</think> B",
        "Yes, it is",
        "No. yes is wrong",
        "3.5",
        "1,000",
        "50%",
        "\\frac{1}{2}",
        "2^{10}",
        "\\sqrt{2}+3\\times(4-1)",
        "['a', 'b']",
        "[1, 2.5, None]",
        "sorry, I can't",
        "Failed to obtain answer via API",
        "8 9\nreview",
        "0.5",
        '{"Creativity": 5, "Overall Score": 9}',
        "it's the two dogs",
    )
]
TOKENS = tuple(
    text.encode()
    for text in (
        "answer is ",
        "A",
        "B",
        "\\boxed{",
        "}",
        "{",
        "\\text{",
        "not ",
        " or ",
        "/",
        "yes",
        "no",
        "</think>",
        "<think>",
        "\n",
        " ",
        "(",
        ")",
        "*",
        "STEP ",
        "答案",
        "选",
        "Answer:",
        "'",
        '"',
        "\\",
        ",",
        "[",
        "]",
        "^",
        "_",
        "\\frac",
        "\\sqrt",
        "π",
        "0",
        "9",
        ".",
        "e",
        "%",
        "-",
        "is",
        "option",
        "I choose ",
        "\uff21\uff22",
        "\u2028",
        "\u0130",
        "ß",
        "don't",
        "<AND>",
        "<OR>",
    )
)


def read_answer(data: bytes, _: Path) -> None:
    text = as_text(data)
    for extract in answers.EXTRACTORS.values():
        extract(text, OPTIONS)
        extract(text[: len(text) // 2], {"A": text[:50], "B": text[50:90]})
    for extract_yes in answers.YES_NO_EXTRACTORS.values():
        extract_yes(text)
    for function in _TEXT_FUNCTIONS:
        function(text)


_TEXT_FUNCTIONS: Sequence[Callable[[str], object]] = (
    answers.split_thinking,
    choices.extract_sequence,
    choices.extract_first_letter,
    choices.final_answer_line,
    answers.vqa_normalize,
    literal_list,
    text_list,
    naturalbench_answer,
)


def compare_answers(data: bytes, _: Path) -> None:
    """Split the input in two and compare the halves with every metric."""
    left, _, right = as_text(data).partition("\n")
    right = right or left[::-1]
    for metric in answers.OPEN_METRICS:
        answers.open_matches(left[:3000], right[:3000], metric)
    answers.relaxed_match(left, right)
    math_answers.math_equal(left, right)
    math_answers.math_equal(right, "1/2")
    long_texts.best_span(right[:40], left[:4000], "zh" if len(data) % 2 else "en")
    captions.score_captions([left[:2000]], [[right[:2000], "a dog"]])


ROW = {
    "index": 1,
    "question": "what?",
    "A": "cat",
    "B": "dog",
    "answer": "A",
    "prediction": "B",
    "category": "c",
    "l2-category": "l",
    "split": "dev",
    "choices": "['a', 'b']",
    "question_type": "multi_choice",
    "answer_type": "integer",
    "answer_option": "A",
    "task": "t",
    "skills": "['x']",
    "level": 3,
    "subject": "s",
    "image_path": "a_0.png",
    "question_id": "0",
    "set_id": "1",
    "figure_id": "2",
    "subcategory": "x",
    "caption": "c",
    "hit": 1,
    "score": 0.5,
}
ROWS = [
    json.dumps([ROW, {**ROW, "index": 2, "answer": answer, "prediction": said}]).encode()
    for answer, said in (
        ("B", "the answer is B"),
        ("yes", "No"),
        ("['a', 'b']", "a b"),
        ("14", "14.0"),
        ("1/2", "\\frac{1}{2}"),
        ("", ""),
        ("a <AND> b", "a"),
        (None, None),
        (3, 3.0),
        (["x", "y"], ["x"]),
    )
]


def mutate_rows(rng: Random, seeds: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """Mutate one cell of a prediction table, mostly the answer or the prediction."""
    rows = json.loads(rng.choice(seeds))
    for row in rows:
        column = rng.choice(("answer", "prediction", rng.choice(list(ROW))))
        row[column] = (
            mutate_value(rng, row.get(column))
            if rng.random() < 0.5
            else as_text(mutate_bytes(rng, ANSWERS, tokens)[:5000])
        )
    name = rng.choice(sorted(known_benchmarks()))
    return json.dumps({"benchmark": name, "strict": rng.random() < 0.5, "rows": rows}).encode()


def score_some(data: bytes, _: Path) -> None:
    content = json.loads(data)
    benchmark = known_benchmarks()[content["benchmark"]]
    judge = Judge("j", lambda prompts, _: [(prompt.id, Answer(REPLIES[len(data) % 5])) for prompt in prompts])
    extractor = "strict" if content["strict"] else "vlmeval"
    scored = score_rows(content["rows"], benchmark, extractor=extractor, judges=[judge])
    scored.scorer.numbers(scored.table)


REPLIES = ("A", "Yes", "0.5", "14", '{"Creativity": 5}')
GRADES = json.dumps(dict.fromkeys(DIMENSIONS, 5)).encode()
FORMS = tuple(map(JudgePrompts().form, ("choice", "yes_no", "grade", "extract", "dialogue", "compare")))


def read_reply(data: bytes, _: Path) -> None:
    reply = as_text(data)
    row = {**ROW, "prediction": reply[:500], "answer": reply[:50]}
    for form in FORMS:
        form.parse(reply, row)
        form.question(row)
    mathematics.mathvista_read({"prediction": reply, "answer": reply[:5], "answer_type": "float"})
    mathematics.mathvista_read({"prediction": reply, "answer": reply[:5], "answer_type": "integer"})
    mathematics.mathvision_read({"prediction": reply, "answer": reply[:5], "choices": "[]"})


CHAT = {
    "id": "x",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "hi", "reasoning_content": "r"},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
BODIES = [
    json.dumps(body).encode()
    for body in (
        CHAT,
        {"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"type": "output_text", "text": "b"}]}}]},
        {
            "data": [{"index": 1, "embedding": [0.1, 0.2]}, {"index": 0, "embedding": [1, 2]}],
            "usage": {"total_tokens": 4},
        },
        {"data": [{"embedding": "AACAPwAAAEA="}, {"embedding": [[1]]}]},
        {"results": [{"index": 0, "relevance_score": 0.5}, {"index": 1, "score": 1}]},
        {"data": [{"id": "m"}, "n", {"name": "o"}]},
        {"models": [{"name": "x"}]},
        {"error": {"message": "bad key sk-secret-key", "code": "invalid_api_key", "type": "t"}},
        {"detail": [{"msg": "x"}]},
        {"error": "text"},
        {"message": "m", "code": 7},
    )
]
TRANSPORT = Transport("http://localhost:1/v1", Secret("sk-secret-key"), 1.0, 1 << 20)
PARSERS: Sequence[Callable[[dict], object]] = (
    parse_chat,
    lambda body: parse_embeddings(body, 2),
    lambda body: parse_embeddings(body, 1, 2),
    lambda body: parse_rerank(body, 2),
    _model_names,
    read_usage,
)


def read_body(data: bytes, _: Path) -> None:
    """Parse a server's response in every way and as an error; no output may contain the key."""
    read_retry_after({"retry-after": as_text(data)[:80], "retry-after-ms": as_text(data)[80:160]})
    status = (301, 400, 401, 403, 404, 429, 500, 503)[len(data) % 8]
    headers = {"location": as_text(data)[:300], "retry-after": as_text(data)[:40]}
    _check_hidden(TRANSPORT._refused(status, *read_error(data), "chat/completions", "m", headers))
    body = TRANSPORT._parse(data, "chat/completions", "m")
    if isinstance(body, Exception):
        _check_hidden(body)
        raise body.last(1) if isinstance(body, TransientError) else body  # retried errors are raised in the end
    for parse in PARSERS:
        _check_hidden(TRANSPORT.read(body, parse))


def _check_hidden(found: object) -> None:
    if "sk-secret-key" in str(found):
        raise AssertionError("the key is shown")


TEXT_TARGETS: dict[str, Target] = {
    "answers": Target(160, lambda: ANSWERS, read_answer, tokens=TOKENS),
    "comparisons": Target(40, lambda: ANSWERS, compare_answers, tokens=TOKENS),
    "scorers": Target(85, lambda: ROWS, score_some, mutate_rows, TOKENS),
    "judges": Target(90, lambda: [*ANSWERS, GRADES], read_reply, tokens=TOKENS),
    "api": Target(110, lambda: BODIES, read_body, mutate_json, (b"sk-secret-key", b"sk-secret-k", b"\\u0073k-")),
}
"""Readers of texts."""
