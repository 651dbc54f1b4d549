"""METEOR and SPICE through pycocoevalcap, where it and Java are installed: neither exists without Java."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec

from eyechart.metrics.ptb import ptb_captions, ptb_references


def why_not() -> str:
    """Say what is missing for METEOR and SPICE; empty if nothing is."""
    if find_spec("pycocoevalcap") is None:
        return "pycocoevalcap is not installed"
    return "" if shutil.which("java") else "Java is not installed"


def score_with_java(
    predictions: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[dict[str, float], list[str]]:
    """Return METEOR and SPICE as fractions, and why one of them could not be computed.

    Their jars are part of pycocoevalcap; SPICE also fetches a parser on first use, so it may fail without a network.
    """
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.spice.spice import Spice

    results = {i: [" ".join(tokens)] for i, tokens in enumerate(ptb_captions(predictions))}
    truths = {i: [" ".join(tokens) for tokens in texts] for i, texts in enumerate(ptb_references(references))}
    scores: dict[str, float] = {}
    problems: list[str] = []
    for name, make in (("METEOR", Meteor), ("SPICE", Spice)):
        scorer = None
        try:
            scorer = make()
            scores[name] = float(scorer.compute_score(truths, results)[0])
        except Exception as error:  # noqa: BLE001 - a Java program failed somewhere inside a third party's wrapper
            problems.append(f"{name}: {error!r}"[:200])
        finally:
            _close(getattr(scorer, "meteor_p", None))
    return scores, problems


def _close(process: subprocess.Popen[bytes] | None) -> None:
    """End the program that METEOR leaves running, and its pipes."""
    if process is None:
        return
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
