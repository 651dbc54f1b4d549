"""Many questions at a server that takes its time: wall clock, CPU per question, a repeated run, a killed run.

    make many-requests

2,000 multiple-choice questions about 500 images, 100 ms for an answer, 32 in flight: 6.25 s if nothing else took time.
The commands are whole, from the start of the interpreter to its end; the server is a process of its own. On a busy
machine look at the CPU seconds.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.data import noise_image

SERVER = [sys.executable, str(Path(__file__).with_name("slow_server.py"))]
EVAL = [sys.executable, "-m", "eyechart", "eval", "--model_type", "api", "--model", "m", "--quiet"]


def main() -> None:
    """Create the benchmark, run it in the most expensive ways, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--latency", type=float, default=0.1)
    parser.add_argument("--concurrency", type=int, default=32)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["LMUData"] = f"{folder}/images"  # noqa: SIM112 - VLMEvalKit's name
        write_table(args.questions, args.images)
        print(f"ideal: {args.questions * args.latency / args.concurrency:.2f} s")
        with serving("--latency", str(args.latency)) as port:
            flags = ["--dataset", "many.tsv", "--api_base", f"http://127.0.0.1:{port}/v1", "--output", "many.json"]
            command = [*EVAL, *flags, "--concurrency", str(args.concurrency)]
            timed("ask and score", command, args.questions, "one")
            timed("the same again", command, args.questions, "one")
            timed("ask only (--mode infer)", [*command, "--mode", "infer"], args.questions, "two")
            before = count(port)["twice"]
            killed(command, args.questions * args.latency / args.concurrency, "three")
            timed("after kill -9", command, args.questions, "three")
            # All of them were sent in the first run as well.
            lost = count(port)["twice"] - before - args.questions
            print(f"asked again after the kill: {lost} (in flight: {args.concurrency})")
        with serving("--latency", str(args.latency), "--at_once", "8") as port:
            flags = ["--dataset", "many.tsv", "--api_base", f"http://127.0.0.1:{port}/v1", "--output", "many.json"]
            timed("8 at once, 429 beyond", [*EVAL, *flags, "--concurrency", "32", "--limit", "500"], 500, "four")
            print(count(port))


def write_table(questions: int, images: int) -> None:
    """Write questions in VLMEvalKit's format, several per image."""
    coded = []
    for number in range(images):
        data = io.BytesIO()
        noise_image(number).save(data, "JPEG")
        coded.append(base64.b64encode(data.getvalue()).decode())
    lines = ["index\timage\tquestion\tA\tB\tC\tD\tanswer"]
    lines += [f"{i}\t{coded[i % images]}\tQuestion {i}?\tred\tgreen\tblue\tgrey\tA" for i in range(questions)]
    Path("many.tsv").write_text("\n".join(lines) + "\n")


@contextmanager
def serving(*flags: str) -> Iterator[int]:
    """Run the server in a separate process; yield its port."""
    process = subprocess.Popen([*SERVER, *flags], stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline() if process.stdout else 0)
    finally:
        process.kill()
        process.wait()


def count(port: int) -> dict[str, int]:
    """Return the request counts of the server."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/count") as answer:
        return dict(json.load(answer))


def timed(name: str, command: list[str], questions: int, cache: str) -> None:
    """Run a command and print its wall clock and CPU seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, "EYECHART_CACHE": str(Path(cache).absolute())})
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name:28}{wall:7.2f} s wall {cpu:7.2f} s CPU {cpu / questions * 1000:7.2f} ms CPU per question", flush=True)


def killed(command: list[str], seconds: float, cache: str) -> None:
    """Start a command and kill it halfway."""
    process = subprocess.Popen(command, env={**os.environ, "EYECHART_CACHE": str(Path(cache).absolute())})
    time.sleep(2 + random.random() * seconds / 2)
    process.send_signal(signal.SIGKILL)
    process.wait()


if __name__ == "__main__":
    main()
