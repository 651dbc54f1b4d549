"""VLMEvalKit's surface: files and scripts that were written for it run unchanged, and its helpers do what they did."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from eyechart import vlm
from eyechart.compat.vlmevalkit.evaluation import make_judge
from eyechart.errors import DataError, UsageError
from support.openai_server import OpenAIServer
from support.vlm_data import image_bytes, image_cell, write_benchmark

# A dataset and a model as VLMEvalKit's guide for developers describes them, with the imports that its files have.
DATASET = """
from ..smp import *
from ..smp.file import get_intermediate_file_path
from ..utils import track_progress_rich
from .image_base import ImageBaseDataset
from .utils import DEBUG_MESSAGE, build_judge


def graded(judge, line):
    said = judge.generate(f"Is {line['prediction']} right for {line['answer']}?") if judge else ''
    return dict(hit=int(line['answer'] in line['prediction'].lower() or 'yes' in said.lower()), log=said)


class ColorBench(ImageBaseDataset):
    TYPE = 'VQA'
    DATASET_URL = {'ColorBench': ''}
    DATASET_MD5 = {}

    def build_prompt(self, line):
        if isinstance(line, int):
            line = self.data.iloc[line]
        tgt_path = toliststr(line['image_path']) if self.meta_only else self.dump_image(line)
        msgs = [dict(type='image', value=p) for p in tgt_path]
        msgs.append(dict(type='text', value=line['question'] + ' One word.'))
        return msgs

    def evaluate(self, eval_file, **judge_kwargs):
        data = load(eval_file)
        judge = None if judge_kwargs.get('model') is None else build_judge(**judge_kwargs)
        if judge is not None and not judge.working():
            warnings.warn(DEBUG_MESSAGE)
        tmp_file = get_intermediate_file_path(eval_file, '_tmp', 'pkl')
        ans = load(tmp_file) if osp.exists(tmp_file) else {}
        lines = [data.iloc[i] for i in range(len(data)) if data.iloc[i]['index'] not in ans]
        keys = [x['index'] for x in lines]
        track_progress_rich(graded, [(judge, x) for x in lines], nproc=2, save=tmp_file, keys=keys)
        ans = load(tmp_file)
        data['hit'] = [ans[i]['hit'] for i in data['index']]
        res = defaultdict(list)
        res['Overall'].append(np.mean(data['hit']) * 100)
        for cate in sorted(set(data['category'])):
            res[cate].append(data[data['category'] == cate]['hit'].mean() * 100)
        res = pd.DataFrame(res)
        dump(res, get_intermediate_file_path(eval_file, '_acc'))
        return res
"""
MODEL = """
import torch
from PIL import Image
from .base import BaseModel
from ..smp import *
from ..dataset import DATASET_TYPE


class Colors(BaseModel):
    INSTALL_REQ = False
    INTERLEAVE = False

    def __init__(self, model_path='tiny', **kwargs):
        self.weights = torch.eye(3)

    def use_custom_prompt(self, dataset):
        return listinstr(['Color'], dataset) and DATASET_TYPE(dataset) == 'VQA'

    def build_prompt(self, line, dataset=None):
        path = self.dump_image(line, dataset)
        return [dict(type='image', value=path[0]), dict(type='text', value=line['question'])]

    def generate_inner(self, message, dataset=None):
        prompt, image = self.message_to_promptimg(message, dataset=dataset)
        pixel = torch.tensor(Image.open(image).convert('RGB').getpixel((0, 0))).float()
        return ['red', 'green', 'blue'][int((self.weights @ pixel).argmax())]
"""
SCRIPT = """
from functools import partial
from vlmeval.config import supported_VLM
from vlmeval.dataset import build_dataset
from vlmeval.dataset.colors import ColorBench
from vlmeval.smp import *
from vlmeval.vlm.colors import Colors

supported_VLM['colors'] = partial(Colors, model_path='tiny')
if __name__ == '__main__':
    dataset, model = build_dataset('ColorBench'), supported_VLM['colors']()
    assert isinstance(dataset, ColorBench) and isinstance(dataset.data, pd.DataFrame)
    model.set_dump_image(dataset.dump_image)
    rows = []
    for i in range(len(dataset)):
        line = dataset.data.iloc[i]
        custom = model.use_custom_prompt('ColorBench')
        struct = model.build_prompt(line, 'ColorBench') if custom else dataset.build_prompt(line)
        rows.append(dict(line.drop('image'), prediction=model.generate(struct, dataset='ColorBench')))
    out = get_pred_file_path('.', 'colors', 'ColorBench')
    dump(pd.DataFrame(rows), out)
    print(json.dumps(dataset.evaluate(out).to_dict('records')))
"""
RED, GREEN, BLUE = (200, 30, 30), (30, 200, 30), (30, 30, 200)


@pytest.fixture
def folder(tmp_path, lmu_data):
    """A user's folder: own files where VLMEvalKit keeps its own, and a script."""
    colors = [(RED, "red", "warm"), (GREEN, "blue", "cold"), (BLUE, "blue", "cold")]
    rows = [
        {"index": i, "question": "Which?", "answer": answer, "category": kind, "image": image_cell(color=color)}
        for i, (color, answer, kind) in enumerate(colors)
    ]
    write_benchmark(lmu_data / "ColorBench.tsv", rows)
    work = tmp_path / "work"
    for place, text in {"dataset/colors.py": DATASET, "vlm/colors.py": MODEL}.items():
        path = work / "vlmeval" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (work / "run.py").write_text(SCRIPT)
    return work


def run_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "eyechart", "as", "vlmeval", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False, env=os.environ)


def test_files_and_a_script_written_for_the_original_run_unchanged(folder):
    done = run_in(folder, "run.py")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [{"Overall": pytest.approx(200 / 3), "cold": 50.0, "warm": 100.0}]
    assert (folder / "colors_ColorBench_acc.csv").read_text().splitlines()[0] == "Overall,cold,warm"
    assert (folder / "colors_ColorBench_tmp.pkl").read_bytes().startswith(b"{")  # JSON: nothing is pickled


def test_the_same_files_are_evaluated_by_our_command(folder):
    what = ["--dataset", "python:vlmeval.dataset.colors:ColorBench", "--model", "python:vlmeval.vlm.colors:Colors"]

    done = run_in(folder, "-m", "eyechart", "eval", *what, "--output", "result.json")

    assert done.returncode == 0, done.stderr
    metrics = json.loads((folder / "result.json").read_text())["metrics"]
    assert metrics == {"Overall": pytest.approx(200 / 3), "cold": 50.0, "warm": 100.0}


def test_what_is_neither_served_nor_there_is_named(folder):
    (folder / "bad.py").write_text("import vlmeval.dataset.missing\n")

    done = run_in(folder, "bad.py")

    assert "Eyechart has no vlmeval.dataset.missing" in done.stderr


@pytest.mark.parametrize(
    ("suffix", "wanted", "path"),
    [
        ("_tmp", None, "m_D_tmp.pkl"),
        ("_gpt_response", None, "m_D_gpt_response.pkl"),
        ("_rating", None, "m_D_rating.json"),
        ("_acc", None, "m_D_acc.csv"),
        ("_judge", None, "m_D_judge.xlsx"),
        ("_acc", "json", "m_D_acc.json"),
    ],
)
def test_files_between_two_steps_have_the_originals_names(suffix, wanted, path):
    assert vlm.get_intermediate_file_path("a.b/m_D.xlsx", suffix, wanted) == f"a.b/{path}"


def test_formats_follow_the_environment(monkeypatch):
    monkeypatch.setenv("PRED_FORMAT", "tsv")
    monkeypatch.setenv("EVAL_FORMAT", "json")

    assert vlm.get_pred_file_path("w", "m", "D") == "w/m_D.tsv"
    assert vlm.get_intermediate_file_path("m_D.tsv", "_acc") == "m_D_acc.json"
    monkeypatch.setenv("PRED_FORMAT", "pdf")
    with pytest.raises(UsageError, match="PRED_FORMAT"):
        vlm.get_pred_file_format()


@pytest.mark.parametrize("value", [{1: {"hit": 0}, "a": (1, 2)}, [1, None, {2, 3}], {"__eyechart__": 5}, {(0, 1): "x"}])
def test_a_checkpoint_gives_back_what_went_in_without_a_pickle(value, tmp_path):
    vlm.dump(value, tmp_path / "x.pkl")

    assert vlm.load(tmp_path / "x.pkl") == value


def test_a_pickle_is_refused(tmp_path):
    import pickle

    (tmp_path / "x.pkl").write_bytes(pickle.dumps({"a": 1}))

    with pytest.raises(DataError, match="pickles are not loaded"):
        vlm.load(tmp_path / "x.pkl")


def test_tables_are_data_frames_whose_numbers_are_numbers(tmp_path):
    rows = [
        {"index": 7, "score": 0.5, "code": "007", "answer": 3, "note": "NA"},
        {"index": 8, "score": 1.5, "code": "1"},
    ]
    vlm.dump(pd.DataFrame(rows), tmp_path / "t.tsv")

    table = vlm.load(tmp_path / "t.tsv")

    assert list(table["index"]) == [7, 8]
    assert table["score"].mean() == 1.0
    assert list(table["code"]) == ["007", "1"]  # a number would lose its zeros
    assert table["note"][0] == "NA"
    assert pd.isna(table["note"][1])
    assert pd.isna(table["answer"][1])


def test_a_task_that_is_interrupted_keeps_what_is_done(tmp_path):
    def half(number):
        if number == 3:
            raise RuntimeError("interrupted")
        return number / 2

    file = str(tmp_path / "x.pkl")
    with pytest.raises(RuntimeError):
        vlm.track_progress_rich(half, [1, 2, 3], save=file, keys=["a", "b", "c"])

    assert vlm.load(file) == {"a": 0.5, "b": 1.0}
    assert vlm.track_progress_rich(max, [(1, 5), [7, 2]], nproc=4) == [5, 7]
    assert vlm.track_progress_rich(dict, [{"x": 1}]) == [{"x": 1}]
    for nproc in (0, -1):
        with pytest.raises(AssertionError, match="nproc must be a positive number"):
            vlm.track_progress_rich(dict, [{"x": 1}], nproc=nproc)


def test_the_name_of_a_judge_can_be_part_of_a_file_name():
    judge = make_judge({"model": "org_a/judge_b", "api_base": "http://127.0.0.1:1/v1"})

    assert judge.name == "org_a_judge_b"


def test_numbers_of_a_table_are_numbers_unless_they_would_lose_digits(tmp_path):
    large = str(10**18)
    rows = [["a", "b", "c", "d", "e"], ["1", "1.5", large, f"-{large}", "01"], ["-2", "-0.5", "1", "1", "2"]]
    (tmp_path / "t.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))

    found = vlm.load(str(tmp_path / "t.tsv"))

    assert [list(found[name]) for name in "ab"] == [[1, -2], [1.5, -0.5]]
    assert [list(found[name]) for name in "cde"] == [[large, "1"], [f"-{large}", "1"], ["01", "2"]]


@pytest.mark.parametrize(("answers", "known"), [(["A", "B"], True), (["A", None], False), ([None, None], False)])
def test_a_test_set_can_be_scored_if_all_its_answers_are_there(lmu_data, answers, known):
    rows = [{"index": i, **CHOICE, "answer": answer} for i, answer in enumerate(answers)]
    write_benchmark(lmu_data / "MMBench_TEST_EN.tsv", rows)

    assert vlm.MMBenchOfficialServer("MMBench_TEST_EN") is known


def test_a_judge_is_asked_over_the_network(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with OpenAIServer(answer=lambda _: "Yes, it is.", models=("gpt-4o-mini-2024-07-18",)) as server:
        judge = vlm.build_judge(model="gpt-4o-mini", api_base=f"{server.api_base}/chat/completions", key="k", nproc=4)

        assert judge.working()
        assert judge.generate("Is it?", temperature=0.5) == "Yes, it is."

    bodies = [request.body for request in server.requests if request.path.endswith("chat/completions")]
    assert [(body["model"], body["temperature"]) for body in bodies] == [
        ("gpt-4o-mini-2024-07-18", 0),
        (bodies[1]["model"], 0.5),
    ]


def test_a_judge_that_does_not_answer_says_so_in_the_originals_words():
    judge = vlm.build_judge(model="m", api_base="http://127.0.0.1:9/v1", key="k", retry=1)

    assert not judge.working()
    assert judge.generate("x").startswith("Failed to obtain answer via API")


CHOICE = {"question": "q", "A": "cat", "B": "dog", "answer": "B"}


def test_multiple_choice_is_scored_by_the_originals_functions(tmp_path):
    meta = pd.DataFrame([{"index": i, "category": "x", **CHOICE} for i in range(3)])
    data = meta.assign(prediction=["B", "A", "who knows"])

    judged = vlm.mcq_vanilla_eval(None, data, meta, 2, str(tmp_path / "r.pkl"), "Pets")

    assert list(judged["hit"]) == [1, 0, 0]
    assert vlm.report_acc(judged).to_dict("records") == [
        {"split": "none", "Overall": pytest.approx(1 / 3), "x": pytest.approx(1 / 3)}
    ]
    assert vlm.can_infer("The answer is (B).", {"A": "cat", "B": "dog"}) == "B"
    assert vlm.can_infer("who knows", {"A": "cat", "B": "dog"}) is False


def test_verdicts_in_the_result_file_are_not_asked_for_again(tmp_path):
    asked = []

    class Judge:
        def generate(self, prompt, **_):
            asked.append(prompt)
            return "B"

    meta = pd.DataFrame([{"index": i, "category": "x", **CHOICE} for i in range(3)])
    data = meta.assign(prediction=["B", "who knows", "hard to say"])
    first, again = (vlm.mcq_vanilla_eval(Judge(), data, meta, 1, str(tmp_path / "r.pkl"), "Pets") for _ in range(2))

    assert list(first["hit"]) == list(again["hit"]) == [1, 1, 1]
    assert len(asked) == 2


def test_a_question_counts_if_all_its_rotations_are_right(tmp_path):
    rows = [{**CHOICE, "index": 1}, {"index": 1000001, "question": "q", "A": "dog", "B": "cat", "answer": "A"}]
    meta = pd.DataFrame([*rows, {**CHOICE, "index": 2}])

    right = vlm.mcq_circular_eval(None, meta.assign(prediction=["B", "A", "B"]), meta, 2, str(tmp_path / "a.pkl"))
    wrong = vlm.mcq_circular_eval(None, meta.assign(prediction=["B", "B", "B"]), meta, 2, str(tmp_path / "b.pkl"))

    assert dict(zip(right["index"], right["hit"], strict=True)) == {1: 1, 2: 1}
    assert dict(zip(wrong["index"], wrong["hit"], strict=True)) == {1: 0, 2: 1}


def test_what_is_known_of_a_benchmark_by_its_name():
    assert vlm.DATASET_TYPE("MMBench_DEV_EN") == "MCQ"
    assert vlm.DATASET_TYPE("MME") == "Y/N"
    assert vlm.DATASET_MODALITY("MMBench_DEV_EN") == "IMAGE"
    assert vlm.img_root_map("MMBench_DEV_EN") == "MMBench"
    with pytest.warns(UserWarning, match="assuming MCQ"):
        assert vlm.DATASET_TYPE("Nobody") == "MCQ"


def test_small_helpers(tmp_path):
    assert vlm.cn_string("你好")
    assert not vlm.cn_string("hello")
    assert vlm.version_cmp("4.40.0", "4.9", "gt")
    assert vlm.splitlen("a/b/c") == 3
    assert list(vlm.extract_json_objects('x {"a": 1} {bad} {"b": {"c": 2}}')) == [{"a": 1}, {"b": {"c": 2}}]
    assert vlm.d2df({"Overall": 1.5}).to_dict("records") == [{"Overall": 1.5}]
    assert (vlm.istype("[1, 2]", list), vlm.istype("12", int), vlm.istype("12", list)) == (True, True, False)
    assert not vlm.istype("1.5", int)
    assert vlm.resize_image_by_factor(Image.new("RGB", (10, 6)), 0.5).size == (5, 3)
    assert vlm.resize_image_by_factor(Image.new("RGB", (10, 6)), 0.01).size == (1, 1)
    (tmp_path / "f").write_bytes(b"abc")
    assert vlm.md5(str(tmp_path / "f")) == vlm.md5("abc") == "900150983cd24fb0d6963f7d28e17f72"


@pytest.mark.parametrize(("mode", "size"), [("h", (12, 6)), ("v", (8, 10))])
def test_images_are_put_together(mode, size, tmp_path):
    paths = []
    for i, (width, height) in enumerate([(8, 6), (4, 4)]):
        paths.append(str(tmp_path / f"{i}.png"))
        Path(paths[-1]).write_bytes(image_bytes(width, height))

    whole = vlm.concat_images_vlmeval(paths, mode=mode, return_image=True)

    assert whole.size == size
    assert vlm.read_ok(vlm.concat_images_vlmeval(paths, mode=mode))
    assert not vlm.read_ok(tmp_path / "none.png")


def test_a_video_benchmark_reads_its_table_and_names_its_frames(lmu_data, tmp_path):
    class Clips(vlm.VideoBaseDataset):
        def prepare_dataset(self, dataset):
            vlm.dump([{"video": "a", "question": "q1"}, {"video": "a", "question": "q2"}], tmp_path / "clips.tsv")
            return {"root": str(tmp_path), "data_file": str(tmp_path / "clips.tsv")}

    clips = Clips("Clips", nframe=2)

    assert (len(clips), clips.videos, list(clips.data["index"])) == (2, ["a"], [0, 1])
    frames = clips.frame_paths("a")
    assert frames == [str(lmu_data / "images" / "Clips" / "a" / f"frame-{i}-of-2.jpg") for i in (1, 2)]
    for frame in frames:
        Path(frame).write_bytes(image_bytes())
    assert clips.save_video_frames("a") == frames
    packed = Clips("Clips", pack=True)
    assert len(packed) == 1
    assert list(packed[0]["question"]) == ["q1", "q2"]


def test_an_evaluation_returns_a_data_frame(lmu_data, tmp_path):
    write_benchmark(lmu_data / "Pets.tsv", [{"index": i, **CHOICE} for i in range(2)])
    dataset = vlm.build_dataset("Pets")
    vlm.dump(dataset.data.drop(columns="image").assign(prediction=["B", "A"]), tmp_path / "m_Pets.xlsx")

    table = dataset.evaluate(str(tmp_path / "m_Pets.xlsx"))

    assert isinstance(table, pd.DataFrame)
    assert table["Overall"][0] == 0.5
    assert vlm.LMUDataRoot() == str(lmu_data)
