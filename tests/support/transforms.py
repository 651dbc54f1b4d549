"""Transforms that decode processes are sent, some of them bad for the process."""

import os
import signal
from pathlib import Path

import numpy as np

from eyechart.models.towers.preprocess import Preprocess

CLIP = Preprocess((32, 32), None, 3, 1 / 255, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
DEADLY = (17, 9)
"""The size of an image that ends the process that transforms it."""


def own_size(image):
    """Keep the size of the image."""
    return np.asarray(image)


def failing(image):
    """Fail as no transform should."""
    raise OSError(f"no transform for {image.size}")


class Deadly:
    """Ends its process at an image of one size, for ever or the first time; not the process that the test runs in."""

    def __init__(self, marks: Path, times: int) -> None:
        self.marks, self.times, self.test = marks, times, os.getpid()

    def __call__(self, image):
        if image.size == DEADLY and os.getpid() != self.test and len(list(self.marks.iterdir())) < self.times:
            (self.marks / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return CLIP(image)
