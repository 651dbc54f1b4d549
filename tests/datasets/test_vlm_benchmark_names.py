"""Every benchmark that VLMEvalKit knows by name: scored, or refused by name with the reason."""

import importlib.util
import inspect
import tomllib
from pathlib import Path

import pytest

from eyechart.cli import main
from eyechart.datasets.questions.benchmarks import known_benchmarks, refused_benchmarks
from eyechart.datasets.questions.question_reader import open_questions
from eyechart.datasets.resolve import resolve_dataset
from eyechart.errors import DataError, UsageError
from eyechart.scorers.scorer import load_function, scorer_of, split_spec
from eyechart.vlm import build_dataset
from support.vlm_data import write_benchmark

ROOT = Path(__file__).parents[2]
FACTS = (ROOT / "tests" / "data" / "facts" / "vlmevalkit_names.tsv").read_text(encoding="utf-8").splitlines()
DIGESTS = dict(line.split("\t") for line in FACTS)
ROWS = [{"index": i, "question": "Which?", "A": "cat", "B": "dog", "answer": "A"} for i in range(2)]


def test_every_name_is_scored_or_refused_but_not_both():
    known, refused = known_benchmarks(), refused_benchmarks()

    assert len(DIGESTS) == 502
    assert set(DIGESTS) <= {*known, *refused}
    assert not known.keys() & refused.keys()
    assert all(reason.strip() for reason in refused.values())


def test_digests_are_those_of_the_original():
    known = known_benchmarks()

    assert {name: known[name].md5 for name in known if DIGESTS.get(name)} == {
        name: DIGESTS[name].lower() for name in known if DIGESTS.get(name)
    }


@pytest.mark.parametrize("key", ["rule", "aggregate"])
def test_functions_that_the_catalogue_names_are_there_and_take_their_options(key):
    for benchmark in known_benchmarks().values():
        assert scorer_of(benchmark).benchmark is benchmark
        if not benchmark.parts:
            name, options = split_spec(getattr(benchmark, key))
            options |= {"metric": benchmark.metric} if key == "rule" and benchmark.metric else {}
            rows = [{}] if key == "aggregate" else [{}, "answer"]
            function = load_function(name)
            elsewhere = function.hooks.prepare_options if hasattr(function, "hooks") else ()
            inspect.signature(function).bind(*rows, **{k: v for k, v in options.items() if k not in elsewhere})


def test_a_refused_name_says_why():
    name, reason = next(iter(refused_benchmarks().items()))

    with pytest.raises(UsageError, match=f"{name} is not scored: ") as error:
        resolve_dataset(name, "root")
    assert reason in error.value.message
    assert f"path/to/{name}.tsv" in error.value.advice


@pytest.mark.parametrize("name", [next(iter(refused_benchmarks())), "MMStar"])
def test_a_table_with_the_name_of_a_benchmark_is_scored_by_general_rules_and_says_so(name, tmp_path):
    dataset = open_questions(resolve_dataset(str(write_benchmark(tmp_path / f"{name}.tsv", ROWS)), "root"))

    assert [notice.kind for notice in dataset.table.notices] == ["other_rules"]
    assert dataset.info.benchmark.scorer == "rules.choices:letter"


def test_another_file_under_an_official_name_is_said_to_be_another(lmu_data):
    write_benchmark(lmu_data / "MMStar.tsv", ROWS)

    assert [notice.kind for notice in open_questions(resolve_dataset("MMStar", "root")).table.notices] == ["other_file"]


def test_a_benchmark_without_one_table_says_how_to_make_it(lmu_data):
    with pytest.raises(DataError, match="no downloadable table") as error:
        open_questions(resolve_dataset("OmniMedVQA", "root"))

    assert "join the files" in error.value.advice


def test_the_lists_in_the_docs_are_those_of_the_catalogue():
    spec = importlib.util.spec_from_file_location("vlm_benchmarks", ROOT / "scripts" / "vlm_benchmarks.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    for file, text in script.pages().items():
        assert file.read_text(encoding="utf-8") == text, "run `make vlm-benchmarks`"
    assert "`1,200` as 1" in script.deviations()
    assert "MathVista_MINI" in script.deviations()


def test_names_of_videos_are_refused_as_such(lmu_data):
    videos = [name for name, reason in refused_benchmarks().items() if "videos" in reason]

    assert len(videos) == 56
    for name in ("Video-MME", "MVBench", "VSI-Bench", "MMSIVideoBench", videos[-1]):
        with pytest.raises(UsageError, match=f"{name} is not scored: it asks about videos"):
            resolve_dataset(name, "root")
        with pytest.raises(UsageError, match="it asks about videos"):
            build_dataset(name)


def test_info_tells_what_is_known_of_a_benchmark(capsys):
    refused, why = next(iter(refused_benchmarks().items()))
    for name in (refused, "MMMB", "OmniMedVQA", "VisuLogic"):
        assert main(["info", name]) == 0
    said = capsys.readouterr().out

    assert why in said
    assert "MMMB_pt" in said
    assert "join the files" in said
    assert "visual logical reasoning" in said


def test_the_surface_of_the_original_says_the_same(lmu_data, tmp_path, caplog):
    refused = next(iter(refused_benchmarks()))
    write_benchmark(lmu_data / "MMStar.tsv", ROWS)
    beside = write_benchmark(tmp_path / f"{refused}.tsv", ROWS)

    build_dataset("MMStar")
    build_dataset(str(beside))
    assert "differs from the published file of MMStar" in caplog.messages[0]
    assert "scored by the general rules" in caplog.messages[1]
    with pytest.raises(UsageError, match=f"{refused} is not scored"):
        build_dataset(refused)


def test_every_entry_names_its_rule_and_its_aggregate_so_that_a_search_leads_to_the_code():
    folder = ROOT / "src" / "eyechart" / "datasets" / "questions" / "benchmarks"
    families = [
        family
        for path in sorted(folder.glob("*.toml"))
        for family in tomllib.loads(path.read_text(encoding="utf-8")).get("family", ())
    ]

    lacking = [list(family["datasets"]) for family in families if not {"rule", "aggregate"} <= family.keys()]

    assert len(families) > 150
    assert lacking == []
