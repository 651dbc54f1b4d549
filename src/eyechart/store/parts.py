"""A part of a table: an immutable safetensors file with a key matrix, a vector matrix and a checksum of each."""

from __future__ import annotations

import hashlib
import secrets
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.store.blobs import BlobError, GoneBlobError


class DamagedPartError(BlobError):
    """A part is not what was written."""


def new_name() -> str:
    """Name a part: of two, the older one comes first."""
    return f"{time.time_ns():020d}-{secrets.token_hex(4)}.safetensors"


def merged_name() -> str:
    """Name a part that takes the place of others: it comes before all that are there, merged ones included."""
    return f"{0:020d}-{10**19 - time.time_ns():019d}-{secrets.token_hex(4)}.safetensors"


def part_bytes(keys: NDArray[np.uint8], vectors: NDArray[Any]) -> bytes:
    """Return the content of a part."""
    from safetensors.numpy import save

    tensors = {"keys": np.ascontiguousarray(keys), "vectors": np.ascontiguousarray(vectors)}
    data: bytes = save(tensors, {name: checksum(tensor) for name, tensor in tensors.items()})
    return data


def read_tensor(path: Path, name: str, *, verify: bool = True) -> NDArray[Any]:
    """Read the keys or the vectors of a part, and compare them with their checksum unless that was done before.

    Raises:
        DamagedPartError: If the file is not what was written.
        GoneBlobError: If there is no such file any more.
    """
    from safetensors import SafetensorError, safe_open

    damaged = DamagedPartError(f"A part of the embedding store is damaged and is computed again: {path}.")
    try:
        with safe_open(path, framework="np") as part:
            tensor: NDArray[Any] = part.get_tensor(name)
            expected = (part.metadata() or {}).get(name)
    except SafetensorError as error:
        raise damaged from error
    except FileNotFoundError as error:
        raise GoneBlobError(f"A part of the embedding store is gone: {path}.") from error
    except OSError as error:
        raise BlobError(f"Cannot read the embedding store at {path} ({error.strerror}).") from error
    if verify and expected is None:
        raise DamagedPartError(f"A part of the embedding store is of an older version and is not used: {path}.")
    if verify and expected != checksum(tensor):
        raise damaged
    return tensor


def damage_of_part(path: Path) -> str:
    """Say what is wrong with a part, keys and vectors; empty if it is as it was written, or no longer there."""
    try:
        for name in ("keys", "vectors"):
            read_tensor(path, name)
    except GoneBlobError:
        return ""
    except BlobError as error:
        return error.message
    return ""


def checksum(tensor: NDArray[Any]) -> str:
    """Return the digest of a tensor's bytes."""
    return hashlib.blake2b(np.ascontiguousarray(tensor).view(np.uint8).data, digest_size=16).hexdigest()
