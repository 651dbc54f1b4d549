"""The fingerprint of a model of somebody's own: its code, its arguments, its weights, and a few of its answers."""

from __future__ import annotations

import functools
import hashlib
import inspect
import pickle
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.io.code import code_digest, is_own
from eyechart.metrics.vectors import unit
from eyechart.models.identity import place_digest
from eyechart.types import ModelSpec, digest_json

TEXTS = ("a photo of a cat", "TWO Dogs, a tree & 1 house.", "ein Käfer auf der Wiese", "一只猫", "😀")
_STEADY = 0.05
"""How much the parts of a unit vector may differ from one call to the next: low precisions stay far below."""
_UNSTEADY = (
    "The model gives one image other vectors when it is asked again or with other images: it may be in training mode "
    "(call eval()), and the numbers depend on chance or on --batch_size."
)
_PLAIN = (str, bool, int, float, complex, Path, np.generic)


class Probed(Protocol):
    """What is probed."""

    def prepare_image(self, image: Image.Image) -> Any:
        """Transform an image."""

    def encode_images(self, batch: Any) -> Any:
        """Encode images."""

    def encode_texts(self, texts: Sequence[str]) -> Any:
        """Encode texts."""


def made_of(spec: ModelSpec, factory: Any, *parts: Any) -> str:
    """Digest what is known of a model before it is asked: code, arguments, and all that its parts hold."""
    files = place_digest(Path(spec.pretrained)) if spec.pretrained and Path(spec.pretrained).exists() else ""
    module = inspect.getmodule(factory)
    shared = [value for value in vars(module).values() if _numbers_of(value) is not None] if module else []
    return digest_json([code_digest(factory), state_of(factory, *parts, *shared), spec.what, files])


def state_of(*things: Any) -> str:
    """Digest what objects hold, as deep as it goes: weights, arrays, settings, and the code of one's own classes.

    Of what cannot be looked into (a lock, an open file), only the type counts.
    """
    state = hashlib.blake2b(digest_size=16)
    names: dict[type, str] = {}
    seen: dict[int, Any] = {}  # the object too: the number of one that is gone may be given to another
    waiting = list(reversed(things))
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, bytes):
            state.update(thing)
        elif thing is None or isinstance(thing, _PLAIN):
            state.update(f"{thing!r};".encode("utf-8", "surrogatepass"))
        elif id(thing) not in seen:
            seen[id(thing)] = thing
            inside = _inside(thing)
            kind = type(thing)
            if kind not in names:
                names[kind] = _code_of(kind)
            state.update(f"{names[kind]} {len(inside)}:".encode())
            waiting += reversed(inside)
    return state.hexdigest()


def _code_of(thing: Any) -> str:
    """Digest the code of a function or class of one's own; another's, or one that no file holds, has a name only."""
    in_a_file = getattr(inspect.getmodule(thing), "__file__", None) is not None
    return code_digest(thing) if in_a_file and is_own(thing) else str(thing.__qualname__)


def _of_function(function: FunctionType) -> list[Any]:
    parts = [_code_of(function), function.__defaults__, function.__kwdefaults__]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # a name that has no value yet
            parts.append(cell.cell_contents)
    return parts


_INSIDE: tuple[tuple[Any, Callable[[Any], Iterable[Any]]], ...] = (
    (type | ModuleType, lambda thing: [thing.__name__]),
    (Mapping, lambda thing: chain.from_iterable(thing.items())),
    (set | frozenset, lambda thing: sorted(thing, key=repr)),
    (list | tuple, lambda thing: thing),
    (functools.partial, lambda thing: [thing.func, thing.args, thing.keywords]),
    (MethodType, lambda thing: [thing.__self__, thing.__func__]),
    (FunctionType, _of_function),
)
"""What objects of a kind hold."""


def _inside(thing: Any) -> list[Any]:
    """Return the objects in an object, or its bytes if it is an array or cannot be looked into."""
    numbers = _numbers_of(thing)
    if numbers is not None:
        return [str(thing.dtype), str(tuple(thing.shape)), numbers.tobytes()]
    for kind, parts in _INSIDE:
        if isinstance(thing, kind):
            return list(parts(thing))
    if hasattr(thing, "__dict__"):
        return list(chain.from_iterable(vars(thing).items()))
    try:
        return [pickle.dumps(thing)]
    except Exception:  # noqa: BLE001 - each library has its own for what cannot be pickled
        return []


def _numbers_of(thing: Any) -> NDArray[Any] | None:
    """Return the bytes of an array of numbers, or of a tensor of torch; None for anything else."""
    if isinstance(thing, np.ndarray) and not thing.dtype.hasobject:
        return np.ascontiguousarray(thing)
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(thing, torch.Tensor) and thing.layout == torch.strided:
        flat: NDArray[Any] = thing.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return flat
    return None


def behaviour(encoder: Probed, *, sees: bool = True, reads: bool = True) -> tuple[str, int | None, list[str]]:
    """Return a digest of the model's answers, their size, and notes.

    A model that cannot answer these questions gets a digest that is never seen again, so that nothing stored is
    taken for its vectors.

    Args:
        encoder: The model.
        sees: Whether it encodes images.
        reads: Whether it encodes texts.
    """
    answers, notes = list[NDArray[Any]](), list[str]()
    try:
        if reads:
            answers.append(encoder.encode_texts(list(TEXTS)))
        if sees:
            pixels = np.stack([encoder.prepare_image(example) for example in _examples()])
            images = encoder.encode_images(pixels).copy()
            alone = np.concatenate([encoder.encode_images(pixels[i : i + 1]).copy() for i in range(len(pixels))])
            answers.append(images)
            notes = [] if _alike(images, alone) else [_UNSTEADY]
    except Exception as error:  # noqa: BLE001 - somebody else's code may raise anything at questions it does not expect
        note = f"The model cannot be recognised again ({type(error).__name__}: {error}): its vectors are not reused."
        return secrets.token_hex(16), None, [note]
    state = hashlib.blake2b(digest_size=16)
    for vectors in answers:
        state.update(np.ascontiguousarray(vectors, np.float32).tobytes())
    return state.hexdigest(), int(answers[0].shape[1]), notes


def _alike(one: NDArray[Any], two: NDArray[Any]) -> bool:
    """Tell whether vectors point the same way, as far as any precision goes."""
    return bool((np.abs(unit(one) - unit(two)) < _STEADY).all())


def _examples() -> list[Image.Image]:
    """Make two images with edges, gradients and colours."""
    y, x = np.mgrid[0:96, 0:128]
    smooth = np.stack([x * 2, y * 2, (x + y) % 256], axis=-1).astype(np.uint8)
    rough = ((x[..., None] * (3, 5, 7) + y[..., None] * (11, 2, 13)) % 256).astype(np.uint8)
    return [Image.fromarray(smooth), Image.fromarray(rough)]
