"""Peak memory of loading InternVL: at most the network and one shard. Random weights in the published layout.

    make internvl-memory

Each measurement is a separate process: the peak of its resident memory while `load` runs, above what it held before
(with the libraries imported and a tiny model loaded once).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

NAME = "internvl_g_retrieval_hf"
COPIES = 8
"""Layers of each tower; the widths follow from the requested size."""


def config_of(gigabytes: float) -> dict[str, object]:
    """Choose widths so that the float16 weights take about this much."""
    # A layer of either tower has about 12 x width^2 weights, a cross attention 4 x width^2.
    width = 64 * max(1, round((gigabytes * 1e9 / 2 / (COPIES * 26)) ** 0.5 / 64))
    tower = {"hidden_size": width, "num_attention_heads": width // 64, "num_hidden_layers": COPIES}
    return {
        "clip_embed_dim": 64, "attn_pool_num_heads": 8, "num_query_token": 96, "cross_attention_frequency": 2,
        "vision_config": tower | {"intermediate_size": 4 * width, "image_size": 56, "patch_size": 14},
        "qllama_config": tower | {"intermediate_size": 8 * width // 3, "vocab_size": 400},
    }  # fmt: skip


def write(folder: Path, config: dict[str, object], shards: int, form: str) -> None:
    """Write random weights."""
    import numpy as np

    from support.internvl import folder_parameters, write_folder

    random = np.random.default_rng(0)
    arrays = {
        name: np.asarray(random.standard_normal(shape, np.float32) * 0.01).astype(np.float16)
        for name, shape in folder_parameters(config).items()
    }
    write_folder(folder, config, arrays, shards=shards, form=form)


def resident(line: str) -> int:
    """Read a line of this process's memory in bytes: VmRSS is now, VmHWM the peak."""
    status = Path("/proc/self/status").read_text()
    return int(next(row for row in status.splitlines() if row.startswith(line)).split()[1]) * 1024


def measure(folder: Path, tiny: Path, precision: str) -> dict[str, float]:
    """Load the model in this process, which must be fresh."""
    from eyechart.models.registry import ENCODERS
    from eyechart.types import ModelSpec

    family = ENCODERS.load("internvl")()
    family.load(ModelSpec("internvl", NAME, str(tiny), precision, "cpu"))
    before, start = resident("VmRSS"), time.perf_counter()
    encoder = family.load(ModelSpec("internvl", NAME, str(folder), precision, "cpu"))
    return {
        "network": sum(weight.nbytes for weight in encoder.model.parameters()),
        "peak": resident("VmHWM") - before,
        "seconds": round(time.perf_counter() - start, 1),
    }


def main() -> int:
    """Measure every format in every precision, and check the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of weights in float16")
    parser.add_argument("--shards", type=int, default=5)
    parser.add_argument("--forms", nargs="+", default=["bin", "safetensors"])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "fp16"])
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        folder, tiny, precision = args.child
        print(json.dumps(measure(Path(folder), Path(tiny), precision)))
        return 0
    held = True
    with tempfile.TemporaryDirectory() as place:
        tiny = Path(place, "tiny")
        write(tiny, config_of(0), 1, "bin")
        for form in args.forms:
            folder = Path(place, form)
            write(folder, config_of(args.gigabytes), args.shards, form)
            sizes = [path.stat().st_size for path in folder.glob(f"*.{form}")]
            for precision in args.precisions:
                command = [sys.executable, __file__, "--child", str(folder), str(tiny), precision]
                child = subprocess.run(command, capture_output=True, text=True, check=True)
                found = {"form": form, "precision": precision, "files": sum(sizes), "largest_shard": max(sizes)}
                found |= json.loads(child.stdout)
                held &= found["peak"] <= found["network"] + found["largest_shard"]
                print(json.dumps(found), flush=True)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
