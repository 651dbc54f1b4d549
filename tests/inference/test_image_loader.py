"""Images prepared by the worker processes of torch's DataLoader: the same bits and failures as threads, nothing lost.

The device decision is a test double (`NotOnCpu`): everything else is real, on the CPU.
"""

import gc
import io
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import tarfile
import time
from importlib.util import find_spec
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace

import numpy as np
import pytest
from PIL import Image, ImageFile

from eyechart.errors import DataError, ModelError
from eyechart.inference import image_loader, pipeline
from eyechart.inference.image_batches import ImageWork
from eyechart.inference.image_loader import loader_workers, main_is_import_safe
from eyechart.inference.pipeline import Pipeline
from eyechart.io.images import ImageRef, decode_rgb, to_rgb
from eyechart.io.progress import NoProgress
from eyechart.io.stopwatch import Stopwatch
from eyechart.store.vector_store import EmbeddingStore
from eyechart.types import EncodeOptions, Sample
from support import transforms
from support.data import encoded, noise_image
from support.embedding import embed
from support.encoders import SmallEncoder, lazy, random_encoder
from support.transforms import CLIP, DEADLY, Deadly, failing, own_size
from support.zoo import load

PATIENCE = 60
"""Seconds after which a process is taken to go on for ever."""


@pytest.fixture(autouse=True)
def import_safe(monkeypatch):
    """Let workers start whatever runs the tests."""
    monkeypatch.setattr(image_loader, "main_is_import_safe", lambda: True)


class NotOnCpu(SmallEncoder):
    """A test double of the device decision: it says that it is not on the CPU, and computes there."""

    on_gpu = True

    def encode_images(self, batch):
        return super().encode_images([np.asarray(image) for image in batch])


def seeing(transform=CLIP):
    """Return an encoder whose vectors tell every bit of the pixels."""
    encoder = NotOnCpu("random", random_encoder().vector)
    encoder.prepare_image = encoder.image_transform = transform
    return encoder


def listed(refs):
    return [(ref.digest(), Sample(name, ref)) for name, ref in refs.items()]


def photographs(folder):
    """Find real photographs, in files."""
    return {path.name: ImageRef.from_path(path) for path in sorted((folder / "data").glob("*.[jp][pn]g"))[:12]}


def odd_formats(folder):
    """Write images of modes and formats that need care, as files, as parts of a tar file and in memory."""
    image = noise_image(0, (70, 50))
    deep = Image.fromarray(np.random.default_rng(0).integers(0, 1 << 16, (40, 30), np.uint16))
    clear = image.convert("P")
    clear.info["transparency"] = 3
    kinds = {
        "a.png": image.convert("RGBA"), "b.png": image.convert("L"), "c.tiff": deep, "d.gif": clear,
        "e.jpg": image.convert("CMYK"), "f.webp": image, "g.bmp": image, "h.png": image.convert("1"),
    }  # fmt: skip
    for name, kind in kinds.items():
        kind.save(folder / name)
    refs = {name: ImageRef.from_path(folder / name) for name in kinds}
    with tarfile.open(folder / "all.tar", "w") as tar:
        for name in kinds:
            tar.add(folder / name, name)
    with tarfile.open(folder / "all.tar") as tar:
        for member in tar:
            part = (folder / "all.tar", member.offset_data, member.size)
            refs[f"part {member.name}"] = ImageRef(f"all.tar:{member.name}", part=part)
    data = encoded(noise_image(5, (90, 33)), "jpg")
    return {**refs, "bytes": ImageRef("bytes", data), "box": ImageRef("box", data).crop(3, 4, 60, 30)}


def broken(folder):
    """Make images that cannot be decoded, each in its own way."""
    stream = io.BytesIO()
    noise_image(1, (90, 60)).save(stream, "JPEG")
    (folder / "cut.jpg").write_bytes(stream.getvalue()[:-300])
    (folder / "text.jpg").write_text("no image")
    Image.new("L", (9000, 1)).save(folder / "strip.png")
    Image.new("1", (10000, 9000)).save(folder / "bomb.png")
    Image.fromarray(np.full((4, 4), 1 << 20, np.int32)).save(folder / "deep.tiff")
    return {path.name: ImageRef.from_path(path) for path in sorted(folder.iterdir())}


def vectors(folder, encoder, samples, **how):
    """Embed; return the vectors of what could be decoded, and what was said of the rest."""
    table, failures = embed(folder, encoder, samples, **how)
    keys = np.frombuffer(b"".join(key for key, _ in samples), np.uint8).reshape(len(samples), -1)
    there = ~table.missing(keys)
    return there.tolist(), table.get(keys[there]), failures


def test_every_bit_and_every_word_is_that_of_threads(tmp_path):
    (tmp_path / "broken").mkdir()
    skimage = Path(find_spec("skimage").origin).parent
    samples = listed(photographs(skimage) | odd_formats(tmp_path) | broken(tmp_path / "broken"))
    (tmp_path / "b.png").unlink()  # gone since it was listed
    (tmp_path / "g.bmp").write_bytes((tmp_path / "a.png").read_bytes())  # another one since then

    there, found, failures = vectors(tmp_path / "two", seeing(), samples, on_error="skip", processes=2)
    wanted_there, wanted, wanted_failures = vectors(tmp_path / "none", seeing(), samples, on_error="skip", processes=0)

    assert len(samples) >= 35
    assert there == wanted_there
    assert found.tobytes() == wanted.tobytes()
    assert failures == wanted_failures
    assert len(failures) == 7
    reasons = {failure.id: failure.reason for failure in failures}
    assert "no end mark" in reasons["cut.jpg"]
    assert "90000000 pixels" in reasons["bomb.png"]
    assert "cannot read the image" in reasons["b.png"]
    assert "the image changed" in reasons["g.bmp"]


def test_images_of_several_shapes_come_back_as_they_are(tmp_path):
    refs = {str(i): ImageRef(str(i), encoded(noise_image(i, (8 + i % 3, 9)), "png")) for i in range(20)}

    *_, found, failures = vectors(tmp_path / "one", seeing(own_size), listed(refs), processes=1)

    assert failures == []
    assert found.tobytes() == vectors(tmp_path / "none", seeing(own_size), listed(refs), processes=0)[1].tobytes()


def small(count, deadly=()):
    """Yield small images; those with a deadly size end the process of a `Deadly` transform."""
    sizes = {i: DEADLY if i in deadly else (12, 9) for i in range(count)}
    return listed({str(i): ImageRef(str(i), encoded(noise_image(i, size), "png")) for i, size in sizes.items()})


PREFIX = f"/eyechart-{os.getpid()}"
"""Name of this process's semaphores: other processes on the machine have theirs in the same folder."""


@pytest.fixture(autouse=True)
def own_semaphores(monkeypatch):
    monkeypatch.setitem(multiprocessing.current_process()._config, "semprefix", PREFIX)


def left_behind():
    """List the processes and semaphores that stay; the resource tracker removes some a moment after a process died."""
    until = time.monotonic() + PATIENCE
    while True:
        gc.collect()
        semaphores = Path("/dev/shm").glob(f"*{PREFIX.strip('/')}-*")  # noqa: S108 - only listed
        left = [*semaphores, *multiprocessing.active_children()]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.1)


def test_the_image_of_a_worker_that_dies_is_named_and_no_other_is_lost(tmp_path):
    deadly = (9, 30)
    samples = small(40, deadly)
    (tmp_path / "marks").mkdir()
    encoder = seeing(Deadly(tmp_path / "marks", 100))

    there, found, failures = vectors(tmp_path / "two", encoder, samples, on_error="skip", processes=2)

    assert [failure.id for failure in failures] == [str(i) for i in deadly]
    assert [failure.reason for failure in failures] == [f"{i}: the process decoding the image died." for i in deadly]
    assert there == [i not in deadly for i in range(40)]
    assert found.tobytes() == vectors(tmp_path / "none", seeing(), small(40), processes=0)[1][there].tobytes()
    assert not left_behind()


def test_a_dead_worker_is_named_in_a_process_that_used_torch_s_loader_before(tmp_path, monkeypatch):
    from torch.utils.data._utils import signal_handling

    before = signal.getsignal(signal.SIGCHLD)
    monkeypatch.setattr(signal_handling, "_SIGCHLD_handler_set", False)
    signal_handling._set_SIGCHLD_handler()  # as the first loader of a process does: it raises wherever the process is
    try:
        (tmp_path / "marks").mkdir()
        encoder = seeing(Deadly(tmp_path / "marks", 100))
        *_, failures = vectors(tmp_path / "two", encoder, small(24, (9,)), on_error="skip", processes=2)
        assert [failure.id for failure in failures] == ["9"]
        assert "torch" not in getattr(signal.getsignal(signal.SIGCHLD), "__module__", "")
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_without_skipping_a_dead_worker_ends_the_run_with_the_name_of_its_image(tmp_path):
    (tmp_path / "marks").mkdir()

    with pytest.raises(DataError, match="9: 9: the process decoding the image died"):
        embed(tmp_path / "two", seeing(Deadly(tmp_path / "marks", 100)), small(24, deadly=(9,)), processes=2)


def test_workers_that_keep_dying_end_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(image_loader, "MAX_DEATHS", 1)
    (tmp_path / "marks").mkdir()
    encoder = seeing(Deadly(tmp_path / "marks", 100))

    with pytest.raises(ModelError, match="2 loader workers died, the last one at"):
        embed(tmp_path / "two", encoder, small(24, deadly=(3, 9)), on_error="skip", processes=1)


def test_a_broken_image_ends_the_run_with_the_same_words_and_nothing_is_left(tmp_path):
    samples = small(30)
    samples[20] = (samples[20][0], Sample("20", ImageRef("20.png", b"another one")))
    said = []

    for processes in (0, 1):
        with pytest.raises(DataError) as caught:
            embed(tmp_path / str(processes), seeing(), samples, processes=processes)
        said.append(str(caught.value))
        del caught  # it knows where it was raised, and what was there
        assert not left_behind()

    assert said[0] == said[1]


def test_an_error_of_the_transform_itself_comes_back_with_its_place(tmp_path):
    with pytest.raises(OSError, match="Caught OSError in DataLoader worker") as caught:
        embed(tmp_path, seeing(failing), small(20), processes=1)

    assert "in failing" in str(caught.value)


def test_relative_paths_and_settings_of_pillow_hold_in_the_workers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for i in range(12):
        noise_image(i, (20, 10)).save(f"{i}.bmp")
    Path("7.bmp").write_bytes(Path("7.bmp").read_bytes()[:-100])
    samples = listed({str(i): ImageRef.from_path(Path(f"{i}.bmp")) for i in range(12)})

    there, found, _ = vectors(tmp_path / "one", seeing(), samples, processes=1)

    assert all(there)
    assert found.tobytes() == vectors(tmp_path / "none", seeing(), samples, processes=0)[1].tobytes()


def test_a_transform_that_a_worker_cannot_import_stays_in_threads(tmp_path, monkeypatch):
    module = ModuleType("only_here")
    module.transform = FunctionType(own_size.__code__, vars(transforms), "transform")
    module.transform.__module__, module.transform.__qualname__ = "only_here", "transform"
    monkeypatch.setitem(sys.modules, "only_here", module)
    assert ForkingPickler.dumps(ImageWork(decode_rgb, module.transform))

    there, found, _ = vectors(tmp_path / "two", seeing(module.transform), small(20), processes=2)

    assert all(there)
    assert found.tobytes() == vectors(tmp_path / "none", seeing(own_size), small(20), processes=0)[1].tobytes()


def workers(encoder, processes=2, threads=4):
    work = ImageWork(decode_rgb, encoder.image_transform)
    return loader_workers(encoder, work, EncodeOptions(64, threads, processes))


def test_workers_are_for_gpus_only():
    encoder = seeing()
    encoder.on_gpu = False

    assert workers(encoder) == (0, "processes are only used with GPUs")
    assert workers(encoder, None) == (0, "")  # nothing was asked for
    assert workers(seeing()) == (2, "")
    assert workers(seeing(), 0) == (0, "")


class Whole:
    """An encoder that can be pickled and whose transform is one of its methods."""

    on_gpu = True

    def image_transform(self, image):
        return own_size(image)


def test_a_model_is_not_sent_to_processes_along_with_its_transform():
    assert workers(Whole())[1] == "the image transform of the model cannot be pickled"


@pytest.mark.parametrize("transform", [None, lambda image: own_size(image)[:4]])
def test_a_transform_that_cannot_be_sent_without_its_model_stays_in_threads(transform):
    encoder = seeing(transform)
    if transform is None:
        encoder.image_transform = encoder.encode_images

    assert workers(encoder)[1] == "the image transform of the model cannot be pickled"


def test_a_small_shared_memory_is_left_alone(monkeypatch):
    monkeypatch.setattr(image_loader.shutil, "disk_usage", lambda _: SimpleNamespace(free=64 * 2**20))

    assert workers(seeing()) == (0, f"{image_loader.SHARED_MEMORY} has less than 147 MiB free")


@pytest.mark.parametrize(
    ("name", "source", "safe"),
    [
        ("guarded.py", 'import os\nif __name__ == "__main__":\n    pass\n', True),
        ("plain.py", "print(1)\n", False),
        ("mentioned.py", '# no if __name__ == "__main__": here\n', False),
    ],
)
def test_a_script_is_import_safe_if_it_has_a_guard(tmp_path, monkeypatch, name, source, safe):
    (tmp_path / name).write_text(source)
    main = ModuleType("__main__")
    main.__file__ = str(tmp_path / name)
    monkeypatch.setitem(sys.modules, "__main__", main)

    assert main_is_import_safe() is safe


def test_a_package_is_import_safe_and_a_notebook_is_not(monkeypatch):
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert not main_is_import_safe()
    main.__spec__ = SimpleNamespace(name="eyechart.__main__")
    assert main_is_import_safe()


def test_a_run_says_that_the_workers_it_asked_for_were_not_started(tmp_path, monkeypatch):
    monkeypatch.setattr(image_loader, "main_is_import_safe", lambda: False)
    line = Pipeline(lazy(seeing()), EncodeOptions(4, 3, 2), "fail", Stopwatch())

    with NoProgress().step("images", 4) as bar:
        line.embed_images(iter(small(4)), EmbeddingStore(tmp_path).table("model", "image"), bar)

    (notice,) = line.notices()
    assert notice.kind == "decode_threads"
    assert notice.message.startswith("Images were decoded by threads instead of 2 processes: the main module lacks")


@pytest.mark.parametrize(
    ("cores", "variable", "ranks", "threads", "count"),
    [
        (64, "LOCAL_WORLD_SIZE", "1", 4, 16),
        (12, "LOCAL_WORLD_SIZE", "1", 4, 11),
        (7, "LOCAL_WORLD_SIZE", "1", 4, 0),  # threads keep so few cores busy
        (64, "LOCAL_WORLD_SIZE", "8", 4, 7),
        (64, "SLURM_STEP_TASKS_PER_NODE", "8(x2)", 4, 7),
        (64, "OMPI_COMM_WORLD_LOCAL_SIZE", "16", 4, 0),
        (64, "LOCAL_WORLD_SIZE", "1", 2, 0),  # a smaller --num-workers asks for less of the machine
    ],
)  # fmt: skip
def test_workers_are_started_unasked_where_there_are_many_cores(monkeypatch, cores, variable, ranks, threads, count):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores))
    monkeypatch.setattr(image_loader.shutil, "disk_usage", lambda _: SimpleNamespace(free=2**40))
    monkeypatch.setenv(variable, ranks)

    assert workers(seeing(), None, threads) == (count, "")


@pytest.mark.parametrize(("bound", "cores"), [(16, 16), (128, 16)])
def test_cores_that_slurm_bound_a_task_to_are_not_divided_again(monkeypatch, bound, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(bound))
    for name, value in {"SLURM_STEP_TASKS_PER_NODE": "8", "SLURM_CPUS_ON_NODE": "128"}.items():
        monkeypatch.setenv(name, value)

    assert image_loader.usable_cores() == cores


@pytest.mark.parametrize(("ranks", "cores"), [(1, 5), (2, 2), (4, 1), (8, 1)])
def test_ranks_of_a_machine_share_its_cores_in_whole_numbers(monkeypatch, ranks, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(5)), raising=False)
    monkeypatch.setattr(image_loader, "local_size", lambda: ranks)

    found = image_loader.usable_cores()

    assert (found, type(found)) == (cores, int)


def test_threads_prepare_the_first_batches_of_a_run_that_did_not_ask(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline, "LOADER_AFTER", 5)
    monkeypatch.setattr(image_loader, "usable_cores", lambda: 8)
    monkeypatch.setattr(image_loader, "MAX_WORKERS", 2)
    (tmp_path / "marks").mkdir()
    encoder = seeing(Deadly(tmp_path / "marks", 1))
    line = Pipeline(lazy(encoder), EncodeOptions(4, 4, None), "skip", Stopwatch())

    with NoProgress().step("images", 60) as bar:
        failures = line.embed_images(
            iter(small(60, deadly=(3, 40))), EmbeddingStore(tmp_path / "store").table("model", "image"), bar
        )

    assert [failure.id for failure in failures] == ["40"]  # the other one was prepared here, by a thread


@pytest.mark.parametrize("options", [{}, {"decoder": "fast"}])
def test_the_transform_of_an_open_clip_model_is_sent_without_the_model(zoo, options):
    spec = zoo.case("open_clip").spec
    tower = load(type(spec)(**{**{name: getattr(spec, name) for name in spec.__slots__}, "options": options}))
    work = ImageWork(tower.decode, tower.image_transform)

    sent = ForkingPickler.dumps(work)

    assert len(sent) < 50_000
    for image in (encoded(noise_image(0, (300, 200)), "jpg"), encoded(noise_image(1, (40, 90)), "png")):
        ref = ImageRef("image", image)
        other, _ = ForkingPickler.loads(sent).run(ref.digest(), ref, Stopwatch())
        assert other.tobytes() == work.run(ref.digest(), ref, Stopwatch())[0].tobytes()


@pytest.mark.parametrize("case", ["clip", "siglip2-naflex"])
def test_an_image_processor_of_transformers_is_sent_without_the_model(zoo, case):
    encoder = load(zoo.case(case).spec)
    image = to_rgb(noise_image(0, (90, 60)))

    work = ForkingPickler.loads(ForkingPickler.dumps(ImageWork(decode_rgb, encoder.image_transform)))

    assert work.prepare(image).tobytes() == encoder.prepare_image(image).tobytes()


def test_a_real_tower_is_fed_bytes_by_workers(zoo, tmp_path, monkeypatch):
    tower = load(zoo.case("open_clip").spec)
    wanted_there, wanted, _ = vectors(tmp_path / "none", tower, small(20), processes=0)
    monkeypatch.setattr(type(tower), "on_gpu", True)  # a test double of the device decision
    assert tower.image_transform(noise_image(0, (90, 60))).dtype == np.uint8

    there, found, failures = vectors(tmp_path / "two", tower, small(20), processes=2)

    assert failures == []
    assert there == wanted_there
    assert np.array_equal(found, wanted)


SCRIPT = """
import multiprocessing, sys
from pathlib import Path
from support.embedding import embed
from tests_of_processes import seeing, small

if __name__ == "__main__":
    def samples():
        for i, sample in enumerate(small(40)):
            if i == 39:
                children = multiprocessing.active_children()
                print(*[child.pid for child in children], *Path("/dev/shm").glob(f"*{sys.argv[2][1:]}-*"), flush=True)
                sys.stdin.read()
            yield sample

    class Listed(list):
        def __iter__(self):
            return samples()

    multiprocessing.current_process()._config["semprefix"] = sys.argv[2]
    embed(Path(sys.argv[1]), seeing(), Listed(range(40)), processes=2)
"""


def test_processes_end_when_the_one_that_started_them_is_killed(tmp_path):
    (tmp_path / "run.py").write_text(SCRIPT)
    (tmp_path / "tests_of_processes.py").write_bytes(Path(__file__).read_bytes())
    paths = [str(tmp_path), *sys.path]
    run = subprocess.Popen(
        [sys.executable, "run.py", str(tmp_path / "store"), PREFIX],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with run:
        first, second, *semaphores = run.stdout.readline().split()
        children = [os.pidfd_open(int(first)), os.pidfd_open(int(second))]
        run.kill()

    assert semaphores
    for child in children:
        assert select.select([child], [], [], PATIENCE)[0], "it is still there"
        os.close(child)
    assert not left_behind()
    assert run.returncode == -signal.SIGKILL
