"""The commands as people type them."""

import json
import subprocess
import sys

import pytest

from eyechart.cli import main
from eyechart.models.onnx_encoder import OnnxEncoder
from support.data import png, write_classification, write_retrieval, write_tar

TINY = ["--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained", "eyechart-tiny"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def calls(monkeypatch):
    """Count what the image and text towers are asked, without the texts that a model is probed with when loaded."""
    counts = {"images": 0, "texts": 0}
    for name, key in (("encode_images", "images"), ("encode_texts", "texts")):
        original = getattr(OnnxEncoder, name)

        def counted(self, batch, original=original, key=key, **options):
            if key == "images" or not set(batch) <= {"a", "a longer text"}:
                counts[key] += len(batch)
            return original(self, batch, **options)

        monkeypatch.setattr(OnnxEncoder, name, counted)
    return counts


def run(*words):
    return main(["eval", *TINY, "--quiet", *words])


def read(path):
    return json.loads(path.read_text())


def test_a_result_has_the_keys_and_values_of_clip_benchmark(place):
    write_classification(place / "data")

    assert run("--dataset", "wds/pets", "--dataset_root", "data", "--output", "r.json") == 0

    result = read(place / "r.json")
    assert {key: result[key] for key in ("dataset", "model", "pretrained", "task", "language")} == {
        "dataset": "wds/pets",
        "model": "eyechart-tiny",
        "pretrained": "eyechart-tiny",
        "task": "zeroshot_classification",
        "language": "en",
    }
    assert set(result["metrics"]) == {"acc1", "acc5", "mean_per_class_recall"}
    assert result["metrics"]["acc5"] is None  # there are three classes
    assert "no_acc5" in [notice["kind"] for notice in result["notices"]]


def test_a_result_says_how_it_came_about(place):
    assert run("--dataset", "demo/garments", "--output", "r.json", "--limit", "50") == 0

    result = read(place / "r.json")
    assert result["counts"] == {"listed": 50, "scored": 50, "failed": 0}
    acc1 = result["metric_values"]["acc1"]
    assert acc1["chance"] == pytest.approx(0.1)
    low, high = acc1["low"], acc1["high"]
    assert low < result["metrics"]["acc1"] < high
    assert result["provenance"]["versions"]["numpy"]
    assert result["model_card"]["weights_digest"]
    assert result["data"]["fingerprint"]
    assert len((place / "r.records.jsonl").read_text().splitlines()) == 50


def test_a_second_language_embeds_no_image_again(place, calls):
    assert run("--dataset", "demo/garments", "--language", "en", "--output", "{language}.json") == 0
    first = dict(calls)

    assert run("--dataset", "demo/garments", "--language", "en", "de", "--output", "{language}.json") == 0

    assert calls["images"] == first["images"] == 600
    assert calls["texts"] > first["texts"]


def test_other_templates_embed_no_image_again(place, calls):
    (place / "t.txt").write_text("look, a {c}!\n")
    assert run("--dataset", "demo/garments", "--output", "a.json") == 0
    before = dict(calls)

    assert run("--dataset", "demo/garments", "--custom_template_file", "t.txt", "--output", "b.json") == 0

    assert calls["images"] == before["images"]
    assert calls["texts"] == before["texts"] + 10


def test_the_same_run_again_calls_no_tower_and_gives_the_same_numbers(place, calls):
    assert run("--dataset", "demo/scenes", "--output", "a.json") == 0
    before = dict(calls)

    assert run("--dataset", "demo/scenes", "--output", "b.json") == 0

    assert calls == before
    assert read(place / "a.json")["metrics"] == read(place / "b.json")["metrics"]


def test_several_jobs_load_their_model_once(place, monkeypatch):
    loads = []
    original = OnnxEncoder.__init__
    monkeypatch.setattr(OnnxEncoder, "__init__", lambda self, *args: (loads.append(1), original(self, *args))[1])

    run("--dataset", "demo/garments", "demo/scenes", "--language", "en", "de", "--output", "{dataset}{language}.json")

    assert len(loads) == 1


def test_skip_existing_skips_what_is_done_and_repeats_what_is_half_written(place, calls):
    words = ["--dataset", "demo/garments", "--output", "r.json", "--skip_existing", "--limit", "20"]
    assert run(*words) == 0
    whole = (place / "r.json").read_text()

    (place / "r.json").write_text(whole[: len(whole) // 2])
    assert run(*words) == 0
    repaired = read(place / "r.json")["metrics"]
    stamp = (place / "r.json").stat().st_mtime_ns
    assert run(*words) == 0

    assert repaired == json.loads(whole)["metrics"]
    assert (place / "r.json").stat().st_mtime_ns == stamp


def test_skip_existing_does_not_take_another_limit_for_done(place):
    assert run("--dataset", "demo/garments", "--output", "r.json", "--limit", "20") == 0

    assert run("--dataset", "demo/garments", "--output", "r.json", "--limit", "30", "--skip_existing") == 0

    assert read(place / "r.json")["counts"]["scored"] == 30


def test_a_failing_job_does_not_stop_the_others_and_the_exit_code_says_so(place, capsys):
    root = write_classification(place / "data" / "bad", n=2, shards=1)
    write_tar(root / "test" / "0.tar", [("s1.png", b"broken"), ("s1.cls", b"0")])
    write_classification(place / "data" / "good")

    code = run("--dataset", "wds/bad", "wds/good", "--dataset_root", "data/{dataset}", "--output", "{dataset}.json")

    assert code == 1
    assert not (place / "bad.json").exists()
    assert (place / "good.json").exists()
    assert "s1.png: cannot decode" in capsys.readouterr().err


def test_a_run_that_loses_too_many_samples_fails_after_it_was_saved(place, capsys):
    root = write_classification(place / "data", n=2, shards=1)
    images = [png(1), png(2), png(3), b"broken"]
    members = [member for i, data in enumerate(images) for member in ((f"{i}.png", data), (f"{i}.cls", b"0"))]
    write_tar(root / "test" / "0.tar", members)
    words = ["--dataset", "wds/x", "--dataset_root", "data", "--output", "r.json", "--on-error", "skip"]

    assert run(*words, "--min-success", "0.75") == 0
    assert run(*words, "--min-success", "0.8") == 1
    assert run(*words, "--min-success", "0.8", "--skip_existing") == 1

    assert "1 of 4 samples are lost (1 failed): the success rate 0.7500 is below 0.8" in capsys.readouterr().err
    assert read(place / "r.json")["counts"] == {"listed": 4, "scored": 3, "failed": 1}


def test_on_error_skip_counts_and_names_the_broken_images(place):
    root = write_classification(place / "data", n=2, shards=1)
    members = [("a.png", png(1)), ("a.cls", b"0"), ("b.png", b"broken"), ("b.cls", b"1")]
    write_tar(root / "test" / "0.tar", members)

    assert run("--dataset", "wds/x", "--dataset_root", "data", "--output", "r.json", "--on-error", "skip") == 0

    result = read(place / "r.json")
    assert result["counts"] == {"listed": 2, "scored": 1, "failed": 1}
    assert result["failures"][0]["id"] == "0/b"


def test_dumps_put_class_names_and_templates_into_the_result(place):
    write_classification(place / "data")

    run("--dataset", "wds/x", "--dataset_root", "data", "--output", "r.json", "--dump_classnames", "--dump_templates")

    result = read(place / "r.json")
    assert result["classnames"] == ["cat", "dog", "bird"]
    assert result["templates"] == ["a photo of a {c}.", "a {c}"]


def test_an_output_folder_is_made(place):
    assert run("--dataset", "demo/garments", "--limit", "5", "--output", "new/folder/r.json") == 0

    assert (place / "new" / "folder" / "r.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dataset", "demo/garmnts"], "Did you mean demo/garments, "),
        (["--dataset", "wds/x", "--dataset_root", "nowhere"], "There is no dataset at nowhere"),
        (["--dataset", "demo/scenes", "--recall_k", "0"], "recall-k must be 1 or more"),
        (["--dataset", "demo/scenes", "--processes", "0"], "--processes must be 1 or more"),
        (["--dataset", "demo/scenes", "--engine", "ray", "--ray-workers", "-1"], "--ray-workers must be 1 or more"),
        (
            ["--dataset", "demo/scenes", "--engine", "ray", "--processes", "2"],
            "--processes cannot be combined with --engine ray",
        ),
        (["--dataset", "demo/scenes", "--ray-workers", "2"], "need --engine ray"),
    ],
)
def test_wrong_usage_is_one_message_without_traceback(place, capsys, words, message):
    assert run(*words) in (1, 2)

    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_an_unknown_model_family_is_wrong_usage(place, capsys):
    assert main(["eval", "--model_type", "open_clop", "--dataset", "demo/scenes"]) == 2
    assert "Did you mean open_clip?" in capsys.readouterr().err


SEED_FLAGS = """
eval --pretrained_model models.txt --dataset webdatasets.txt --dataset_root data/wds_{dataset_cleaned}
    --output benchmark_{dataset}_{pretrained}_{model}_{language}_{task}.json
eval --dataset=wds/x --task=zeroshot_classification --pretrained=eyechart-tiny --model=eyechart-tiny
    --output=result.json --batch_size=64 --dataset_root data/wds_x
eval --pretrained_model eyechart-tiny,eyechart-tiny --dataset wds/x --dataset_root data/wds_{dataset} --language en
    --output {dataset}_{pretrained}_{model}_{language}_{task}.json
eval --pretrained_model models.txt --dataset webdatasets.txt --dataset_root data/wds_{dataset} --not quiet
    --output {dataset}_{pretrained}_{model}_{language}_{task}.json
eval --dataset wds/x --dataset_root data/wds_x --model eyechart-tiny --pretrained eyechart-tiny --no_amp
    --num_workers 2 --seed 1 --fewshot_k 5 --fewshot_epochs 3 --fewshot_lr 0.1 --train_split train --normalize False
    --feature_root f --skip_load --model_cache_dir m --wds_cache_dir w --annotation_file a --test_split test
"""


@pytest.mark.parametrize("line", SEED_FLAGS.strip().replace("\n    ", " ").split("\n"))
def test_the_command_lines_of_clip_benchmark_run(place, line):
    """As its documentation prints them, on local data and with the embedded model in place of open_clip's."""
    write_classification(place / "data" / "wds_x")
    (place / "models.txt").write_text("eyechart-tiny,eyechart-tiny\n")
    (place / "webdatasets.txt").write_text("wds/x\n")

    assert main([*line.split(), "--model_type", "onnx"], program="clip_benchmark") == 0

    assert list(place.glob("*.json"))


def test_retrieval_reports_every_k_in_both_directions(place):
    write_retrieval(place / "data", captions=[[f"text {i}"] for i in range(12)])

    run("--dataset", "wds/x", "--dataset_root", "data", "--output", "r.json", "--recall_k", "1", "5", "10")

    assert set(read(place / "r.json")["metrics"]) == {
        f"{side}_retrieval_recall@{k}" for side in ("image", "text") for k in (1, 5, 10)
    }


def test_demo_prints_the_command_it_stands_for_and_real_numbers(place, capsys):
    assert main(["demo"]) == 0

    printed = capsys.readouterr().out
    assert "$ eyechart eval demo/garments demo/scenes eyechart-tiny eyechart-tiny-int8 " in printed
    garments = read(next((place / "outputs" / "demo").glob("*garments*_en_*.json")))
    scenes = read(next((place / "outputs" / "demo").glob("*scenes*_en_*.json")))
    assert garments["metrics"]["acc1"] >= 0.80
    for side in ("image", "text"):
        name = f"{side}_retrieval_recall@5"
        assert scenes["metrics"][name] >= 5 * scenes["metric_values"][name]["chance"]


def test_a_reader_that_has_seen_enough_is_no_error():
    """As with ``eyechart list datasets | head -1``."""
    command = [sys.executable, "-m", "eyechart", "list", "datasets"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        said = process.stderr.read()

    assert process.returncode == 141
    assert "Traceback" not in said
    assert "Exception" not in said


def test_help_is_quick_and_imports_nothing_heavy():
    code = """
import sys, time
start = time.process_time()
from eyechart.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
heavy = {"torch", "pydantic", "numpy", "onnxruntime", "rich", "transformers", "PIL"} & set(sys.modules)
print(sorted(heavy), time.process_time() - start, file=sys.stderr)
"""
    for words in (["--help"], ["eval", "--help"]):
        command = [sys.executable, "-c", code, *words]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True).stderr for _ in range(3)]
        heavy, seconds = zip(*(said.rsplit(" ", 1) for said in runs), strict=True)

        assert {found.strip() for found in heavy} == {"[]"}
        assert min(map(float, seconds)) < 0.3  # the first may compile, and others may use the same core


def test_a_warm_run_imports_no_model_library(place):
    words = ["eval", *TINY, "--dataset", "demo/garments", "--quiet", "--output", "r.json"]
    assert main(words) == 0
    code = "import sys; from eyechart.cli import main; main(sys.argv[1:]); print('onnxruntime' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)

    assert done.stdout.split()[-1] == "False"
