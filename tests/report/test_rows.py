"""One model is one row, however it was called; runs in other settings are rows that say what differs."""

import json
import re
import shutil
from dataclasses import replace

import pytest

from eyechart import evaluate
from eyechart.demo import model_folder
from eyechart.report.loader import LoadedResult, load_results
from eyechart.report.result_table import make_table
from support.make_results import exam, make_control, sit


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Run the embedded model in some way."""
    root = tmp_path_factory.mktemp("tiny")

    def run(name, *, model="eyechart-tiny", dataset="demo/garments", **settings):
        output = root / f"{name}.json"
        evaluate(
            model_type="onnx", model=[str(model)], pretrained=[str(model)], dataset=[dataset], output=str(output),
            num_workers=0, **{"limit": 60, **settings},
        )  # fmt: skip
        return output

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EYECHART_CACHE", str(root / "cache"))
        yield run


def table_of(tmp_path, *files):
    """Put results into one folder and arrange them."""
    tmp_path.mkdir()
    for file in files:
        for part in file.parent.glob(f"{file.stem}.*"):
            shutil.copy(part, tmp_path)
    return make_table(load_results([tmp_path]).found)


def labels(table):
    return [model.label for model in table.models]


def test_the_same_weights_under_two_names_are_one_row_and_a_note_names_both(tiny, tmp_path):
    copy = shutil.copytree(model_folder(), tmp_path / "my-own-copy")

    table = table_of(tmp_path / "in", tiny("a"), tiny("b", model=copy, dataset="demo/scenes"))

    assert labels(table) == ["eyechart-tiny"]
    assert len(table.cells) == 2
    assert table.notices == [
        f"{copy} and eyechart-tiny are the same model (weights, transform and precision): one row, eyechart-tiny."
    ]


def test_two_names_of_one_model_on_one_benchmark_are_one_result_the_newest(tiny, tmp_path):
    copy = shutil.copytree(model_folder(), tmp_path / "copy")

    table = table_of(tmp_path / "in", tiny("a"), tiny("c", model=copy))

    assert labels(table) == ["eyechart-tiny"]
    assert len(table.replaced) == 1


def test_other_weights_under_one_name_are_two_rows(exam_data, tmp_path):
    sit(exam_data, tmp_path / "a.json", "same", range(10))
    sit(exam_data, tmp_path / "b.json", "same", range(90))

    table = make_table(load_results([tmp_path]).found)

    plain, other = sorted(labels(table), key=len)
    assert plain == "same"
    assert other.startswith("same [weights ")
    assert sorted(value for value in table.values(table.columns()[0])) == [0.1, 0.9]


def test_runs_in_other_settings_are_all_shown_with_what_differs(tiny, tmp_path):
    table = table_of(
        tmp_path / "in",
        tiny("usual"),
        tiny("retrieval", dataset="demo/scenes"),
        tiny("short", limit=30),
        tiny("german", language=["de"]),
        tiny("full", metrics="full"),
    )

    assert labels(table) == ["eyechart-tiny", "eyechart-tiny [limit 30]"]
    assert [sum(model == row for model, _ in table.cells) for row in (0, 1)] == [3, 1]
    assert len(table.replaced) == 1  # --metrics full adds numbers and changes none: of the two the newest is shown


def test_other_templates_are_told_by_the_first_and_how_many_there_are(tiny, tmp_path):
    (tmp_path / "one.txt").write_text("a blurry {c}\n")
    (tmp_path / "many.txt").write_text("".join(f"a blurry {{c}} in row {i}\n" for i in range(9)))
    runs = [tiny(name, custom_template_file=str(tmp_path / name)) for name in ("one.txt", "many.txt")]

    table = table_of(tmp_path / "in", *runs, tiny("usual"), tiny("usual, with more numbers", metrics="full"))

    plain, many, one = labels(table)
    assert (plain, one) == ("eyechart-tiny", "eyechart-tiny [templates a blurry {c}]")
    assert re.fullmatch(r"eyechart-tiny \[templates a blurry {c} in row 0 and 8 more, [0-9a-f]{8}\]", many)


def test_of_two_runs_the_whole_one_is_the_usual_one(tiny, tmp_path):
    table = table_of(tmp_path / "in", tiny("whole", limit=None), tiny("short, and newer", limit=30))

    assert labels(table) == ["eyechart-tiny", "eyechart-tiny [limit 30]"]


def test_what_goes_without_saying_is_said_where_it_tells_runs_apart(tmp_path):
    now, before = exam(tmp_path / "now" / "photos"), exam(tmp_path / "before" / "photos", n=15)
    for number, (root, limit) in enumerate([(now, None), (now, None), (now, 20), (before, 20)]):
        sit(root, tmp_path / "in" / f"{number}.json", "m", limit=limit)

    plain, *others = labels(make_table(load_results([tmp_path / "in"]).found))

    assert plain == "m"
    assert len(others) == 2
    assert all(re.fullmatch(r"m \[limit 20, data [0-9a-f]{8}\]", label) for label in others), others


def test_other_class_names_are_told_by_the_digest_of_their_prompts(tiny, tmp_path):
    names = tmp_path / "names.json"
    names.write_text(json.dumps([f"thing {i}" for i in range(10)]))

    table = table_of(tmp_path / "in", tiny("usual"), tiny("named", custom_classname_file=str(names)))

    assert len(labels(table)) == 2
    assert any("prompts " in label for label in labels(table))


def test_a_run_that_is_not_the_usual_one_says_so_wherever_it_is(exam_data, tmp_path):
    other = exam(tmp_path / "other")
    for number, (root, limit) in enumerate([(exam_data, None), (exam_data, 50), (other, 50)]):
        sit(root, tmp_path / "in" / f"{number}.json", "m", limit=limit)

    assert labels(make_table(load_results([tmp_path / "in"]).found)) == ["m", "m [no limit]"]


def test_a_control_stays_a_row_of_its_own(tmp_path):
    table = make_table(load_results([make_control(tmp_path)]).found)

    assert len(table.models) == 2
    assert table.names == ()


def test_files_that_are_named_one_by_one_are_rows_by_what_differs(exam_data, tmp_path):
    other = exam(tmp_path / "other")
    for number, (root, limit) in enumerate([(exam_data, None), (exam_data, 50), (other, None)]):
        sit(root, tmp_path / "in" / f"{number}.json", "m", limit=limit)

    table = make_table(load_results(sorted((tmp_path / "in").glob("*.json"))).found)

    assert labels(table) == ["m", "m [limit 50]"]


@pytest.mark.parametrize("later", ["plain", "custom"])
@pytest.mark.parametrize("flags", ["", " --device cpu --num-workers 4 --output r"])
def test_the_plain_name_goes_to_the_run_with_fewer_flags(exam_data, tmp_path, later, flags):
    """Templates of one's own are the unusual ones, whichever run was the last; flags that change no number are not."""
    result = sit(exam_data, tmp_path / "m.json", "m")
    commands = {"plain": f"eyechart eval exam m{flags}", "custom": "eyechart eval exam m --custom-template-file t.txt"}
    templates = {"plain": ["a photo of a {c}."], "custom": ["a blurry {c}"]}
    found = [
        LoadedResult(
            replace(
                result,
                details={**result.details, "templates": templates[name]},
                provenance={**result.provenance, "command": command, "date": f"2026-01-0{1 + (name == later)}"},
            )
        )
        for name, command in commands.items()
    ]

    assert labels(make_table(found)) == ["m", "m [templates a blurry {c}]"]
