"""Prepared images side by side in memory that is used again: the batches are what they would be in fresh memory."""

import numpy as np
import pytest

from eyechart.errors import DataError
from eyechart.inference import image_batches
from eyechart.inference.image_batches import BatchRows
from support.embedding import embed, samples
from support.encoders import SmallEncoder, random_encoder


def filled(rows, count, shape=(3, 2), dtype=np.float32):
    numbers = [rows.take() for _ in range(count)]
    return numbers, [rows.fill(number, np.full(shape, i, dtype)) for i, number in enumerate(numbers)]


def test_rows_that_were_taken_one_after_the_other_are_a_batch_without_a_copy():
    rows = BatchRows(8)
    for _ in range(6):
        numbers, images = filled(rows, 4)
        batch = rows.batch(numbers, images)

        assert batch[:, 0, 0].tolist() == [0, 1, 2, 3]
        assert np.shares_memory(batch, images[0])
        rows.give_back(numbers)


def test_rows_with_a_gap_are_copied():
    rows = BatchRows(8)
    numbers, images = filled(rows, 4)

    batch = rows.batch([0, 1, 3], [images[0], images[1], images[3]])

    assert batch[:, 0, 0].tolist() == [0, 1, 3]
    assert not np.shares_memory(batch, images[0])
    assert numbers == [0, 1, 2, 3]


def test_without_a_free_row_an_image_keeps_its_own_memory():
    rows = BatchRows(2)
    numbers, images = filled(rows, 3)

    assert numbers == [0, 1, None]
    assert rows.batch(numbers, images)[:, 0, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("other", [np.ones((2, 3), np.float32), np.ones((3, 2), np.uint8), np.array([None])])
def test_an_image_of_another_kind_stays_as_it_is(other):
    rows = BatchRows(4)
    filled(rows, 1)

    assert rows.fill(rows.take(), other) is other


def test_where_the_memory_is_not_enough_each_image_has_its_own():
    def none_left(shape, dtype):
        raise MemoryError

    numbers, images = filled(rows := BatchRows(4), 3)

    assert rows.batch(numbers, images)[:, 0, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("broken", [(), (0,), (5, 6, 7), range(0, 60, 2), range(50)])
def test_every_image_gets_its_own_vector_however_many_are_broken(tmp_path, broken):
    listed, encoder = list(samples(60, broken)), random_encoder()

    table, failures = embed(tmp_path, encoder, listed, on_error="skip")

    assert [failure.id for failure in failures] == [str(i) for i in broken]
    for key, sample in listed:
        if int(sample.id) not in broken:
            wanted = encoder.vector(encoder.prepare_image(sample.image.decode()).tobytes())
            assert np.array_equal(table.get(np.frombuffer(key, np.uint8)[None])[0], wanted)


class Watching(SmallEncoder):
    """Keeps where the batches lay."""

    def __init__(self):
        super().__init__("watching", lambda _: np.ones(4, np.float32))
        self.places, self.sizes = [], []

    def encode_images(self, batch):
        self.sizes.append(len(batch))
        self.places.append(batch.__array_interface__["data"][0])
        return super().encode_images(batch)


def test_batches_take_turns_in_the_same_memory(tmp_path):
    encoder = Watching()

    embed(tmp_path, encoder, list(samples(50)))

    assert encoder.sizes == [4] * 12 + [2]
    assert len(set(encoder.places)) == image_batches.ROW_BATCHES
    assert (
        encoder.places[: image_batches.ROW_BATCHES]
        == encoder.places[image_batches.ROW_BATCHES : 2 * image_batches.ROW_BATCHES]
    )


def test_batches_stay_full_where_images_are_broken(tmp_path):
    encoder = Watching()

    embed(tmp_path, encoder, list(samples(50, broken=(1, 2, 17))), on_error="skip")

    assert encoder.sizes == [4] * 11 + [3]


def test_a_broken_image_ends_the_run_by_default(tmp_path):
    with pytest.raises(DataError, match=r"3: .*cannot decode"):
        embed(tmp_path, random_encoder(), list(samples(9, broken=(3,))))
