"""Captioning: a generator describes each image; the captions are compared with those of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eyechart import stats
from eyechart.errors import DataError
from eyechart.manifest import Failure
from eyechart.metrics.captions import cider, rouge_l, score_captions
from eyechart.metrics.java_captions import score_with_java, why_not
from eyechart.metrics.ptb import ptb_captions, ptb_references
from eyechart.tasks.base import Material, Prediction, Task, need_samples
from eyechart.tasks.captions.image_caption import caption_answers, prompts
from eyechart.tasks.labelled import wants_full
from eyechart.tasks.measured import measured
from eyechart.types import MeanOf, Metric, Notice, Outcome

PROMPT = "Describe this picture in one short sentence."
TOKENIZER = "ptb"
"""As in COCO's evaluation."""
LARGEST = {"ROUGE_L": 1.0, "CIDEr": 10.0}
"""The largest score that one caption can get."""


@dataclass(frozen=True)
class CaptionsPrediction(Prediction):
    """One caption per image."""

    rows = ("captions",)

    captions: tuple[str, ...]


class Captioning(Task):
    """Bleu_1 to Bleu_4, ROUGE_L and CIDEr, tokenised as COCO does; with ``--metrics full`` also METEOR and SPICE.

    The numbers are fractions, as CLIP_benchmark prints them (CIDEr may exceed 1). Chance is what the same captions get
    when they are dealt to the images at random. METEOR and SPICE need Java; without it the result says so.
    """

    name = "captioning"
    version = 2
    kinds = frozenset({"retrieval"})
    needs = "generator"
    measures = "captioning"

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Pick the prompt; CoCa describes images without one."""
        return {
            "prompt": options.get("caption_prompt") or PROMPT,
            "metrics": options.get("metrics", "default"),
            "seed": options.get("seed", 0),
        }

    def predict(self, material: Material, settings: Mapping[str, Any]) -> CaptionsPrediction:
        """Generate a caption for every image; answers are stored, so a second run generates nothing."""
        manifest = material.manifest
        answers = caption_answers(material, prompts(manifest, settings["prompt"]))
        failures = [Failure(entry.id, answers[entry.id].error) for entry in manifest.entries if answers[entry.id].error]
        if failures and material.on_error == "fail":
            raise DataError(
                f"{len(failures)} images have no caption; the first: {failures[0].id}: {failures[0].reason}",
                advice="The others are kept: run again, or go on without them: --on-error skip.",
            )
        entries = tuple(entry for entry in manifest.entries if not answers[entry.id].error)
        captions = tuple(answers[entry.id].text.strip() for entry in entries)
        return CaptionsPrediction(manifest.info, entries, tuple(failures), captions)

    def score(self, prediction: CaptionsPrediction, settings: Mapping[str, Any]) -> Outcome:
        """Compare with the references; an empty caption is a bad caption, not a missing one."""
        need_samples(prediction)
        captions, references = prediction.captions, [entry.texts for entry in prediction.entries]
        n = len(captions)
        chance = score_captions([captions[i] for i in _dealt(n, settings["seed"])], references, TOKENIZER)
        per_image = _per_image(captions, references)
        metrics = {}
        for name, value in score_captions(captions, references, TOKENIZER).items():
            is_mean = name in per_image
            metrics[name] = measured(
                value / 100,
                stats.mean_interval(per_image[name], upper=LARGEST[name]) if is_mean else None,
                chance=chance[name] / 100,
                n=n,
                primary=name == "CIDEr",
                points=LARGEST.get(name, 1.0) > 1,
                mean_of=MeanOf(name) if is_mean else None,
            )
        notices = []
        if wants_full(settings):
            notices = _add_java(metrics, captions, references)
        empty = sum(not caption for caption in captions)
        if empty:
            notices.append(Notice("empty_captions", empty, f"{empty} captions are empty."))
        return Outcome(
            metrics=metrics,
            records=[
                {"id": entry.id, "caption": caption, "references": list(entry.texts)}
                | {name: round(values[i], 12) for name, values in per_image.items()}
                for i, (entry, caption) in enumerate(zip(prediction.entries, captions, strict=True))
            ],
            notices=tuple(notices),
            details={"prompt": settings["prompt"], "tokenizer": TOKENIZER},
        )


def _dealt(n: int, seed: int) -> list[int]:
    """Deal captions at random so that no image gets its own: all go round one circle."""
    circle = np.random.default_rng(seed).permutation(n)
    out = np.empty(n, np.int64)
    out[circle] = np.roll(circle, 1)
    return [int(i) for i in out]


def _per_image(captions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, list[float]]:
    """Return the metrics that are means over images, image by image."""
    words, truths = ptb_captions(captions), ptb_references(references)
    joined = [[" ".join(truth) for truth in texts] for texts in truths]
    rouge = [rouge_l(" ".join(own), texts) for own, texts in zip(words, joined, strict=True)]
    return {"ROUGE_L": rouge, "CIDEr": cider(words, truths)}


def _add_java(metrics: dict[str, Metric], captions: Sequence[str], references: Sequence[Sequence[str]]) -> list[Notice]:
    """Add METEOR and SPICE where their tools are, and say plainly where they are not."""
    reason = why_not()
    if reason:
        return [Notice("no_meteor_spice", 2, f"METEOR and SPICE are not computed: {reason}.")]
    found, problems = score_with_java(captions, references)
    metrics |= {name: Metric(value, n=len(captions)) for name, value in found.items()}
    return [Notice("no_meteor_spice", 1, f"not computed: {problem}") for problem in problems]
