"""The same made-up vectors for both sides: images, and five captions near each."""

from pathlib import Path

import numpy as np


def make(n: int, captions: int = 5, dim: int = 512) -> tuple[np.ndarray, np.ndarray]:
    """Return unit vectors of ``n`` images and of their captions, hard enough that about half are found first."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((n, dim)).astype(np.float32)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    texts = np.repeat(images, captions, axis=0) + rng.standard_normal((n * captions, dim)).astype(np.float32) * 0.24
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    return images, texts


def forget_peak() -> float:
    """Let the kernel forget the largest size so far, that of making the vectors; return the size now, in MB."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()


def peak_mb() -> float:
    """Return the largest size of this process since then."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
