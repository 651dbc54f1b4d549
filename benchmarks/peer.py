"""The peer, CLIP_benchmark 1.6.2, in a separate virtual environment, and a stopwatch for whole commands."""

from __future__ import annotations

import compileall
import os
import resource
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("EYECHART_BENCH", ROOT / ".venv-bench")).absolute()
"""Folder of the peer's environment, the generated data and the checkpoint, kept between runs."""
PEER = FOLDER / "peer"
PACKAGES = ["clip-benchmark==1.6.2", "numpy<2.4", "requests", "torch==2.14.1", "torchvision==0.29.1", "webdataset"]
"""Undeclared requirements: numpy before 2.4, and requests."""
MODEL = "ViT-B-32"


@dataclass(frozen=True)
class Cost:
    """Time and memory of a command."""

    wall: float
    cpu: float
    peak_mb: float


def make_peer() -> None:
    """Install the peer with its torch, once."""
    if not (PEER / ".done").exists():
        venv.create(PEER, with_pip=True)
        pip = [str(PEER / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES], check=True)
        (PEER / ".done").touch()


def make_checkpoint() -> Path:
    """Save one random model for both sides."""
    path = FOLDER / "vit-b-32-random.pt"
    if not path.exists():
        import open_clip
        import torch

        FOLDER.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(0)
        torch.save(open_clip.create_model(MODEL).state_dict(), path)
    return path


def run_peer(arguments: list[str]) -> Cost:
    """Run the peer's command."""
    return run([str(PEER / "bin" / "clip_benchmark"), *arguments])


@once
def compile_ours() -> None:
    """Compile our modules, as an installation does."""
    compileall.compile_dir(ROOT / "src", quiet=1)


def run_ours(arguments: list[str], cache: Path) -> Cost:
    """Run ours with a separate cache."""
    compile_ours()
    return run([sys.executable, "-m", "eyechart", *arguments, "--quiet"], EYECHART_CACHE=str(cache))


def run(command: list[str], **environment: str) -> Cost:
    """Run a command with passive thread waiting, and measure it with all its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE", **environment},
        cwd=FOLDER,
        capture_output=True,
        text=True,
    )
    wall = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu, after.ru_maxrss / 1024)
