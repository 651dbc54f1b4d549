"""Dataset classes: recipes of others, tables of one's own, images that misbehave, files from elsewhere."""

import hashlib
import http.server
import threading

import pytest

from eyechart import vlm
from eyechart.datasets.questions.benchmark_files import fetch
from eyechart.datasets.questions.benchmarks import (
    CHOICE_RULE,
    CIRCULAR,
    OPEN_RULE,
    YES_NO_RULE,
    known_benchmarks,
    prompts,
)
from eyechart.datasets.questions.prediction_files import dump
from eyechart.datasets.questions.question_dataset import DIALOGUE
from eyechart.errors import DataError, UsageError
from eyechart.metrics.cell_values import as_text
from eyechart.scorers import scorer_of
from eyechart.scorers.scorer import Scorer
from support.vlm_data import image_cell, write_benchmark

# A benchmark written by the recipe for VLMEvalKit; only its import line names us.
RECIPE = """
from eyechart.vlm import *


class ColorBench(ImageBaseDataset):
    TYPE = 'VQA'
    DATASET_URL = {'ColorBench': 'http://127.0.0.1:9/ColorBench.tsv'}
    DATASET_MD5 = {'ColorBench': '00000000000000000000000000000000'}

    def build_prompt(self, line):
        if isinstance(line, int):
            line = self.data.iloc[line]
        if self.meta_only:
            tgt_path = toliststr(line['image_path'])
        else:
            tgt_path = self.dump_image(line)
        question = line['question']
        msgs = []
        if isinstance(tgt_path, list):
            msgs.extend([dict(type='image', value=p) for p in tgt_path])
        else:
            msgs = [dict(type='image', value=tgt_path)]
        msgs.append(dict(type='text', value=question + ' Answer with one color.'))
        return msgs

    def evaluate(self, eval_file, **judge_kwargs):
        data = load(eval_file)
        assert 'answer' in data and 'prediction' in data
        data['prediction'] = [str(x) for x in data['prediction']]
        lines = [data.iloc[i] for i in range(len(data))]
        hits = [line['answer'] in line['prediction'].lower() for line in lines]
        res = {'Overall': [sum(hits) / len(hits) * 100]}
        for cate in sorted(set(data['category'])):
            sub = [h for h, line in zip(hits, lines) if line['category'] == cate]
            res[cate] = [sum(sub) / len(sub) * 100]
        dump([{key: value[0] for key, value in res.items()}], eval_file.replace('.xlsx', '_acc.csv'))
        return res
"""


def recipe_class():
    space = {}
    exec(compile(RECIPE, "recipe.py", "exec"), space)  # noqa: S102 - our own text, as a user's module
    return space["ColorBench"]


@pytest.fixture
def colors(lmu_data):
    rows = [
        {"index": i, "question": "Which color?", "answer": color, "category": kind}
        for i, (color, kind) in enumerate([("red", "warm"), ("blue", "cold"), ("orange", "warm")])
    ]
    return write_benchmark(lmu_data / "ColorBench.tsv", rows)


def test_a_class_written_for_the_original_works_after_changing_its_import_line(colors, tmp_path, lmu_data):
    dataset = recipe_class()("ColorBench")
    answered = dataset.data.drop(columns="image").assign(prediction=["RED", "green", "Orange!"])
    dump(answered, tmp_path / "m_ColorBench.xlsx")

    message = dataset.build_prompt(1)
    result = dataset.evaluate(str(tmp_path / "m_ColorBench.xlsx"), model="exact_matching")

    assert message == [
        {"type": "image", "value": str(lmu_data / "images" / "ColorBench" / "1.png")},
        {"type": "text", "value": "Which color? Answer with one color."},
    ]
    assert message == dataset.build_prompt(dataset.data.iloc[1])
    assert result == {"Overall": [pytest.approx(200 / 3)], "cold": [0.0], "warm": [100.0]}
    assert (tmp_path / "m_ColorBench_acc.csv").read_text().startswith("Overall,cold,warm\n")
    assert dataset.supported_datasets() == ["ColorBench"]


def test_the_catalogue_knows_every_family_of_the_guide():
    names = known_benchmarks()
    families = [
        "MMBench_DEV_EN",
        "MMBench_DEV_CN",
        "MMBench_TEST_EN",
        "CCBench",
        "SEEDBench_IMG",
        "MME",
        "CORE_MM",
        "MMVet",
        "MMMU_DEV_VAL",
        "COCO_VAL",
        "OCRVQA_TEST",
        "OCRVQA_TESTCORE",
        "TextVQA_VAL",
        "VCR_EN_EASY_ALL",
        "VCR_ZH_HARD_500",
        "MMMB_en",
        "MMMB_tr",
        "MMBench_dev_ru",
        "POPE",
        "HallusionBench",
        "DocVQA_VAL",
        "InfoVQA_VAL",
        "ChartQA_TEST",
        "OCRBench",
        "MathVista_MINI",
        "MathVision",
        "MMStar",
        "AI2D_TEST",
        "RealWorldQA",
        "ScienceQA_VAL",
    ]

    assert set(families) <= names.keys()
    for benchmark in names.values():
        own = getattr(vlm, benchmark.dataset_class, None)  # a class that one benchmark uses needs no name here
        assert own is None or benchmark.parts or benchmark.name in own.DATASET_URL
        assert isinstance(scorer_of(benchmark), Scorer)
        assert benchmark.prompt in {*prompts(), DIALOGUE}
        assert benchmark.parts or benchmark.url.startswith("https://")
        assert benchmark.by_hand or benchmark.parts or ".tsv" in benchmark.url
        assert benchmark.md5 == "" or len(bytes.fromhex(benchmark.md5)) == 16


@pytest.mark.parametrize(
    ("rows", "cls", "rule", "aggregate", "metric"),
    [
        ([{"question": "q", "A": "x", "B": "y", "answer": "A"}], "CustomMCQDataset", CHOICE_RULE, "", ""),
        (
            [{"question": "q", "A": "x", "B": "y", "answer": "A", "g_index": 0}],
            "CustomMCQDataset",
            CHOICE_RULE,
            CIRCULAR,
            "",
        ),
        (
            [{"question": "q", "answer": "yes"}, {"question": "q", "answer": "No"}],
            "CustomVQADataset",
            YES_NO_RULE,
            "",
            None,
        ),
        ([{"question": "q", "answer": "a cat"}], "CustomVQADataset", OPEN_RULE, "", "normalized_exact"),
        ([{"question": "q", "answer": "['a', 'b', 'c']"}], "CustomVQADataset", OPEN_RULE, "", "vqa_score"),
        (
            [{"answer": "['a cat on a mat']"}],
            "CustomCaptionDataset",
            "rules.texts:whole_text",
            "aggregates.documents:captions",
            "",
        ),
    ],
)
def test_a_table_dropped_into_the_folder_is_a_benchmark(lmu_data, rows, cls, rule, aggregate, metric):
    write_benchmark(lmu_data / "Mine.tsv", [{"index": i, **row} for i, row in enumerate(rows)])

    dataset = vlm.build_dataset("Mine")

    assert type(dataset).__name__ == cls
    assert (dataset.benchmark.scorer, dataset.benchmark.aggregate) == (rule, aggregate)
    assert metric is None or dataset.benchmark.metric == metric


def test_the_metric_of_open_questions_can_be_chosen(lmu_data, tmp_path):
    write_benchmark(lmu_data / "Charts.tsv", [{"index": 0, "question": "How much?", "answer": "100"}])
    dump([{"index": 0, "prediction": "104"}], tmp_path / "p.jsonl")

    exact = vlm.build_dataset("Charts").evaluate(tmp_path / "p.jsonl")
    relaxed = vlm.build_dataset("Charts", metric="relaxed_accuracy").evaluate(tmp_path / "p.jsonl")

    assert (exact["Overall"], relaxed["Overall"]) == (0, 100)
    with pytest.raises(UsageError, match="metric"):
        vlm.build_dataset("Charts", metric="relaxed").evaluate(tmp_path / "p.jsonl")


def test_an_unknown_name_gives_the_nearest():
    with pytest.raises(UsageError) as caught:
        vlm.build_dataset("MMStarr")

    assert "MMStar" in caught.value.advice


def test_rows_share_an_image_by_index(lmu_data):
    rows = [
        {"index": 5, "image": image_cell(9, 9), "question": "q"},
        {"index": 1000005, "image": "5", "question": "q"},
        {"index": 6, "image": "1000005", "question": "q"},
    ]
    write_benchmark(lmu_data / "Shared.tsv", rows)
    dataset = vlm.build_dataset("Shared")

    [first], [second] = dataset.dump_image(0), dataset.dump_image(1)

    assert first != second
    assert vlm.encode_image_file_to_base64(first) == vlm.encode_image_file_to_base64(second) == image_cell(9, 9)
    with pytest.raises(DataError, match="neither base64 nor the index"):
        dataset.dump_image(2)  # one step only, as in the original


def test_a_path_that_was_given_out_never_holds_another_image(lmu_data, tmp_path):
    """Two tables of one name, asked at the same time, share the folder of images."""
    written = {}
    for folder, size in (("a", 9), ("b", 11), ("a", 9)):
        (tmp_path / folder).mkdir(exist_ok=True)
        rows = [{"index": 1, "image": image_cell(size, size), "question": "q", "answer": "x"}]
        table = write_benchmark(tmp_path / folder / "Same.tsv", rows)
        [written[folder]] = vlm.build_dataset(str(table)).dump_image(0)

    assert written["a"] == str(lmu_data / "images" / "Same" / "1.png")
    assert vlm.encode_image_file_to_base64(written["a"]) == image_cell(9, 9)
    assert vlm.encode_image_file_to_base64(written["b"]) == image_cell(11, 11)
    assert len(list((lmu_data / "images" / "Same").iterdir())) == 2


def test_relative_paths_are_found_beside_the_images(lmu_data, tmp_path):
    folder = lmu_data / "images" / "Named"
    folder.mkdir(parents=True)
    vlm.decode_base64_to_image_file(image_cell(), folder / "cat.png")
    (lmu_data / "Named.tsv").write_text("index\timage_path\tquestion\n0\tcat.png\tq\n")

    message = vlm.build_dataset("Named").build_prompt(0)

    assert message[0]["value"] == str(folder / "cat.png")


@pytest.mark.parametrize("name", ["../../outside.png", "/etc/hostname", "a/../../../outside.png"])
def test_a_path_that_leaves_the_folder_is_refused(lmu_data, tmp_path, name):
    (tmp_path / "outside.png").write_bytes(b"secret")
    write_benchmark(lmu_data / "Named.tsv", [{"index": 0, "image": None, "image_path": name, "question": "q"}])
    write_benchmark(lmu_data / "Written.tsv", [{"index": 0, "image_path": name, "question": "q"}])
    write_benchmark(lmu_data / "Index.tsv", [{"index": name.removesuffix(".png"), "question": "q"}])

    for dataset in (vlm.CustomVQADataset("Named", skip_noimg=False), vlm.build_dataset("Written")):
        with pytest.raises(DataError, match="is outside the folder"):
            dataset.build_prompt(0)
    with pytest.raises(DataError, match="is outside the folder"):
        vlm.build_dataset("Index").build_prompt(0)
    assert (tmp_path / "outside.png").read_bytes() == b"secret"


def test_an_image_bomb_is_refused(lmu_data):
    import base64
    import io

    from PIL import Image

    bomb = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(bomb, "PNG")
    cell = base64.b64encode(bomb.getvalue()).decode()
    write_benchmark(lmu_data / "Bomb.tsv", [{"index": 0, "image": cell, "question": "q"}])

    with pytest.raises(DataError, match=r"row '0': .*400000000 pixels"):
        vlm.build_dataset("Bomb").build_prompt(0)
    assert not list((lmu_data / "images").rglob("*.png"))


def test_cells_are_never_evaluated(lmu_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "__import__('pathlib').Path('pwned').touch()"
    rows = [
        {"index": 0, "question": code, "answer": f"[{code}]", "A": code, "B": "=1+1", "category": code},
        {"index": 1, "question": "q", "answer": f"['x', {code}]", "A": "x", "B": "y", "category": "c"},
    ]
    write_benchmark(lmu_data / "Code.tsv", rows)
    write_benchmark(lmu_data / "Keys.tsv", [row | {"answer": "A"} for row in rows])
    write_benchmark(lmu_data / "Open.tsv", [row | {"A": None, "B": None} for row in rows])
    dump([{"index": i, "prediction": code} for i in (0, 1)], tmp_path / "p.xlsx")
    dataset = vlm.build_dataset("Code")

    prompt = dataset.build_prompt(0)[-1]["value"]
    with pytest.raises(DataError, match="none of its letters: A, B"):
        dataset.evaluate(tmp_path / "p.xlsx")
    vlm.build_dataset("Keys").evaluate(tmp_path / "p.xlsx")
    vlm.CustomVQADataset("Open").evaluate(tmp_path / "p.xlsx")

    assert code in prompt
    assert as_text(dataset.data["answer"][1]) == rows[1]["answer"]
    assert not (tmp_path / "pwned").exists()


def test_a_repeated_index_is_refused(lmu_data):
    write_benchmark(lmu_data / "Twice.tsv", [{"index": 1, "question": "q"}, {"index": 1, "question": "q"}])

    with pytest.raises(DataError, match="index '1' occurs twice"):
        vlm.build_dataset("Twice")


def test_rows_without_an_image_are_left_out_and_counted(lmu_data):
    rows = [{"index": 0, "question": "q"}, {"index": 1, "image": None, "question": "q"}]
    write_benchmark(lmu_data / "Some.tsv", rows)

    dataset = vlm.build_dataset("Some")

    assert len(dataset) == 1
    assert [(notice.kind, notice.count) for notice in dataset.notices] == [("rows_without_image", 1)]


@pytest.fixture
def web(tmp_path):
    """A web server with one table."""
    content = b"index\tquestion\tanswer\n0\tq\ta\n"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.answer(body=False)

        def do_GET(self):
            self.answer(body=True)

        def answer(self, *, body):
            found = self.path == "/table.tsv"
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(content) if found else 0))
            self.end_headers()
            if found and body:
                self.wfile.write(content)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", hashlib.md5(content, usedforsecurity=False).hexdigest()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_benchmark_is_downloaded_and_checked(web, lmu_data):
    address, digest = web

    where = {"DATASET_URL": {"Far": f"{address}/table.tsv"}, "DATASET_MD5": {"Far": digest}}
    far = type("Far", (vlm.ImageVQADataset,), where)

    dataset = far("Far", skip_noimg=False)

    assert list(dataset.data["question"]) == ["q"]
    assert [path.name for path in lmu_data.iterdir() if not path.name.startswith(".")] == ["Far.tsv"]


@pytest.mark.parametrize(
    ("file", "digest", "message"), [("table.tsv", "0" * 32, "MD5"), ("none.tsv", "", "no file at")]
)
def test_a_wrong_or_missing_file_never_takes_the_place(web, tmp_path, file, digest, message):
    address, _ = web

    with pytest.raises(DataError, match=message) as caught:
        fetch(f"{address}/{file}", tmp_path / "b.tsv", digest)

    assert str(tmp_path / "b.tsv") in caught.value.advice
    assert not list(tmp_path.glob("b.tsv*"))


def test_circular_sets_are_made_and_scored(lmu_data, tmp_path, capsys):
    from eyechart.cli import main

    rows = [
        {"index": 1, "question": "q", "A": "cat", "B": "dog", "C": "cow", "answer": "B"},
        {"index": 2, "question": "q", "A": "both A and B", "B": "dog", "answer": "B"},
    ]
    write_benchmark(lmu_data / "Pets.tsv", rows)

    assert main(["vlm", "circular", str(lmu_data / "Pets.tsv")]) == 0
    dataset = vlm.build_dataset("Pets_circular")

    assert capsys.readouterr().out.startswith("2 questions, 4 rows, 1 not rotated")
    assert list(dataset.data["index"]) == [1, 2, 1000001, 2000001]
    assert list(dataset.data["answer"]) == ["B", "B", "A", "C"]
    assert dataset.benchmark.aggregate == CIRCULAR
    assert all(dataset.dump_image(i) for i in range(4))
    rows = [{"index": i, "prediction": p} for i, p in zip(dataset.data["index"], ["B", "A", "A", "C"], strict=True)]
    dump(rows, tmp_path / "p.jsonl")
    assert dataset.evaluate(tmp_path / "p.jsonl")["Overall"][0] == 0.5


def test_benchmarks_are_listed_by_whether_they_need_a_judge(capsys):
    from eyechart.cli import main

    assert main(["list", "datasets", "--needs-judge", "no"]) == 0
    free = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert main(["list", "datasets", "--needs-judge", "yes"]) == 0
    judged = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert main(["list", "datasets", "--kind", "Caption"]) == 0
    captions = capsys.readouterr().out

    assert {"MMBench_DEV_EN", "DocVQA_VAL", "COCO_VAL", "MME"} <= free
    assert {"MMVet", "CORE_MM", "MMDU", "LLaVABench", "SimpleVQA"} <= judged
    assert free | judged == known_benchmarks().keys()
    assert captions.split()[0] == "COCO_VAL"


def test_requests_and_places_of_images(lmu_data):
    """Facts of the prompts that no recorded case shows."""
    pair = f"['{image_cell(8, 8)}', '{image_cell(16, 8)}']"
    write_benchmark(lmu_data / "AMBER.tsv", [{"index": 0, "question": "Is it red?", "answer": "yes"}])
    write_benchmark(lmu_data / "Pair.tsv", [{"index": 0, "image": pair, "question": "Same?", "A": "x", "B": "y"}])
    write_benchmark(lmu_data / "Short.tsv", [{"index": 0, "question": "Who?", "answer": "me"}])
    hinted = {"index": 0, "question": "q", "hint": "look left", "A": "x", "B": "y", "answer": "A"}
    write_benchmark(lmu_data / "Hint.tsv", [hinted])

    amber = vlm.ImageYORNDataset("AMBER").build_prompt(0)
    muir = vlm.MUIRDataset("Pair").build_prompt(0)
    mmmu = vlm.MMMUDataset("Pair").build_prompt(0)

    assert amber[-1]["value"] == "Is it red?\nPlease answer yes or no."
    assert [item["type"] for item in muir] == [item["type"] for item in mmmu] == ["image", "image", "text"]
    short = vlm.ImageVQADataset("Short")
    assert short.build_prompt(0)[-1]["value"] == "Who?\nAnswer the question using a single word or phrase."
    assert short.benchmark.metric == "normalized_exact"
    assert vlm.ImageMCQDataset("Hint").build_prompt(0)[-1]["value"].startswith("Hint: look left\nQuestion: q\n")


def test_a_metric_cannot_be_chosen_for_what_has_its_own(lmu_data):
    write_benchmark(lmu_data / "Pets.tsv", [{"index": 0, "question": "q", "A": "x", "B": "y", "answer": "A"}])

    with pytest.raises(UsageError, match="cannot be changed"):
        vlm.build_dataset("Pets", metric="anls")


def test_yes_no_numbers_come_as_a_frame_with_a_line_for_each_split(lmu_data, tmp_path):
    rows = [
        {"index": i, "question": f"Is it {i}?", "answer": "Yes" if i % 2 else "No", "category": "ab"[i // 2]}
        for i in range(4)
    ]
    write_benchmark(lmu_data / "POPE.tsv", rows)
    dump([{**row, "prediction": "Yes"} for row in rows], tmp_path / "m_POPE.xlsx")

    frame = vlm.ImageYORNDataset("POPE").evaluate(str(tmp_path / "m_POPE.xlsx"))

    assert list(frame.columns) == ["split", "Overall", "acc", "precision", "recall"]
    assert list(frame["split"]) == ["Overall", "a", "b"]
    assert list(frame["acc"]) == [50.0, 50.0, 50.0]


@pytest.mark.parametrize(
    ("judge", "name", "value"),
    [({}, "Average Centroid Containment", 1.0), ({"model": "centroid"}, "Average Centroid Containment", 1.0),
     ({"model": "iou"}, "Average IoU", 0.75)],
)  # fmt: skip
def test_the_method_of_grounding_is_named_like_a_judge(lmu_data, tmp_path, judge, name, value):
    rows = [{"index": i, "question": "car", "answer": "[0, 0, 0.5, 0.5]"} for i in range(2)]
    write_benchmark(lmu_data / "tdbench_grounding_rot0.tsv", rows)
    said = ["[0, 0, 0.5, 0.5]", "[0, 0, 0.5, 1]"]
    vlm.dump([{**row, "prediction": said[i]} for i, row in enumerate(rows)], tmp_path / "m_tdbench.jsonl")

    found = vlm.build_dataset("tdbench_grounding_rot0").evaluate(str(tmp_path / "m_tdbench.jsonl"), **judge)

    assert found == {name: value, "Total Samples": 2}


def test_options_of_a_users_table_under_other_names_are_asked_and_scored(lmu_data, tmp_path):
    rows = [{"index": 1, "question": "Which?", "option_a": "cat", "option_b": "dog", "answer": "b"}]
    file = write_benchmark(tmp_path / "Pets.tsv", rows)

    dataset = vlm.build_dataset(str(file))
    vlm.dump([{"index": 1, "prediction": "The answer is B."}], tmp_path / "m_Pets.jsonl")

    assert type(dataset) is vlm.CustomMCQDataset
    assert "B. dog" in dataset.build_prompt(0)[-1]["value"]
    assert dataset.evaluate(str(tmp_path / "m_Pets.jsonl"))["Overall"].to_list() == [1.0]
