"""Batches on their way through a device: what overlaps, what waits, and what happens when the device is full.

No GPU is needed: `RecordingDevice` has two threads for a GPU's two streams. The last tests run the lines of `CudaFeed`
on the CPU, with stand-ins for CUDA's streams and events.
"""

import threading
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import torch

from eyechart.errors import DataError, OutOfMemoryError
from eyechart.inference.backoff import BatchBackoff
from eyechart.inference.device_feed import DeviceFeed, PlainDevice, device_of
from eyechart.io.media import to_rgb
from eyechart.models.towers.cuda_feed import CudaFeed
from support.data import noise_image
from support.embedding import embed, samples
from support.encoders import random_encoder
from support.recording_device import RecordingDevice
from support.zoo import load

COUNT = 6
BATCHES = [np.arange(8 * i, 8 * i + 8, dtype=np.float32).reshape(4, 2) for i in range(COUNT)]
PATIENCE = 20
"""Seconds after which the two that should meet will not."""


def doubled(batch):
    return np.asarray(batch) * 2


def run(device, batches=BATCHES, backoff=None):
    """Feed all batches; return the results with the numbers of their batches."""
    feed = DeviceFeed(device, backoff or BatchBackoff())
    found = [done for i, batch in enumerate(batches) for done in feed.put(i, batch)]
    return [*found, *feed.drain()]


def check(found):
    assert [tag for tag, _ in found] == list(range(COUNT))
    for (_, vectors), batch in zip(found, BATCHES, strict=True):
        assert np.array_equal(vectors, doubled(batch))


def test_each_batch_is_copied_while_the_one_before_it_is_computed():
    # They meet: neither the copy of k+1 nor the computation of k ends before the other has begun.
    meetings = [threading.Barrier(2, timeout=PATIENCE) for _ in range(COUNT - 1)]
    device = RecordingDevice(
        doubled,
        copying=lambda k: k and meetings[k - 1].wait(),
        computing=lambda k: k < COUNT - 1 and meetings[k].wait(),
    )

    check(run(device))


def test_the_host_waits_once_for_each_batch_and_never_before_the_next_is_launched():
    device = RecordingDevice(doubled)

    check(run(device))

    wanted = [("copy", 0), ("launch", 0)]
    for k in range(1, COUNT):
        wanted += [("copy", k), ("launch", k), ("wait", k - 1)]
    assert device.asked == [*wanted, ("wait", COUNT - 1)]


def test_two_batches_that_do_not_fit_together_are_computed_one_after_the_other():
    device, backoff = RecordingDevice(doubled, room=7), BatchBackoff()

    check(run(device, backoff=backoff))

    assert backoff.notices() == []
    assert [number for what, number in device.asked if what == "copy"] == list(range(COUNT + 1))  # one was tried twice


@pytest.mark.parametrize("room", [1, 2, 3])
def test_a_batch_that_does_not_fit_alone_is_made_smaller(room):
    backoff = BatchBackoff()

    check(run(RecordingDevice(doubled, room=room), backoff=backoff))

    assert backoff.size == (1 if room == 1 else 2)


def test_a_device_that_is_full_only_when_it_is_waited_for():
    tries = []

    def encode(batch):
        tries.append(len(batch))
        if len(tries) == 2:
            raise OutOfMemoryError("full")
        return doubled(batch)

    found = run(RecordingDevice(encode))

    assert sorted(tag for tag, _ in found) == list(range(COUNT))
    assert all(np.array_equal(vectors, doubled(BATCHES[tag])) for tag, vectors in found)


def fed(encoder, **hooks):
    """Give an encoder a device of its own."""
    device = RecordingDevice(encoder.encode_images, encoder.prepare_image, **hooks)
    encoder.image_device = lambda: device
    return device


@pytest.mark.parametrize("broken", [(), (0, 9, 10), range(0, 60, 2)])
def test_memory_is_not_used_again_before_its_batch_is_finished(tmp_path, broken):
    listed, encoder = list(samples(60, broken)), random_encoder()
    # The copy reads the memory as late as it may: when the host is waiting for this very batch.
    device = fed(encoder, copying=lambda k: waited(k).wait(PATIENCE))
    events: dict[int, threading.Event] = {}

    def waited(number):
        return events.setdefault(number, threading.Event())

    fetch = device.fetch
    device.fetch = lambda launched: waited(launched[0]).set() or fetch(launched)

    table, failures = embed(tmp_path, encoder, listed, on_error="skip")

    assert len(failures) == len(broken)
    for key, sample in listed:
        if int(sample.id) not in broken:
            wanted = encoder.vector(encoder.prepare_image(sample.image.decode()).tobytes())
            assert np.array_equal(table.get(np.frombuffer(key, np.uint8)[None])[0], wanted)


def test_what_is_under_way_when_a_run_ends_with_an_error_is_kept(tmp_path):
    listed, encoder = list(samples(12, broken=(10,))), random_encoder()
    fed(encoder)

    with pytest.raises(DataError):
        embed(tmp_path, encoder, listed)

    keys = np.frombuffer(b"".join(key for key, _ in listed), np.uint8).reshape(12, -1)
    table, _ = embed(tmp_path, random_encoder(), [])
    assert table.missing(keys).tolist() == [False] * 8 + [True] * 4


def test_a_model_on_the_cpu_computes_at_once(zoo):
    assert isinstance(device_of(random_encoder()), PlainDevice)
    assert isinstance(device_of(load(zoo.case("open_clip").spec)), PlainDevice)


IMAGES = [to_rgb(noise_image(i, size)) for i, size in enumerate([(90, 60), (60, 90), (300, 200), (40, 40), (64, 33)])]


@pytest.fixture(scope="module")
def tower(zoo):
    return load(zoo.case("open_clip").spec)


def test_bytes_that_are_normalised_on_the_device_give_every_bit(tower):
    floats = np.stack([tower.prepare_image(image) for image in IMAGES])
    bytes_ = np.stack([tower.pixels.prepare_bytes(image) for image in IMAGES])

    assert bytes_.dtype == np.uint8
    assert bytes_.nbytes * 4 == floats.nbytes
    assert tower._place(torch.from_numpy(bytes_), "cpu").numpy().tobytes() == floats.tobytes()
    assert np.array_equal(tower.encode_images(bytes_), tower.encode_images(floats))
    assert tower._levels_on("cpu") is tower._levels_on("cpu")  # a copy for each batch would make the host wait


class Stream:
    """Stands for a CUDA stream: on the CPU everything is done at once, so it has only to write down."""

    def __init__(self, log, name):
        self.log, self.name = log, name

    def record_event(self):
        self.log.append(f"{self.name} records")
        return self

    def wait_event(self, event):
        self.log.append(f"{self.name} waits for {event.name}")

    def synchronize(self):
        self.log.append(f"host waits for {self.name}")


@pytest.fixture
def cuda(monkeypatch):
    """Let the lines for CUDA run on the CPU; return what they did."""
    log = []
    empty = torch.empty

    def unpinned(*args, pin_memory, **named):
        return empty(*args, **named) if pin_memory else pytest.fail("a copy from other memory waits")

    @contextmanager
    def stream(inner):
        log.append(f"in {inner.name}:")
        yield

    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream(log, "copies"))
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: Stream(log, "computing"))
    monkeypatch.setattr(torch, "empty", unpinned)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: log.append(f"held for {stream.name}"))
    return log


def cuda_feed(tower, monkeypatch, devices):
    monkeypatch.setattr(tower, "devices", ["cuda"])
    monkeypatch.setattr(tower, "_replicas", [tower.model] * len(devices))
    feed = tower.image_device()
    assert isinstance(feed, CudaFeed)
    assert feed.tuning.key == (tower.card.fingerprint, "a GPU")
    monkeypatch.setattr(tower, "devices", devices)
    return CudaFeed(devices, feed.prepare, feed._inputs, feed._forward, feed._errors)


def test_the_lines_for_cuda_copy_in_one_stream_and_compute_in_another(tower, monkeypatch, cuda):
    wanted = tower.encode_images(np.stack([tower.prepare_image(image) for image in IMAGES]))
    device = cuda_feed(tower, monkeypatch, ["cpu"])
    batch = device.memory((len(IMAGES), 3, *wanted_size(tower)), np.dtype(np.uint8))
    for row, image in zip(batch, IMAGES, strict=True):
        row[...] = device.prepare(image)

    found = device.fetch(device.launch(device.copy(batch)))

    assert np.array_equal(found, wanted)
    assert cuda == [
        "in copies:", "copies records", "computing waits for copies", "held for computing", "computing records",
        "host waits for computing",
    ]  # fmt: skip


@pytest.mark.parametrize("refused", [False, True])
def test_the_lines_for_cuda_lock_memory_of_other_processes(tower, monkeypatch, cuda, refused):
    class Runtime:
        @staticmethod
        def cudaHostRegister(place, size, flags):  # noqa: N802 - as CUDA calls it
            cuda.append(("lock", place, size, flags))
            return int(refused)

        @staticmethod
        def cudaHostUnregister(place):  # noqa: N802
            cuda.append(("unlock", place))

    monkeypatch.setattr(torch.cuda, "cudart", lambda: Runtime)
    memory = np.empty((4, 3, 2), np.float32)
    place = memory.ctypes.data

    with cuda_feed(tower, monkeypatch, ["cpu"]).locked(memory):
        assert cuda == [("lock", place, 96, 1)]

    assert cuda[1:] == ([] if refused else [("unlock", place)])


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_the_lines_for_cuda_share_a_batch_among_devices(tower, monkeypatch, cuda, rows):
    batch = np.stack([tower.pixels.prepare_bytes(image) for image in IMAGES[:rows]])
    wanted = tower.encode_images(batch)
    device = cuda_feed(tower, monkeypatch, ["cpu", "cpu"])

    found = run(device, [batch] * 3)

    assert cuda
    for _, vectors in found:
        assert np.abs(vectors - wanted).max() < 1e-5  # a matrix product of fewer rows rounds in another way


def wanted_size(tower):
    return tower.pixels.prepare_bytes(IMAGES[0]).shape[1:]
