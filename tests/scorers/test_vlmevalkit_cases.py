"""Input and output facts of VLMEvalKit's datasets, models and judges, run through ours.

The facts are those of `data/vlm_cases.json` that belong to no pure metric.
"""

import csv
import json
from pathlib import Path

import pandas as pd
import pytest

from eyechart import vlm
from eyechart.datasets.questions.prediction_files import dump, load_table
from eyechart.datasets.questions.question_reader import open_class
from eyechart.datasets.questions.row_table import RowTable as Table
from eyechart.datasets.questions.table_files import write_tsv
from eyechart.scorers.judging import Judge, JudgePrompts, option_block
from eyechart.tasks.question_prompts import PromptRunner
from eyechart.types import Answer, DatasetSpec
from support.vlm_data import image_cell, write_benchmark

FILE = Path(__file__).parent / "data" / "vlm_cases.json"
CASES = [case for case in json.loads(FILE.read_text(encoding="utf-8"))["cases"] if "quirk" not in case]


FORM = JudgePrompts().form


def cases(*functions):
    found = [case for case in CASES if case["fn"] in functions]
    return pytest.mark.parametrize("case", found, ids=[case["id"] for case in found])


def real_images(cell):
    """Put images where a case has a mark for one."""
    if not isinstance(cell, str):
        return cell
    return cell.replace("<b64 8x8>", image_cell(8, 8)).replace("<b64 16x8>", image_cell(16, 8, (5, 90, 200)))


@cases("build_prompt")
def test_prompts(case, lmu_data):
    args = case["args"]
    rows = [{key: real_images(value) for key, value in row.items()} for row in args["rows"]]
    lmu_data.mkdir(exist_ok=True)
    write_tsv(lmu_data / f"{args['dataset']}.tsv", Table(rows))

    dataset = getattr(vlm, args["cls"])(args["dataset"])
    message = dataset.build_prompt(args["line"])

    text = json.dumps(message).replace(str(lmu_data), "$LMUData")
    assert json.loads(text) == case["expected"]["message"]
    files = {str(path.relative_to(lmu_data)) for path in lmu_data.rglob("*") if path.is_file()}
    assert files == set(case["expected"]["files"])
    assert [type(value).__name__ for value in dataset.data["index"]] == case["expected"]["index_types"]
    assert dataset.build_prompt(dataset.data.iloc[args["line"]]) == message


@cases("check_content")
def test_forms_of_messages(case):
    assert vlm.check_content(case["args"]["msgs"]) == case["expected"]


def with_apple(value, apple):
    return json.loads(json.dumps(value).replace("<apple.jpg>", str(apple)))


@cases("preproc_content")
def test_messages_become_lists_of_dicts(case, tmp_path):
    apple = tmp_path / "apple.jpg"
    vlm.decode_base64_to_image_file(image_cell(), apple)
    inputs = with_apple(case["args"]["inputs"], apple)

    if case["expected"] == "AssertionError":
        with pytest.raises(AssertionError):
            vlm.preproc_content(inputs)
    else:
        assert vlm.preproc_content(inputs) == with_apple(case["expected"], apple)


@cases("message_to_promptimg(local BaseModel)", "message_to_promptimg(BaseAPI)")
def test_one_text_and_one_image(case):
    model = vlm.BaseAPI() if "API" in case["fn"] else vlm.BaseModel()

    assert list(model.message_to_promptimg(case["args"]["message"])) == case["expected"]


def texts(content):
    return [content] if isinstance(content, str) else [item["value"] for item in content]


@cases("chat_mt")
def test_dialogues_feed_back_the_models_own_replies(case, lmu_data):
    turns = case["args"]["messages"]
    histories = []

    class Talking(vlm.ImageMTDataset):
        def build_prompt(self, line):
            return turns

    def ask(prompts):
        for prompt in prompts:
            histories.append([[turn.role, list(turn.parts)] for turn in prompt.messages])
            yield prompt.id, Answer(f"r{len(histories)}")

    write_benchmark(lmu_data / "Talk.tsv", [{"index": 0, "question": "[]", "answer": "[]"}])
    dataset = open_class(Talking, DatasetSpec("Talk", "questions", ""))
    found = PromptRunner(dataset, ask).answer(dataset.table.rows)

    assert found.rows[0]["prediction"] == repr(case["expected"]["predictions"])
    assert histories == [[[role, texts(content)] for role, content in turn] for turn in case["expected"]["histories"]]


@cases("BaseAPI.generate")
def test_api_models_are_retried(case):
    calls = []

    class Failing(vlm.BaseAPI):
        def generate_inner(self, message, dataset=None, **kwargs):
            calls.append(message)
            raise RuntimeError("down")

    assert Failing(retry=case["args"]["retry"], wait=0).generate("hello") == case["expected"]["result"]
    assert len(calls) == case["expected"]["calls"]


@cases("BaseAPI.generate.system_role")
def test_system_messages_go_to_the_system_prompt(case):
    seen = []

    class Model(vlm.BaseAPI):
        def generate_inner(self, message, dataset=None, **kwargs):
            seen.extend(message)
            return 0, "fine", "ok"

    model = Model()
    model.generate(case["args"]["message"])

    assert seen == case["expected"]["inner"]
    assert model.system_prompt == case["expected"]["system_prompt"]


def scripted(replies):
    asked = []

    def ask(prompts, attempt):
        for prompt in prompts:
            asked.append(prompt.messages[0].parts[0])
            yield prompt.id, Answer(replies[len(asked) - 1])

    return Judge("scripted", ask), asked


@cases("MMVet_auxeval")
def test_grades_are_read(case):
    judge, asked = scripted(case["args"]["judge_outputs"])

    assert judge.judge(FORM("grade"), [("a", {})])["a"].verdict == case["expected"]["score"]
    assert len(asked) == case["expected"]["calls"]


@cases("YOrN_auxeval")
def test_unreadable_replies_are_asked_for_again(case):
    judge, asked = scripted(case["args"]["judge_outputs"])

    assert judge.judge(FORM("yes_no"), [("a", {})])["a"].verdict == case["expected"]["answer"]
    assert len(asked) == len(case["args"]["judge_outputs"])


@cases("MMVet.prompt_tail")
def test_the_line_that_a_grader_completes(case):
    assert FORM("grade").question(case["args"]).endswith(case["expected"])


@cases("extract_answer_from_item")
def test_a_judge_matches_an_answer_with_an_option(case):
    judge, asked = scripted(case["args"]["judge_outputs"])

    assert judge.judge(FORM("choice"), [("a", case["args"]["item"])])["a"].verdict == case["expected"]["opt"]
    assert asked[0].endswith(case["expected"]["prompt_tail"])
    assert len(asked) == case["expected"]["judge_calls"]


@cases("build_option_str")
def test_options_as_the_judge_sees_them(case):
    assert option_block(case["args"]["options"]) == case["expected"]


CLASSES = {
    "ImageMCQDataset.evaluate": "ImageMCQDataset",
    "ImageYORNDataset.evaluate": "ImageYORNDataset",
    "ImageVQADataset.evaluate": "ImageVQADataset",
    "ImageCaptionDataset.evaluate": "ImageCaptionDataset",
    "OCRBench.evaluate": "OCRBench",
    "MTVQADataset.evaluate": "MTVQADataset",
}
NAMES = {
    "OCRBench.evaluate": "OCRBench",
    "MTVQADataset.evaluate": "MTVQA_TEST",
    "ImageCaptionDataset.evaluate": "COCO_VAL",
}


def numbers(value):
    """Compare tables and dicts alike: as lists of dicts without missing cells."""
    if isinstance(value, pd.DataFrame):
        return [{key: cell for key, cell in row.items() if not pd.isna(cell)} for row in value.to_dict("records")]
    return value


@cases(*CLASSES)
def test_evaluate_a_file_of_predictions(case, lmu_data, tmp_path):
    args, expected = case["args"], case["expected"]
    name = args.get("dataset", NAMES.get(case["fn"]))
    cls = CLASSES[case["fn"]]
    questions = [{key: value for key, value in row.items() if key != "prediction"} for row in args["rows"]]
    write_benchmark(lmu_data / f"{name}.tsv", questions)
    dump(args["rows"], tmp_path / f"m_{name}.xlsx")
    dataset = getattr(vlm, cls)(name)

    found = numbers(dataset.evaluate(str(tmp_path / f"m_{name}.xlsx")))

    if "Bleu" in expected:
        expected = {"result": expected}
    if isinstance(expected["result"], list):
        assert len(found) == len(expected["result"])
        for row, wanted in zip(found, expected["result"], strict=True):
            assert row == pytest.approx(wanted)
    else:
        # These facts have the single line of a frame as a dict.
        [line] = found if isinstance(found, list) else [found]
        assert line == {key: pytest.approx(value) for key, value in expected["result"].items()}
    for file in expected.get("files", []):
        if file.endswith((".csv", ".json")):
            assert (tmp_path / file).is_file(), file


def test_the_files_of_an_evaluation_hold_what_was_read(lmu_data, tmp_path):
    rows = [{"index": 0, "question": "q", "A": "cat", "B": "dog", "answer": "B"}]
    write_benchmark(lmu_data / "Pets.tsv", rows)
    dump([{"index": 0, "prediction": "It is B"}], tmp_path / "m_Pets.xlsx")

    vlm.build_dataset("Pets").evaluate(tmp_path / "m_Pets.xlsx")

    [row] = load_table(tmp_path / "m_Pets_exact_matching_result.xlsx").rows
    assert (row["choice"], row["hit"], row["rule"]) == ("B", 1, "letter")
    with (tmp_path / "m_Pets_acc.csv").open() as stream:
        assert list(csv.DictReader(stream)) == [{"split": "none", "Overall": "1.0"}]
