"""The ``open_clip`` family of generators: CoCa, which writes captions with the decoder behind its image tower."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError, ModelError, UsageError
from eyechart.models.access import access_of
from eyechart.models.encoders import open_clip as encoders
from eyechart.models.encoders.open_clip_files import architecture
from eyechart.models.generators.batches import ManyAtOnce, answer_in_batches, drop
from eyechart.models.towers.torch_tools import autocast, forward_errors, input_type
from eyechart.types import Answer, ModelSpec, Prompt

if TYPE_CHECKING:
    import torch

LONGEST, SHORTEST = 30, 5
"""Tokens of a caption, the start mark included: open_clip's defaults."""
START, END = 49406, 49407
"""The marks of CLIP's own tokenizer, which all CoCa models of open_clip use."""
DECODINGS = ("beam_search", "greedy")


class CocaFamily:
    """CoCa models.

    ``options["settings"]["decoding"]`` is beam_search (open_clip's own, which needs transformers 4) or greedy.
    """

    only_describes = True
    """Its models describe images and read no question."""

    own_options = MappingProxyType({"settings": dict, "decoder": str})

    def check(self, spec: ModelSpec) -> None:
        """Refuse what open_clip does not know, and what is plainly no CoCa."""
        encoders.OpenClipFamily().check(spec)
        known = architecture(spec)
        if known is not None and "multimodal_cfg" not in known:
            raise _no_decoder(spec)
        decoding = _settings(spec).get("decoding", "greedy")
        if decoding not in DECODINGS:
            raise UsageError(f"Unknown decoding {decoding!r}.", advice=f"Known: {', '.join(DECODINGS)}.")

    def places(self, spec: ModelSpec) -> list[Path | None]:
        """Find the checkpoint as the encoder does."""
        return encoders.OpenClipFamily().places(spec)

    def identity(self, spec: ModelSpec) -> str | None:
        """Name the checkpoint as the encoder does."""
        return encoders.OpenClipFamily().identity(spec)

    def load(self, spec: ModelSpec) -> CocaGenerator:
        """Load the model."""
        return CocaGenerator(spec)


class CocaGenerator(ManyAtOnce):
    """A CoCa model that describes images; what else a message says, it cannot read."""

    def __init__(self, spec: ModelSpec) -> None:
        encoder_spec = replace(spec, options={k: v for k, v in spec.options.items() if k != "settings"})
        self.encoder = encoders.OpenClipEncoder(encoder_spec)
        self.encoder.paired_check = None  # it gives no vectors, and needs no second model
        self.batch_size = access_of(spec).batch_size
        if not hasattr(self.encoder.model, "text_decoder"):
            raise _no_decoder(spec)
        if _marks(self.encoder.tokenizer) != (START, END):
            raise ModelError(f"{spec.label} has another tokenizer than CLIP's: its captions could not be read.")
        able = _library_decodes()
        self.decoding = _settings(spec).get("decoding") or ("beam_search" if able else "greedy")
        if self.decoding == "beam_search" and not able:
            raise ModelError(
                "open_clip's beam search does not work with the installed transformers.",
                advice="Install transformers<5, or use greedy decoding.",
            )
        note = () if able else ("Captions are decoded greedily: open_clip's beam search needs transformers 4.",)
        card = self.encoder.card
        self.card = replace(
            card, transform=f"{card.transform} | {self.decoding} {SHORTEST}-{LONGEST}", notes=(*card.notes, *note)
        )

    def generate_many(
        self, prompts: Iterable[Prompt], keep: Callable[[str, Answer], None] = drop
    ) -> Iterator[tuple[str, Answer]]:
        """Describe images batch by batch; a broken image is an answer with an error."""
        return answer_in_batches(prompts, self.batch_size, self._pixels, self._captions, keep)

    def _pixels(self, prompt: Prompt) -> NDArray[np.float32]:
        return self.encoder.prepare_image(self.encoder.decode(_image(prompt)))

    def _captions(self, pixels: list[NDArray[np.float32]]) -> list[Answer]:
        import torch

        encoder, device = self.encoder, self.encoder.devices[0]
        with torch.inference_mode(), autocast(encoder.precision, device), forward_errors(encoder.precision):
            images = torch.from_numpy(np.stack(pixels)).to(device, input_type(encoder.precision))
            model: Any = encoder.model
            rows = model.generate(images) if self.decoding == "beam_search" else greedy(model, images)
        return [Answer(self._words(row)) for row in rows.cpu().tolist()]

    def _words(self, tokens: list[int]) -> str:
        kept = tokens[: tokens.index(END)] if END in tokens else tokens
        return str(self.encoder.tokenizer.decode([token for token in kept if token not in (START, 0)])).strip()


def greedy(model: Any, images: torch.Tensor) -> torch.Tensor:
    """Write the likeliest next token until all captions have ended or are as long as allowed."""
    import torch

    known = model(images)
    latent, tokens_of_image = known["image_features"], known["image_embs"]
    tokens = torch.full((len(images), 1), START, device=images.device)
    ended = torch.zeros(len(images), dtype=torch.bool, device=images.device)
    while tokens.shape[1] < LONGEST and not bool(ended.all()):
        found = model(images, tokens, image_latent=latent, image_embs=tokens_of_image, output_labels=False)
        logits = found["logits"][:, -1].float()
        if tokens.shape[1] < SHORTEST:
            logits[:, END] = -torch.inf
        best = torch.where(ended, END, logits.argmax(dim=-1))
        ended = ended | (best == END)
        tokens = torch.cat([tokens, best[:, None]], dim=1)
    return tokens


def _image(prompt: Prompt) -> Any:
    for message in prompt.messages:
        for part in message.parts:
            if not isinstance(part, str):
                return part
    raise DataError("There is no image to describe.")


def _no_decoder(spec: ModelSpec) -> UsageError:
    return UsageError(f"{spec.label} has no text decoder.", advice="captioning needs a CoCa model of open_clip.")


def _marks(tokenizer: Any) -> tuple[int | None, int | None]:
    """Return the start and end marks of an open_clip tokenizer."""
    inner = getattr(tokenizer, "tokenizer", None)
    if inner is not None:
        return inner.bos_token_id, inner.eos_token_id
    return tokenizer.sot_token_id, tokenizer.eot_token_id


def _settings(spec: ModelSpec) -> dict[str, Any]:
    return dict(spec.options.get("settings") or {})


def _library_decodes() -> bool:
    """Tell whether open_clip found what its own decoding needs: classes that transformers 5 no longer has."""
    from open_clip import coca_model

    return bool(coca_model._has_transformers)
