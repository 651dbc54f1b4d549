"""Golden runs: one small real result per task through the command line, planned jobs, and the flags of all commands.

Everything goes through ``eyechart.cli.main`` and the files that it writes; only `flags_of` looks inside.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "data" / "golden"
RUNS, PLANS, FLAGS = (FOLDER / name for name in ("runs.json", "plans.json", "flags.json"))
OPTIONS = "--metrics full --recall-k 1 5 10 --fewshot-epochs 2 --seed 0 --quiet --device cpu --thumbnails 0"
ENCODED = {
    "classification": "", "several labels": "", "retrieval": "", "retrieval, some captions repeat": "", "texts": "",
    "collection": "", "selection": "", "associations": "", "similarity": "", "clustering": "", "knn": "",
    "logistic_probe": "", "linear_probe": "--val-proportion 0.3", "knn in folds": "--folds 3",
    "classification, lopsided": "--language en",
}  # fmt: skip
"""Benchmarks of `support.makers` that an encoder is evaluated on, with further flags."""
WRITTEN = {
    "captioning": "captions --task captioning",
    "image_caption": "captions --task image_caption --caption-prompt Describe",
    "questions": "Pets.tsv --repeats 2 --group-by category",
    "questions, judged": "Pets.tsv --judge test-model --judge-api-base {api_base} --judge-repeats 2",
}
"""What a generator behind a server is evaluated on."""
DEMO = "demo/garments demo/scenes eyechart-tiny eyechart-tiny-int8 --language en de --recall-k 1 5 10 --limit 120"
SENTENCES = ("a red dog", "the old car", "a big house", "A", "B", "cat", "Right", "who knows what this may be")


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[Path]:
    """Work in a folder with a cache and a home for benchmarks of its own."""
    before, values = Path.cwd(), dict(os.environ)
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    os.environ |= {"EYECHART_CACHE": str(folder / "cache"), "LMUData": str(folder / "LMUData")}
    os.environ |= {"HF_HUB_CACHE": str(folder / "hub"), "COLUMNS": "120"}
    try:
        yield folder
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ |= values


def call(words: str) -> tuple[int, str]:
    """Run the command line; return the exit code and what it printed."""
    from eyechart.cli import main

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            code = main(shlex.split(words))
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, printed.getvalue()


def run_names() -> list[str]:
    """Name all runs."""
    return ["demo", *ENCODED, *WRITTEN, "mteb"]


def run_facts(name: str, folder: Path) -> dict[str, Any]:
    """Run one benchmark in an empty folder; return what is compared of each result by its file's name."""
    with working_in(folder):
        if name == "demo":
            code, printed = call(f"eval {DEMO} --quiet --output {'out/{dataset}_{model}_{language}.json'!r}")
        elif name in ENCODED:
            code, printed = _encode(name)
        elif name == "mteb":
            code, printed = _mteb()
        else:
            code, printed = _write(name)
        assert code == 0, printed
        return {path.name: result_facts(path) for path in sorted(Path("out").glob("*.json"))}


def _encode(name: str) -> tuple[int, str]:
    from support.makers import MAKERS

    maker = MAKERS[name]
    maker.write(Path("data"))
    flags = f"{OPTIONS} {ENCODED[name]} --output out/result.json"
    return call(f"eval data eyechart-tiny --task {maker.task} {flags}")


def _write(name: str) -> tuple[int, str]:
    from support.data import write_retrieval
    from support.openai_server import OpenAIServer
    from support.vlm_data import write_benchmark

    things = [f"a {colour} {thing}" for colour in ("red", "old", "big") for thing in ("dog", "car", "house")]
    write_retrieval(Path("captions"), captions=[[text, f"the {text.split()[-1]}"] for text in things])
    pets = [
        {"index": i, "question": f"Which animal is it, {i}?", "A": "cat", "B": "dog", "answer": "AB"[i % 2]}
        | {"category": f"c{i % 3}", "l2-category": f"l{i % 2}"}
        for i in range(24)
    ]
    write_benchmark(Path("Pets.tsv"), pets)
    with OpenAIServer(answer=_sentence) as server:
        words = WRITTEN[name].format(api_base=server.api_base)
        model = f"--model test-model --model-type api --api-base {server.api_base}"
        return call(f"eval --dataset {words} {model} --quiet --output out/result.json --min-success 0")


def _sentence(body: Mapping[str, Any]) -> str:
    """Answer by content, so that the order of requests does not matter."""
    text = json.dumps(body["messages"], sort_keys=True)
    return SENTENCES[hashlib.sha256(text.encode()).digest()[0] % len(SENTENCES)]


def _mteb() -> tuple[int, str]:
    import sys

    from mteb.abstasks import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    from support.clipart import ROWS
    from support.text_models import minilm

    Path("sts").mkdir()
    others = [ROWS[(i + i % 3) % len(ROWS)]["description"] for i in range(30)]
    pairs = [{"sentence1": row["title"], "sentence2": other} for row, other in zip(ROWS, others, strict=False)]
    lines = [json.dumps({**pair, "score": float(5 - i % 3)}) for i, pair in enumerate(pairs)]
    Path("sts/test.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.environ["HF_DATASETS_CACHE"] = str(Path("hf").absolute())

    class GoldenSTS(AbsTaskSTS):
        metadata = TaskMetadata(
            name="GoldenSTS", dataset={"path": str(Path("sts").absolute()), "revision": "1"}, description="drawings",
            reference=None, type="STS", category="t2t", modalities=["text"], eval_splits=["test"],
            eval_langs=["eng-Latn"], main_score="cosine_spearman", date=("2004-01-01", "2010-01-01"), domains=["Web"],
            task_subtypes=[], license="cc0-1.0", annotations_creators="derived", dialect=[], sample_creation="found",
            bibtex_citation="",
        )  # fmt: skip
        min_score, max_score = 0, 5

    registry = sys.modules["mteb.get_tasks"]._TASKS_REGISTRY
    registry["GoldenSTS"] = GoldenSTS
    try:
        model = f"--model {minilm()} --model-type sentence-transformers"
        return call(f"eval --dataset mteb/GoldenSTS {model} --quiet --output out/result.json")
    finally:
        del registry["GoldenSTS"]


def result_facts(path: Path) -> dict[str, Any]:
    """Return what is compared of a result file: numbers to 1e-6, counts, and the keys of the file and its records."""
    result = json.loads(path.read_text(encoding="utf-8"))
    records = path.with_name(f"{path.stem}.records.jsonl")
    lines = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()] if records.exists() else []
    numbers = {key: result.get(key) for key in ("metrics", "metric_values", "facts", "counts")}
    return {
        "task": result["task"],
        **rounded(numbers),
        "notices": {notice["kind"]: notice["count"] for notice in result.get("notices", ())},
        "keys": sorted(set(paths(result))),
        "records": len(lines),
        "record_keys": sorted({place for line in lines for place in paths(line)}),
    }


OPEN_KEYS = re.compile(
    r"^(metrics|metric_values|facts|details\.table|details\.rules|model_card\.options|provenance\.(libraries|packages|"
    r"versions)|job\..*options|details\.groups)\b\.?.*"
)
"""Where keys are names of metrics, libraries or options, not of the format."""


def paths(value: Any, at: str = "") -> Iterator[str]:
    """Yield the keys of nested objects with dots between them; objects of a list share their keys."""
    if isinstance(value, dict):
        for key, item in value.items():
            place = f"{at}.{key}" if at else key
            yield (OPEN_KEYS.match(place) or [place, place])[1]
            yield from () if OPEN_KEYS.match(place) else paths(item, place)
    elif isinstance(value, list):
        for item in value:
            yield from paths(item, f"{at}[]")


def rounded(value: Any) -> Any:
    """Round numbers to 1e-6, as libraries of linear algebra differ by more than the last digit."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return round(value, 6) + 0.0 if isinstance(value, float) else value


PLANNED = """
eval demo/garments eyechart-tiny
eval demo/garments eyechart-tiny --limit 50
eval demo/garments demo/scenes eyechart-tiny eyechart-tiny-int8 --language en de --recall-k 1 5 10
eval photos/ eyechart-tiny
eval photos/ ViT-B-32:laion2b_s34b_b79k
eval cifar10 imagenet1k ViT-B-32:openai ViT-L-14:openai --device cuda
eval --dataset cifar10 --model ViT-B-32 --pretrained laion2b_s34b_b79k
eval --pretrained-model openai openclip_base --dataset vtab+
eval --dataset vtab+ retrieval --model ViT-B-32 --pretrained openai --output "out/{dataset}_{model}_{pretrained}.json"
eval --model internvl_c_classification --pretrained ./pretrained/internvl_c_13b_224px.pth --dataset imagenet1k
eval --model internvl_g_retrieval_hf --pretrained ./pretrained/InternVL-14B-224px --dataset flickr30k
eval MMBench_DEV_EN Qwen/Qwen2.5-VL-7B-Instruct --api-base http://localhost:8000/v1
eval --dataset MMBench_DEV_EN MME --model-type api --model Qwen/Qwen2.5-VL-7B-Instruct --api-base http://h:8000/v1
eval --dataset DocVQA_VAL --model-type transformers --model HuggingFaceTB/SmolVLM-256M-Instruct
eval --dataset demo/scenes --task image_caption --limit 60 --model-type api --model vlm --api-base http://h:8000/v1
eval --model eyechart-tiny --dataset photos --task knn --folds 2 --output folds.json
eval --model eyechart-tiny --dataset demo/garments --task linear_probe logistic_probe --folds 5
eval --append --model eyechart-tiny --dataset demo/garments demo/scenes --language en de --output result.jsonl
eval search/ eyechart-tiny --recall-k 1 5
eval texts eyechart-tiny --task text_retrieval
eval --dataset mteb/STS16 --model BAAI/bge-small-en-v1.5 --model-type sentence-transformers
eval demo/garments eyechart-tiny --like clip_benchmark
eval cifar10 ViT-B-32:openai --offline
eval nowhere eyechart-tiny
eval demo/garments eyechart-tny
eval demo/garments eyechart-tiny --task zeroshot_retrieval
run task.yaml
run captions.yaml
"""
"""Commands of the README and the documentation that are planned without a network, and some that are refused."""
TASK = """
eval_backend: RAGEval
work_dir: outputs
eval_config:
  tool: clip_benchmark
  eval:
    models: [{model_name: eyechart-tiny}]
    dataset_name: [demo/garments]
    split: test
    limit: 20
"""
CAPTIONS = """
eval_backend: RAGEval
eval_config:
  tool: clip_benchmark
  eval:
    models: [{model_name: internvl2-8b, api_base: "http://h:8000/v1", api_key: xxx, prompt: Describe}]
    dataset_name: [custom]
    data_dir: search
    task: image_caption
    limit: 10
"""


MANY = 40
"""Lines of a plan that are stored as they are; of more, a digest."""
OF_THIS_MACHINE = (
    (r"[\d.,]+ [kMGT]?B free", "SPACE free"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME"),
    (r"in [\d.]+ s, [\d.]+/s", "in SECONDS"),
)


def planned_commands() -> list[str]:
    """List the commands that are planned."""
    return PLANNED.strip().splitlines()


def write_plan_data(folder: Path) -> None:
    """Write the data that the planned commands name."""
    from support.data import png, write_retrieval
    from support.makers import MAKERS

    for name, color in (("cat", 1), ("dog", 2)):
        for i in (0, 1):
            (folder / "photos" / name).mkdir(parents=True, exist_ok=True)
            (folder / "photos" / name / f"{i}.png").write_bytes(png(color + 2 * i))
    write_retrieval(folder / "search", captions=[["a dog"], ["a cat", "the cat"]])
    MAKERS["texts"].write(folder / "texts")
    (folder / "task.yaml").write_text(TASK, encoding="utf-8")
    (folder / "captions.yaml").write_text(CAPTIONS, encoding="utf-8")


def plan_facts(command: str, folder: Path) -> dict[str, Any]:
    """Plan a command; return the exit code and the lines, without what belongs to this machine."""
    with working_in(folder):
        code, printed = call(f"{command} --dry-run")
    text = printed.replace(str(folder.resolve()), ".").replace(str(folder), ".")
    for pattern, instead in OF_THIS_MACHINE:
        text = re.sub(pattern, instead, text)
    lines = text.splitlines()
    if len(lines) > MANY:
        rest = "\n".join(lines[MANY:])
        lines = [*lines[:MANY], f"{len(lines) - MANY} more: {hashlib.sha256(rest.encode()).hexdigest()[:16]}"]
    return {"exit": code, "lines": lines}


def flags_of(command: str) -> dict[str, Any]:
    """Return the flags of a command and of its tools: spellings, choices, arity, and the default that a run gets."""
    from eyechart.cli import make_parser

    (choices,) = (a.choices for a in make_parser("eyechart", command)._actions if isinstance(a.choices, dict))
    effective = _eval_defaults() if command == "eval" else {}
    return dict(_flags(choices[command], command, effective))


def _flags(parser: Any, name: str, effective: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    found = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for tool, inner in action.choices.items():
                yield from _flags(inner, f"{name} {tool}", effective)
            continue
        default = None if action.default == argparse.SUPPRESS else action.default
        default = effective.get(action.dest, default)
        facts = {
            "dest": action.dest,
            "nargs": action.nargs,
            "choices": [str(choice) for choice in action.choices] if action.choices is not None else None,
            "const": action.const,
            "default": default,
            "required": action.required or None,
            "hidden": True if action.help == argparse.SUPPRESS else None,
        }
        key = " ".join(sorted(action.option_strings, key=len)) or action.dest
        found[key] = {fact: value for fact, value in facts.items() if value not in (None, "help")}
    yield name, json.loads(json.dumps(found, sort_keys=True, default=str))


def _eval_defaults() -> dict[str, Any]:
    """Return what a run of ``eval`` without flags has, by the setting's name."""
    from eyechart.cli.flags.eval_flags import eval_settings

    return {name: one.default for name, one, _ in eval_settings()}


def commands() -> tuple[str, ...]:
    """Name the commands."""
    from eyechart.cli import COMMANDS

    return tuple(COMMANDS)


def write_json(path: Path, value: Any) -> None:
    """Store values, one line for each entry."""
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(item, ensure_ascii=False)}" for key, item in value.items())
    path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read stored values."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_runs(folder: Path) -> None:
    """Store all runs."""
    write_json(RUNS, {name: run_facts(name, folder / re.sub(r"\W+", "_", name)) for name in run_names()})


def write_plans(folder: Path) -> None:
    """Store all plans."""
    write_plan_data(folder)
    write_json(PLANS, {command: plan_facts(command, folder) for command in planned_commands()})


def write_flags(_: Path) -> None:
    """Store the flags of all commands."""
    write_json(FLAGS, {name: flags for command in commands() for name, flags in flags_of(command).items()})


WRITERS: Mapping[str, Callable[[Path], None]] = {"runs": write_runs, "plans": write_plans, "flags": write_flags}
