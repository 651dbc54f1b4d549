"""Parts of the speed comparison that need no peer: ranking, learning, intervals, store, reading, reports, growth."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from growth_plot import growth_plot
from peer import FOLDER, Cost, run
from report_scale import BENCHMARKS, MODELS, write_results
from speed_data import write_classification

from eyechart.datasets.tar_shards import iter_groups

HERE = Path(__file__).parent
Row = dict[str, object]
Part = Callable[[float, int], list[Row]]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
MOST_GROWTH = 1.1


def alone(name: str) -> Part:
    """Run a part of `sides/alone.py`: both sides in turn in one process."""

    def part(scale: float, rounds: int) -> list[Row]:
        command = [sys.executable, str(HERE / "sides" / "alone.py"), name, str(scale), str(rounds)]
        return [_compared(row) for row in _printed(command)]

    return part


def _compared(row: dict[str, float]) -> Row:
    value = f"{row['ours']:.3f} cpu s against {row['other']:.3f}"
    out: Row = {"what": row["what"], "value": value, "cpu ratio": round(row["ratio"], 2), "wanted": row["wanted"]}
    print(out, flush=True)
    return out


def _printed(command: list[str], **environment: str) -> list[dict[str, float]]:
    env = {**os.environ, **ONE_THREAD, **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    found: list[dict[str, float]] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def reads(scale: float, rounds: int) -> list[Row]:  # noqa: ARG001 - bytes are the same in every round
    """Count how often a run reads its images, cold and again, with the embedded model."""
    n = max(50, int(8000 * scale))
    shards = write_classification(FOLDER / "data" / f"classes{n}", n)
    folder = _unpacked(shards)
    sources = {"tar files": (shards, ["wds/x", "--dataset_root", str(shards)]), "a folder": (folder, [str(folder)])}
    rows: list[Row] = []
    for name, (root, dataset) in sources.items():
        size = sum(path.stat().st_size for path in root.glob("*/*") if path.suffix in (".tar", ".jpg"))
        cache = FOLDER / "caches" / f"reads{os.getpid()}-{len(rows)}"
        words = ["eval", "--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained", "eyechart-tiny"]
        words += ["--quiet", "--thumbnails", "0", "--dataset", *dataset]
        for run_name, wanted in {"cold": "<= 1.1", "warm": "< 0.01"}.items():
            output = str(FOLDER / f"reads_{run_name}{os.getpid()}.json")
            command = [sys.executable, str(HERE / "sides" / "reads.py"), str(root), *words, "--output", output]
            (found,) = _printed(command, EYECHART_CACHE=str(cache))
            value = f"{found['bytes'] / size:.3f} passes, {found['cpu']:.1f} cpu s, {found['peak_mb']:.0f} MB"
            rows.append({"what": f"reading {n} images of {name}, {run_name} run", "value": value, "wanted": wanted})
            print(rows[-1], flush=True)
            for path in FOLDER.glob(f"reads_{run_name}{os.getpid()}*"):
                path.unlink()
        shutil.rmtree(cache)
    return rows


def _unpacked(shards: Path) -> Path:
    """Write the images of a webdataset as a folder of class folders, once."""
    root = shards.with_name(f"{shards.name}_folder")
    if not (root / "done").exists():
        names = (shards / "classnames.txt").read_text().splitlines()
        for shard in sorted(shards.glob("test/*.tar")):
            for key, fields in iter_groups(shard):
                path = root / names[int(fields["cls"])] / f"{key}.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(fields["jpg"])
        (root / "done").touch()
    return root


def feed(scale: float, rounds: int) -> list[Row]:
    """Decode and prepare photographs: the library's way and ours, with processes, threads and decode processes."""
    passes = str(max(1, round(4 * scale)))
    command = [sys.executable, str(HERE / "feed.py"), "--json", "--rounds", str(rounds), "--passes", passes]
    return [_compared(row) for row in _printed(command)]


def reports(scale: float, rounds: int) -> list[Row]:
    """Build the page of 2,000 results, and again without changes; the other side only parses the records."""
    benchmarks = max(2, int(BENCHMARKS * scale))
    folder = _results(benchmarks, 1_250)
    found: dict[str, list[Cost]] = {"parsing": [], "first": [], "again": []}
    parse = [sys.executable, str(HERE / "sides" / "parse_records.py"), str(folder)]
    for number in range(rounds):
        cache = FOLDER / "caches" / f"report{os.getpid()}-{number}"
        found["parsing"].append(run(parse, **ONE_THREAD))
        for name in ("first", "again"):
            found[name].append(_report([folder], cache))
    parsing, first, again = (float(np.median([cost.cpu for cost in costs])) for costs in found.values())
    peak = max(cost.peak_mb for cost in found["first"])
    what = f"report of {benchmarks * MODELS} results"
    rows: list[Row] = [
        {
            "what": f"{what}, against parsing their records",
            "value": f"{first:.1f} cpu s against {parsing:.1f}, {peak:.0f} MB",
            "cpu ratio": round(parsing / first, 2),
            "wanted": "<= 25 s, 200 MB",
        },
        {
            "what": f"{what}, nothing changed, against the first",
            "value": f"{again:.1f} cpu s against {first:.1f}",
            "cpu ratio": round(first / again, 2),
            "wanted": 2,
        },
    ]
    print(*rows, sep="\n", flush=True)
    return rows


def report_growth(scale: float, rounds: int) -> list[Row]:  # noqa: ARG001 - one run per size
    """Show how a report scales from 1,000 to 8,000 results of 50 samples; each size extends the previous one."""
    points, folders, done = [], [], 0
    for thousands in (1, 2, 4, 8):
        benchmarks = max(done + 1, int(1000 * thousands * scale) // MODELS)
        folders.append(_results(benchmarks - done, 50, first=done))
        done = benchmarks
        cost = _report(folders, FOLDER / "caches" / f"growth{os.getpid()}-{benchmarks}")
        points.append((benchmarks * MODELS, cost.cpu, cost.peak_mb))
        print(points[-1], flush=True)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "growth_report.svg").write_text(growth_plot(points, "results"))
    row = growth_row("report, results", [(n, cpu) for n, cpu, _ in points])
    return [row, {"what": "its memory", "value": ", ".join(f"{n}: {peak:.0f}" for n, _, peak in points) + " MB"}]


def score_growth(scale: float, rounds: int) -> list[Row]:  # noqa: ARG001 - the least of three in one process
    """Show how scoring scales with images and prompts, from 1,000 to 16,000."""
    found = _printed([sys.executable, str(HERE / "sides" / "score_growth.py"), str(scale)])
    return [growth_row(f"scoring, {what}", points) for what, points in dict(found).items()]


def store_growth(scale: float, rounds: int) -> list[Row]:  # noqa: ARG001 - the least of three in one process
    """Show how writing and reading the store scale from 10,000 to 200,000 vectors of 512 numbers."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = dict(_printed([sys.executable, str(HERE / "sides" / "store_growth.py"), str(scale), str(FOLDER)]))
    (HERE / "results").mkdir(exist_ok=True)
    points = [(n, cost["write"] + cost["read"], cost["peak"]) for n, cost in found.items()]
    (HERE / "results" / "growth_store.svg").write_text(growth_plot(points, "vectors written and read"))
    return [
        growth_row(f"the store, vectors, {part}", [(n, cost[part]) for n, cost in found.items()])
        for part in ("write", "read")
    ]


def growth_row(what: str, points: list[tuple[int, float]]) -> Row:
    """Make a row of the growth exponent: 1 is linear."""
    sizes, times = np.log(np.array(points, float)).T
    value = ", ".join(f"{n}: {cpu:.3g}" for n, cpu in points)
    exponent = float(np.polyfit(sizes, times, 1)[0])
    last = float((times[-1] - times[-2]) / (sizes[-1] - sizes[-2]))  # where start-up no longer matters
    row: Row = {"what": f"growth of {what}", "value": f"{value} cpu s, exponent {exponent:.2f}, at the end {last:.2f}"}
    print(row | {"wanted": f"<= {MOST_GROWTH}"}, flush=True)
    return row | {"wanted": f"<= {MOST_GROWTH}"}


def _results(benchmarks: int, samples: int, first: int = 0) -> Path:
    folder = FOLDER / "data" / f"results{first}+{benchmarks}x{samples}"
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_results(folder, benchmarks, samples, first)
        (folder / "done").touch()
    return folder


def _report(folders: list[Path], cache: Path) -> Cost:
    words = ["report", *map(str, folders), "--output", str(FOLDER / "report.html")]
    cost = run([sys.executable, str(HERE / "sides" / "peak.py"), *words], EYECHART_CACHE=str(cache), **ONE_THREAD)
    return Cost(cost.wall, cost.cpu, float((FOLDER / "peak_mb.txt").read_text()))


ALONE: dict[str, Part] = {
    **{
        name: alone(name)
        for name in (
            "labels",
            "recall",
            "relevant",
            "collapsed",
            "learning",
            "intervals",
            "compaction",
            "half_precision",
        )
    },
    "reads": reads,
    "feed": feed,
    "reports": reports,
    "report_growth": report_growth,
    "score_growth": score_growth,
    "store_growth": store_growth,
}
