"""Fuzz targets that read configs, prompts, results and the stores."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from fuzz_files import Target, spec
from fuzz_mutate import mutate_bytes, mutate_json, mutate_json_lines, mutate_safetensors

from eyechart.compat.evalscope.main import read_configs
from eyechart.datasets.class_texts import as_names, as_templates, find_entry, read_class_texts
from eyechart.report.loader import load_results, read_any
from eyechart.report.page import make_page
from eyechart.report.page.payload import make_payload
from eyechart.results import Result, read_result, write_result
from eyechart.store.answer_store import Responses
from eyechart.store.vector_store import VectorTable, text_digests
from eyechart.tasks.text_classifiers import check_template, class_texts, load_mean_classifier, save_classifier
from eyechart.types import Answer, DatasetInfo, MeanOf, Metric

# ------------------------------------------------------------------------------------------------ configs, lists


def config_seeds() -> list[bytes]:
    model = {"model_name": "m", "api_base": "http://localhost:1/v1", "api_key": "k", "prompt": "x"}
    clip = {
        "eval_backend": "RAGEval",
        "eval_config": {
            "tool": "clip_benchmark",
            "eval": {
                "models": [model],
                "dataset_name": ["muge", "custom"],
                "data_dir": "d",
                "split": "test",
                "batch_size": 8,
                "num_workers": 1,
                "verbose": True,
                "limit": 10,
                "task": "zeroshot_retrieval",
                "skip_existing": False,
            },
        },
    }
    mteb = {
        "work_dir": "o",
        "eval_backend": "RAGEval",
        "eval_config": {
            "tool": "MTEB",
            "model": [
                {
                    "model_name_or_path": "a",
                    "pooling_mode": None,
                    "max_seq_length": 512,
                    "encode_kwargs": {"batch_size": 3},
                }
            ],
            "eval": {"tasks": ["TNews"], "verbosity": 2, "overwrite_results": True, "limits": 5},
        },
    }
    import yaml

    anchored = b"a: &a {x: 1}\neval_backend: RAGEval\neval_config:\n  tool: clip_benchmark\n  eval: {<<: *a}\n"
    return [*(json.dumps(config).encode() for config in (clip, mteb)), yaml.safe_dump(clip).encode(), anchored]


def mutate_config(rng: Random, seeds: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    return mutate_json(rng, seeds[:2], tokens) if rng.random() < 0.5 else mutate_bytes(rng, seeds, tokens)


def read_config(data: bytes, folder: Path) -> None:
    path = folder / ("c.json" if data[:1] in b"{[" and len(data) % 2 else "c.yaml")
    path.write_bytes(data)
    read_configs(path)


YAML_TOKENS = (
    b"!!python/object/apply:os.system ['x']",
    b"!!binary x",
    b"!!int x",
    b"!!float x",
    b"!!timestamp x",
    b"!!set {a}",
    b"!!omap [a]",
    b"!!pairs [a]",
    b"&a ",
    b"*a",
    b"<<: *a",
    b"2001-99-99",
    b"1:99:99",
    b"0b2",
    b"0o9",
    b".inf",
    b".nan",
    b"? ",
    b": ",
    b"- ",
    b"|\n",
    b">\n",
    b"---\n",
    b"...\n",
    b"%YAML 9.9\n",
    b"{",
    b"[",
    b"0x",
    b"=",
    b"!!str",
    b"!!bool x",
    b"!!null x",
    b"~",
    b"eval_config",
)


def prompt_seeds() -> list[bytes]:
    packs = [{"fuzz": ["cat", "dog"]}, {"fuzz": ["a {c}.", "{}"]}, {"fuzz": {"cat": ["a"], "dog": ["b"]}}, ["a {c}"]]
    return [json.dumps(pack).encode() for pack in packs]


def read_prompts(data: bytes, folder: Path) -> None:
    path = folder / "p.json"
    path.write_bytes(data)
    for file in ("classnames.txt", "zeroshot_classification_templates.txt"):
        (folder / file).write_bytes(data)
    which = len(data) % 3
    if which == 0:
        read_class_texts(folder, spec(folder))
        return
    entry, _ = find_entry(str(path), ["fuzz"])
    if which == 1:
        as_names(entry, "p", allow_blank=False)
        return
    templates, own = as_templates(entry, "p")
    for template in templates:
        check_template(template, "p")
    class_texts(DatasetInfo("x", "classification", classnames=("cat", "dog"), templates=templates, class_prompts=own))


# ------------------------------------------------------------------------------------------------ results, stores


@cache
def result_seeds() -> list[bytes]:
    from tempfile import TemporaryDirectory

    bodies = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "r.json"
        for number, records in enumerate(RECORDS):
            n = len(records)
            result = Result(
                "d",
                f"m{number % 2}",
                "p",
                "zeroshot_classification",
                "en",
                {
                    "acc1": Metric(0.5, 0.2, 0.8, 0.5, n, primary=True, mean_of=MeanOf("rank", 1)),
                    "acc5": Metric(1.0, mean_of=MeanOf("rank", 5)),
                },
                facts={"done": True},
                counts={"listed": n, "scored": n},
                model_card={"name": "m", "parameters": 3},
                data={"fingerprint": "f", "classnames": ["a", "b"]},
                details={"groups": {"a": 1}},
                notices=({"kind": "k", "count": 1, "message": "m"},),
                provenance={"seconds": 1.0},
                failures=({"id": "x", "reason": "y"},),
                job={"digest": "j"},
            )
            write_result(result, records, path)
            bodies.append(
                path.read_bytes().replace(b"\n", b"") + b"\n" + path.with_name("r.records.jsonl").read_bytes()
            )
    peers = [
        {"dataset": "d", "model": "m", "pretrained": "p", "task": "t", "metrics": {"acc1": 0.1}, "language": "en"},
        {"task_name": "T", "scores": {"test": [{"main_score": 0.5, "hf_subset": "default"}]}, "mteb_version": "2"},
        {"name": "r", "dataset_name": "d", "model_name": "m", "metrics": [{"name": "acc", "score": 0.5}]},
    ]
    return bodies + [json.dumps(body).encode() for body in peers]


RECORDS: Sequence[Sequence[dict[str, object]]] = (
    [
        {"id": "a", "label": 0, "prediction": 1, "rank": 2, "scores": [0.5, 0.1], "label_score": 0.1},
        {
            "id": "b",
            "label": 1,
            "prediction": 1,
            "rank": 1,
            "scores": [0.5],
            "thumbnail": "data:image/webp;base64,AA==",
        },
    ],
    [
        {"id": "q0", "query": "text", "image": "a", "rank": 3, "text": "a dog", "top": ["b", "c"]},
        {"id": "i0", "query": "image", "image": "a", "rank": 1, "top": [0]},
    ],
    [{"id": "a", "labels": [0, 1], "scores": [0.1, 0.9]}, {"id": "b", "labels": [], "scores": [0.1, 0.2]}],
    [
        {"id": "a", "question": "what?", "answer": "A", "prediction": "B", "correct": 0.0},
        {"id": "b", "question": "what?", "answer": "A", "prediction": "A", "correct": 1},
    ],
)


def read_results(data: bytes, folder: Path) -> None:
    path = folder / ("r.json", "r.jsonl", "r.csv", "r.json")[len(data) % 4]
    path.write_bytes(data.partition(b"\n")[0] if path.suffix == ".json" else data)
    if len(data) % 8 < 4:
        read_result(path)
    else:
        read_any(path)


def read_report(data: bytes, folder: Path) -> None:
    head, _, records = data.partition(b"\n")
    (folder / "r.json").write_bytes(head)
    (folder / "s.json").write_bytes(result_seeds()[len(data) % 4].partition(b"\n")[0])
    (folder / "r.records.jsonl").write_bytes(records)
    loaded = load_results([folder / "r.json", folder / "s.json"])
    make_page(make_payload(loaded.found, skipped=loaded.skipped))


CLASSIFIER = ("model", ("a", "b", "c"))
"""Identity of the saved classifier: a fingerprint, and its class names."""


@cache
def store_seeds() -> list[bytes]:
    keys = text_digests(["a", "b", "c"], "en")
    vectors = np.arange(12, dtype=np.float32).reshape(3, 4)
    with tempfile.TemporaryDirectory() as folder:
        VectorTable(Path(folder)).add(keys, vectors)
        save_classifier(vectors, Path(folder) / "0.safetensors", *CLASSIFIER)
        return [path.read_bytes() for path in sorted(Path(folder).iterdir())]


def read_store(data: bytes, folder: Path) -> None:
    path = folder / "0.safetensors"
    path.write_bytes(data)
    if len(data) % 5 == 0:
        load_mean_classifier([path], *CLASSIFIER)
        return
    keys = text_digests(["a", "b", "c"], "en")
    stored = VectorTable(folder)
    there = keys[~stored.missing(keys)]
    stored.get(there)


def response_seeds() -> list[bytes]:
    from dataclasses import asdict

    answer = asdict(Answer("text", thinking="t", usage={"prompt_tokens": 3}))
    return [b"".join(json.dumps({"key": str(i), **answer}).encode() + b"\n" for i in range(3))]


def read_responses(data: bytes, folder: Path) -> None:
    (folder / "0.jsonl").write_bytes(data)
    stored = Responses(folder)
    for key in ("0", "1", "2"):
        stored.get(key)


RECORD_TARGETS: dict[str, Target] = {
    "config": Target(25, config_seeds, read_config, mutate_config, YAML_TOKENS),
    "prompts": Target(
        45, prompt_seeds, read_prompts, mutate_json, (b"{c}", b"{}", b"{c.__class__}", b"{0}", b"{{", b"%s")
    ),
    "results": Target(70, result_seeds, read_results, mutate_json_lines),
    "report": Target(15, result_seeds, read_report, mutate_json_lines),
    "store": Target(50, store_seeds, read_store, mutate_safetensors),
    "responses": Target(45, response_seeds, read_responses, mutate_json_lines),
}
"""Readers of the inputs and outputs of runs."""
