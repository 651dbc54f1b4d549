"""Scripts that were written for CLIP_benchmark, run by ours without a change."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from eyechart.cli import main
from support.datacomp_data import SCRIPT, write_all, write_model

pytest.importorskip("open_clip")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("datacomp")
    return write_all(folder / "data"), *write_model(folder)


@pytest.fixture(scope="module")
def found(world):
    data, architecture, checkpoint = world
    output = data.parent / "script.json"
    words = ["as", "clip_benchmark", SCRIPT, data, architecture, checkpoint, output, "--metadata"]
    done = subprocess.run([sys.executable, "-m", "eyechart", *map(str, words)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(output.read_text())


def by_command(world, dataset, folder, *more):
    data, architecture, checkpoint = world
    output = data.parent / f"{Path(dataset).name}.json"
    words = ["--dataset", dataset, "--dataset_root", str(data / folder), "--output", str(output), "--quiet", *more]
    assert main(["eval", "--model", str(architecture), "--pretrained", str(checkpoint), *words]) == 0
    return json.loads(output.read_text())["metrics"]


@pytest.mark.parametrize("task", ["seven", "vtab/three", "many"])
def test_a_script_in_datacomps_manner_gives_what_the_command_gives(world, found, task):
    theirs = by_command(world, f"wds/{task}", f"wds_{task.replace('/', '-')}_test")

    assert found[task] == pytest.approx(theirs)


def test_retrieval_in_datacomps_manner_gives_what_the_command_gives(world, found):
    folder = world[0] / "captions"
    rows = json.loads((folder / "captions.json").read_text())
    lines = [json.dumps({"image_path": name, "query": texts}) for name, texts in rows]
    (folder / "image_queries.jsonl").write_text("\n".join(lines))

    theirs = by_command(world, str(folder), "captions", "--recall_k", "1", "5", "10", "--metrics", "full")

    assert found["retrieval"] == pytest.approx({name: theirs[name] for name in found["retrieval"]})


def test_selection_gives_what_the_command_gives(world, found):
    folder = world[0] / "captions"
    rows = json.loads((folder / "captions.json").read_text())
    pairs = [(rows[i], rows[i + 1]) for i in range(0, len(rows), 2)]
    lines = [json.dumps({"images": [a[0], b[0]], "texts": [a[1][0], b[1][0]]}) for a, b in pairs]
    (folder / "questions.jsonl").write_text("\n".join(lines))

    assert found["selection"] == pytest.approx(by_command(world, "selection/pairs", "captions"))


def test_columns_are_read_as_in_the_webdataset_library_of_that_time(found):
    """The order of two workers that read a shard each, in batches of eight: as webdataset 0.2.48 gives it."""
    labels = [i % 3 for i in range(60)]
    workers = [[part[i : i + 8] for i in range(0, 30, 8)] for part in (labels[:30], labels[30:])]

    expected = [label for batches in zip(*workers, strict=True) for batch in batches for label in batch]

    assert found["metadata"]["labels"] == expected
    assert {len(row) for row in found["metadata"]["columns"]} == {2}


def test_class_names_with_an_objective_are_read_as_they_stand(world, found):
    assert found["faces"] == pytest.approx(
        {"colour": by_hand(world, "colour", 0), "age": by_hand(world, "age", 1)}, abs=1e-9
    )


def by_hand(world, objective, column):
    """Score one column with open_clip alone."""
    import io
    import tarfile

    import numpy as np
    import open_clip
    import torch
    from PIL import Image

    data, architecture, checkpoint = world
    open_clip.add_model_config(architecture)
    model, _, transform = open_clip.create_model_and_transforms("small", pretrained=str(checkpoint))
    lists = {}
    for stem in ("classnames", "zeroshot_classification_templates"):
        lines = (data / "wds_faces_test" / f"{stem}.txt").read_text().splitlines()
        lists[stem] = [line.removeprefix(f"{objective}:") for line in lines if line.startswith(f"{objective}:")]
    members: dict[str, dict[str, bytes]] = {}
    for shard in ("0", "1"):
        with tarfile.open(data / "wds_faces_test" / "test" / f"{shard}.tar") as archive:
            for member in archive:
                key, ending = member.name.split(".")
                members.setdefault(key, {})[ending] = archive.extractfile(member).read()
    tokenizer, units = open_clip.get_tokenizer("small"), torch.nn.functional.normalize
    with torch.no_grad():
        classes = []
        for name in lists["classnames"]:
            texts = tokenizer([text.format(c=name) for text in lists["zeroshot_classification_templates"]])
            classes.append(units(units(model.eval().encode_text(texts), dim=-1).mean(dim=0), dim=-1))
        right = 0
        for parts in members.values():
            label = np.load(io.BytesIO(parts.pop("npy")))[column]
            (image,) = parts.values()
            vector = model.encode_image(transform(Image.open(io.BytesIO(image)).convert("RGB"))[None])[0]
            right += int(torch.stack(classes).matmul(vector).argmax() == label)
    return right / len(members)


def test_a_notebook_asks_for_it_and_brings_a_model_type_of_its_own(world, found):
    """In one process: act_as, a model type that is added to the table, and a run described by attributes."""
    data, architecture, checkpoint = world
    code = f"""
import json
from eyechart.compat import act_as
act_as("clip_benchmark")
import open_clip
from clip_benchmark import models
from clip_benchmark.cli import dataset_collection, run
from clip_benchmark.models import TYPE2FUNC, load_clip

assert dataset_collection["retrieval"] == ["mscoco_captions", "flickr8k", "flickr30k"]

def load_mine(model_name, pretrained, cache_dir, device):
    open_clip.add_model_config({str(architecture)!r})
    return models.load_open_clip("small", pretrained, cache_dir, device)

TYPE2FUNC["mine"] = load_mine
model, transform, tokenizer = load_clip("mine", "any", {str(checkpoint)!r}, None, "cpu")
assert model.encode_text(tokenizer(["a"])).shape == (1, 32)

class Args:
    dataset = "wds/seven"
    dataset_root = {str(data / "wds_seven_test")!r}
    model = "small"
    pretrained = {str(checkpoint)!r}
    model_type = "mine"
    task = "zeroshot_classification"
    amp = False
    verbose = False
    output = {str(data.parent / "notebook.json")!r}
    language = "en"

run(Args)
"""

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=data.parent)

    assert (done.returncode, done.stderr) == (0, "")
    ours = json.loads((data.parent / "notebook.json").read_text())["metrics"]
    assert ours == pytest.approx(found["seven"])
