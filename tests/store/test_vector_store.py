import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from eyechart.errors import ModelError
from eyechart.store.vector_store import STARTS, EmbeddingStore, VectorTable, damage_of_part, text_digests
from support.stored_vectors import make_rows, same, values_of

TESTS = str(Path(__file__).parent.parent)


def keys(*names):
    return text_digests(list(names), "en")


def test_vectors_come_back_exactly_in_the_order_asked(tmp_path, rows):
    table, vectors = VectorTable(tmp_path), rows(3)

    table.add(keys("a", "b", "c"), vectors)

    same(table.get(keys("c", "a", "c")), vectors[[2, 0, 2]])


def test_a_later_process_finds_what_an_earlier_one_stored(tmp_path, rows):
    vectors = rows(5)
    first = VectorTable(tmp_path)
    first.add(keys("a", "b"), vectors[:2])
    first.add(keys("c", "d", "e"), vectors[2:])

    later = VectorTable(tmp_path)

    assert later.missing(keys("a", "x", "e")).tolist() == [False, True, False]
    same(later.get(keys("e", "b")), vectors[[4, 1]])


def test_tables_of_other_models_and_roles_do_not_mix(tmp_path, rows):
    store = EmbeddingStore(tmp_path)
    store.table("model1", "image").add(keys("a"), rows(1))

    assert store.table("model2", "image").missing(keys("a")).all()
    assert store.table("model1", "text").missing(keys("a")).all()


@pytest.mark.parametrize(("model", "role"), [("model2", "image"), ("model1", "text"), ("model1", "image-fp16")])
def test_a_part_that_was_copied_from_another_table_is_not_used(tmp_path, model, role, rows):
    EmbeddingStore(tmp_path).table(model, role).add(keys("a"), rows(1, seed=9))
    EmbeddingStore(tmp_path).table("model1", "image").add(keys("b"), rows(1))
    (part,) = (tmp_path / model / role).iterdir()
    copy = shutil.copy(part, tmp_path / "model1" / "image" / part.name)
    assert "belongs to another model or role" in damage_of_part(copy)

    table = EmbeddingStore(tmp_path).table("model1", "image")

    assert table.missing(keys("a", "b")).tolist() == [True, False]
    assert table.damaged == [part.name]
    assert not EmbeddingStore(tmp_path).table(model, role).missing(keys("a")).any()


@pytest.mark.parametrize("taken", ["keys", "vectors", STARTS])
def test_keys_and_vectors_of_different_parts_cannot_be_combined(tmp_path, taken, rows):
    if taken == STARTS and not rows.several:
        pytest.skip("one vector per key")
    for name, seed in (("a", 1), ("b", 2)):
        VectorTable(tmp_path).add(keys(name), rows(1, seed))
    one, two = sorted(tmp_path.iterdir())
    tensors = load_file(one)
    with safe_open(one, "np") as part, safe_open(two, "np") as other:
        sums = part.metadata() | {taken: other.metadata()[taken]}
    save_file(tensors | {taken: load_file(two)[taken]}, one, sums)

    assert VectorTable(tmp_path).missing(keys("a")).all()
    same(VectorTable(tmp_path).get(keys("b")), rows(1, 2))


def test_vectors_whose_shape_was_changed_are_not_used(tmp_path, rows):
    VectorTable(tmp_path).add(keys("a", "b"), rows(2))
    (file,) = tmp_path.iterdir()
    with safe_open(file, "np") as part:
        sums = part.metadata()
    tensors = load_file(file)
    save_file(tensors | {"vectors": np.ascontiguousarray(tensors["vectors"].T)}, file, sums)

    assert VectorTable(tmp_path).missing(keys("a", "b")).all()


def test_the_same_text_in_another_language_is_another_key():
    assert (text_digests(["a"], "en") != text_digests(["a"], "de")).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_vector_that_is_not_finite_is_refused(tmp_path, bad, rows):
    vectors = rows(2)
    getattr(vectors, "rows", vectors)[1, 3] = bad

    with pytest.raises(ModelError, match=r"1 of \d vectors of the model contain NaN or infinite"):
        VectorTable(tmp_path).add(keys("a", "b"), vectors)

    assert VectorTable(tmp_path).missing(keys("a", "b")).all()


def test_a_file_left_by_a_killed_writer_is_ignored(tmp_path, rows):
    VectorTable(tmp_path).add(keys("a"), rows(1))
    (tmp_path / ".tmp-1-abc-00.safetensors").write_bytes(b"half")

    assert not VectorTable(tmp_path).missing(keys("a")).any()


def cut(tensors, data):
    return data[:-10]


def flip(name, position):
    def damage(tensors, data):
        broken = bytearray(data)
        place = data.index(tensors[name].tobytes()) + position
        broken[place] ^= 0x40
        return bytes(broken)

    return damage


def roll_keys(tensors, data):
    return data.replace(tensors["keys"].tobytes(), np.roll(tensors["keys"], 1, axis=0).tobytes())


def swap_vector(value):
    def damage(tensors, data):
        row = tensors["vectors"][1]
        return data.replace(row.tobytes(), np.full_like(row, value).tobytes())

    return damage


@pytest.mark.parametrize(
    "damage",
    [cut, flip("keys", 3), flip("vectors", 9), roll_keys, swap_vector(np.nan), swap_vector(0)],
    ids=["cut", "flipped key", "flipped vector", "keys rolled by one", "NaN", "zeros"],
)
def test_a_damaged_part_is_set_aside_and_what_it_held_is_missing(tmp_path, damage, rows):
    VectorTable(tmp_path).add(keys("a", "b", "c"), rows(3))
    VectorTable(tmp_path).add(keys("d"), rows(1, seed=4))
    part = min(tmp_path.glob("*.safetensors"))
    part.write_bytes(damage(load_file(part), part.read_bytes()))

    table = VectorTable(tmp_path)

    assert table.missing(keys("a", "b", "c", "d")).tolist() == [True, True, True, False]
    assert table.damaged == [part.name]
    same(table.get(keys("d")), rows(1, seed=4))
    assert [path.name for path in tmp_path.glob("damaged-*")] == [f"damaged-{part.name}"]
    table.add(keys("a", "b", "c"), rows(3))
    same(VectorTable(tmp_path).get(keys("b")), rows(3)[[1]])


def test_several_damaged_parts_are_found_at_once_also_where_one_stood_for_the_other(tmp_path, rows):
    for names in ("a", "b", "ab"):
        VectorTable(tmp_path).add(keys(*names), rows(len(names)))
    for part in tmp_path.glob("*.safetensors"):
        part.write_bytes(flip("vectors", 9)(load_file(part), part.read_bytes()))

    table = VectorTable(tmp_path)

    assert table.missing(keys("a", "b")).all()
    assert len(table.damaged) == 3


def test_a_part_is_verified_once_in_a_process(tmp_path, monkeypatch, rows):
    VectorTable(tmp_path).add(keys("a"), rows(1))
    table = VectorTable(tmp_path)
    assert not table.missing(keys("a")).any()
    monkeypatch.setattr("eyechart.store.vector_store.checksum", lambda tensor: pytest.fail("verified again"))

    assert not table.missing(keys("a")).any()
    table.get(keys("a"))


def test_a_part_of_an_older_version_has_no_checksum_and_is_not_used(tmp_path):
    from safetensors.numpy import save_file

    save_file({"keys": keys("a").copy(), "vectors": make_rows(1)}, tmp_path / "00000000000000000001-aaaa.safetensors")

    assert VectorTable(tmp_path).missing(keys("a")).all()


WRITER = """
import sys
sys.path.insert(0, sys.argv[-1])  # for support
from pathlib import Path
from eyechart.store.vector_store import VectorTable, text_digests
from support.stored_vectors import filled
who, table, several = sys.argv[1], VectorTable(Path(sys.argv[2])), sys.argv[3] == "several"
for i in range(20):
    table.add(text_digests([f"{who}-{i}"], "en"), filled(int(who) * 100 + i, several=several))
"""


@pytest.mark.parametrize("kind", ["one", "several"])
def test_many_processes_write_at_once_and_nothing_is_lost(tmp_path, kind):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(who), str(tmp_path), kind, TESTS]) for who in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0] * 4

    found = VectorTable(tmp_path).get(keys(*(f"{who}-{i}" for who in range(4) for i in range(20))))

    assert values_of(found) == [who * 100 + i for who in range(4) for i in range(20)]


def shift_start(tensors, data):
    """Give the last vector of the first item with any to the next item."""
    moved = tensors[STARTS].copy()
    moved[np.flatnonzero(moved)[0]] -= 1
    return data.replace(tensors[STARTS].tobytes(), moved.tobytes())


@pytest.mark.parametrize("damage", [shift_start, flip(STARTS, 8)], ids=["moved bound", "flipped bound"])
def test_damaged_bounds_between_items_are_found(tmp_path, damage):
    VectorTable(tmp_path).add(keys("a", "b", "c"), make_rows(3, several=True))
    (part,) = tmp_path.iterdir()
    part.write_bytes(damage(load_file(part), part.read_bytes()))

    assert damage_of_part(part)
    assert VectorTable(tmp_path).missing(keys("a", "b", "c")).all()


def test_several_vectors_per_item_are_read_in_the_precision_of_the_table(tmp_path):
    vectors = make_rows(5, several=True)
    VectorTable(tmp_path, half=True).add(keys(*"abcde"), vectors)

    found = VectorTable(tmp_path, half=True).get(keys(*"eabbc"))
    expected = vectors[[4, 0, 1, 1, 2]]
    assert found.dtype == np.float16
    assert found.starts.tolist() == expected.starts.tolist()
    np.testing.assert_array_equal(found.rows, expected.rows.astype(np.float16))
