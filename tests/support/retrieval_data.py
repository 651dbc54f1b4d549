"""Custom retrieval data and configs for them."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

from PIL import Image

from support.data import noise_image


def write_queries(folder, rows):
    (folder / "image_queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def many_images(folder: Path, count: int) -> str:
    """Write ``count`` different small images with one query each; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for i in range(count):
        noise_image(i, (16, 16)).save(folder / f"{i}.png")
        rows.append({"image_path": f"{i}.png", "query": [f"query {i}"]})
    write_queries(folder, rows)
    return str(folder)


def caption_config(server, data_dir, **values):
    """The documentation's config for captions, with the server's address and other values in its eval part."""
    return {
        "eval_backend": "RAGEval",
        "eval_config": {
            "tool": "clip_benchmark",
            "eval": {
                "models": [
                    {
                        "model_name": "internvl2-8b",
                        "api_base": server if isinstance(server, str) else server.api_base,
                        "api_key": "xxx",
                        "prompt": "Describe this image in English",
                    }
                ],
                "dataset_name": ["custom"],
                "data_dir": data_dir,
                "split": "test",
                "task": "image_caption",
                "batch_size": 2,
                "num_workers": 1,
                "verbose": False,
                "skip_existing": False,
                "limit": 10,
                **values,
            },
        },
    }


def read_rows(path) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def sent_image(body):
    """Return the image that a request carries."""
    [part] = [part for part in body["messages"][-1]["content"] if part["type"] == "image_url"]
    data = part["image_url"]["url"].split(",", 1)[1]
    return Image.open(io.BytesIO(base64.b64decode(data)))


def write_collection(root, documents, queries, relevance):
    """Write a collection; an item is a text, or a colour for an image, or both."""

    def rows(items):
        for name, item in items.items():
            row = {"_id": name}
            for part in item if isinstance(item, tuple) else (item,):
                if part.startswith("#"):
                    (root / "images").mkdir(parents=True, exist_ok=True)
                    Image.new("RGB", (8, 8), part).save(root / "images" / f"{part[1:]}.png")
                    row["image"] = f"{part[1:]}.png"
                else:
                    row["text"] = part
            yield json.dumps(row)

    root.mkdir(exist_ok=True)
    (root / "corpus.jsonl").write_text("\n".join(rows(documents)))
    (root / "queries.jsonl").write_text("\n".join(rows(queries)))
    (root / "qrels").mkdir(exist_ok=True)
    lines = [f"{query}\t{document}\t{score}" for query, document, score in relevance]
    (root / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]))
    return root
