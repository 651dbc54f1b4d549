"""The batch size of a device that nobody chose: tried on the first batches, kept if it pays, and remembered.

The device is a double with a clock of its own: how long a batch takes is said by the test.
"""

from functools import cache

import numpy as np
import pytest

from eyechart.cli import make_parser
from eyechart.cli.flags.settings import settings_of
from eyechart.config import make_config
from eyechart.errors import DataError
from eyechart.inference import batch_trial
from eyechart.inference.batch_trial import AFTER
from eyechart.inference.device_feed import PairedDevice
from eyechart.models.towers.cuda_feed import BatchTuning
from eyechart.plan import plan_jobs
from support.data import write_classification
from support.embedding import embed, samples
from support.encoders import random_encoder
from support.recording_device import RecordingDevice

START = 4
"""The size of batches in `embed`."""
ENOUGH = 2 * START + 4 * START + 8 * START + 16 * START + 32 * START
"""Images for five sizes."""
RISING = {4: 100.0, 8: 190.0, 16: 300.0, 32: 310.0, 64: 900.0}
"""Images a second by size: at 32 it no longer rises by 5 %, so 64 is never tried."""


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def machine(encoder, rates, *, room=None, key=("a model", "a GPU"), rounding=1e-5, encode=None):
    """Give an encoder a device on which a batch takes as long as its size says."""
    clock = Clock()

    def computed(batch):
        clock.now += len(batch) / rates[len(batch)]
        return (encode or encoder.encode_images)(batch)

    tuning = BatchTuning(key, rounding, clock)
    device = RecordingDevice(computed, encoder.prepare_image, room=room, tuning=tuning)
    encoder.image_device = lambda: device
    return device


def run(tmp_path, rates=RISING, count=AFTER * START + ENOUGH, **how):
    """Embed images, and check their vectors; return the sizes of the batches after the first ones."""
    broken = how.pop("broken", ())
    listed, encoder = images(count, broken), random_encoder()
    device = machine(encoder, {size: rates.get(size, 100.0) for size in range(1, 600)}, **how)
    table, failures = embed(tmp_path, encoder, listed, on_error="skip", grow=True)
    assert {failure.id for failure in failures} == {str(number) for number in broken}
    check(table, encoder, [pair for i, pair in enumerate(listed) if i not in broken])
    return device.sizes


@cache
def images(count, broken=()):
    return list(samples(count, broken))


def check(table, encoder, listed):
    """Compare what is stored with what the encoder gives for each image alone."""
    keys = np.frombuffer(b"".join(key for key, _ in listed), np.uint8).reshape(len(listed), -1)
    wanted = [encoder.vector(encoder.prepare_image(sample.image.decode()).tobytes()) for _, sample in listed]
    assert np.array_equal(table.get(keys), np.stack(wanted))


def test_the_size_is_doubled_while_the_device_gains_and_then_kept(tmp_path):
    sizes = run(tmp_path)

    assert sizes[:AFTER] == [4] * AFTER
    # Each size: one batch to warm up, its first rows once more in a batch of four, one batch that is timed.
    assert sizes[AFTER : AFTER + 12] == [4, 4, 4, 8, 4, 8, 16, 4, 16, 32, 4, 32]
    rest = sizes[AFTER + 12 :]
    assert set(rest[:-1]) == {16}


def test_the_next_run_does_not_try_again(tmp_path):
    run(tmp_path / "a")

    sizes = run(tmp_path / "b")

    assert set(sizes[:-1]) == {16}


@pytest.mark.parametrize("key", [("another model", "a GPU"), ("a model", "another GPU")])
def test_another_model_or_device_is_tried_anew(tmp_path, key):
    run(tmp_path / "a")

    assert run(tmp_path / "b", key=key)[:AFTER] == [4] * AFTER


def test_a_size_that_does_not_fit_ends_the_trial_without_a_word(tmp_path):
    rising = {size: 100.0 * size for size in RISING}

    sizes = run(tmp_path / "a", rising, room=16)  # 32 would be faster

    assert set(sizes[AFTER + 9 : -1]) == {16}  # also the images of the batch that did not fit
    assert set(run(tmp_path / "b", rising, room=16)[:-1]) == {16}


def test_a_device_that_is_no_faster_keeps_the_size_that_it_had(tmp_path):
    sizes = run(tmp_path, {4: 100.0, 8: 104.0})

    assert set(sizes[AFTER + 6 : -1]) == {4}


def test_sizes_have_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(batch_trial, "MOST", 16)

    assert max(run(tmp_path, {size: 100.0 * size for size in RISING})) == 16


def test_a_size_that_moves_vectors_by_more_than_rounding_is_not_taken(tmp_path):
    encoder, listed = random_encoder(), images(AFTER * START + ENOUGH)

    def other(batch):
        vectors = encoder.encode_images(batch)
        return vectors if len(batch) < 8 else vectors + np.float32(1e-3)

    device = machine(encoder, {size: 100.0 * size for size in range(1, 600)}, encode=other)
    table, _ = embed(tmp_path, encoder, listed, grow=True)

    assert set(device.sizes[AFTER + 5 : -1]) == {4}
    check(table, encoder, listed)  # nothing of what the larger batch gave is kept


def test_a_small_run_is_over_before_anything_is_tried(tmp_path):
    assert run(tmp_path / "a", count=AFTER * START) == [4] * AFTER
    assert run(tmp_path / "b")[AFTER + 3] == 8  # and nothing was remembered


def test_a_run_that_ends_during_the_trial_remembers_nothing(tmp_path):
    assert run(tmp_path / "a", count=AFTER * START + 10)
    assert run(tmp_path / "b")[:AFTER] == [4] * AFTER


def test_a_broken_image_makes_a_size_be_tried_once_more(tmp_path):
    sizes = run(tmp_path, broken=(AFTER * START + 1, AFTER * START + 9), count=AFTER * START + 2 * ENOUGH)

    assert set(sizes[-4:-1]) == {16}


def test_an_error_of_the_data_ends_the_run_as_ever(tmp_path):
    listed, encoder = list(samples(AFTER * START + 40, broken=(AFTER * START + 5,))), random_encoder()
    machine(encoder, dict.fromkeys(range(1, 600), 100.0))

    with pytest.raises(DataError):
        embed(tmp_path, encoder, listed, grow=True)


@pytest.mark.parametrize("content", ["[]", "{}", '{"batch_size": 0}', '{"batch_size": "a"}', '{"batch_size": 1000000}'])
def test_a_choice_that_is_none_is_made_again(tmp_path, content):
    run(tmp_path / "a")
    trial = batch_trial.BatchTrial(BatchTuning(("a model", "a GPU"), 1e-5), START, None)
    assert trial.best == 16
    trial.path.write_text(content)

    assert run(tmp_path / "b")[:AFTER] == [4] * AFTER


def test_a_size_that_somebody_chose_is_left_alone(tmp_path):
    encoder = random_encoder()
    device = machine(encoder, {size: 100.0 * size for size in range(1, 600)})

    embed(tmp_path, encoder, list(samples(200)))

    assert set(device.sizes) == {4}


def test_a_check_beside_the_device_does_not_hide_how_it_is_tuned():
    tuning = BatchTuning(("a model",), 1e-5)

    assert PairedDevice(RecordingDevice(np.asarray, tuning=tuning), None).tuning is tuning


@pytest.mark.parametrize(("given", "grow"), [({}, True), ({"batch_size": 64}, False)])
def test_a_job_knows_whether_its_batch_size_was_chosen(tmp_path, given, grow):
    root = write_classification(tmp_path / "data", n=2)

    (job,) = plan_jobs(make_config({"model": ["eyechart-tiny"], "dataset": [str(root)], **given}))

    assert (job.batch_size, job.grow) == (64, grow)


@pytest.mark.parametrize(("words", "given"), [([], False), (["--batch-size", "64"], True)])
def test_the_command_line_leaves_open_what_was_not_given(words, given):
    settings = settings_of(make_parser("eyechart", "eval").parse_args(["eval", "--model", "eyechart-tiny", *words]))

    assert ("batch_size" in make_config(settings).model_fields_set) is given
