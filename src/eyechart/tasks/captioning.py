"""Captioning: a generator describes each image; the captions are compared with human references."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from eyechart import stats
from eyechart.errors import DataError
from eyechart.manifest import Failure
from eyechart.metrics.captions import (
    cider,
    ptb_captions,
    ptb_references,
    rouge_l,
    score_captions,
    score_with_java,
    why_not,
)
from eyechart.settings.tasks import CaptioningSettings
from eyechart.tasks.base import Prediction, Task, TaskContext, counted, make_metric, need_samples
from eyechart.tasks.image_caption import caption_answers, prompts
from eyechart.types import TRUNCATED, MeanOf, Metric, Notice, Outcome

TOKENIZER = "ptb"
"""The Penn Treebank tokeniser, as in COCO's evaluation."""
LARGEST = {"ROUGE_L": 1.0, "CIDEr": 10.0}
"""The highest score of a single caption."""


@dataclass(frozen=True)
class CaptionsPrediction(Prediction):
    """One caption per image."""

    rows = ("captions", "transcripts")

    captions: tuple[str, ...]
    transcripts: tuple[Mapping[str, Any], ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


class Captioning(Task):
    """Bleu_1 to Bleu_4, ROUGE_L and CIDEr with COCO's tokenisation; ``--metrics full`` adds METEOR and SPICE.

    The numbers are fractions, as CLIP_benchmark prints them (CIDEr may exceed 1). Chance is the score of the same
    captions after shuffling them between images. METEOR and SPICE need Java; without it the result contains a notice.
    """

    name = "captioning"
    version = 2
    kinds = frozenset({"retrieval"})
    needs = "generator"
    measures = "captioning"
    Settings = CaptioningSettings

    def predict(self, context: TaskContext, settings: CaptioningSettings) -> CaptionsPrediction:
        """Generate a caption for every image; answers are cached, so a second run generates nothing."""
        manifest = context.manifest
        answers, transcripts = caption_answers(context, prompts(manifest, settings.prompt))
        failures = [Failure(entry.id, answers[entry.id].error) for entry in manifest.entries if answers[entry.id].error]
        if failures and context.on_error == "fail":
            raise DataError(
                "{n} images have no caption; the first: {id}: {reason}",
                advice="The others are cached: run again to retry these, or skip them with {--on_error=skip}.",
                n=len(failures),
                id=failures[0].id,
                reason=failures[0].reason,
            )
        entries = tuple(entry for entry in manifest.entries if not answers[entry.id].error)
        captions = tuple(answers[entry.id].text.strip() for entry in entries)
        said = tuple(transcripts[entry.id] for entry in entries)
        cut = sum(answers[entry.id].finish_reason == TRUNCATED for entry in entries)
        notices = counted("cut_captions", cut, "{n} captions were truncated at the token limit.")
        spent = {"spent": {"model": context.generator.spent()}}
        return CaptionsPrediction(manifest.info, entries, tuple(failures), captions, said, spent, notices=notices)

    def score(self, prediction: CaptionsPrediction, settings: CaptioningSettings) -> Outcome:
        """Compare with the references; an empty caption counts as a bad one."""
        need_samples(prediction)
        captions, references = prediction.captions, [entry.texts for entry in prediction.entries]
        n = len(captions)
        # Shuffled in one cycle, so that no image keeps its own caption.
        circle = np.random.default_rng(settings.seed).permutation(n)
        other = np.empty(n, np.int64)
        other[circle] = np.roll(circle, 1)
        chance = score_captions([captions[i] for i in other], references, TOKENIZER)
        words, truths = ptb_captions(captions), ptb_references(references)
        joined = [[" ".join(truth) for truth in texts] for texts in truths]
        rouge = [rouge_l(" ".join(own), texts) for own, texts in zip(words, joined, strict=True)]
        per_image = {"ROUGE_L": rouge, "CIDEr": cider(words, truths)}  # the metrics that are means over images
        metrics = {}
        for name, value in score_captions(captions, references, TOKENIZER).items():
            is_mean = name in per_image
            metrics[name] = make_metric(
                value / 100,
                stats.mean_interval(per_image[name], upper=LARGEST[name]) if is_mean else None,
                chance=chance[name] / 100,
                n=n,
                primary=name == "CIDEr",
                points=LARGEST.get(name, 1.0) > 1,
                mean_of=MeanOf(name) if is_mean else None,
            )
        missing: tuple[Notice, ...] = ()
        if settings.metrics == "full" and (reason := why_not()):
            missing = counted("no_meteor_spice", 2, "METEOR and SPICE are not computed: {reason}.", reason=reason)
        elif settings.metrics == "full":
            found, problems = score_with_java(captions, references)
            metrics |= {name: Metric(value, n=n) for name, value in found.items()}
            lost = (counted("no_meteor_spice", 1, "not computed: {problem}", problem=problem) for problem in problems)
            missing = tuple(chain.from_iterable(lost))
        empty = sum(not caption for caption in captions)
        return Outcome(
            metrics=metrics,
            records=[
                {"id": entry.id, "caption": caption, "references": list(entry.texts)}
                | {name: round(values[i], 12) for name, values in per_image.items()}
                | {"transcript": prediction.transcripts[i]}
                for i, (entry, caption) in enumerate(zip(prediction.entries, captions, strict=True))
            ],
            notices=(*prediction.notices, *missing, *counted("empty_captions", empty, "{n} captions are empty.")),
            details={"prompt": settings.prompt, "tokenizer": TOKENIZER, **prediction.details},
        )
