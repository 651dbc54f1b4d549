"""Changes for `trust.py`: cache entries of another model, edited results, and files that user code reads."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from trust_edits import ASK, CLASSIFY, OWN_TASK, RETRIEVE, Change, Fault, edited_metric, in_cache, in_results, weights

from eyechart.results.fields import checksum

ASK_LISTENER = [*ASK[:1], "python:listener:Listener", *ASK[2:]]
STRONG_TASK = [*OWN_TASK[:-1], "python:strong_task:Strong"]


def run(world: Path, *words: str) -> None:
    """Run another command with the cache of the first run, by the same code."""
    source = world / "faulty"
    paths = {"PYTHONPATH": str(source)} if source.exists() else {}
    command = [sys.executable, "-c", "from eyechart.cli import main; import sys; sys.exit(main())", "eval", "--quiet"]
    settings = {**os.environ, **paths, "EYECHART_CACHE": str(world / "cache")}
    subprocess.run([*command, *words, "--output", "other/"], cwd=world, env=settings, check=True, capture_output=True)


def from_another_model(kind: str, pattern: str, world: Path) -> None:
    """Run a model with other weights, and put its files of the cache in the place of those of the first model."""
    shutil.copytree(world / "model", world / "model2")
    for tower in ("image", "text"):
        weights(f"model2/{tower}.onnx", world)
    _swap_in(world / "cache" / kind, pattern, lambda: run(world, *CLASSIFY[:5], "model2", *CLASSIFY[6:]), world)


def from_another_generator(world: Path) -> None:
    """Put the answers of a generator with other answers in the place of those of the first."""
    text = (world / "own_vlm.py").read_text()
    (world / "other_vlm.py").write_text(text.replace('"AB"[', '"BA"['))
    words = [*ASK[:1], "python:other_vlm:Looker", *ASK[2:]]
    _swap_in(world / "cache" / "responses", "*/*.jsonl", lambda: run(world, *words), world)


def _swap_in(folder: Path, pattern: str, make: Callable[[], None], world: Path) -> None:
    own = set(folder.glob(pattern))
    make()
    other = set(folder.glob(pattern)) - own
    if not own or not other:
        raise ValueError(f"{folder} has {len(own)} and {len(other)} files")
    shutil.rmtree(world / "other")
    for file in own:
        file.write_bytes(min(other).read_bytes())


def resealed(data: bytes) -> bytes:
    """Edit a metric and recompute the checksum."""
    body = json.loads(edited_metric(data))
    return json.dumps(body | {"checksum": checksum(body)}).encode()


def stripped(*keys: str) -> Callable[[bytes], bytes]:
    """Edit a metric and remove keys that would give it away."""

    def strip(data: bytes) -> bytes:
        body = json.loads(edited_metric(data))
        return json.dumps({key: value for key, value in body.items() if key not in keys}).encode()

    return strip


def strong_task(world: Path) -> None:
    """Write a task that reads a file which no option names."""
    text = (world / "own_task.py").read_text().replace("class Spread", "class Strong")
    text = text.replace("* 1)", "* float(open('strength.txt').read()))")
    (world / "strong_task.py").write_text(text)
    (world / "strength.txt").write_text("1")


def listener(world: Path) -> None:
    """Write a generator that reads a file when it is made."""
    text = (world / "own_vlm.py").read_text().replace("class Looker", "class Listener")
    (world / "listener.py").write_text("LETTERS = open('letters.txt').read()\n" + text.replace('"AB"[', "LETTERS["))
    (world / "letters.txt").write_text("AB")


FOREIGN_PART = (
    Fault(
        "store/vector_store.py",
        '        if verify and sums["table"] != table:\n',
        '        table = sums["table"]\n        if verify and sums["table"] != table:\n',
    ),
)
CHANGES = [
    *(
        Change(
            f"store: {role} vectors of another model",
            CLASSIFY,
            partial(from_another_model, "embeddings", f"*/{role}/[0-9]*.safetensors"),
            defence=FOREIGN_PART,
        )
        for role in ("image", "text")
    ),
    Change(
        "card: copied from another model",
        CLASSIFY,
        partial(from_another_model, "cards", "*.json"),
        defence=(
            Fault("models/lazy_model.py", "digest_json([FORM, path.stem, body.get", "digest_json([FORM, body.get"),
            Fault("models/lazy_model.py", "digest_json([FORM, path.stem, fields])", "digest_json([FORM, fields])"),
        ),
    ),
    Change(
        "answers: copied from another generator",
        ASK,
        from_another_generator,
        defence=(Fault("store/answer_store.py", 'self.folder.name.encode() + b"\\0" + body', "body"),),
    ),
    Change(
        "shards: a caption in the index",
        RETRIEVE,
        partial(in_cache, "shards/*.json", lambda data: data.replace(b"number 3", b"number 8")),
        defence=(
            Fault("datasets/tar_shards.py", 'data if digest == digest_bytes(data).hex().encode() else b""', "data"),
        ),
    ),
    Change(
        "result: metric edited, checksum recomputed",
        CLASSIFY,
        partial(in_results, "*.json", resealed),
        defence=(Fault("run.py", "            check_records(done)\n", "            pass\n"),),
    ),
    *(
        Change(
            f"result: metric edited, {' and '.join(keys)} removed",
            CLASSIFY,
            partial(in_results, "*.json", stripped(*keys)),
            defence=(
                Fault("results/fields.py", '_is_ours(body) and ("metric_values"', 'False and ("metric_values"'),
                Fault("run.py", "            check_records(done)\n", "            pass\n"),
            ),
        )
        for keys in (["checksum"], ["metric_values"], ["metric_values", "checksum"])
    ),
    Change(
        "code: a file that a task reads",
        STRONG_TASK,
        lambda world: (world / "strength.txt").write_text("3"),
        prepare=strong_task,
        defence=(Fault("session.py", "None if None in user_code else digest_json(code)", "digest_json(code)"),),
    ),
    Change(
        "code: a file that a generator reads when it is made",
        ASK_LISTENER,
        lambda world: (world / "letters.txt").write_text("BA"),
        prepare=listener,
        defence=(
            Fault(
                "models/objects/families.py",
                "state_digest(made, self.model, _data(made))",
                '""',
            ),
        ),
    ),
]
