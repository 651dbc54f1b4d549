"""`eyechart as`: scripts of other tools run unchanged, their imports served by this package."""

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from eyechart.cli import main
from eyechart.compat.import_shim import SURFACES


def run_as(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "eyechart", "as", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_a_script_gets_its_arguments_its_neighbours_and_our_modules(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "neighbour.py").write_text("WORD = 'beside'\n")
    (tmp_path / "sub" / "script.py").write_text(
        "import sys\nimport neighbour\nfrom clip_benchmark.cli import main\nfrom clip_benchmark import cli\n"
        "assert cli.main is main and __name__ == '__main__'\n"
        "print(sys.argv, neighbour.WORD, main(['list', 'tasks', '--json']) if 0 else '')\nsys.exit(3)\n"
    )

    done = run_as(tmp_path, "clip_benchmark", "sub/script.py", "--flag", "x")

    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.strip() == "['sub/script.py', '--flag', 'x'] beside"


def test_a_served_module_runs_by_its_main(tmp_path):
    done = run_as(tmp_path, "clip_benchmark", "-m", "clip_benchmark.cli", "list", "tasks")

    assert done.returncode == 0
    assert "zeroshot_classification" in done.stdout


def test_names_that_need_a_large_library_are_made_when_they_are_asked_for(tmp_path):
    (tmp_path / "script.py").write_text(
        "import sys\nfrom clip_benchmark import cli\nassert 'torch' not in sys.modules\n"
        "assert not hasattr(cli, 'nothing')\nfrom clip_benchmark.cli import dataset_collection\n"
        "assert cli.dataset_collection is dataset_collection\nprint(len(dataset_collection['vtab']))\n"
    )

    done = run_as(tmp_path, "clip_benchmark", "script.py")

    assert (done.stdout, done.stderr) == ("19\n", "")


def test_ours_wins_over_an_installed_package_only_here(tmp_path):
    (tmp_path / "evalscope").mkdir()
    (tmp_path / "evalscope" / "__init__.py").write_text("run_task = 'theirs'\n")
    (tmp_path / "script.py").write_text("from evalscope import run_task\nprint(run_task)\n")

    ours = run_as(tmp_path, "evalscope", "script.py")
    theirs = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert ours.stdout.startswith("<function run_task")
    assert theirs.stdout == "theirs\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["vlmeval"], "No script or module"),
        (["vlmeval", "-m"], "No script or module"),
        (["vlmeval", "missing.py"], "Script not found: missing.py"),
        (["vlmeval", "-m", "vlmeval.missing"], "Module not found: vlmeval.missing"),
        (["vlmeval", "-m", "no_such_module_at_all"], "Module not found: no_such_module_at_all"),
    ],
)
def test_what_cannot_run_is_said(tmp_path, words, said):
    done = run_as(tmp_path, *words)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_module_that_is_not_served_is_named_with_those_that_are(tmp_path):
    (tmp_path / "script.py").write_text("import clip_benchmark.nosuch\n")

    done = run_as(tmp_path, "clip_benchmark", "script.py")

    assert (
        "Eyechart has no clip_benchmark.nosuch; of clip_benchmark it has: clip_benchmark, clip_benchmark.cli, "
        in done.stderr
    )


def test_the_real_package_must_not_be_there_first(tmp_path):
    (tmp_path / "evalscope.py").write_text("")
    code = "import evalscope\nfrom eyechart.compat import act_as\nact_as('evalscope')"

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )

    assert "evalscope has already been imported" in done.stderr


def test_an_unknown_package_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["as", "clip_bench", "x.py"])
    assert "clip_benchmark" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["script.py"], ["-m", "script"]])
def test_workers_that_start_as_new_processes_import_ours_too(tmp_path, words):
    """As torch's loaders start theirs on macOS; a package of that name beside the script does not come before ours."""
    (tmp_path / "clip_benchmark.py").write_text("raise SystemExit('theirs')\n")
    (tmp_path / "script.py").write_text(
        "from multiprocessing import get_context\n"
        "from clip_benchmark.datasets.builder import get_dataset_default_task\n"
        "if __name__ == '__main__':\n    with get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(get_dataset_default_task, ['flickr30k', 'cifar10']))\n"
    )

    done = run_as(tmp_path, "clip_benchmark", *words)

    assert (done.stdout, done.stderr) == ("['zeroshot_retrieval', 'zeroshot_classification']\n", "")


def test_only_the_package_that_was_asked_for_is_served(tmp_path):
    (tmp_path / "script.py").write_text("import clip_benchmark\nimport evalscope\n")

    done = run_as(tmp_path, "clip_benchmark", "script.py")

    assert "No module named 'evalscope'" in done.stderr


@pytest.mark.parametrize("package", SURFACES)
def test_everything_that_is_served_exists(package):
    sources = {source for listed in SURFACES[package].values() for source in listed}
    for source in sources:
        name, _, target = source.rpartition("=")
        module, _, attribute = target.partition(":")
        if not name or find_spec(module.partition(".")[0]):
            assert not attribute or hasattr(import_module(module), attribute), source


def test_the_command_that_exports_is_served_under_the_name_of_its_module(tmp_path):
    done = run_as(tmp_path, "clip_benchmark", "-m", "clip_benchmark.webdataset_builder", "--help")

    assert (done.returncode, done.stderr) == (0, "")
    assert "webdataset folder" in done.stdout
