"""What a run costs: before it, in its log, in its result and in its table."""

import json
from pathlib import Path

import pytest

from eyechart import run_task
from eyechart.api.budget import Price, find_price
from eyechart.cli import main
from eyechart.errors import UsageError
from support.openai_server import OpenAIServer
from support.retrieval_data import caption_config, many_images

MODEL = "internvl2-8b"
TOML = f'currency = "EUR"\n["{MODEL}"]\nprompt = 2.5\ncompletion = 10\n["*"]\nprompt = 1\n'


@pytest.fixture
def prices(here):
    Path("prices.toml").write_text(TOML)
    return "prices.toml"


def test_a_price_is_looked_up_by_the_name_of_the_model(prices):
    assert find_price(prices, MODEL) == Price(2.5, 10, "EUR")
    assert find_price(prices, "another") == Price(1, 0, "EUR")
    assert Price(2.5, 10).cost({"prompt_tokens": 1_000_000, "completion_tokens": 500_000}) == 7.5
    assert Price(2.5, 1e6).cost({"prompt_tokens": 1_000_000}) == 2.5
    assert find_price("", MODEL) is None
    Path("prices.json").write_text(json.dumps({MODEL: {"prompt": 2, "completion": 3}}))
    assert find_price("prices.json", MODEL) == Price(2, 3, "USD")
    assert find_price("prices.json", "another") is None


def test_an_edited_price_table_takes_effect_in_the_same_process(prices):
    assert find_price(prices, MODEL) == Price(2.5, 10, "EUR")

    Path(prices).write_text(TOML.replace("2.5", "3.5"))

    assert find_price(prices, MODEL) == Price(3.5, 10, "EUR")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.toml", "not toml ["),
        ("b.json", "[1]"),
        ("c.toml", '["m"]\nprompt = "2 dollars"\n'),
        ("d.toml", '["m"]\nprompt = -2\n'),
        ("e.toml", '["m"]\ninput = 2\n'),
        ("f.json", '{"m": 5}'),
        ("g.toml", None),
    ],
)
def test_a_table_that_is_not_understood_is_refused(here, name, content):
    if content is not None:
        Path(name).write_text(content)

    with pytest.raises(UsageError, match=name):
        find_price(name, "m")


def test_tokens_and_cost_are_in_the_result_the_log_and_the_table(here, prices, capsys):
    data = many_images(Path("d"), 4)
    with OpenAIServer(models=(MODEL,), usage={"prompt_tokens": 1000, "completion_tokens": 100}) as server:
        config = caption_config(server, data, prices=prices)
        Path("task.json").write_text(json.dumps(config))
        assert main(["run", "task.json"]) == 0
        [again] = run_task(config)

    body = json.loads(Path(f"outputs/{MODEL}/custom_image_caption.json").read_text())
    assert again.details["spent"]["model"]["cost"] == 0
    used = "prompt tokens 4,000, completion tokens 400, cost 0.0140 EUR"
    line = f"whole benchmark: answers 4, {used}; new in this run: requests 4, {used}"
    assert line in Path("outputs/logs/eval_log.log").read_text()
    assert f"  model: {line}\n" in capsys.readouterr().out
    assert body["details"]["spent"]["model"]["currency"] == "EUR"


def test_a_dry_run_estimates_tokens_cost_and_time(here, prices, capsys):
    data = many_images(Path("d"), 12)
    config = caption_config("http://127.0.0.1:9/v1", data, limit=None, dry_run=True, prices=prices)
    config["eval_config"]["eval"]["models"][0]["max_tokens"] = 50

    [result] = run_task(config)
    Path("task.json").write_text(json.dumps(config))
    assert main(["run", "task.json"]) == 0

    prompt, completion = 12 * 9, 12 * 50
    assert result.metrics["estimated_cost"] == pytest.approx((2.5 * prompt + 10 * completion) / 1e6)
    assert result.metrics["estimated_seconds"] == (12 + 12) / 8
    assert (
        "108 prompt tokens and 600 completion tokens, 0.0063 EUR, 3 s. No request was sent." in capsys.readouterr().out
    )
