"""Messages as data: one template and its fields, four surfaces, two languages."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import pytest

from eyechart import evaluate, run_task
from eyechart.cli import main
from eyechart.compat.evalscope.main import CONFIG_KEYS
from eyechart.errors import DataError, EyechartError, NotHereError, UsageError, errors_on, first_line
from eyechart.messages import COMMAND_LINE, UserMessage, join, render
from eyechart.python_api.arguments import ARGUMENTS
from eyechart.types import Notice
from support.source_texts import finished_texts, placeholders, template_sites

HOSTILE = "{--api_key} {0.__class__} {name} {{}} %s"
CHINESE = {
    "{n:,} rows of {path!r}: use {--on_error=skip}.": "{path!r} 有 {n:,} 行\uff1a请用 {--on_error=skip}。",
    "Use {--limit={n}}.": "请用 {--limit={n}}。",
    "Unknown {kind}: {name!r}.": "未知的{kind|t}\uff1a{name!r}。",
    "dataset": "数据集",
    "Check it.": "请检查。",
}


@pytest.mark.parametrize(
    ("template", "flag", "key", "argument"),
    [
        ("use {--on_error=skip}.", "use --on-error skip.", "use on_error: skip.", "use on_error='skip'."),
        ("Check {--dataset_root}.", "Check --dataset-root.", "Check data_dir.", "Check dataset_root."),
        ("{--limit=20} is enough", "--limit 20 is enough", "limit: 20 is enough", "limit=20 is enough"),
        ("Choose another {--output}", "Choose another --output", "Choose another work_dir", "Choose another output"),
        ("Leave {--folds} out.", "Leave --folds out.", "Leave --folds out.", "Leave folds out."),
        ("{--device=auto} or {--device=cpu}", "--device auto or --device cpu", None, "device='auto' or device='cpu'"),
        ("{--judge=MODEL}", "--judge MODEL", None, "judge=MODEL"),
        ("pip install --no-deps x", *["pip install --no-deps x"] * 3),
    ],
)
def test_a_setting_has_the_name_of_the_surface(template, flag, key, argument):
    message = UserMessage(template)

    assert (message, message.on(COMMAND_LINE), message.on(ARGUMENTS)) == (flag, flag, argument)
    assert key is None or message.on(CONFIG_KEYS) == key


def test_a_setting_takes_its_name_and_value_from_fields():
    message = UserMessage("{--{flag}} must be 1 or more; {--limit={n}} has {n:,}.", flag="ray_workers", n=2000)

    assert message == "--ray-workers must be 1 or more; --limit 2000 has 2,000."
    assert message.on(ARGUMENTS) == "--ray-workers must be 1 or more; limit=2000 has 2,000."


def test_the_same_error_in_four_surfaces(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("image_queries.jsonl").write_bytes('{"image_path": "a.png", "query": ["汉字"]}\n'.encode("gbk"))
    eval_ = {"models": [{"model_name": "eyechart-tiny"}], "dataset_name": ["custom"], "data_dir": "."}
    config = {"eval_config": {"tool": "clip_benchmark", "eval": eval_}}

    with pytest.raises(DataError) as by_config:
        run_task(config)
    with pytest.raises(EyechartError) as by_argument:
        evaluate(dataset=["custom"], dataset_root=".", model=["eyechart-tiny"])
    assert main(["eval", "--dataset", "custom", "--dataset_root", ".", "--model", "eyechart-tiny"]) == 1
    Path("task.json").write_text(json.dumps(config))
    assert main(["run", "task.json"]) == 1

    by_flag, by_file = capsys.readouterr().err.split("eyechart: ")[1:]
    assert "or set encoding: gbk. It may be GBK" in str(by_config.value)
    assert "or set encoding='gbk'. It may be GBK" in str(by_argument.value)
    assert "or set --encoding gbk. It may be GBK" in by_flag
    assert "or set encoding: gbk. It may be GBK" in by_file


def test_a_translation_is_found_by_the_template_and_keeps_the_surface():
    message = UserMessage("{n:,} rows of {path!r}: use {--on_error=skip}.", n=1000, path="a b")

    assert message.render(CHINESE.get) == "'a b' 有 1,000 行\uff1a请用 --on-error skip。"
    assert message.on(ARGUMENTS).render(CHINESE.get) == "'a b' 有 1,000 行\uff1a请用 on_error='skip'。"
    assert message.render({}.get) == message


def test_a_message_within_a_message_is_rendered_along_with_it():
    inner = UserMessage("Use {--limit={n}}.", n=5)
    outer = UserMessage("{path}: {reason} Check it.", path="a", reason=inner)

    assert outer == "a: Use --limit 5. Check it."
    assert outer.on(ARGUMENTS) == "a: Use limit=5. Check it."
    assert outer.render(CHINESE.get, ARGUMENTS) == "a: 请用 limit=5。请检查。"
    assert join((inner, "", UserMessage("Check it."))).render(CHINESE.get) == "请用 --limit 5。请检查。"


def test_an_error_within_a_message_keeps_the_surface_that_it_left():
    error = UsageError("Bad.", advice="Use {--limit={n}}.", n=5)
    error.show_on(ARGUMENTS)

    assert UserMessage("{program}: {error}", program="eyechart", error=error) == "eyechart: Bad.\nUse limit=5."
    assert UserMessage("{error}", error=error).on(CONFIG_KEYS) == "Bad.\nUse limit=5."


def test_a_word_among_the_fields_is_translated_where_the_translation_says_so():
    message = UserMessage("Unknown {kind}: {name!r}.", kind="dataset", name="dataset")

    assert message.render(CHINESE.get) == "未知的数据集\uff1a'dataset'。"


@pytest.mark.parametrize("text", ["{a} and {0}", "a {{pair}} and a lone }", "{", "{--nothing", "{n:,}", "{x!r}"])
def test_a_finished_text_is_taken_literally(text):
    assert UserMessage(text) == text
    assert str(UsageError(text, advice=text)) == f"{text}\n{text}"


def test_braces_of_a_template_are_doubled():
    error = UsageError("{path} is bad.", advice="Put {{dataset}} into {--output}.", path="a")

    assert str(error) == "a is bad.\nPut {dataset} into --output."


@pytest.mark.parametrize("surface", [COMMAND_LINE, ARGUMENTS, CONFIG_KEYS])
def test_values_are_never_interpreted(surface):
    message = UserMessage("{value}|{value!r}|{--limit={value}}|{other}", value=HOSTILE, other=HOSTILE).on(surface)
    given = surface.setting("limit", HOSTILE, literal=False)

    assert message == f"{HOSTILE}|{HOSTILE!r}|{given}|{HOSTILE}"
    assert message.render({HOSTILE: "no"}.get) == message


def test_a_missing_field_is_shown_and_not_raised():
    assert UserMessage("{path}: {lost}", path="a") == "a: {lost}"


def test_a_message_survives_the_way_between_processes():
    message = UserMessage("{path}: {reason}", path=Path("a"), reason=UserMessage("{--limit=5}")).on(ARGUMENTS)
    again = pickle.loads(pickle.dumps(message))  # noqa: S301 - our own bytes

    assert (again, again.template, dict(again.fields)) == (message, message.template, dict(message.fields))
    assert again.render({"{--limit=5}": "少"}.get) == "a: 少"


def test_an_error_survives_it_with_all_that_it_has():
    error = NotHereError("No {path}.", advice="Use {--limit={n}}.", path="a", n=5, source="somewhere")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    again.show_on(ARGUMENTS)

    assert (type(again), again.source, again.message.template) == (NotHereError, "somewhere", "No {path}.")
    assert str(again) == "No a.\nUse limit=5."


def test_what_is_kept_of_a_value_is_its_text():
    values = {"x": [1]}
    message = UserMessage("{values}", values=values)
    values["x"].append(2)

    assert message.on(ARGUMENTS) == "{'x': [1]}"


def test_errors_that_leave_a_surface_name_its_settings():
    with pytest.raises(UsageError) as caught, errors_on(ARGUMENTS):
        raise UsageError("No {--limit}.")

    assert (str(caught.value), caught.value.args) == ("No limit.", ("No limit.",))


def test_the_first_line_of_an_error_of_ours_is_its_message():
    assert first_line(UsageError("{x} is bad.", x=1)).template == "{x} is bad."


def test_a_notice_in_a_file_is_english_with_flags():
    notice = Notice("kind", 1, UserMessage("{n} lost: see {--limit=5}.", n=1))

    assert json.dumps(notice.message) == '"1 lost: see --limit 5."'


def test_a_plain_text_is_looked_up_as_it_is():
    assert render("dataset", CHINESE.get) == "数据集"
    assert render("{n:,} rows of x", CHINESE.get) == "{n:,} rows of x"


def test_placeholders_are_listed_with_those_of_settings():
    assert placeholders("{a} {b!r} {c:,} {{d}} {--{e}} {--limit={f}} {--on_error}") == {"a", "b", "c", "e", "f"}


def test_every_field_of_a_template_is_given():
    literal = "Use {dataset}, {model}, {pretrained}, {language} or {task} in {--output}."  # without fields, as it is

    assert {site.place: site.lacks for site in template_sites() if site.lacks and site.template != literal} == {}


def test_errors_and_notices_are_templates_not_finished_texts():
    assert finished_texts() == []


COUNTS = re.compile(
    r"\{(n|m|k|all|count|lost|more|[a-z]+_?n|n_[a-z]+)(?::,)?\}((?: more| other| different)?) ([a-z]{3,}s)\b"
)
NOT_COUNTED = {"has", "was", "does", "class", "this", "times", "pixels", "always"}


LATER = re.compile(r"\band (?:are|were|count|have)\b|^1 (?:\w+ )?of .* (?:are|were)\b")


def test_the_second_verb_of_a_count_is_singular_too():
    """Templates that begin with a count, and whose later verb has the same subject."""
    wrong = []
    for site in template_sites():
        if site.template.startswith("{n} "):
            text = str(
                UserMessage(re.sub(r":[^{}|]*\}", "}", site.template), **dict.fromkeys(placeholders(site.template), 1))
            )
            first = re.split(r"[.:;(,]", text)[0]
            wrong += [f"{site.place}: {first}"] if LATER.search(first) else []
    assert wrong == []


def test_one_of_a_thing_is_never_followed_by_its_plural():
    """Every template of the source that has a count before a plural noun, rendered with a count of 1."""
    wrong, checked = [], 0
    for site in template_sites():
        for found in COUNTS.finditer(site.template):
            if found[3] in NOT_COUNTED:
                continue
            fields = dict.fromkeys(placeholders(site.template), 1)
            checked += 1
            text = UserMessage(re.sub(r":[^{}|]*\}", "}", site.template), **fields)
            if f"1{found[2]} {found[3]} " in f"{text} ":
                wrong.append(f"{site.place}: {text}")
    assert wrong == []
    assert checked > 100


@pytest.mark.parametrize(
    ("template", "one", "two"),
    [
        ("{n} images are too small", "1 image is too small", "2 images are too small"),
        ("{n} queries belong to {m} images", "1 query belongs to 1 image", "2 queries belong to 2 images"),
        ("{n:,} classes have no name", "1 class has no name", "2 classes have no name"),
        ("{n} draws of training images do not show it", "1 draw of training images does not show it",
         "2 draws of training images do not show it"),
        ("{n} of the answers were lost", "1 of the answers were lost", "2 of the answers were lost"),
        ("{m} {n:is|are} left", "1 is left", "2 are left"),
    ],
)  # fmt: skip
def test_a_count_of_one_has_a_singular_noun_and_verb(template, one, two):
    assert UserMessage(template, n=1, m=1) == one
    assert UserMessage(template, n=2, m=2) == two
