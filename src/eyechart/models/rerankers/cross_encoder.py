"""Rerankers on this machine: cross-encoders through sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from eyechart.errors import ModelError
from eyechart.models import hub
from eyechart.models.access import access_of
from eyechart.models.rerankers.reranker import SIGMOID, Shortlist
from eyechart.models.towers.checkpoints import LOAD_ERRORS, load_error, whole_weights
from eyechart.models.towers.structure import structure_digest, tokenizer_digest
from eyechart.models.towers.torch_tools import (
    autocast,
    choose_device,
    count_parameters,
    forward_errors,
    input_type,
    weights_digest,
)
from eyechart.types import ModelCard, ModelSpec, digest_json

BATCH = 32


class CrossEncoderFamily(hub.HubFamily):
    """Cross-encoders from a folder or a hub id; ``options``: max_seq_length, hub, revision, trust_remote_code."""

    needs, extra = ("sentence_transformers",), "sentence-transformers"
    read_by = ("sentence-transformers", "transformers", "tokenizers")

    def load(self, spec: ModelSpec) -> CrossEncoderReranker:
        """Load the model."""
        return CrossEncoderReranker(spec)


class CrossEncoderReranker:
    """A cross-encoder with one output; its raw score orders the documents."""

    def __init__(self, spec: ModelSpec) -> None:
        import torch
        from sentence_transformers import CrossEncoder

        self.batch_size = access_of(spec).batch_size if spec.access else BATCH
        try:
            with whole_weights(spec.name) as notes:
                self.model = CrossEncoder(
                    hub.source_for_library(spec.name, spec),
                    device=choose_device(spec.device),
                    max_length=spec.options.get("max_seq_length"),
                    model_kwargs={"dtype": input_type(spec.precision)},
                    **hub.loading(spec, cache="cache_folder"),
                )
        except LOAD_ERRORS as error:
            raise load_error(f"the reranker {spec.name}", error) from error
        outputs = getattr(self.model, "num_labels", 1)
        if outputs != 1:
            raise ModelError(
                f"{spec.name} gives {outputs} numbers for a pair; a reranker gives one.",
                advice="Is it a classifier? Give a cross-encoder that was trained to rank.",
            )
        own = self.model.activation_fn
        # Sigmoid keeps the order, but makes one number of all large scores.
        bounded = isinstance(own, torch.nn.Sigmoid)
        self.activation = torch.nn.Identity() if bounded else own
        self.device = choose_device(spec.device)
        self.card = ModelCard(
            family="cross-encoder",
            name=spec.name,
            weights_digest=weights_digest(self.model.model),
            transform=digest_json(
                [
                    self.model.max_seq_length,
                    str(self.activation),
                    structure_digest(self.model),
                    tokenizer_digest(self.model.tokenizer),
                ]
            ),
            precision=spec.precision,
            parameters=count_parameters(self.model.model),
            similarity=SIGMOID if bounded else "raw",
            notes=tuple(notes),
        )

    def score(
        self, shortlists: Iterable[Shortlist], keep: Callable[[str, list[float]], None]
    ) -> Iterator[tuple[str, list[float]]]:
        """Score the documents of one shortlist after the other."""
        for shortlist in shortlists:
            pairs = [(shortlist.query, document) for document in shortlist.documents]
            with autocast(self.card.precision, self.device), forward_errors(self.card.precision):
                scores = self.model.predict(
                    pairs, batch_size=self.batch_size, activation_fn=self.activation, show_progress_bar=False
                )
            if not np.isfinite(scores).all():
                raise ModelError(f"{self.card.name} gave a score that is not a number.")
            found = [float(score) for score in scores]
            keep(shortlist.id, found)
            yield shortlist.id, found
