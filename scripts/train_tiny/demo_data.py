"""The demo's two webdatasets (the layout of `clip_benchmark_export_wds`), made of held-out garments."""

from __future__ import annotations

import io
import itertools
import random
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from captions import LANGUAGES, Language, caption
from fashion import Garments
from render import compose
from scenes import CLASSES, COLOURS, Scene, arrangements

PER_CLASS = 60
SCENE_GROUPS = 50
SHARDS = 2
SEED = 7
SUFFIXES = {"en": "", "de": ".de"}
"""English files carry the plain names of the layout, other languages their code before the ending."""

CLASSNAMES = {
    "en": (
        "t-shirt", "pair of trousers", "pullover", "dress", "coat",
        "sandal", "shirt", "sneaker", "bag", "ankle boot",
    ),
    "de": (
        "T-Shirt", "Hose", "Pullover", "Kleid", "Mantel",
        "Sandale", "Hemd", "Turnschuh", "Tasche", "Stiefelette",
    ),
}  # fmt: skip
TEMPLATES = {
    "en": ("a {c}", "a photo of a {c}", "a photo of a {c}.", "a picture of a {c}", "this is a {c}"),
    # No article: one template fits nouns of every gender.
    "de": ("{c}", "Foto: {c}", "Bild: {c}.", "Kleidungsstück: {c}", "Motiv: {c}"),
}

Files = dict[str, bytes]
"""One sample: its files by ending."""
Supply = list[Iterator[np.ndarray]]
"""For each class the garments not used yet."""


def write_demo_data(garments: Garments, folder: Path) -> None:
    """Write `garments/` (classification) and `scenes/` (retrieval) afresh; no garment is used twice."""
    rng = random.Random(SEED)
    supply = []
    for number in range(CLASSES):
        pool = list(garments.images[garments.labels == number])
        rng.shuffle(pool)
        supply.append(iter(pool))
    for name, write in (("garments", _write_garments), ("scenes", _write_scenes)):
        shutil.rmtree(folder / name, ignore_errors=True)
        write(folder / name, supply, rng)


def _write_garments(folder: Path, supply: Supply, rng: random.Random) -> None:
    labels = [number for number in range(CLASSES) for _ in range(PER_CLASS)]
    rng.shuffle(labels)
    samples = [{"png": _png(Image.fromarray(next(supply[label]))), "cls": str(label).encode()} for label in labels]
    _write_shards(folder / "test", samples)
    for code, suffix in SUFFIXES.items():
        _write_lines(folder / f"classnames{suffix}.txt", CLASSNAMES[code])
        _write_lines(folder / f"zeroshot_classification_templates{suffix}.txt", TEMPLATES[code])


def _write_scenes(folder: Path, supply: Supply, rng: random.Random) -> None:
    scenes = _draw_scenes(rng)
    samples = [_scene_files(scene, supply, rng) for scene in scenes]
    _write_shards(folder / "test", samples)
    _write_lines(folder / "dataset_type.txt", ["retrieval"])


def _draw_scenes(rng: random.Random) -> list[Scene]:
    """Groups of eight arrangements of the same garments and colours: words without order are not enough."""
    garment_pairs = list(itertools.combinations(range(CLASSES), 2))
    colour_pairs = list(itertools.combinations(range(len(COLOURS)), 2))
    groups = rng.sample(list(itertools.product(garment_pairs, colour_pairs)), SCENE_GROUPS)
    scenes = [scene for garments, colours in groups for scene in arrangements(garments, colours)]
    rng.shuffle(scenes)
    return scenes


def _scene_files(scene: Scene, supply: Supply, rng: random.Random) -> Files:
    drawn = compose(scene, next(supply[scene.garment]), next(supply[scene.other_garment]), rng)
    files = {"png": _png(drawn)}
    for language in LANGUAGES:
        ending = f"{SUFFIXES[language.code]}.txt".lstrip(".")
        files[ending] = "\n".join(_phrasings(language, scene, rng)).encode()
    return files


def _phrasings(language: Language, scene: Scene, rng: random.Random) -> list[str]:
    """One to three different captions."""
    wanted, found = rng.randint(1, 3), []
    while len(found) < wanted:
        text = caption(language, scene, rng)
        if text not in found:
            found.append(text)
    return found


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _write_shards(folder: Path, samples: Sequence[Files]) -> None:
    folder.mkdir(parents=True)
    _write_lines(folder / "nshards.txt", [str(SHARDS)])
    per_shard = -(-len(samples) // SHARDS)
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for number, files in enumerate(samples[shard * per_shard : (shard + 1) * per_shard]):
                for ending, content in files.items():
                    # A bare TarInfo has time 0 and owner 0: the same samples give the same bytes.
                    member = tarfile.TarInfo(f"s{shard * per_shard + number:07d}.{ending}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
