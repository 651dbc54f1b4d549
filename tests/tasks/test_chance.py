"""Ties never help: a model that knows nothing gets chance or less on every task there is."""

import hashlib

import numpy as np
import pytest

from eyechart.errors import ModelError
from eyechart.tasks.base import TaskContext
from eyechart.tasks.registry import TASKS, load_task
from eyechart.types import Answer
from support.data import write_retrieval
from support.encoders import DIM, constant_encoder, random_encoder
from support.makers import MAKERS
from support.tasks import make_context

WORDS = ("red", "dog", "runs", "street", "two", "a", "on", "old")
TRIED_ELSEWHERE = {
    "captioning": "below",
    "image_caption": "it gives no number that a model could get by chance: it counts its captions",
    "mteb": "tests/tasks/test_mteb_images.py; the scores of tasks on text alone are MTEB's",
    "questions": "tests/scorers/test_chance.py",
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write a benchmark once for all tests."""
    known = {}

    def write(name):
        if name not in known:
            known[name] = MAKERS[name].write(tmp_path_factory.mktemp("data") / "x")
        return known[name]

    return write


def test_every_registered_task_is_tried():
    assert {maker.task for maker in MAKERS.values()} | set(TRIED_ELSEWHERE) == set(TASKS.names())


def broken(images=None, texts=None, name="broken"):
    """Return a random encoder whose vectors of images and of texts go through a function before they are given."""
    encoder = random_encoder()
    both = (("encode_images", images), ("encode_texts", texts))
    for method, change in both:
        if change:
            given = getattr(encoder, method)
            setattr(encoder, method, lambda *args, given=given, change=change, **more: change(given(*args, **more)))
    return encoder


def same(vectors):
    return np.ones_like(vectors)


def zero(vectors):
    return np.zeros_like(vectors)


def same_but_scaled(vectors):
    """Return one direction at lengths that have nothing to do with the content."""
    return np.linspace(-1, 1, DIM, dtype=np.float32) * np.abs(vectors[:, :1])


BLIND = {
    "constant images": ("images", same, None),
    "constant texts": ("texts", None, same),
    "both constant": ("images and texts", same, same),
    "zero images": ("images", zero, None),
    "zero texts": ("texts", None, zero),
    "both zero": ("images and texts", zero, zero),
    "one direction at many lengths": ("images and texts", same_but_scaled, same_but_scaled),
}
"""What the encoder does not look at, and what becomes of the vectors."""
CASES = [
    (name, how)
    for name, maker in MAKERS.items()
    for how, (blind_to, *_) in BLIND.items()
    if set(blind_to.split(" and ")) & set(maker.looks_at.split(" and "))
]


@pytest.mark.parametrize(("name", "how"), CASES)
def test_an_encoder_that_does_not_look_gets_chance_or_less(written, tmp_path, name, how):
    _, images, texts = BLIND[how]

    found = MAKERS[name].run(written(name), broken(images, texts), tmp_path)

    judged = {metric: value for metric, value in found.metrics.items() if value.chance is not None}
    assert judged
    for metric, value in judged.items():
        assert value.value <= value.chance + 1e-9, metric
    assert {notice.kind for notice in found.notices} & {"constant_vectors", "zero_vectors"}


def scaled(exponent):
    """Return a function that makes vectors longer or shorter without rounding them."""
    return lambda vectors: np.ldexp(vectors, exponent)


def at_many_lengths(vectors):
    """Scale each vector by a power of two between 2**-80 and 2**80 that its numbers decide."""
    keys = [hashlib.blake2b(row.tobytes(), digest_size=2).digest() for row in vectors]
    exponents = [int.from_bytes(key, "big") % 161 - 80 for key in keys]
    return np.ldexp(vectors, np.array(exponents)[:, None])


LENGTHS = {"1e25": scaled(83), "1e-30": scaled(-100), "many": at_many_lengths}


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("name", MAKERS)
def test_the_length_of_vectors_changes_nothing(written, tmp_path, name, lengths):
    change = LENGTHS[lengths]

    usual = MAKERS[name].run(written(name), random_encoder(), tmp_path / "usual")
    found = MAKERS[name].run(written(name), broken(change, change), tmp_path / "scaled")

    assert {metric: value.value for metric, value in found.metrics.items()} == pytest.approx(
        {metric: value.value for metric, value in usual.metrics.items()}, abs=1e-6
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", MAKERS)
def test_vectors_that_are_no_numbers_are_an_error(written, tmp_path, name, bad):
    def spoilt(vectors):
        return np.where(np.arange(len(vectors))[:, None] == len(vectors) - 1, np.float32(bad), vectors)

    encoder = broken(texts=spoilt) if MAKERS[name].looks_at == "texts" else broken(spoilt)

    with pytest.raises(ModelError, match="NaN or infinite"):
        MAKERS[name].run(written(name), encoder, tmp_path)


def runs(written, tmp_path, name, count):
    return [MAKERS[name].run(written(name), random_encoder(seed), tmp_path) for seed in range(count)]


@pytest.mark.parametrize("name", MAKERS)
def test_random_encoders_get_chance_or_less_on_average(written, tmp_path, name):
    found = runs(written, tmp_path, name, 12)

    for metric, value in found[0].metrics.items():
        if value.chance is not None:
            above = [outcome.metrics[metric].value - outcome.metrics[metric].chance for outcome in found]
            # The mean of a ranking's precision lies above the share of positives by a little in small sets.
            room = 0.03 if metric == "mean_average_precision" else 0.001
            assert np.mean(above) < 4 * np.std(above) / np.sqrt(len(above)) + room, metric


@pytest.mark.parametrize(
    "name",
    [
        "classification",
        "retrieval",
        "retrieval, ten images per caption",
        "retrieval, some captions repeat",
        "selection",
    ],
)
def test_random_encoders_get_chance_and_not_less_where_it_is_exact(written, tmp_path, name):
    found = runs(written, tmp_path, name, 30)

    for metric, value in found[0].metrics.items():
        if value.chance is not None:
            values = [outcome.metrics[metric].value for outcome in found]
            assert abs(np.mean(values) - value.chance) < 4 * np.std(values) / np.sqrt(len(values)) + 1e-9, metric


def captions(tmp_path, say):
    """Caption images with what a function says, which never looks."""
    truth = [[f"{WORDS[i % 8]} {WORDS[i % 5]} {WORDS[i % 3]} {WORDS[i % 7]}"] for i in range(40)]
    manifest = make_context(write_retrieval(tmp_path / "data", captions=truth), constant_encoder(), tmp_path).manifest

    class Blind:
        def generate(self, prompts, repeat=0):
            return ((prompt.id, Answer(say(i))) for i, prompt in enumerate(prompts))

        def spent(self):
            return {}

    task = load_task("captioning")
    settings = task.Settings.picked({})
    return task.score(task.predict(TaskContext(manifest, Blind(), None, tmp_path / "r.json"), settings), settings)


def test_a_generator_that_always_says_the_same_gets_chance(tmp_path):
    for name, metric in captions(tmp_path, lambda _: "a red dog runs on two").metrics.items():
        assert metric.value == pytest.approx(metric.chance), name


def test_generators_that_say_anything_get_chance_on_average(tmp_path):
    def say(seed):
        rng = np.random.default_rng(seed)
        return lambda _: " ".join(rng.choice(WORDS, 4))

    found = [captions(tmp_path / str(seed), say(seed)) for seed in range(12)]

    for name in found[0].metrics:
        above = [outcome.metrics[name].value - outcome.metrics[name].chance for outcome in found]
        assert abs(np.mean(above)) < 4 * np.std(above) / np.sqrt(len(above)), name
