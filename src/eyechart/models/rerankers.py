"""Rerankers: models that see a query and a document together; cross-encoders through sentence-transformers."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from eyechart.errors import ModelError
from eyechart.io.images import decode_rgb
from eyechart.models import hub
from eyechart.models.access import access_of
from eyechart.models.towers import torch_tools
from eyechart.models.towers.checkpoints import load_errors, whole_weights
from eyechart.types import ModelCard, ModelSpec, Part, digest_json

KeepScores = Callable[[str, list[float]], None]
"""Called with the id of a shortlist and its scores, as soon as they are known."""
RankedItem = str | tuple[Part, ...]
"""A query or a document: a text, or an image and its text if it has one."""
SIGMOID = "sigmoid"
"""`ModelCard.similarity` of a reranker whose library applies a sigmoid to the raw score."""


@dataclass(frozen=True, slots=True)
class Shortlist:
    """A query and the documents that the first stage retrieved for it."""

    id: str
    query: RankedItem
    documents: tuple[RankedItem, ...]


@runtime_checkable
class Reranker(Protocol):
    """A model that scores documents for a query; higher is better."""

    @property
    def card(self) -> ModelCard:
        """Card of the model."""

    def score(self, shortlists: Iterable[Shortlist], keep: KeepScores) -> Iterator[tuple[str, list[float]]]:
        """Yield the id of each shortlist with the scores of its documents, in any order of shortlists.

        It raises an `EyechartError` if a shortlist cannot be scored; skipping it would bias the metric.
        """


BATCH = 32


class CrossEncoderReranker:
    """A cross-encoder with one output; its raw score ranks the documents."""

    def __init__(self, spec: ModelSpec) -> None:
        import torch
        from sentence_transformers import CrossEncoder

        self.device = torch_tools.choose_device(spec.device)
        self.batch_size = access_of(spec).batch_size if spec.access else BATCH
        with load_errors(f"the reranker {spec.name}"), whole_weights(spec.name) as notes:
            self.model = CrossEncoder(
                hub.source_for_library(spec.name, spec),
                device=self.device,
                max_length=spec.options.get("max_seq_length"),
                model_kwargs={"dtype": torch_tools.input_type(spec.precision)},
                **hub.loading(spec, cache="cache_folder"),
            )
        outputs = getattr(self.model, "num_labels", 1)
        if outputs != 1:
            raise ModelError(
                "{name} has {outputs} outputs per pair; a reranker has one.",
                advice="It may be a classifier: use a cross-encoder trained for ranking.",
                name=spec.name,
                outputs=outputs,
            )
        own = self.model.activation_fn
        # Sigmoid keeps the order but saturates large scores.
        bounded = isinstance(own, torch.nn.Sigmoid)
        self.activation = torch.nn.Identity() if bounded else own
        structure: list[Any] = [
            torch_tools.structure_digest(self.model),
            torch_tools.tokenizer_digest(self.model.tokenizer),
        ]
        sees = "image" in getattr(self.model, "modalities", ())  # of sentence-transformers 6
        if sees:
            processor, modules = self.model.processor, [module.get_config_dict() for module in self.model]
            structure += [processor.image_processor.to_dict(), processor.chat_template, modules]
        self.card = ModelCard(
            family="cross-encoder",
            name=spec.name,
            transform=digest_json([self.model.max_seq_length, str(self.activation), *structure]),
            precision=spec.precision,
            similarity=SIGMOID if bounded else "raw",
            notes=tuple(notes),
            role="reranker",
            inputs=("image", "text", "image+text") if sees else ("text",),
            **torch_tools.model_facts(self.model.model),
        )

    def score(self, shortlists: Iterable[Shortlist], keep: KeepScores) -> Iterator[tuple[str, list[float]]]:
        """Score the documents of one shortlist after the other."""
        for shortlist in shortlists:
            items: list[Any] = [shortlist.query, *shortlist.documents]
            if not all(isinstance(item, str) for item in items):
                items = [*map(_by_modality, items)]
            pairs = [(items[0], document) for document in items[1:]]
            with torch_tools.forward_pass(self.card.precision, self.device):
                try:
                    scores = self.model.predict(
                        pairs, batch_size=self.batch_size, activation_fn=self.activation, show_progress_bar=False
                    )
                except ValueError as error:  # a chat template that drops the query or the document
                    text = "{name} cannot score the pairs: {error}"
                    raise ModelError(text, name=self.card.name, error=error) from error
            if not np.isfinite(scores).all():
                raise ModelError("{name} returned a score that is not finite.", name=self.card.name)
            found = [float(score) for score in scores]
            keep(shortlist.id, found)
            yield shortlist.id, found


def _by_modality(item: RankedItem) -> dict[str, Any]:
    """Name the modality of each part, which the library otherwise guesses: a text may look like the name of a file."""
    parts = (item,) if isinstance(item, str) else item
    return dict(("text", part) if isinstance(part, str) else ("image", decode_rgb(part)) for part in parts)


class CrossEncoderFamily(hub.HubFamily):
    """Cross-encoders from a folder or a hub id; ``options``: max_seq_length, hub, revision, trust_remote_code."""

    needs, extra = ("sentence_transformers",), "sentence-transformers"
    read_by = ("sentence-transformers", "transformers", "tokenizers")
    model, whole = CrossEncoderReranker, True
