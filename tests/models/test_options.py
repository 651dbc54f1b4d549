"""Device, precision, memory: how a model is run, not what it answers."""

import dataclasses

import numpy as np
import pytest
import torch

from eyechart.errors import ModelError, OutOfMemoryError, UsageError
from eyechart.inference.image_batches import stack
from eyechart.inference.pipeline import BatchBackoff
from eyechart.models.towers import torch_tools
from eyechart.models.towers.torch_tools import choose_devices, forward_pass, precision_notes
from support.zoo import load, photos


def prepared(encoder):
    return stack([encoder.prepare_image(ref) for ref in photos()])


def test_a_model_takes_the_first_of_several_devices(zoo):
    several = load(dataclasses.replace(zoo.case("clip").spec, device="cpu,cpu"))

    assert several.devices == ["cpu"]


def test_auto_takes_every_gpu_and_else_the_cpu(monkeypatch):
    for name in torch_tools.LOCAL_RANKS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert choose_devices("auto") == ["cuda:0", "cuda:1", "cuda:2"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert choose_devices("auto") == ["cpu"]


@pytest.mark.parametrize("variable", ["LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"])
def test_a_process_of_several_takes_one_gpu(monkeypatch, variable):
    for name in torch_tools.LOCAL_RANKS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setenv(variable, "6")
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "8")

    assert choose_devices("auto") == ["cuda:2"]


@pytest.mark.parametrize("wanted", ["cuda:7", "gpu", "cpu,cuda:9"])
def test_a_device_that_is_not_there(wanted):
    with pytest.raises(UsageError, match=r"--device|Unknown device"):
        choose_devices(wanted)


@pytest.mark.parametrize(
    ("precision", "capabilities", "warned"),
    [
        ("bf16", {"architecture": "x86_64"}, True),
        ("amp", {"architecture": "x86_64"}, True),
        ("fp16", {"architecture": "x86_64", "amx_bf16": True}, True),
        ("bf16", {"architecture": "x86_64", "amx_bf16": True}, False),
        ("bf16", {"architecture": "x86_64", "avx512_bf16": True}, False),
        ("fp16", {"architecture": "x86_64", "avx512_fp16": True}, False),
        ("fp32", {"architecture": "x86_64"}, False),
    ],
)
def test_a_cpu_without_the_instructions_is_reported(monkeypatch, precision, capabilities, warned):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)

    notes = precision_notes(precision, "cpu")

    assert bool(notes) is warned
    assert precision_notes(precision, "cuda:0") == []
    if warned:
        assert f"--precision {precision} is emulated" in notes[0]


def test_a_precision_that_a_model_cannot_run_in():
    with pytest.raises(ModelError, match="does not support fp16 on this device"), forward_pass("fp16"):
        raise RuntimeError("\"upsample\" not implemented for 'Half'")


@pytest.mark.parametrize(
    "message",
    [
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to allocate",
    ],
)
def test_torchs_words_for_no_memory_are_understood(message):
    with pytest.raises(OutOfMemoryError), forward_pass("fp32"):
        raise RuntimeError(message)


def test_a_real_allocation_that_cannot_be_made_is_understood():
    with pytest.raises(OutOfMemoryError), forward_pass("fp32"):
        torch.empty(1 << 60, dtype=torch.uint8)


class Small:
    """Encodes at most three rows at a time."""

    def __init__(self):
        self.sizes = []

    def __call__(self, rows):
        self.sizes.append(len(rows))
        if len(rows) > 3:
            raise OutOfMemoryError("too many")
        return np.asarray(rows, np.float32)[:, None]


def test_batches_are_halved_until_they_fit_and_stay_small():
    encode, backoff = Small(), BatchBackoff()

    first = backoff.run(encode, list(range(10)))
    second = backoff.run(encode, list(range(5)))

    assert first[:, 0].tolist() == list(range(10))
    assert second[:, 0].tolist() == list(range(5))
    assert encode.sizes == [10, 5, 2, 2, 2, 2, 2, 2, 2, 1]
    assert backoff.notices()[0].message == "Batches of 10 did not fit into memory; the batch size was reduced to 2."


def test_a_single_input_that_does_not_fit_is_an_error():
    def never(rows):
        raise MemoryError

    with pytest.raises(ModelError, match="A single input does not fit"):
        BatchBackoff().run(never, [1, 2, 3])


def test_what_fits_is_encoded_in_one_piece():
    encode, backoff = Small(), BatchBackoff()

    backoff.run(encode, [1, 2, 3])

    assert encode.sizes == [3]
    assert backoff.notices() == []


def test_images_of_one_shape_become_one_array():
    same, mixed = [np.zeros((2, 2))] * 3, [np.zeros(2), np.zeros(3)]

    assert stack(same).shape == (3, 2, 2)
    assert [array.shape for array in stack(mixed)] == [(2,), (3,)]


def test_transforms_are_described_without_addresses():
    def double(image):
        return image

    assert (
        torch_tools.describe([double]) == "[<function test_transforms_are_described_without_addresses.<locals>.double>]"
    )


def launched(monkeypatch, **variables):
    for name in (*torch_tools.LOCAL_RANKS, *torch_tools.LOCAL_RANKS.values(), "SLURM_NODEID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)


@pytest.mark.parametrize("step", [{}, {"SLURM_STEP_TASKS_PER_NODE": "1"}, {"SLURM_STEP_TASKS_PER_NODE": "1(x4)"}])
def test_auto_takes_every_gpu_for_the_only_task_of_slurm_on_a_machine(monkeypatch, step):
    launched(monkeypatch, SLURM_LOCALID="0", SLURM_NTASKS="4", SLURM_TASKS_PER_NODE="4", **step)

    assert len(choose_devices("auto")) == 4
    assert torch_tools.local_size() == 1


@pytest.mark.parametrize(("node", "size"), [("0", 8), ("1", 8), ("2", 3), ("7", 8)])
def test_the_tasks_of_slurm_are_counted_for_this_machine(monkeypatch, node, size):
    launched(monkeypatch, SLURM_LOCALID="1", SLURM_STEP_TASKS_PER_NODE="8(x2),3", SLURM_NODEID=node)

    assert torch_tools.local_size() == size
    assert choose_devices("auto") == ["cuda:1"]


def test_ranks_of_mpi_count_inside_a_batch_script_of_slurm(monkeypatch):
    ranks = {"OMPI_COMM_WORLD_LOCAL_RANK": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
    launched(monkeypatch, SLURM_LOCALID="0", **ranks)

    assert choose_devices("auto") == ["cuda:3"]
    assert torch_tools.local_size() == 4


def test_mps_off_a_mac_is_an_error_with_advice(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    with pytest.raises(UsageError, match="The device mps is not available") as caught:
        choose_devices("mps")
    assert "--device auto" in caught.value.advice
