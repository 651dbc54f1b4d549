"""What a GPU is fed with: bytes that the device normalises, and smaller batches when memory runs out."""

import gc
import weakref

import numpy as np
import pytest
import torch

from eyechart.errors import OutOfMemoryError
from eyechart.inference.pipeline import BatchBackoff
from eyechart.io.images import to_rgb
from eyechart.models.towers.torch_tools import forward_pass
from support.data import noise_image
from support.zoo import load

IMAGES = [to_rgb(noise_image(i, size)) for i, size in enumerate([(90, 60), (60, 90), (300, 200), (40, 40), (64, 33)])]


@pytest.fixture(scope="module")
def tower(zoo):
    return load(zoo.case("open_clip").spec)


def test_bytes_that_are_normalised_on_the_device_give_every_bit(tower):
    floats = np.stack([tower.prepare_image(image) for image in IMAGES])
    bytes_ = np.stack([tower.pixels.prepare_bytes(image) for image in IMAGES])

    assert bytes_.dtype == np.uint8
    assert bytes_.nbytes * 4 == floats.nbytes
    assert tower._place(torch.from_numpy(bytes_)).numpy().tobytes() == floats.tobytes()
    assert np.array_equal(tower.encode_images(bytes_), tower.encode_images(floats))


def test_a_tensor_is_encoded_as_an_array_is(tower):
    floats = np.stack([tower.prepare_image(image) for image in IMAGES])

    assert np.array_equal(tower.encode_images(torch.from_numpy(floats)), tower.encode_images(floats))


class Activations:
    """Stands for the memory of a forward pass."""


def test_the_activations_of_a_failed_pass_are_gone_before_the_next_one():
    alive, seen = weakref.WeakSet(), []

    def encode(batch):
        seen.append(len(alive))
        activations = Activations()
        alive.add(activations)
        with forward_pass("fp32"):
            if len(batch) > 2:
                raise RuntimeError("CUDA out of memory")
        return np.zeros((len(batch), 3), np.float32)

    gc.disable()
    try:
        assert BatchBackoff().run(encode, list(range(8))).shape == (8, 3)
    finally:
        gc.enable()

    assert seen == [0] * len(seen)
    assert len(seen) == 6  # 8, 4, and four times 2


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "HIP out of memory. Tried to allocate 2.00 GiB",
    ],
)
def test_failed_allocations_of_cuda_libraries_are_out_of_memory(message):
    with pytest.raises(OutOfMemoryError), forward_pass("fp32"):
        raise RuntimeError(message)
