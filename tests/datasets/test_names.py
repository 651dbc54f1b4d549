"""File names that are no UTF-8, and machines whose language settings know no UTF-8."""

import json
import os
import subprocess
import sys

import pytest

from eyechart.datasets.image_folder import open_folder, open_objectnet
from eyechart.errors import DataError
from eyechart.manifest import iter_samples
from eyechart.types import DatasetSpec
from support.data import png

CLASSES = ("café", "日本", "🍣")


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def spec(root):
    return DatasetSpec("mine", "folder", str(root))


@pytest.mark.parametrize(
    ("name", "guess"), [("汉字".encode("gbk"), "GBK"), (b"caf\xe9", "WINDOWS-1252"), (b"\x81", "")]
)
@pytest.mark.parametrize("place", ["class", "image"])
def test_a_name_that_is_not_utf8_is_an_error_that_names_it(place, name, guess, tmp_path):
    on_disk = os.fsdecode(name)
    put(tmp_path / (on_disk if place == "class" else "cat") / f"{on_disk}.png", png())

    with pytest.raises(DataError) as caught:
        open_folder(spec(tmp_path))

    message = str(caught.value)
    assert message.encode("ascii")  # printable anywhere
    assert f"\\x{name[-1]:02x}" in message
    assert "is not UTF-8" in message
    assert f"It may be {guess}: convmv -f {guess}" in message if guess else "It may be" not in message


@pytest.mark.parametrize("name", ["a\x1b[31m", "a\nb", "a\x9b"])
def test_a_folder_name_that_a_terminal_would_obey_is_refused(name, tmp_path):
    put(tmp_path / name / "1.png", png())

    with pytest.raises(DataError) as caught:
        open_folder(spec(tmp_path))

    assert repr(name) in str(caught.value)
    assert name not in str(caught.value)


def test_objectnet_files_have_such_names_too(tmp_path):
    put(tmp_path / "mappings" / "folder_to_objectnet_label.json", json.dumps({"a": "A"}))
    put(tmp_path / "mappings" / "objectnet_to_imagenet_1k.json", json.dumps({"A": "x"}))
    put(tmp_path / "images" / "a" / "b\x07.png", png())

    with pytest.raises(DataError, match=r"'b\\x07\.png' contains control characters"):
        open_objectnet(spec(tmp_path))


# ------------------------------------------------------------------------------- machines that know no UTF-8

PROGRAM = """
import sys
from pathlib import Path
from eyechart.errors import EyechartError
from eyechart.manifest import read_manifest
from eyechart.datasets.registry import open_dataset
from eyechart.types import DatasetSpec
for reader, root in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        manifest = read_manifest(open_dataset(DatasetSpec("mine", reader, root)))
        info = manifest.info
        print(ascii([manifest.fingerprint, manifest.dataset.signature(), info.classnames, info.source]))
    except EyechartError as error:
        print(str(error), file=sys.stderr)
        print("refused")
"""


def in_locale(words, **settings):
    """Run the program in a process of its own; its lines, which are the same in every encoding."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "PYTHONUTF8"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, words)], env=environment | settings, capture_output=True, check=True
    )
    return done.stdout.decode("ascii").splitlines(), done.stderr.decode("ascii", "backslashreplace")


@pytest.fixture
def data(tmp_path):
    rows = []
    for i, name in enumerate(CLASSES):
        put(tmp_path / "dépôt" / name / f"画{i}.png", png(i))
        rows.append((f"{name}/画{i}.png", name))
    put(tmp_path / "dépôt" / "t.csv", "image,label\n" + "".join(f"{image},{name}\n" for image, name in rows))
    lines = "".join(
        json.dumps({"image_path": image, "query": [name]}, ensure_ascii=False) + "\n" for image, name in rows
    )
    put(tmp_path / "dépôt" / "image_queries.jsonl", lines)
    put(tmp_path / "dépôt" / "questions.jsonl", json.dumps({"images": [i for i, _ in rows], "texts": list(CLASSES)}))
    return tmp_path / "dépôt"


def test_data_are_the_same_whatever_the_language_settings_are(data):
    words = ["folder", data, "table", data / "t.csv", "jsonl", data, "selection", data]

    plain, _ = in_locale(words, LC_ALL="C", PYTHONUTF8="0")
    modern, _ = in_locale(words, LC_ALL="C.UTF-8")

    assert plain == modern
    assert "refused" not in plain
    assert ascii(CLASSES) in plain[0]
    assert ascii(str(data))[1:-1] in plain[0]
    assert [sample.id for sample in iter_samples(open_folder(spec(data)))] == [
        f"{c}/画{i}.png" for i, c in enumerate(CLASSES)
    ]


def test_errors_can_be_printed_whatever_the_language_settings_are(data):
    put(data / "日本" / "画9.png", b"")
    put(data / "bad.csv", "image,label\nnichts/画.png,日本\n")
    put(data / "gbk.csv", "image,label\n汉字.png,x\n".encode("gbk"))
    words = ["table", data / "bad.csv", "table", data / "gbk.csv", "table", data / "gone.csv"]

    for settings in ({"LC_ALL": "C", "PYTHONUTF8": "0"}, {"LC_ALL": "C.UTF-8"}):
        lines, errors = in_locale(words, **settings)
        assert lines == ["refused"] * 3
        assert "Traceback" not in errors
        assert "It may be GBK" in errors


def test_the_images_of_a_class_come_in_the_order_of_their_names(tmp_path):
    names = [f"img{(17 * i) % 64}.png" for i in range(64)]  # neither the order of writing nor that of numbers
    for folder in ("cat", "ant"):
        (tmp_path / folder).mkdir()
        for i, name in enumerate(names):
            (tmp_path / folder / name).write_bytes(png(i))

    found = [sample.id for sample in iter_samples(open_folder(spec(tmp_path)))]

    assert found == [f"{folder}/{name}" for folder in ("ant", "cat") for name in sorted(names)]
