"""Results for the tests of the report, all written by real runs of small models on small drawn data."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from eyechart import evaluate
from eyechart.datasets.questions.row_table import RowTable
from eyechart.datasets.questions.table_files import write_tsv
from eyechart.report.page.payload import Payload
from eyechart.results import Result
from support.chart_models import BLUR, PALETTE, WORDS
from support.data import encoded, labels_to_npy, write_shards

ENCODER = "python:support.chart_models:encoder"
EXAMINEE = "python:support.chart_models:examinee"
VLMS = ["python:support.chart_models:BlurredVLM", "python:support.chart_models:SharpVLM"]
COLOURS = list(PALETTE)
LANGUAGES = {"it": ("rosso", "di fianco a"), "jp": ("赤", "と")}
SETS = {"stamps": (24, 0.35), "garden": (12, 0.25), "harbour": (40, 0.55), "digits": (10, 0.45)}
"""Classification: how many classes, and how much of another image shines through."""


def chunks_of(payload: Payload) -> list[dict[str, Any]]:
    """Unpack the chunks of a page as the browser does: keys become texts."""
    return [json.loads(zlib.decompress(base64.b64decode(text))) for text in payload.chunks]


def pairs(count: int) -> list[tuple[str, str]]:
    """Return so many pairs of colours: the classes."""
    return list(product(COLOURS, COLOURS))[:: 64 // count][:count]


def draw(colours: tuple[str, str], rng: np.random.Generator, haze: float) -> Image.Image:
    """Draw two halves, with a haze of other colours over them that is thicker in some images."""
    own = np.array([PALETTE[name] for name in colours], np.float64)
    other = np.array([PALETTE[str(name)] for name in rng.choice(COLOURS, 2)], np.float64)
    share = haze * rng.random() * 1.6
    pixels = np.repeat(np.repeat(((1 - share) * own + share * other)[None], 24, 0), 24, 1)
    return Image.fromarray(np.clip(pixels + rng.normal(0, 12, pixels.shape), 0, 255).astype(np.uint8))


def words(colours: tuple[str, str], language: str = "en") -> str:
    """Name a pair of colours in a language."""
    if language == "en":
        return f"{colours[0]} beside {colours[1]}"
    spelled = {language: {} for language in LANGUAGES}
    for word, colour in list(WORDS.items())[len(COLOURS) :]:
        spelled["it" if word.isascii() else "jp"][colour] = word
    return f" {LANGUAGES[language][1]} ".join(spelled[language][colour] for colour in colours)


def write_lists(root: Path, classes: list[str], language: str = "") -> None:
    """Write class names and two templates."""
    root.mkdir(parents=True, exist_ok=True)
    suffix = f".{language}" if language else ""
    (root / f"classnames{suffix}.txt").write_text("\n".join(classes) + "\n", encoding="utf-8")
    templates = "a photo of {c}.\n{c}\n"
    (root / f"zeroshot_classification_templates{suffix}.txt").write_text(templates, encoding="utf-8")


def classification(root: Path, *, n: int, classes: int, haze: float, seed: int = 0, broken: int = 0) -> Path:
    """Write a classification dataset in three languages, with a training split; some images may be broken."""
    chosen = pairs(classes)
    write_lists(root, [words(pair) for pair in chosen])
    for language in LANGUAGES:
        write_lists(root, [words(pair, language) for pair in chosen], language)
    for split, count in (("test", n), ("train", 2 * classes)):
        rng = np.random.default_rng([seed, len(split)])
        labels = [i % classes for i in range(count)]
        images = [encoded(draw(chosen[label], rng, haze)) for label in labels]
        for i in range(broken if split == "test" else 0):
            images[i] = images[i][:200]
        names = [f"s{i:05d}" for i in range(count)]
        rows = [
            [(f"{name}.png", image), (f"{name}.cls", str(label).encode())]
            for name, image, label in zip(names, images, labels, strict=True)
        ]
        write_shards(root / split, rows, 1)
    return root


def retrieval(root: Path, *, n: int, seed: int = 7) -> Path:
    """Write images with two captions each."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "dataset_type.txt").write_text("retrieval\n", encoding="utf-8")
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        colours = (COLOURS[i % 8], COLOURS[(i // 8 + i) % 8])
        captions = f"{words(colours)}, number {i}\na flag in {colours[0]} and {colours[1]}, the {i}th"
        rows.append([(f"p{i:04d}.png", encoded(draw(colours, rng, 0.3))), (f"p{i:04d}.txt", captions.encode())])
    write_shards(root / "test", rows, 1)
    return root


def multilabel(root: Path, *, n: int, seed: int = 8) -> Path:
    """Write images that hold two colours of eight."""
    (root / "test").mkdir(parents=True, exist_ok=True)
    write_lists(root, COLOURS)
    (root / "dataset_type.txt").write_text("multilabel\n", encoding="utf-8")
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        left, right = (int(c) for c in rng.choice(8, 2, replace=False))
        image = encoded(draw((COLOURS[left], COLOURS[right]), rng, 0.3))
        rows.append(
            [(f"m{i:04d}.png", image), (f"m{i:04d}.npy", labels_to_npy([int(c in (left, right)) for c in range(8)]))]
        )
    write_shards(root / "test", rows, 1)
    return root


def selection(root: Path, *, n: int, seed: int = 9) -> Path:
    """Write questions of two images and two captions each."""
    (root / "images").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        left, right = (COLOURS[int(c)] for c in rng.choice(8, 2, replace=False))
        names = [f"q{i}a.png", f"q{i}b.png"]
        for name, colours in zip(names, ((left, right), (right, left)), strict=True):
            draw(colours, rng, 0.5).save(root / "images" / name)
        lines.append(json.dumps({"images": names, "texts": [words((left, right)), words((right, left))]}))
    (root / "questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def texts(root: Path, *, n: int) -> Path:
    """Write texts to be found by texts; the last query has no relevant document."""
    root.mkdir(parents=True, exist_ok=True)
    chosen = pairs(n)
    corpus = [{"_id": f"d{i}", "text": f"a flag in {a} and {b}"} for i, (a, b) in enumerate(chosen)]
    queries = [{"_id": f"q{i}", "text": words(pair)} for i, pair in enumerate(chosen)]
    qrels = [{"query-id": f"q{i}", "corpus-id": f"d{i}", "score": 1} for i in range(n)]
    queries.append({"_id": "nothing", "text": "red beside nothing"})
    for name, rows in (("corpus", corpus), ("queries", queries), ("qrels", qrels)):
        (root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return root


def questions(root: Path, *, n: int, seed: int = 11) -> tuple[Path, Path]:
    """Write questions about images: which colour is left (multiple choice), and what is to be seen (open)."""
    rng = np.random.default_rng(seed)
    choices, descriptions = [], []
    for i in range(n):
        colours = (COLOURS[i % 8], COLOURS[(i // 8 + i) % 8])
        wrong = [str(name) for name in rng.permutation([name for name in COLOURS if name != colours[0]])[:3]]
        place = int(rng.integers(4))
        options = dict(zip("ABCD", [*wrong[:place], colours[0], *wrong[place:]], strict=True))
        image = base64.b64encode(encoded(draw(colours, rng, 0.3))).decode()
        row = {"index": i, "image": image, "category": ["warm", "cold"][i % 2]}
        choices.append({**row, "question": "Which colour is on the left?", **options, "answer": "ABCD"[place]})
        descriptions.append({**row, "question": "Describe the image.", "answer": words(colours)})
    paths = root / "flags.tsv", root / "descriptions.tsv"
    root.mkdir(parents=True, exist_ok=True)
    for path, rows in zip(paths, (choices, descriptions), strict=True):
        write_tsv(path, RowTable(rows))
    return paths


def run(folder: Path, data: Path, names: list[str], models: list[str], **settings) -> None:
    """Run models on datasets and leave the results in a folder."""
    evaluate(
        dataset=names, dataset_root=f"{data}/{{dataset}}", model_type=ENCODER, model=models, batch_size=256,
        num_workers=0, output=f"{folder}/{{dataset}}_{{model}}_{{language}}_{{task}}.json", **settings,
    )  # fmt: skip


def make_suite(folder: Path, *, models: list[str] | None = None, n: int = 84, thumbnails: int = 0) -> Path:
    """Run models on every kind of benchmark that an encoder can do; return the folder of the results."""
    models = models or list(BLUR)
    data, results = folder / "data", folder / "results"
    for seed, (name, (classes, haze)) in enumerate(SETS.items()):
        classification(data / name, n=n, classes=classes, haze=haze, seed=seed, broken=name == "harbour")
    retrieval(data / "postcards", n=n // 3)
    multilabel(data / "market", n=n)
    selection(data / "selection" / "twins", n=n // 3)
    names = [f"wds/{name}" for name in SETS]
    run(results, data, names, models, thumbnails=thumbnails, metrics="full", on_error="skip")
    run(results, data, ["wds/stamps"], models, language=list(LANGUAGES))
    run(results, data, ["wds/digits"], models, task=["knn"])
    run(results, data, ["wds/postcards"], models, recall_k=[1, 5, 10], thumbnails=thumbnails)
    run(results, data, ["wds/market"], models)
    run(results, data, ["selection/twins"], models)
    return results


def make_answers(folder: Path, *, n: int = 32) -> Path:
    """Let generators with good and bad eyes answer and describe; return the folder of the results."""
    common = {"model": VLMS, "num_workers": 0, "output": f"{folder}/results/{{model}}_{{dataset}}_{{task}}.json"}
    flags, descriptions = questions(folder / "data", n=n)
    evaluate(dataset=[str(flags)], questions={"xlsx": False}, min_success=0.9, **common)
    evaluate(dataset=[str(descriptions)], questions={"xlsx": False, "metric": "anls"}, **common)
    root = retrieval(folder / "data" / "postcards", n=n // 2)
    evaluate(dataset=["wds/postcards"], dataset_root=str(root), task=["captioning"], **common)
    return folder / "results"


def make_control(folder: Path, *, n: int = 32) -> Path:
    """Let a generator answer what it sees, and the same questions about the images of others."""
    flags, _ = questions(folder / "data", n=n)
    output = f"{folder}/results/{{model}}.json"
    asked = {"xlsx": False, "blind": "swapped"}
    evaluate(dataset=[str(flags)], model=VLMS[:1], num_workers=0, output=output, questions=asked, min_success=0.5)
    return folder / "results"


def exam(root: Path, *, n: int = 100) -> Path:
    """Write a dataset of two classes whose images carry their class and their number in their colour."""
    write_lists(root, ["zero", "one"])
    rows = []
    for i in range(n):
        image = encoded(Image.new("RGB", (4, 4), (200 * (i % 2), i, 0)))
        rows.append([(f"e{i:03d}.png", image), (f"e{i:03d}.cls", str(i % 2).encode())])
    write_shards(root / "test", rows, 1)
    return root


def sit(
    root: Path, output: Path, model: str, misses: Iterable[int] = (), blind: Iterable[int] = (), **settings
) -> Result:
    """Let a model sit an exam; it misses the numbers that it is told to, and cannot see some."""
    (result,) = evaluate(
        dataset=[f"wds/{root.name}"], dataset_root=str(root), model_type=EXAMINEE, model=[model], num_workers=0,
        model_options={"misses": list(misses), "blind": list(blind)}, output=str(output), **settings,
    )  # fmt: skip
    return result
