"""Answers that were paid for are on disk, whatever happens to the process that asked."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eyechart.io.files import CacheError
from eyechart.io.images import ImageRef
from eyechart.store.answer_store import Responses, ResponseStore, prompt_key
from eyechart.types import Answer, Message

ANSWER = Answer("A cat.", thinking="Hm.", finish_reason="stop", usage={"prompt_tokens": 7, "completion_tokens": 3})
SRC = Path(__file__).parents[2] / "src"


def test_an_answer_is_there_for_the_next_process(tmp_path):
    Responses(tmp_path).add("k", ANSWER)

    later = Responses(tmp_path)

    assert later.get("k") == ANSWER
    assert later.get("other") is None
    assert later.damaged == 0


def test_every_answer_is_synchronised_with_the_disk_before_add_returns(tmp_path, monkeypatch):
    synced = []
    sync = os.fsync

    def fsync(file):
        path = Path(f"/proc/self/fd/{file}").readlink()
        synced.append(path.stat().st_size if path.is_file() else "folder")
        sync(file)

    monkeypatch.setattr(os, "fsync", fsync)
    table = Responses(tmp_path)

    for i in range(3):
        table.add(f"k{i}", ANSWER)
        (file,) = tmp_path.iterdir()
        assert synced[-1] == file.stat().st_size
    assert synced.count("folder") == 1
    assert len(synced) == 4


def test_damaged_lines_of_all_files_are_counted(tmp_path):
    for name in ("a", "b"):
        Responses(tmp_path).add(name, ANSWER)
        Responses(tmp_path).add(f"{name}2", ANSWER)
    for file in sorted(tmp_path.iterdir())[:3]:
        file.write_bytes(file.read_bytes().replace(b"cat", b"bat"))

    table = Responses(tmp_path)

    assert (table.damaged, len(table)) == (3, 1)


def test_a_file_that_was_copied_from_another_generator_answers_nothing(tmp_path):
    ResponseStore(tmp_path).table("one").add("k", ANSWER)
    ResponseStore(tmp_path).table("two").add("own", ANSWER)
    [file] = (tmp_path / "one").iterdir()
    shutil.copy(file, tmp_path / "two")

    table = ResponseStore(tmp_path).table("two")

    assert (table.get("k"), table.get("own"), table.damaged) == (None, ANSWER, 1)
    assert ResponseStore(tmp_path).table("one").get("k") == ANSWER


@given(text=st.text(st.characters(), max_size=200))
@settings(max_examples=20)
def test_any_text_survives(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("responses")
    Responses(folder).add("k", Answer(text))

    assert Responses(folder).get("k") == Answer(text)


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_half_a_last_line_is_not_an_answer_and_harms_no_other(tmp_path, cut):
    table = Responses(tmp_path)
    table.add("whole", ANSWER)
    table.add("torn", ANSWER)
    [file] = tmp_path.glob("*.jsonl")
    file.write_bytes(file.read_bytes()[:-cut])

    again = Responses(tmp_path)
    again.add("new", ANSWER)

    last = Responses(tmp_path)
    assert [last.get(key) for key in ("whole", "torn", "new")] == [ANSWER, None, ANSWER]
    assert last.damaged == 0


def test_a_damaged_line_is_counted_and_left_out(tmp_path):
    Responses(tmp_path).add("good", ANSWER)
    [file] = tmp_path.glob("*.jsonl")
    file.write_bytes(b'{"key": "x", "surprise": 1}\n\x00\x00\n[1]\n' + file.read_bytes())

    table = Responses(tmp_path)

    assert table.damaged == 3
    assert table.get("good") == ANSWER


@pytest.mark.parametrize(("old", "new"), [(b"A cat.", b"A bat."), (b'"prompt_tokens":7', b'"prompt_tokens":8')])
def test_an_answer_whose_bytes_changed_on_the_disk_is_none(tmp_path, old, new):
    Responses(tmp_path).add("k", ANSWER)
    [file] = tmp_path.glob("*.jsonl")
    file.write_bytes(file.read_bytes().replace(old, new))

    table = Responses(tmp_path)

    assert (table.get("k"), table.damaged) == (None, 1)


def test_answers_without_a_checksum_are_not_used(tmp_path):
    (tmp_path / "1.jsonl").write_text('{"key":"k","text":"A cat."}\n{"key":"l","text":7}\n')

    table = Responses(tmp_path)

    assert (table.get("k"), table.get("l"), table.damaged) == (None, None, 2)


WRITER = """
import sys
from pathlib import Path
from eyechart.store.answer_store import Responses
from eyechart.types import Answer
folder, name, count = sys.argv[1:]
table = Responses(Path(folder))
for i in range(int(count)):
    table.add(f"{name}-{i}", Answer("x" * 5000))
    sys.stdout.write(f"{name}-{i}\\n")
    sys.stdout.flush()
"""


def start_writer(folder, name, count):
    """Start a process that adds answers and says the key of each one that `add` has returned for."""
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-c", WRITER, str(folder), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)


def test_several_processes_write_at_once(tmp_path):
    writers = [start_writer(tmp_path, name, 40) for name in "abc"]
    for writer in writers:
        writer.communicate()

    table = Responses(tmp_path)

    assert len(table) == 120
    assert table.damaged == 0


def test_what_others_add_is_seen_after_a_refresh(tmp_path):
    here, there = Responses(tmp_path), Responses(tmp_path)
    there.add("k", ANSWER)
    assert here.get("k") is None

    here.refresh()

    assert here.get("k") == ANSWER


def test_nothing_that_add_returned_for_is_lost_to_kill_9(tmp_path):
    for name in "abc":
        writer = start_writer(tmp_path, name, 100_000)
        first = writer.stdout.readline()
        time.sleep(random.uniform(0.01, 0.2))
        writer.send_signal(signal.SIGKILL)
        rest, _ = writer.communicate()
        said = (first + rest).split("\n")[:-1]

        table = Responses(tmp_path)

        assert said
        assert all(table.get(key) is not None for key in said)
        assert table.damaged == 0


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    table = Responses(tmp_path / "file")

    with pytest.raises(CacheError, match="Cannot write to the response store"):
        table.add("k", ANSWER)


def test_a_prompt_is_named_by_its_contents(tmp_path):
    image = tmp_path / "a.png"
    image.write_bytes(b"one")
    copy = tmp_path / "b.png"
    copy.write_bytes(b"one")
    other = tmp_path / "c.png"
    other.write_bytes(b"two")

    def key(path, text="What?", role="user", repeat=0):
        return prompt_key([Message(role, (ImageRef.from_path(path), text))], repeat)

    assert key(image) == key(copy)
    assert len({key(image), key(other), key(image, "Why?"), key(image, role="system"), key(image, repeat=1)}) == 5


def test_the_file_is_plain_json_lines(tmp_path):
    Responses(tmp_path).add("k", Answer("Eine Katze = 猫"))

    [file] = tmp_path.glob("*.jsonl")

    assert json.loads(file.read_text(encoding="utf-8"))["text"] == "Eine Katze = 猫"
    assert "猫" in file.read_text(encoding="utf-8")
