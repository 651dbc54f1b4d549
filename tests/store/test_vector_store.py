import shutil
import subprocess
import sys

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from eyechart.errors import ModelError
from eyechart.store.vector_store import EmbeddingStore, VectorTable, damage_of_part, text_digests


def keys(*names):
    return text_digests(list(names), "en")


def rows(n, seed=0, dim=8):
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)


def test_vectors_come_back_exactly_in_the_order_asked(tmp_path):
    table, vectors = VectorTable(tmp_path), rows(3)

    table.add(keys("a", "b", "c"), vectors)

    np.testing.assert_array_equal(table.get(keys("c", "a", "c")), vectors[[2, 0, 2]])


def test_a_later_process_finds_what_an_earlier_one_stored(tmp_path):
    vectors = rows(5)
    first = VectorTable(tmp_path)
    first.add(keys("a", "b"), vectors[:2])
    first.add(keys("c", "d", "e"), vectors[2:])

    later = VectorTable(tmp_path)

    assert later.missing(keys("a", "x", "e")).tolist() == [False, True, False]
    np.testing.assert_array_equal(later.get(keys("e", "b")), vectors[[4, 1]])


def test_tables_of_other_models_and_roles_do_not_mix(tmp_path):
    store = EmbeddingStore(tmp_path)
    store.table("model1", "image").add(keys("a"), rows(1))

    assert store.table("model2", "image").missing(keys("a")).all()
    assert store.table("model1", "text").missing(keys("a")).all()


@pytest.mark.parametrize(("model", "role"), [("model2", "image"), ("model1", "text"), ("model1", "image-fp16")])
def test_a_part_that_was_copied_from_another_table_is_not_used(tmp_path, model, role):
    EmbeddingStore(tmp_path).table(model, role).add(keys("a"), rows(1, seed=9))
    EmbeddingStore(tmp_path).table("model1", "image").add(keys("b"), rows(1))
    (part,) = (tmp_path / model / role).iterdir()
    copy = shutil.copy(part, tmp_path / "model1" / "image" / part.name)
    assert "belongs to another model or role" in damage_of_part(copy)

    table = EmbeddingStore(tmp_path).table("model1", "image")

    assert table.missing(keys("a", "b")).tolist() == [True, False]
    assert table.damaged == [part.name]
    assert not EmbeddingStore(tmp_path).table(model, role).missing(keys("a")).any()


@pytest.mark.parametrize("taken", ["keys", "vectors"])
def test_keys_and_vectors_of_different_parts_cannot_be_combined(tmp_path, taken):
    for name, seed in (("a", 1), ("b", 2)):
        VectorTable(tmp_path).add(keys(name), rows(1, seed))
    one, two = sorted(tmp_path.iterdir())
    tensors = load_file(one)
    with safe_open(one, "np") as part, safe_open(two, "np") as other:
        sums = part.metadata() | {taken: other.metadata()[taken]}
    save_file(tensors | {taken: load_file(two)[taken]}, one, sums)

    assert VectorTable(tmp_path).missing(keys("a")).all()
    assert (VectorTable(tmp_path).get(keys("b")) == rows(1, 2)).all()


def test_vectors_whose_shape_was_changed_are_not_used(tmp_path):
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
def test_a_vector_that_is_not_finite_is_refused(tmp_path, bad):
    vectors = rows(2)
    vectors[1, 3] = bad

    with pytest.raises(ModelError, match="1 of 2 vectors of the model contain NaN or infinite"):
        VectorTable(tmp_path).add(keys("a", "b"), vectors)

    assert VectorTable(tmp_path).missing(keys("a", "b")).all()


def test_a_file_left_by_a_killed_writer_is_ignored(tmp_path):
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
def test_a_damaged_part_is_set_aside_and_what_it_held_is_missing(tmp_path, damage):
    VectorTable(tmp_path).add(keys("a", "b", "c"), rows(3))
    VectorTable(tmp_path).add(keys("d"), rows(1, seed=4))
    part = min(tmp_path.glob("*.safetensors"))
    part.write_bytes(damage(load_file(part), part.read_bytes()))

    table = VectorTable(tmp_path)

    assert table.missing(keys("a", "b", "c", "d")).tolist() == [True, True, True, False]
    assert table.damaged == [part.name]
    np.testing.assert_array_equal(table.get(keys("d")), rows(1, seed=4))
    assert [path.name for path in tmp_path.glob("damaged-*")] == [f"damaged-{part.name}"]
    table.add(keys("a", "b", "c"), rows(3))
    np.testing.assert_array_equal(VectorTable(tmp_path).get(keys("b")), rows(3)[[1]])


def test_several_damaged_parts_are_found_at_once_also_where_one_stood_for_the_other(tmp_path):
    for names in ("a", "b", "ab"):
        VectorTable(tmp_path).add(keys(*names), rows(len(names)))
    for part in tmp_path.glob("*.safetensors"):
        part.write_bytes(flip("vectors", 9)(load_file(part), part.read_bytes()))

    table = VectorTable(tmp_path)

    assert table.missing(keys("a", "b")).all()
    assert len(table.damaged) == 3


def test_a_part_is_verified_once_in_a_process(tmp_path, monkeypatch):
    VectorTable(tmp_path).add(keys("a"), rows(1))
    table = VectorTable(tmp_path)
    assert not table.missing(keys("a")).any()
    monkeypatch.setattr("eyechart.store.vector_store.checksum", lambda tensor: pytest.fail("verified again"))

    assert not table.missing(keys("a")).any()
    table.get(keys("a"))


def test_a_part_of_an_older_version_has_no_checksum_and_is_not_used(tmp_path):
    from safetensors.numpy import save_file

    save_file({"keys": keys("a").copy(), "vectors": rows(1)}, tmp_path / "00000000000000000001-aaaa.safetensors")

    assert VectorTable(tmp_path).missing(keys("a")).all()


def test_many_processes_write_at_once_and_nothing_is_lost(tmp_path):
    code = """
import sys
from pathlib import Path
import numpy as np
from eyechart.store.vector_store import VectorTable, text_digests
who, table = sys.argv[1], VectorTable(Path(sys.argv[2]))
for i in range(20):
    table.add(text_digests([f"{who}-{i}"], "en"), np.full((1, 4), int(who) * 100 + i, np.float32))
"""
    writers = [subprocess.Popen([sys.executable, "-c", code, str(who), str(tmp_path)]) for who in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4

    found = VectorTable(tmp_path).get(keys(*(f"{who}-{i}" for who in range(4) for i in range(20))))

    assert found[:, 0].tolist() == [who * 100 + i for who in range(4) for i in range(20)]
