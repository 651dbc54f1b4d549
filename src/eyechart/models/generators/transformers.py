"""The ``transformers`` family of generators: image-text-to-text models, most with a chat template, on this machine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from eyechart.api.images import plain_image
from eyechart.errors import DataError, ModelError, UsageError, first_line
from eyechart.metrics.answers import split_thinking
from eyechart.models import hub
from eyechart.models.access import access_of
from eyechart.models.generators.batches import ManyAtOnce, answer_in_batches, drop
from eyechart.models.generators.plain_prompts import PLAIN, check_plain, plain_inputs
from eyechart.models.towers.checkpoints import LOAD_ERRORS, load_error, whole_weights
from eyechart.models.towers.small_files import read_json
from eyechart.models.towers.structure import structure_digest, tokenizer_digest
from eyechart.models.towers.torch_tools import (
    autocast,
    choose_device,
    count_parameters,
    forward_errors,
    input_type,
    weights_digest,
)
from eyechart.types import Answer, Message, ModelCard, ModelSpec, Part, Prompt, digest_json

MAX_TOKENS = 512
"""The longest answer, unless the settings say otherwise."""
ONE = {"num_return_sequences": 1, "return_dict_in_generate": False}
"""One answer for a prompt, as tokens, whatever the model's generation_config.json says."""
RENAMED = {"max_tokens": "max_new_tokens"}
"""Settings that chat servers call otherwise than transformers' ``generate``."""


class TransformersGeneratorFamily(hub.HubFamily):
    """Generators from a local folder or a hub id; ``options``: settings (of ``generate``), max_edge, hub, revision."""

    own_options = MappingProxyType({"settings": dict, "max_edge": int})

    needs, extra = ("transformers", "torch"), "transformers"
    read_by = ("transformers", "torchvision", "tokenizers")

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library or folder, and a local model that cannot write about images."""
        super().check(spec)
        config = Path(spec.name) / "config.json"
        if not config.is_file():
            return
        from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as ABLE

        kind = read_json(config).get("model_type")
        if kind not in ABLE and not spec.options.get("trust_remote_code"):
            raise UsageError(
                f"{spec.name} is a {kind} model, which does not write text about images.",
                advice="image_caption needs an image-text-to-text model (Qwen-VL, LLaVA, SmolVLM, ...), "
                "here or behind an API (api_base).",
            )

    def load(self, spec: ModelSpec) -> TransformersGenerator:
        """Load model and processor."""
        return TransformersGenerator(spec)


class TransformersGenerator(ManyAtOnce):
    """An image-text-to-text model in evaluation mode, answering in batches."""

    def __init__(self, spec: ModelSpec) -> None:
        import transformers

        self.batch_size = access_of(spec).batch_size
        self.device = choose_device(spec.device)
        self.precision = spec.precision
        self.max_edge: int | None = spec.options.get("max_edge")
        self.settings = generation_settings(spec.options.get("settings") or {})
        options = hub.loading(spec)
        source = hub.source_for_library(spec.name, spec)
        try:
            with whole_weights(spec.name) as notes:
                self.processor = transformers.AutoProcessor.from_pretrained(source, **options)
                model = transformers.AutoModelForImageTextToText.from_pretrained(
                    source, dtype=input_type(spec.precision), **options
                )
        except LOAD_ERRORS as error:
            raise load_error(f"transformers {spec.name}", error) from error
        self.plain = model.config.model_type in PLAIN and not getattr(self.processor, "chat_template", None)
        if not self.plain and not getattr(self.processor, "chat_template", None):
            raise ModelError(f"{spec.name} has no chat template.", advice="An instruction-tuned model is needed here.")
        self.model = model.to(self.device).eval()
        self.tokenizer = self.processor.tokenizer
        self.tokenizer.padding_side = "left"  # what is generated must follow the prompt directly
        self.card = ModelCard(
            family="transformers",
            name=spec.name,
            weights_digest=weights_digest(self.model),
            transform=digest_json([self.settings, self.max_edge, self._structure()]),
            precision=spec.precision,
            parameters=count_parameters(self.model),
            notes=tuple(notes),
        )

    def _structure(self) -> list[str]:
        """Return all that changes the answers, besides weights and settings."""
        generation = self.model.generation_config.to_json_string(ignore_metadata=True)
        pixels = self.processor.image_processor.to_json_string()
        parts = [structure_digest(self.model), tokenizer_digest(self.tokenizer), generation, pixels]
        return [*map(str, parts), str(self.processor.chat_template)]

    def generate_many(
        self, prompts: Iterable[Prompt], keep: Callable[[str, Answer], None] = drop
    ) -> Iterator[tuple[str, Answer]]:
        """Answer prompts batch by batch; one with a broken image is an answer with an error."""
        return answer_in_batches(
            prompts, self.batch_size, lambda prompt: self._chat(prompt.messages), self._answers, keep
        )

    def _chat(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        chat = [{"role": turn.role, "content": [self._part(part) for part in turn.parts]} for turn in messages]
        return check_plain(chat) if self.plain else chat

    def _part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, str):
            mark = getattr(self.processor, "image_token", None)
            if isinstance(mark, str) and mark and mark in part:
                raise DataError(f"The text holds {mark}, by which the model means an image.")
            return {"type": "text", "text": part}
        return {"type": "image", "image": plain_image(part.decode(), self.max_edge).convert("RGB")}

    def _answers(self, chats: list[list[dict[str, Any]]]) -> list[Answer]:
        import torch

        inputs = self._inputs(chats).to(self.device, dtype=input_type(self.precision))
        with torch.inference_mode(), autocast(self.precision, self.device), forward_errors(self.precision):
            try:
                rows = self.model.generate(**inputs, **(self.settings | ONE))[:, inputs["input_ids"].shape[1] :]
            except (TypeError, ValueError) as error:
                raise ModelError(
                    f"{self.card.name} cannot generate ({first_line(error)}).",
                    advice="Check the settings and the chat template.",
                ) from error
        asked = inputs["attention_mask"].sum(dim=1).tolist()
        return [self._answer(row, int(count)) for row, count in zip(rows, asked, strict=True)]

    def _inputs(self, chats: list[list[dict[str, Any]]]) -> Any:
        if self.plain:
            return plain_inputs(self.processor, chats)
        return self.processor.apply_chat_template(
            chats, add_generation_prompt=True, tokenize=True, return_dict=True, **self._tensors()
        )

    def _tensors(self) -> dict[str, Any]:
        """Ask for padded tensors, in the place where this version of the library wants to be asked."""
        options = {"padding": True, "return_tensors": "pt"}
        names = inspect.signature(self.processor.apply_chat_template).parameters
        return {"processor_kwargs": options} if "processor_kwargs" in names else options

    def _answer(self, row: Any, asked: int) -> Answer:
        """Read one row of new tokens: up to the end mark, which a cut answer does not have."""
        ends = self._end_marks()
        tokens = row.tolist()
        stop = next((i for i, token in enumerate(tokens) if token in ends), None)
        text = self.tokenizer.decode(tokens[:stop], skip_special_tokens=True).strip()
        answer, thinking = split_thinking(text)
        return Answer(
            text=answer,
            thinking=thinking,
            finish_reason="length" if stop is None else "stop",
            usage={"prompt_tokens": asked, "completion_tokens": len(tokens) if stop is None else stop + 1},
        )

    def _end_marks(self) -> set[int]:
        marks = self.model.generation_config.eos_token_id
        listed = marks if isinstance(marks, list) else [marks, self.tokenizer.eos_token_id]
        return {int(mark) for mark in listed if mark is not None}


def generation_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Translate a chat server's settings to those of ``generate``: temperature 0 is greedy."""
    named = {RENAMED.get(key, key): value for key, value in settings.items()}
    if not named.get("temperature"):
        named.pop("temperature", None)
        return {"max_new_tokens": MAX_TOKENS, "do_sample": False, **named}
    return {"max_new_tokens": MAX_TOKENS, "do_sample": True, **named}
