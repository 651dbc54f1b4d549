"""Generators that run on this machine: image-text-to-text models of transformers, and CoCa of open_clip."""

from __future__ import annotations

import gc
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eyechart.api.image_payloads import plain_image
from eyechart.errors import DataError, ModelError, OutOfMemoryError, UsageError, first_line, unknown_name
from eyechart.io.images import ImageRef, Trait, image_traits, traits_seen
from eyechart.messages import UserMessage
from eyechart.metrics.answers import split_thinking
from eyechart.models import hub
from eyechart.models.access import access_of
from eyechart.models.encoders.open_clip import OpenClipEncoder, OpenClipFamily, architecture
from eyechart.models.towers import torch_tools
from eyechart.models.towers.checkpoints import load_errors, read_json, whole_weights
from eyechart.types import TRUNCATED, UNREAD, Answer, Message, ModelCard, ModelSpec, Notice, Part, Prompt, digest_json

if TYPE_CHECKING:
    import torch


Keep = Callable[[str, Answer], None]
"""Called with the id of a prompt and its answer, as soon as it is known."""


class BatchedGenerator(ABC):
    """Mixin: a generator that answers in batches also answers single conversations."""

    @cached_property
    def traits(self) -> dict[str, int]:
        """Traits of the images seen so far that have any, by digest."""
        return {}

    def note_traits(self, image: ImageRef, traits: Trait) -> None:
        """Remember the traits of an image."""
        if traits:
            self.traits[image.digest().hex()] = int(traits)

    @abstractmethod
    def generate_many(self, prompts: Iterable[Prompt]) -> Iterator[tuple[str, Answer]]:
        """Answer prompts in any order, each with its id."""

    def generate(self, messages: Sequence[Message]) -> Answer:
        """Answer one conversation."""
        [(_, answer)] = self.generate_many([Prompt("", tuple(messages))])
        return answer


def drop(name: str, answer: Answer) -> None:
    """Discard an answer: default of ``keep``."""


DEFAULTS: Mapping[str, Any] = {"temperature": 0, "max_tokens": 2048}
"""Default request parameters of every generator, behind an API or on this machine."""
_LENGTHS = frozenset({"max_tokens", "max_completion_tokens", "max_new_tokens", "max_length"})
"""Names of the maximum length of an answer."""


def generation_parameters(spec: ModelSpec) -> dict[str, Any]:
    """Return the effective request parameters of a generator; a setting of None sends none."""
    own: Mapping[str, Any] = spec.options.get("settings") or {}
    names = DEFAULTS.keys() - (_LENGTHS if _LENGTHS & own.keys() else set())
    wanted = {name: DEFAULTS[name] for name in sorted(names)} | dict(own)
    return {name: value for name, value in wanted.items() if value is not None}


class LocalGenerator(BatchedGenerator):
    """Base of generators on this machine, which answer batch by batch."""

    batch_size: int
    """Prompts per forward pass."""
    requested: int = 0
    """The batch size that did not fit into memory; 0 if it did."""

    @abstractmethod
    def prepare(self, prompt: Prompt) -> Any:
        """Convert a prompt to the model's input; a `DataError` becomes the error of this prompt."""

    @abstractmethod
    def answer(self, inputs: list[Any]) -> list[Answer]:
        """Run the model on a non-empty list of inputs, and return their answers in order."""

    def generate_many(self, prompts: Iterable[Prompt], keep: Keep = drop) -> Iterator[tuple[str, Answer]]:
        """Answer prompts batch by batch; one with an unreadable image gets an answer with an error."""
        stream = iter(prompts)
        while batch := list(islice(stream, self.batch_size)):
            inputs: dict[str, Any] = {}
            for prompt in batch:
                try:
                    inputs[prompt.id] = self.prepare(prompt)
                except DataError as error:
                    yield prompt.id, Answer("", error=error.message, finish_reason=UNREAD)
            names, left = list(inputs), list(inputs.values())
            while left:
                answers = self._answer_that_fits(left)
                for name, found in zip(names, answers, strict=False):
                    keep(name, found)
                    yield name, found
                names, left = names[len(answers) :], left[len(answers) :]

    def _answer_that_fits(self, inputs: list[Any]) -> list[Answer]:
        """Answer as many of the first inputs as fit into memory; the batch size is halved until one batch does."""
        while True:
            part, failed = inputs[: self.batch_size], ""
            try:
                return self.answer(part)
            except (OutOfMemoryError, MemoryError) as error:
                failed = str(error) or type(error).__name__
            # Outside `except`: there, the traceback keeps the activations of the failed pass in memory.
            if len(part) == 1:
                raise ModelError(
                    "A single input does not fit into memory ({reason}).",
                    advice="Use a smaller model, {--precision=fp16} on a GPU, or another {--device}.",
                    reason=failed,
                )
            self.requested = self.requested or self.batch_size
            self.batch_size = len(part) // 2
            gc.collect()
            torch_tools.empty_cache()

    def notices(self) -> list[Notice]:
        """Report a reduced batch size."""
        text = "Batches of {requested} did not fit into memory; the batch size was reduced to {size}."
        message = UserMessage(text, requested=self.requested, size=self.batch_size)
        return [Notice("smaller_batches", 1, message)] if self.requested else []


Chat = list[dict[str, Any]]
PLAIN = frozenset({"paligemma"})
"""Model types without a chat template, whose processors take images and a text that starts with one image token per
image."""
ONE = {"num_return_sequences": 1, "return_dict_in_generate": False}
"""Return one sequence of tokens per prompt, whatever generation_config.json specifies."""
RENAMED = {"max_tokens": "max_new_tokens", "max_completion_tokens": "max_new_tokens"}
"""Settings whose names differ between chat servers and transformers' ``generate``."""


class TransformersGenerator(LocalGenerator):
    """An image-text-to-text model in evaluation mode, answering in batches."""

    def __init__(self, spec: ModelSpec) -> None:
        import transformers

        self.batch_size = access_of(spec).batch_size
        self.device = torch_tools.choose_device(spec.device)
        self.precision = spec.precision
        self.max_edge: int | None = spec.options.get("max_edge")
        self.settings = generation_settings(generation_parameters(spec))
        options = hub.loading(spec)
        source = hub.source_for_library(spec.name, spec)
        with load_errors(f"transformers {spec.name}"), whole_weights(spec.name) as notes:
            self.processor = transformers.AutoProcessor.from_pretrained(source, **options)
            model = transformers.AutoModelForImageTextToText.from_pretrained(
                source, dtype=torch_tools.input_type(spec.precision), **options
            )
        template = getattr(self.processor, "chat_template", None)
        self.plain = model.config.model_type in PLAIN and not template
        if not self.plain and not template:
            raise ModelError("{name} has no chat template.", advice="Use an instruction-tuned model.", name=spec.name)
        self.model = model.to(self.device).eval()
        self.tokenizer = self.processor.tokenizer
        self.tokenizer.padding_side = "left"  # generated tokens must follow the prompt directly
        structure = [
            torch_tools.structure_digest(self.model),
            torch_tools.tokenizer_digest(self.tokenizer),
            self.model.generation_config.to_json_string(ignore_metadata=True),
            self.processor.image_processor.to_json_string(),
            str(self.processor.chat_template),
        ]
        self.card = ModelCard(
            family="transformers",
            name=spec.name,
            transform=digest_json([self.settings, self.max_edge, structure]),
            precision=spec.precision,
            notes=tuple(notes),
            role="generator",
            **torch_tools.model_facts(self.model),
        )

    def prepare(self, prompt: Prompt) -> Chat:
        """Convert a conversation to the form of chat templates."""
        turns = prompt.messages
        chat = [{"role": turn.role, "content": [self._part(part) for part in turn.parts]} for turn in turns]
        if self.plain and any(turn["role"] == "assistant" for turn in chat):
            raise DataError("The model supports single questions only, not conversations.")
        if self.plain and not _of(chat, "image"):
            raise DataError("The model needs an image; text-only prompts are not supported.")
        return chat

    def _part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, str):
            mark = getattr(self.processor, "image_token", None)
            if isinstance(mark, str) and mark and mark in part:
                raise DataError("The text contains {mark}, the image token of the model.", mark=mark)
            return {"type": "text", "text": part}
        image = part.decode()
        self.note_traits(part, image_traits(image))
        return {"type": "image", "image": plain_image(image, self.max_edge).convert("RGB")}

    def answer(self, inputs: list[Chat]) -> list[Answer]:
        """Generate, and decode the new tokens; prompts without images are a batch of their own, as some models need."""
        groups = [[chat for chat in inputs if bool(_of(chat, "image")) is shown] for shown in (True, False)]
        shown, blind = (iter(self._answer_alike(group) if group else ()) for group in groups)
        return [next(shown if _of(chat, "image") else blind) for chat in inputs]

    def _answer_alike(self, inputs: list[Chat]) -> list[Answer]:
        import torch

        with torch.inference_mode(), torch_tools.forward_pass(self.precision, self.device):
            try:
                fed = self._tokenize(inputs).to(self.device, dtype=torch_tools.input_type(self.precision))
                rows = self.model.generate(**fed, **(self.settings | ONE))[:, fed["input_ids"].shape[1] :]
            except (TypeError, ValueError) as error:
                raise ModelError(
                    "{name} cannot generate ({reason}).",
                    advice="Check the settings and the chat template.",
                    name=self.card.name,
                    reason=first_line(error),
                ) from error
        ends = self.model.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends, self.tokenizer.eos_token_id]
        answers = []
        for tokens, count in zip(rows.tolist(), fed["attention_mask"].sum(dim=1).tolist(), strict=True):
            # Decode new tokens up to the end token; a truncated answer has none.
            stop = next((i for i, token in enumerate(tokens) if token in ends), None)
            text, thinking = split_thinking(self.tokenizer.decode(tokens[:stop], skip_special_tokens=True).strip())
            usage = {"prompt_tokens": int(count), "completion_tokens": len(tokens) if stop is None else stop + 1}
            reason = TRUNCATED if stop is None else "stop"
            answers.append(Answer(text, thinking=thinking, finish_reason=reason, usage=usage))
        return answers

    def _tokenize(self, chats: list[Chat]) -> Any:
        if self.plain:
            # The texts of a prompt, one per line, after its image tokens.
            images = [_of(chat, "image") for chat in chats]
            lines = ["\n".join(_of(chat, "text")) for chat in chats]
            mark = self.processor.image_token
            texts = [mark * len(shown) + line for shown, line in zip(images, lines, strict=True)]
            return self.processor(images=images, text=texts, padding=True, return_tensors="pt")
        options: dict[str, Any] = {"padding": True, "return_tensors": "pt"}
        # The argument depends on the version of transformers.
        if "processor_kwargs" in inspect.signature(self.processor.apply_chat_template).parameters:
            options = {"processor_kwargs": options}
        return self.processor.apply_chat_template(
            chats, add_generation_prompt=True, tokenize=True, return_dict=True, **options
        )


def _of(chat: Chat, kind: str) -> list[Any]:
    return [part[kind] for turn in chat for part in turn["content"] if part["type"] == kind]


class TransformersGeneratorFamily(hub.HubFamily):
    """Generators from a local folder or a hub id; ``options``: settings (of ``generate``), max_edge, hub, revision."""

    own_options = MappingProxyType({"settings": dict, "max_edge": int})
    needs, extra = ("transformers", "torch"), "transformers"
    read_by = ("transformers", "torchvision", "tokenizers")
    model, whole = TransformersGenerator, True

    def parameters(self, spec: ModelSpec) -> dict[str, Any]:
        """Return the effective generation settings."""
        return generation_settings(generation_parameters(spec))

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library or folder, and a local model that does not generate text about images."""
        super().check(spec)
        config = Path(spec.name) / "config.json"
        if not config.is_file():
            return
        from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as ABLE

        kind = read_json(config).get("model_type")
        if kind not in ABLE and not spec.options.get("trust_remote_code"):
            raise UsageError(
                "{name} is a {kind} model, which does not generate text about images.",
                advice="image_caption needs an image-text-to-text model (Qwen-VL, LLaVA, SmolVLM, ...), "
                "local or behind an API (api_base).",
                name=spec.name,
                kind=kind,
            )


def generation_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Translate chat server settings to those of ``generate``: temperature 0 is greedy."""
    named = {RENAMED.get(key, key): value for key, value in settings.items()}
    if "temperature" not in named:  # the model's own generation_config.json decides
        return named
    sampled = bool(named["temperature"])
    if not sampled:
        del named["temperature"]
    return {"do_sample": sampled, **named}


LONGEST, SHORTEST = 30, 5
"""Length limits of a caption in tokens, start token included: open_clip's defaults."""
START, END = 49406, 49407
"""Start and end tokens of CLIP's tokenizer, which all CoCa models of open_clip use."""
NOTE = "Captions are decoded greedily, not with open_clip's beam search."


class CocaGenerator(LocalGenerator):
    """A CoCa model that captions images; the texts of a prompt are ignored."""

    def __init__(self, spec: ModelSpec) -> None:
        encoder_spec = replace(spec, options={k: v for k, v in spec.options.items() if k != "settings"})
        self.encoder = OpenClipEncoder(encoder_spec)
        self.encoder.precision_check = None  # there are no vectors to compare
        self.batch_size = access_of(spec).batch_size
        if not hasattr(self.encoder.model, "text_decoder"):
            raise _no_decoder(spec)
        tokenizer = self.encoder.tokenizer
        if hasattr(tokenizer, "tokenizer"):
            marks = tokenizer.tokenizer.bos_token_id, tokenizer.tokenizer.eos_token_id
        else:
            marks = tokenizer.sot_token_id, tokenizer.eot_token_id
        if marks != (START, END):
            raise ModelError("{label} does not use CLIP's tokenizer; its captions cannot be decoded.", label=spec.label)
        card = self.encoder.card
        transform = f"{card.transform} | greedy {SHORTEST}-{LONGEST}"
        self.card = replace(card, transform=transform, notes=(*card.notes, NOTE), role="generator")

    def prepare(self, prompt: Prompt) -> NDArray[np.float32]:
        """Prepare the first image."""
        images = (part for message in prompt.messages for part in message.parts if not isinstance(part, str))
        image = next(images, None)
        if image is None:
            raise DataError("The prompt has no image.")
        decoded = self.encoder.decode(image)
        self.note_traits(image, traits_seen(decoded))
        return self.encoder.prepare_image(decoded)

    def answer(self, inputs: list[NDArray[np.float32]]) -> list[Answer]:
        """Caption images."""
        import torch

        encoder, device = self.encoder, self.encoder.devices[0]
        with torch.inference_mode(), torch_tools.forward_pass(encoder.precision, device, tf32=encoder.compute.tf32):
            images = torch.from_numpy(np.stack(inputs)).to(device, torch_tools.input_type(encoder.precision))
            rows = greedy(encoder.model, images)
        answers = []
        for tokens in rows.cpu().tolist():
            kept = tokens[: tokens.index(END)] if END in tokens else tokens
            text = encoder.tokenizer.decode([token for token in kept if token not in (START, 0)])
            answers.append(Answer(str(text).strip()))
        return answers


class CocaFamily(OpenClipFamily):
    """CoCa models."""

    only_describes = True
    """These models caption images and ignore questions."""
    own_options = MappingProxyType({"settings": dict, "decoder": str})
    model = CocaGenerator

    def check(self, spec: ModelSpec) -> None:
        """Refuse models unknown to open_clip, architectures other than CoCa, and any decoding but greedy."""
        super().check(spec)
        known = architecture(spec)
        if known is not None and "multimodal_cfg" not in known:
            raise _no_decoder(spec)
        if (decoding := (spec.options.get("settings") or {}).get("decoding", "greedy")) != "greedy":
            raise unknown_name("decoding", str(decoding), ["greedy"])


def greedy(model: Any, images: torch.Tensor) -> torch.Tensor:
    """Decode the most likely token until all captions have ended or reached the maximum length."""
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


def _no_decoder(spec: ModelSpec) -> UsageError:
    return UsageError("{label} has no text decoder.", advice="Use a CoCa model of open_clip.", label=spec.label)
