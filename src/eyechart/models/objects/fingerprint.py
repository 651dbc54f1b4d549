"""Fingerprint of a model made by user code: its code, arguments and state, and its outputs for a few probes."""

import functools
import hashlib
import inspect
import logging
import pickle
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.io.digests import code_digest, digest_bytes, is_user_code
from eyechart.messages import UserMessage
from eyechart.models.family import UNSTEADY_TEXTS, place_digest, probe_vectors
from eyechart.models.towers.torch_tools import tensor_bytes
from eyechart.types import Encoder, Input, ModelSpec, digest_json

TEXTS = ("a photo of a cat", "TWO Dogs, a tree & 1 house.", "ein Käfer auf der Wiese", "一只猫", "😀")
_TOLERANCES = {"fp16": 0.1, "bf16": 0.1, "amp": 0.1}
"""Largest distance between unit vectors of the same input, by precision."""
_TOLERANCE = 0.02
_UNSTEADY = UserMessage(
    "The model returns different vectors for the same image when it is encoded again or in another "
    "batch: it may be in training mode (call eval()), and scores depend on chance "
    "or on {--batch_size}."
)
_PLAIN = (str, bool, int, float, complex, Path, np.generic)


def code_and_args_digest(spec: ModelSpec, factory: Any, *parts: Any) -> str:
    """Digest the code, the arguments, and everything that the model and its parts hold."""
    files = place_digest(Path(spec.pretrained)) if spec.pretrained and Path(spec.pretrained).exists() else ""
    module = inspect.getmodule(factory)
    shared = [value for value in vars(module).values() if _numbers_of(value) is not None] if module else []
    return digest_json([code_digest(factory), state_digest(factory, *parts, *shared), spec.what, files])


def state_digest(*things: Any) -> str:
    """Digest the state of objects recursively: weights, arrays, settings, and the code of the user's classes.

    An object that cannot be inspected (a lock, an open file) contributes only its type.
    """
    state = hashlib.blake2b(digest_size=16)
    names: dict[type, str] = {}
    seen: dict[int, Any] = {}  # keeps the object alive: an id may be reused after garbage collection
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
    """Digest the code of a user's function or class; library code, or code without a file, contributes its name."""
    in_a_file = getattr(inspect.getmodule(thing), "__file__", None) is not None
    return code_digest(thing) if in_a_file and is_user_code(thing) else str(thing.__qualname__)


def _of_function(function: FunctionType) -> list[Any]:
    parts = [_code_of(function), function.__defaults__, function.__kwdefaults__]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # the variable has no value yet
            parts.append(cell.cell_contents)
    return parts


_INSIDE: tuple[tuple[Any, Callable[[Any], Iterable[Any]]], ...] = (
    (type | ModuleType, lambda thing: [thing.__name__]),
    (logging.Logger, lambda thing: [thing.name]),  # it refers to all other loggers of the process
    (Mapping, lambda thing: chain.from_iterable(thing.items())),
    (set | frozenset, lambda thing: sorted(thing, key=repr)),
    (list | tuple, lambda thing: thing),
    (functools.partial, lambda thing: [thing.func, thing.args, thing.keywords]),
    (MethodType, lambda thing: [thing.__self__, thing.__func__]),
    (FunctionType, _of_function),
)
"""Contents of an object by its type."""


def _inside(thing: Any) -> list[Any]:
    """Return the objects inside an object, or its bytes if it is an array or has no attributes."""
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
    except Exception:  # noqa: BLE001 - pickling may raise anything
        return []


def _numbers_of(thing: Any) -> NDArray[Any] | memoryview | None:
    """Return a numeric array or the bytes of a torch tensor; None for anything else."""
    if isinstance(thing, np.ndarray) and not thing.dtype.hasobject:
        return np.ascontiguousarray(thing)
    torch: Any = sys.modules.get("torch")
    is_tensor = torch is not None and isinstance(thing, torch.Tensor) and thing.layout == torch.strided
    return tensor_bytes(thing) if is_tensor else None


def probe_fingerprint(encoder: Encoder, inputs: Sequence[Input]) -> tuple[str, int | None, list[str]]:
    """Return a digest of the model's outputs for fixed probes, the embedding size, and notes.

    A model that fails on a probe gets a random digest, so that its vectors are never reused.
    """
    answers, notes = list[NDArray[Any]](), list[str]()
    tolerance = _TOLERANCES.get(getattr(encoder, "precision", ""), _TOLERANCE)
    try:
        if "text" in inputs:
            vectors, steady = probe_vectors(encoder.encode_texts, TEXTS, tolerance)
            answers.append(vectors)
            notes += [] if steady else [UNSTEADY_TEXTS]
        if "image" in inputs:
            # Two images with edges, gradients and colours.
            y, x = np.mgrid[0:96, 0:128]
            smooth = np.stack([x * 2, y * 2, (x + y) % 256], axis=-1)
            rough = (x[..., None] * (3, 5, 7) + y[..., None] * (11, 2, 13)) % 256
            examples = [Image.fromarray(example.astype(np.uint8)) for example in (smooth, rough)]
            pixels = np.stack([encoder.prepare_image(example) for example in examples])
            vectors, steady = probe_vectors(encoder.encode_images, pixels, tolerance)
            answers.append(vectors)
            notes += [] if steady else [_UNSTEADY]
    except Exception as error:  # noqa: BLE001 - user code may raise anything
        note = UserMessage(
            "The model failed on a probe ({type}: {reason}): its vectors are not reused.",
            type=type(error).__name__,
            reason=error,
        )
        return secrets.token_hex(16), None, [note]
    content = b"".join(np.asarray(vectors, np.float32).tobytes() for vectors in answers)
    return digest_bytes(content).hex(), int(answers[0].shape[1]), notes
