"""Images decoded by processes instead of threads: the same bits, the same errors, and nothing left behind."""

import gc
import io
import json
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np
import pytest
from PIL import Image, ImageFile

from eyechart import evaluate
from eyechart.errors import DataError
from eyechart.inference import process_preparer
from eyechart.inference.decode_process import packed
from eyechart.inference.device_feed import PlainDevice
from eyechart.inference.image_work import ImageWork, ThreadPreparer
from eyechart.inference.process_preparer import preparer_for
from eyechart.io.media import ImageRef, decode_rgb, to_rgb
from eyechart.io.stopwatch import Stopwatch
from eyechart.types import Sample
from support import transforms
from support.data import encoded, noise_image
from support.embedding import embed
from support.encoders import SmallEncoder, random_encoder
from support.recording_device import RecordingDevice
from support.transforms import CLIP, DEADLY, Deadly, failing, own_size
from support.zoo import load

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="processes share such memory")
PATIENCE = 60
"""Seconds after which a process is taken to go on for ever."""


def seeing(transform=CLIP):
    """Return an encoder whose vectors tell every bit of the pixels."""
    encoder = random_encoder()
    encoder.prepare_image = encoder.sendable_transform = transform
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


def what_is_there():
    """Look at everything that a process could leave behind."""
    return shared_memory(), len(list(Path("/proc/self/fd").iterdir())), multiprocessing.active_children()


def shared_memory():
    return sorted(Path("/dev/shm").iterdir())  # noqa: S108 - only looked at


@pytest.mark.parametrize("deadly", [(9,), (9, 10, 30)])
def test_the_images_of_a_process_that_is_killed_are_prepared_by_another(tmp_path, deadly):
    samples = small(40, deadly)
    (tmp_path / "marks").mkdir()

    there, found, failures = vectors(tmp_path / "two", seeing(Deadly(tmp_path / "marks", 1)), samples, processes=2)

    assert failures == []
    assert all(there)
    assert len(list((tmp_path / "marks").iterdir())) == 1  # one did die
    assert found.tobytes() == vectors(tmp_path / "none", seeing(), samples, processes=0)[1].tobytes()


def test_an_image_that_ends_every_process_is_the_only_one_that_fails(tmp_path):
    samples, before = small(24, deadly=(9,)), what_is_there()
    (tmp_path / "marks").mkdir()
    encoder = seeing(Deadly(tmp_path / "marks", 100))

    there, _, failures = vectors(tmp_path / "two", encoder, samples, on_error="skip", processes=2)

    assert [failure.id for failure in failures] == ["9"]
    assert "9: the process that decoded the image died, and so did the next one" in failures[0].reason
    assert there == [i != 9 for i in range(24)]
    assert what_is_there() == before


def test_a_broken_image_ends_the_run_with_the_same_words_and_nothing_is_left(tmp_path):
    samples = small(30)
    samples[20] = (samples[20][0], Sample("20", ImageRef("20.png", b"another one")))
    said, before = [], None

    for processes in (0, 1):
        before = before or what_is_there()
        with pytest.raises(DataError) as caught:
            embed(tmp_path / str(processes), seeing(), samples, processes=processes)
        said.append(str(caught.value))
        del caught  # it knows where it was raised, and what was there
        gc.collect()
        assert what_is_there() == before

    assert said[0] == said[1]


def test_an_error_of_the_transform_itself_comes_back_with_its_place(tmp_path):
    first = seeing()
    first.sendable_transform = Fails()

    with pytest.raises(OSError, match="no transform for") as caught:
        embed(tmp_path, first, small(20), processes=1)

    assert "In a decode process" in caught.value.__notes__[0]


class Fails:
    """Prepares images in the process that made it, and in no other."""

    def __init__(self):
        self.home = os.getpid()

    def __call__(self, image):
        return CLIP(image) if os.getpid() == self.home else failing(image)


def test_relative_paths_and_settings_of_pillow_hold_in_the_processes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for i in range(12):
        noise_image(i, (20, 10)).save(f"{i}.bmp")
    Path("7.bmp").write_bytes(Path("7.bmp").read_bytes()[:-100])
    samples = listed({str(i): ImageRef.from_path(Path(f"{i}.bmp")) for i in range(12)})

    there, found, _ = vectors(tmp_path / "one", seeing(), samples, processes=1)

    assert all(there)
    assert found.tobytes() == vectors(tmp_path / "none", seeing(), samples, processes=0)[1].tobytes()


def test_a_transform_that_another_process_cannot_read_stays_here(tmp_path, monkeypatch):
    module = ModuleType("only_here")
    module.transform = FunctionType(own_size.__code__, vars(transforms), "transform")
    module.transform.__module__, module.transform.__qualname__ = "only_here", "transform"
    monkeypatch.setitem(sys.modules, "only_here", module)
    assert packed(ImageWork(decode_rgb, module.transform))

    there, found, _ = vectors(tmp_path / "two", seeing(module.transform), small(20), processes=2)

    assert all(there)
    assert found.tobytes() == vectors(tmp_path / "none", seeing(own_size), small(20), processes=0)[1].tobytes()


def preparer(encoder, processes=2, device=None, threads=4):
    device = device or PlainDevice(encoder)
    work = ImageWork(decode_rgb, device.prepare)
    return preparer_for(work, device, Stopwatch(), threads=threads, processes=processes, owner=encoder)


@pytest.mark.parametrize("encoder", [SmallEncoder("own", bytes), seeing(lambda image: own_size(image)[:4])])
def test_a_transform_that_cannot_be_sent_without_its_model_stays_in_threads(encoder):
    assert isinstance(preparer(encoder), ThreadPreparer)


@pytest.mark.parametrize(
    ("cores", "ranks", "threads", "ahead", "program", "count"),
    [
        (64, "1", 4, 1, "eyechart.__main__", 16),
        (12, "1", 4, 1, "eyechart.__main__", 11),
        (7, "1", 4, 1, "eyechart.__main__", 0),  # threads keep so few cores busy
        (64, "1", 4, 0, "eyechart.__main__", 0),  # a CPU needs its cores itself
        (64, "8", 4, 1, "eyechart.__main__", 7),
        (64, "16", 4, 1, "eyechart.__main__", 0),
        (64, "1", 2, 1, "eyechart.__main__", 0),  # whoever asks for less gets it
        (64, "1", 4, 1, "train", 0),  # a script would be run again by every process
    ],
)  # fmt: skip
def test_processes_are_started_unasked_for_a_fast_device_and_many_cores(
    monkeypatch, cores, ranks, threads, ahead, program, count
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    main = ModuleType("__main__")
    main.__spec__ = type("Spec", (), {"name": program})
    monkeypatch.setitem(sys.modules, "__main__", main)
    device = RecordingDevice(bytes, CLIP)
    device.ahead = ahead

    found = preparer(seeing(), None, device, threads)

    assert (0 if isinstance(found, ThreadPreparer) else found.threads) == count


def test_threads_prepare_images_until_processes_have_started(tmp_path, monkeypatch):
    monkeypatch.setattr(process_preparer, "AFTER", 10)
    monkeypatch.setattr(process_preparer, "_unasked", lambda *_: 2)

    there, found, _ = vectors(tmp_path / "some", seeing(), small(60), processes=None)

    assert all(there)
    assert found.tobytes() == vectors(tmp_path / "none", seeing(), small(60), processes=0)[1].tobytes()


def test_a_device_keeps_the_memory_locked_until_everything_was_fetched(tmp_path):
    encoder = seeing()
    device = RecordingDevice(encoder.encode_images, CLIP)
    encoder.image_device = lambda: device

    _, found, _ = vectors(tmp_path / "one", encoder, small(22), processes=1)

    assert found.tobytes() == vectors(tmp_path / "none", seeing(), small(22), processes=0)[1].tobytes()
    assert device.asked[0] == ("lock", 20)  # five batches of four
    assert device.asked[-2:] == [("wait", 5), ("unlock", 20)]


@pytest.mark.parametrize("options", [{}, {"decoder": "fast"}])
def test_the_transform_of_an_open_clip_model_is_sent_without_the_model(zoo, options):
    spec = zoo.case("open_clip").spec
    tower = load(type(spec)(**{**{name: getattr(spec, name) for name in spec.__slots__}, "options": options}))
    work = ImageWork(tower.decode, PlainDevice(tower).prepare)

    sent = packed(work, tower)

    assert len(sent) < 50_000
    for image in (encoded(noise_image(0, (300, 200)), "jpg"), encoded(noise_image(1, (40, 90)), "png")):
        ref = ImageRef("image", image)
        key, sample = ref.digest(), Sample("image", ref)
        other = ForkingPickler.loads(sent)[0].do(key, sample, Stopwatch())
        assert other.tobytes() == work.do(key, sample, Stopwatch()).tobytes()


@pytest.mark.parametrize("case", ["clip", "siglip2-naflex"])
def test_an_image_processor_of_transformers_is_sent_without_the_model(zoo, case):
    encoder = load(zoo.case(case).spec)
    image = to_rgb(noise_image(0, (90, 60)))

    work, *_ = ForkingPickler.loads(packed(ImageWork(decode_rgb, PlainDevice(encoder).prepare), encoder))

    assert work.prepare(image).tobytes() == encoder.prepare_image(image).tobytes()


SCRIPT = """
import multiprocessing, sys
from pathlib import Path
from support.embedding import embed
from tests_of_processes import seeing, small

if __name__ == "__main__":
    def samples():
        for i, sample in enumerate(small(40)):
            if i == 39:
                print(*[child.pid for child in multiprocessing.active_children()], flush=True)
                sys.stdin.read()
            yield sample

    class Listed(list):
        def __iter__(self):
            return samples()

    embed(Path(sys.argv[1]), seeing(), Listed(range(40)), processes=2)
"""


def test_processes_end_when_the_one_that_started_them_is_killed(tmp_path):
    (tmp_path / "run.py").write_text(SCRIPT)
    (tmp_path / "tests_of_processes.py").write_bytes(Path(__file__).read_bytes())
    paths = [str(tmp_path), *sys.path]
    before = shared_memory()
    run = subprocess.Popen(
        [sys.executable, "run.py", str(tmp_path / "store")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with run:
        children = [os.pidfd_open(int(number)) for number in run.stdout.readline().split()]
        run.kill()

    assert len(children) == 2
    for child in children:
        assert select.select([child], [], [], PATIENCE)[0], "it is still there"
        os.close(child)
    assert shared_memory() == before
    assert run.returncode == -signal.SIGKILL


def test_a_run_gives_the_same_result(tmp_path, monkeypatch):
    found, started = [], []
    start = process_preparer.DecodeProcess
    monkeypatch.setattr(process_preparer, "DecodeProcess", lambda *sent: started.append(start(*sent)) or started[-1])
    for processes in (0, 2):
        monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / str(processes)))
        evaluate(
            "eyechart-tiny", "demo/garments", limit=40, decode_processes=processes,
            output=tmp_path / f"{processes}.json", batch_size=8,
        )  # fmt: skip
        metrics = json.loads((tmp_path / f"{processes}.json").read_text())["metrics"]
        found.append((metrics, next(tmp_path.glob(f"{processes}*.jsonl")).read_text()))

    assert found[0] == found[1]
    assert len(started) == 2
