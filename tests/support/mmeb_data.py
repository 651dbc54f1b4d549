"""Small MMEB tasks in the published layout, and the published rule in plain Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from support.data import noise_image, png

IMAGE = "<|image_1|>"
FIND = "Find a document image that matches the given query:"


def image_rows(task: str, rows: int = 12, candidates: int = 5) -> list[dict]:
    """Return rows of a task; the right candidate is the first."""

    def row(i, inst, text, image, tgt_inst, texts, images):
        return {"qry_inst": inst, "qry_text": text, "qry_img_path": image} | {
            "tgt_inst": tgt_inst,
            "tgt_text": texts,
            "tgt_img_path": images,
        }

    made = []
    for i in range(rows):
        order = [(i + j) % 7 for j in range(candidates)]
        paths = [f"{task}/{n}.png" for n in order]
        own = f"{task}/query{i % 9}.png"
        if task == "ImageNet-1K":
            classes = [f"class {n}" for n in order]
            made.append(row(i, f"{IMAGE} Represent the image \n", "", own, "", classes, [""] * candidates))
        elif task == "GQA":
            answers = [f"answer {n}" for n in order] + [f"answer {order[1]}"]  # one candidate twice
            made.append(row(i, f"{IMAGE} Answer: ", f"what is {i}?", own, "", answers, [""] * (candidates + 1)))
        elif task == "MSCOCO_t2i":
            made.append(row(i, "Find an image:", f"caption {i}", "", f"{IMAGE} Represent.\n", [""] * candidates, paths))
        elif task == "WebQA":
            texts = [f"page {n}" + " again" * (i > 5) for n in order]  # an image is encoded with its first caption
            made.append(row(i, "Find a page:", f"question {i}", "", f"{IMAGE} Represent with: ", texts, paths))
        elif task == "CIRR":
            made.append(row(i, f"{IMAGE} Change: ", f"edit {i}", own, f"{IMAGE} Represent.", [""] * candidates, paths))
        elif task == "RefCOCO-Matching":
            same = [f"{task}/0.png"] * candidates  # objects of one image
            texts = [f'"object {n}"' for n in order]
            made.append(row(i, f"{IMAGE} Select: ", f"thing {i}", own, f"{IMAGE} Object: ", texts, same))
    return made


def write_image_task(root: Path, task: str, rows: list[dict] | None = None, folder: str = "MMEB_Test_Instruct") -> Path:
    """Write the table of a task, and its images under ``image-tasks``."""
    rows = image_rows(task) if rows is None else rows
    (root / folder / task).mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), root / folder / task / "test-00000-of-00001.parquet")
    names = {path for row in rows for path in (row["qry_img_path"], *(row["tgt_img_path"] or ())) if path}
    for number, name in enumerate(sorted(names)):
        path = root / "image-tasks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(number))
    return root


def write_documents(root: Path, repository: str, split: str = "test", pages: int = 9, queries: int = 8) -> Path:
    """Write a repository of documents: graded relevance, a repeated judgement and queries in two languages."""
    asked = [
        {"query-id": i, "query": f"query {i}", "language": "english" if i % 2 else "french"} for i in range(queries)
    ]
    corpus = [{"corpus-id": i, "image": {"bytes": png(i), "path": None}} for i in range(pages)]
    judged = [
        {"query-id": i, "corpus-id": (i * 2 + j) % pages, "score": grade}
        for i in range(queries)
        for j, grade in ((0, 2), (1, 1), (2, 0), (0, 1))
    ]
    for part, rows in (("queries", asked), ("corpus", corpus), ("qrels", judged)):
        (root / repository / part).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), root / repository / part / f"{split}-00000-of-00001.parquet")
    return root


def unit(vector) -> np.ndarray:
    """Return a vector of length 1."""
    return np.asarray(vector, np.float64) / np.linalg.norm(vector)


class PlainVectors:
    """Vectors of a dual encoder by text and by image, each encoded alone."""

    def __init__(self, encoder, root: Path) -> None:
        self.encoder, self.root = encoder, root

    def text(self, text):
        return unit(self.encoder.encode_texts([text])[0])

    def image(self, path):
        from PIL import Image

        image = path if isinstance(path, Image.Image) else Image.open(self.root / "image-tasks" / path)
        return unit(self.encoder.encode_images([self.encoder.prepare_image(image)])[0])

    def both(self, path, text):
        return unit(self.image(path) + self.text(text))


def hit_at_1(vectors: PlainVectors, task: str, rows: list[dict]) -> float:
    """Return VLM2Vec's hit@1 of a dual encoder: `np.argsort(-scores)`, hits by name, each name encoded once."""
    known: dict[str, np.ndarray] = {}
    hits = []
    for row in rows:
        images = [path for path in row["tgt_img_path"] if path]
        inst, text, image = row["qry_inst"].replace(IMAGE, ""), row["qry_text"], row["qry_img_path"]
        if task == "ImageNet-1K":
            query = vectors.image(image)
        elif not image:
            query = vectors.text(f"{inst} {text}\n")
        else:
            query = vectors.both(image, f"\n{inst.strip()} {text}".replace(" \n", "\n") + "\n")
        told = row["tgt_inst"].replace(IMAGE, "")
        names = []
        for i, caption in enumerate(row["tgt_text"]):
            name = caption if not images else images[i] if not image else images[i] + ":" + caption.strip('"')
            if not images:
                vector = vectors.text(caption)
            elif caption.strip():
                vector = vectors.both(images[i], f"{told} {caption}".replace(" \n", "\n") + "\n")
            else:
                vector = vectors.image(images[i])
            known.setdefault(name, vector)
            names.append(name)
        scores = np.stack([known[name] for name in names]) @ query
        hits.append(names[np.argsort(-scores, kind="stable")[0]] == names[0])
    return float(np.mean(hits))


def ndcg_at_5(vectors: PlainVectors, languages=("english", "french"), pages: int = 9, queries: int = 8) -> float:
    """Return VLM2Vec's ndcg_linear@5 of a dual encoder on `write_documents`."""
    gallery = np.stack([vectors.image(noise_image(i)) for i in range(pages)])
    values = []
    for i in range(queries):
        if ("english" if i % 2 else "french") not in languages:
            continue
        grades = {(i * 2) % pages: 2, (i * 2 + 1) % pages: 1}
        order = np.argsort(-(gallery @ vectors.text(f"{FIND} query {i}")), kind="stable")[:5]
        gain = sum(grades.get(int(page), 0) / np.log2(rank + 2) for rank, page in enumerate(order))
        ideal = sum(grade / np.log2(rank + 2) for rank, grade in enumerate(sorted(grades.values(), reverse=True)[:5]))
        values.append(gain / ideal)
    return float(np.mean(values))
