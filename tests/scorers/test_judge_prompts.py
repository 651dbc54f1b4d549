"""What judges are asked is data: our file, the user's, or the functions of an installed VLMEvalKit."""

import sys

import pytest

from eyechart import evaluate
from eyechart.cli import main
from eyechart.errors import DataError, UsageError
from eyechart.scorers.judging import Judge, JudgePrompts, load_prompts
from eyechart.scorers.judging.judge_forms import READERS
from eyechart.scorers.rules.judged import DIMENSIONS
from eyechart.scorers.scoring import score_rows
from eyechart.types import Answer
from support.openai_server import OpenAIServer
from support.vlm_data import benchmark_of_kind, write_benchmark

ROW = {"index": 0, "question": "Which?", "A": "cat", "B": "dog", "answer": "A", "prediction": "a {question} feline"}
MINE = '[choice]\ntemplate = "Q {question} O {options} P {prediction} L"\n'


def prompts_of(tmp_path, text):
    (tmp_path / "mine.toml").write_text(text)
    return load_prompts(str(tmp_path / "mine.toml"))


def test_our_forms_are_a_file_and_know_how_their_replies_are_read():
    forms = [JudgePrompts().form(name) for name in ("choice", "yes_no", "grade", "extract", "dialogue", "compare")]

    assert {form.reads for form in forms} <= set(READERS)
    assert JudgePrompts().form("dialogue").known["names"] == list(DIMENSIONS)
    assert len({form.digest for form in forms}) == len(forms)


def test_a_file_replaces_the_words_of_a_form_and_nothing_else(tmp_path):
    mine, ours = prompts_of(tmp_path, MINE), JudgePrompts()
    form = mine.form("choice")

    # what a cell says is never taken for a field
    assert form.question(ROW) == "Q Which? O There are several options: \nA. cat\nB. dog\n P a {question} feline L"
    assert form.reads == "option"
    assert form.digest != ours.form("choice").digest
    assert mine.form("yes_no") == ours.form("yes_no")
    assert (mine.source_of(form), mine.source_of(mine.form("yes_no"))) == ("mine.toml", "eyechart")
    assert mine.digest != ours.digest


def test_a_benchmark_may_have_words_of_its_own(tmp_path):
    mine = prompts_of(tmp_path, '[MMVet]\nform = "grade"\nhighest = 10\ntemplate = "{answer} {prediction}: 0 to 10?"\n')

    assert mine.form("grade", "MMVet").parse("7", ROW) == 0.7
    assert mine.form("grade", "CORE_MM") == JudgePrompts().form("grade")


def test_a_word_can_be_the_verdict(tmp_path):
    mine = prompts_of(
        tmp_path, '[grade]\nreads = "word"\nwords = {correct = 1, incorrect = 0}\ntemplate = "{prediction}?"\n'
    )

    assert [mine.form("grade").parse(text, ROW) for text in ("Correct.", "incorrect", "who knows")] == [1.0, 0.0, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not toml", "not a valid file of judge prompts"),
        ('[choice]\ntemplate = "no place for the answer"\n', r"no template with \{prediction\}"),
        ('[choise]\ntemplate = "{prediction}"\n', "not one of the forms"),
        ('[choice]\ntemplate = "{prediction}"\nread = "option"\n', "unknown keys: read"),
        ('[choice]\ntemplate = "{prediction}"\nreads = "options"\n', "kind of reply"),
        ('[grade]\ntemplate = "{prediction}"\nreads = "word"\n', "requires words"),
        ('choice = "x"\n', "is not a table"),
        ('[choice]\ntemplate = "{prediction}"\nreads = ["option"]\n', "kind of reply"),
        ('[choice]\ntemplate = "{prediction}"\nreads = "yes_no"\n', "cannot replace option"),
        ('[choice]\ntemplate = "{prediction}"\ntries = "often"\n', "tries = 'often'"),
        ('[choice]\ntemplate = "{prediction}"\ntries = 0\n', "tries = 0"),
        ('[grade]\ntemplate = "{prediction}"\nhighest = "ten"\n', "highest = 'ten'"),
        ('[grade]\ntemplate = "{prediction}"\nnames = ["a", 1]\n', r"names = \['a', 1\]"),
        ('[grade]\ntemplate = "{prediction}"\nreads = "word"\nwords = "yes"\n', "words = 'yes'"),
        ('[grade]\ntemplate = "{prediction}"\nreads = "word"\nwords = {good = 5}\n', "words ="),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path, text, message):
    with pytest.raises(UsageError, match=message):
        prompts_of(tmp_path, text)


def test_a_template_that_names_a_column_that_no_row_has_is_refused(tmp_path):
    mine = prompts_of(tmp_path, '[choice]\ntemplate = "{prediction} {hint}"\n')

    with pytest.raises(UsageError, match="hint"):
        score_rows([ROW], benchmark_of_kind("choice", "optional"), judges=[Judge("j", lambda *asked: [], mine)])


def test_no_such_file(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        load_prompts(str(tmp_path / "none.toml"))


def test_a_judge_is_asked_again_more_freely():
    asked = []

    def ask(prompts, number):
        asked.extend((number, prompt.temperature) for prompt in prompts)
        return [(prompt.id, Answer("where?")) for prompt in prompts]

    score_rows([ROW], benchmark_of_kind("choice", "optional"), judges=[Judge("j", ask, repeats=2)])

    assert asked == [(0, None), (1, 0.5), (2, 1.0), (100, None), (101, 0.5), (102, 1.0)]


def test_a_reply_that_was_cut_is_no_verdict():
    judge = Judge("j", lambda prompts, number: [(p.id, Answer("A", finish_reason="length")) for p in prompts])

    scored = score_rows([ROW], benchmark_of_kind("choice", "optional"), judges=[judge])

    assert scored.lost == {"0": "unreadable verdict"}


# ------------------------------------------------------------------------------------------------ VLMEvalKit


@pytest.fixture
def stand_in_vlmeval(tmp_path, monkeypatch):
    """A package with the module and function names of VLMEvalKit, which is out of reach here; the words are ours."""
    utils = tmp_path / "site" / "vlmeval" / "dataset" / "utils"
    utils.mkdir(parents=True)
    for folder in (utils, utils.parent, utils.parent.parent):
        (folder / "__init__.py").write_text("")
    (utils / "multiple_choice.py").write_text(
        "def build_prompt(question, options, prediction):\n    return f'stand-in {question}|{options}|{prediction}'\n"
        "def build_prompt_cn(question, options, prediction):\n    return f'stand-in cn {question}'\n"
    )
    (utils / "yorn.py").write_text("def YOrN_match_prompt(line):\n    return 'stand-in ' + line['prediction']\n")
    (utils / "mmvet.py").write_text("def build_mmvet_gpt4_prompt(line):\n    return line['no such column']\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield utils
    for name in [name for name in sys.modules if name.partition(".")[0] == "vlmeval"]:
        del sys.modules[name]


def test_the_words_of_an_installed_vlmevalkit_are_written_by_its_functions(stand_in_vlmeval):
    prompts = load_prompts("vlmeval")
    choice = prompts.form("choice", "MMStar")

    assert choice.question(ROW) == "stand-in Which?|There are several options: \nA. cat\nB. dog\n|a {question} feline"
    assert choice.question({**ROW, "question": "哪个?"}) == "stand-in cn 哪个?"
    assert prompts.form("yes_no", "POPE").question(ROW) == "stand-in a {question} feline"
    assert choice.parse("A", ROW) == "A"
    assert prompts.source_of(choice) == "vlmeval"
    before = prompts.digest, choice.digest
    (stand_in_vlmeval / "multiple_choice.py").write_text("def build_prompt(*args):\n    return 'other words'\n")
    after = load_prompts("vlmeval")
    assert after.digest != before[0]
    assert after.form("choice", "MMStar").digest != before[1]


@pytest.mark.parametrize("package", ["vlmeval", "ms-vlmeval"])
def test_its_version_is_that_of_either_package(stand_in_vlmeval, package):
    folder = stand_in_vlmeval.parents[2] / f"{package.replace('-', '_')}-1.2.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")

    assert load_prompts("vlmeval").source == "vlmeval 1.2"


def test_what_it_has_no_words_for_is_refused_and_never_asked_in_others(stand_in_vlmeval):
    prompts = load_prompts("vlmeval")

    with pytest.raises(UsageError, match="no judge prompt for MMDU"):
        prompts.form("dialogue", "MMDU")
    with pytest.raises(UsageError, match="mathvista:build_mathvista_gpt4_prompt cannot be imported"):
        prompts.form("extract", "MathVista_MINI")
    with pytest.raises(DataError, match="build_mmvet_gpt4_prompt failed to build"):
        prompts.form("grade", "MMVet").question(ROW)


def test_without_vlmevalkit_the_flag_is_refused(monkeypatch):
    monkeypatch.setattr("eyechart.scorers.judging.judges.find_spec", lambda name: None)

    with pytest.raises(UsageError, match="VLMEvalKit is not installed"):
        load_prompts("vlmeval")


# ------------------------------------------------------------------------------------------------ whole runs


PETS = [{"index": i, "question": f"q{i}?", "A": "cat", "B": "dog", "answer": "AB"[i % 2]} for i in range(8)]


def answer_pets(body):
    text = str(body["messages"][-1]["content"])
    return "A" if "who knows" in text else "hm, who knows"


def run_pets(server, output, **questions):
    [result] = evaluate(
        dataset=["Pets"],
        model=["test-model"],
        model_type="api",
        output=str(output),
        questions={"api_base": server.api_base, "judge": "judge-model", **questions},
    )
    return result


def test_the_result_names_its_judge_prompt_and_compare_refuses_another(lmu_data, tmp_path, capsys):
    write_benchmark(lmu_data / "Pets.tsv", PETS)
    (tmp_path / "mine.toml").write_text(MINE)
    with OpenAIServer(answer=answer_pets, models=("test-model", "judge-model")) as server:
        ours = run_pets(server, tmp_path / "ours" / "a.json")
        mine = run_pets(server, tmp_path / "mine" / "b.json", judge_prompts=str(tmp_path / "mine.toml"))

    assert ours.details["judge"]["prompt"]["source"] == "eyechart"
    digest = load_prompts(str(tmp_path / "mine.toml")).form("choice").digest
    assert mine.details["judge"]["prompt"] == {"form": "choice", "source": "mine.toml", "digest": digest}
    assert ours.job["digest"] != mine.job["digest"]
    folders = [str(tmp_path / "ours"), str(tmp_path / "mine")]
    assert main(["compare", *folders]) == 2
    assert "--allow-different 'judge prompt'" in capsys.readouterr().err
    assert main(["compare", *folders, "--allow-different", "judge prompt"]) == 0


def test_judge_prompts_without_a_judge_are_refused(lmu_data, tmp_path):
    write_benchmark(lmu_data / "Pets.tsv", PETS)
    (tmp_path / "mine.toml").write_text(MINE)
    with pytest.raises(UsageError, match="judge_prompts requires a judge"):
        evaluate(
            dataset=["Pets"],
            model=["m"],
            model_type="api",
            questions={"api_base": "http://localhost/v1", "judge_prompts": str(tmp_path / "mine.toml")},
        )
