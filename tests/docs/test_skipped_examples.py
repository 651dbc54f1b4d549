"""Examples that are not run, as they need a network or an hour, are read by the same code as those of users.

Flags are parsed, models and datasets are looked up by name. What the examples suppose to be there is written, small;
on that, jobs are planned up to the files that they would write.
"""

import re
import shutil
from itertools import product
from pathlib import Path

import pytest

from eyechart.cli import make_parser
from eyechart.cli.flags.eval_flags import settings_of
from eyechart.config import make_config
from eyechart.demo import model_folder
from eyechart.outputs import place_of
from eyechart.plan import Planner, dataset_names, dataset_spec, plan_jobs
from eyechart.plan_models import model_specs
from eyechart.tasks.registry import load_task
from support.data import png, write_classification
from support.doc_pages import PAGES, PROGRAMS, ROOT, blocks, commands
from support.seed_models import write_seed_models

LAUNCHERS = {"srun": 3}
"""How many words a launcher takes before the program that it starts."""


def skipped():
    """Yield the commands of ours among the examples that are not run."""
    for page in PAGES:
        for language, options, body in blocks(page):
            if language == "console" and "skip" in options:
                for line in commands(body):
                    program, *words = line[LAUNCHERS.get(line[0], 0) :]
                    if program in PROGRAMS:
                        yield pytest.param(program, words, id=f"{page.relative_to(ROOT)} {' '.join(words)[:60]}")


@pytest.fixture(scope="module")
def supposed(tmp_path_factory):
    """Write what the examples suppose to be there."""
    place = tmp_path_factory.mktemp("examples")
    for name in ("cat", "dog"):
        (place / "photos" / name).mkdir(parents=True)
        (place / "photos" / name / "1.png").write_bytes(png())
    for name in ("cifar10", "cifar100"):
        write_classification(place / "data" / f"wds_{name}")
    (place / "models.txt").write_text("ViT-B-32,openai\nViT-L-14,laion400m_e32\n")
    shutil.copytree(model_folder(), place / "exported")
    (place / "prices.toml").write_text('["my-vlm"]\nprompt = 2.0\ncompletion = 8.0\n')
    (place / "Pets.tsv").write_text("index\tquestion\tA\tB\tanswer\n0\tWhich?\tcat\tdog\tA\n")
    (place / "runs").mkdir()
    (place / "runs" / "epoch_32.pt").write_bytes(b"weights")
    write_seed_models(place / "pretrained")
    for folder in ("my_retrieval_data", "outputs/stand-in-vlm/demo_scenes/retrieval_data"):
        (place / folder / "qrels").mkdir(parents=True)
        (place / folder / "corpus.jsonl").write_text('{"_id": "1", "text": "a cat"}\n')
        (place / folder / "queries.jsonl").write_text('{"_id": "q", "text": "cat"}\n')
        (place / folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
    return place


@pytest.fixture
def there(supposed, monkeypatch):
    monkeypatch.chdir(supposed)


def in_the_table():
    """Yield the commands of the FAQ's table of twenty questions, in both languages."""
    for page in ("faq.md", "zh/faq.md"):
        rows = re.findall(r"^\|.*\|$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.MULTILINE)[2:]
        assert len(rows) == 20, page
        for line in re.findall(r"`(eyechart \w+ [^`]*|eyechart doctor)`", "".join(rows)):
            yield pytest.param("eyechart", line.split()[1:], id=f"{page}: {line}")


@pytest.mark.parametrize(("program", "words"), [*skipped(), *in_the_table()])
def test_the_example_can_be_read(there, program, words):
    args = make_parser(program, words[0]).parse_args(words)
    if words[0] != "eval":
        return
    config = make_config(settings_of(args))
    outputs, here, planner = [], True, Planner()
    for name, language in product(dataset_names(config), config.language):
        spec = dataset_spec(config, name, language)
        here = here and spec.reader != "questions" and Path(spec.root).exists()
        task = load_task(config.task[0]) if config.task != ["auto"] else None
        role = task.needs if task else "generator" if spec.reader == "questions" else "encoder"
        for model in model_specs(config, role, str):
            if config.hub is None and "/" not in model.name:  # others are looked up on a hub
                planner.check(model, role)
            outputs.append(place_of(config.output, model, name, language, config.task[0]))
    assert outputs
    assert len(set(outputs)) == len(outputs)
    if here:
        assert plan_jobs(config, str)


def test_the_readme_s_datasets_without_japanese_names_are_left_out(there):
    """What the README shows is planned whole: English for both, and a word on what is left out."""
    [shown, *in_chinese] = [example.values for example in skipped() if "wds/cifar10" in example.values[1]]
    assert in_chinese == [shown]
    program, words = shown
    said = []

    jobs = plan_jobs(make_config(settings_of(make_parser(program, "eval").parse_args(words))), said.append)

    assert len(jobs) == 4
    assert len([line for line in said if line.startswith("Skipped: ") and "'jp'" in line]) == 2
