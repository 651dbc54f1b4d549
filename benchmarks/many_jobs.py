"""Plan 10,000 jobs that are done, skip them, and read their 10,000 results: each must take less than ten seconds.

    make many-jobs

One small job is run for real. Its result, under the name and the identity of each of the other jobs, is what the
folder holds. The models are behind an API, which is never asked: their identity is known without their weights. The
commands are whole, from the start of the interpreter to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from eyechart.config import make_config
from eyechart.plan import plan_jobs
from eyechart.results import records_path
from eyechart.results.fields import checksum
from eyechart.session import Session
from eyechart.tasks.registry import load_task
from eyechart.types import Job

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.data import write_classification, write_retrieval

LIMIT = 10.0
READ = "import sys; from eyechart.report.loader import load_results; print(len(load_results(sys.argv[1:]).found))"
EVAL = [sys.executable, "-m", "eyechart", "eval", "--skip_existing"]
TINY = ["--model_type", "onnx", "--model", "eyechart-tiny", "--dataset", "demo/garments", "--limit", "50", "--quiet"]


def main() -> int:
    """Create the folder, time the commands, and check the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--datasets", type=int, default=100)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["EYECHART_CACHE"] = f"{folder}/cache"
        subprocess.run([*EVAL, *TINY, "--output", "one.json"], check=True)
        settings = make_run(args.models, args.datasets)
        single = {key: settings[key][0] for key in ("dataset_root", "output", "model_type")}
        jobs = plan_jobs(make_config({**settings, **single}))
        fill(jobs, Path("one.json"))
        print(f"{len(jobs)} jobs: {args.models} models on {args.datasets} datasets")
        flags = [word for key, values in settings.items() for word in (f"--{key}", *values)]
        seconds = [
            timed("plan and skip", [*EVAL, *flags, "--quiet"]),
            timed("plan, skip and show", [*EVAL, *flags]),
            timed("read the results", [sys.executable, "-c", READ, "results"]),
        ]
    return int(max(seconds) > LIMIT)


def make_run(models: int, datasets: int) -> dict[str, list[str]]:
    """Write datasets and a list of models, and return the settings of a run on all of them."""
    for i in range(datasets):
        if i % 4 == 3:
            write_retrieval(Path(f"data/d{i}"), captions=[["a caption"]] * 4)
        else:
            write_classification(Path(f"data/d{i}"), classes=tuple(f"class {j} of {i}" for j in range(5 + i)), n=4)
    pairs = [f"m{i},http://127.0.0.1:9/v1" for i in range(models)]
    Path("models.txt").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    return {
        "pretrained_model": ["models.txt"],
        "model_type": ["api"],
        "dataset": [f"wds/d{i}" for i in range(datasets)],
        "dataset_root": ["data/{dataset}"],
        "output": ["results/{dataset}_{model}_{language}_{task}.json"],
    }


def fill(jobs: list[Job], result: Path) -> None:
    """Write a result for every job without flushing to disk, which would take minutes and is not measured."""
    Path("results").mkdir()
    session = Session()
    records = records_path(result).read_bytes()
    whole = json.loads(result.read_bytes())
    for job in jobs:
        names = {"dataset": job.dataset.name, "model": job.model.name, "pretrained": job.model.pretrained}
        names |= {"task": job.task, "language": job.dataset.language}
        made = {"identity": session.identity(job, load_task(job.task)), "settings": dict(job.settings)}
        target = records_path(job.output)
        body = whole | names | {"job": made, "records": whole["records"] | {"file": target.name}}
        target.write_bytes(records)
        job.output.write_text(json.dumps(body | {"checksum": checksum(body)}, indent=1), "utf-8")


def timed(name: str, command: list[str]) -> float:
    """Run a command and return its CPU seconds, which do not depend on other load."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name}: {processor:.1f} s of the processor, {clock:.1f} s by the clock")
    return processor


if __name__ == "__main__":
    sys.exit(main())
