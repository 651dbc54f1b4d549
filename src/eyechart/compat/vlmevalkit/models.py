"""Models under VLMEvalKit's names: message formats, base classes, chat servers and judges."""

import logging
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from eyechart.api import Secret
from eyechart.datasets.questions.prompt_items import Item, parse_file, to_messages
from eyechart.errors import EyechartError, ModelError
from eyechart.metrics.choices import CHAT_FAILED, FAILED
from eyechart.models.access import Access
from eyechart.models.registry import OWN_GENERATORS, open_model
from eyechart.models.resolve import resolve_model
from eyechart.types import ModelSpec, Prompt

__all__ = [
    "DEBUG_MESSAGE", "GPT4V", "BaseAPI", "BaseModel", "GeneratorModel", "OpenAIWrapper", "build_judge", "check_content",
    "message_to_promptimg", "preproc_content", "supported_VLM",
]  # fmt: skip

ContentKind = Literal["str", "dict", "liststr", "listdict", "unknown"]
TYPES = ("text", "image", "video")
log = logging.getLogger("eyechart.vlm")
Turn = dict[str, Any]
OFFICIAL = "https://api.openai.com/v1"
JUDGES = {
    "gpt-4-turbo": "gpt-4-1106-preview",
    "gpt-4-0125": "gpt-4-0125-preview",
    "gpt-4-0409": "gpt-4-turbo-2024-04-09",
    "chatgpt-1106": "gpt-3.5-turbo-1106",
    "chatgpt-0125": "gpt-3.5-turbo-0125",
    "gpt-4o": "gpt-4o-2024-05-13",
    "gpt-4o-0806": "gpt-4o-2024-08-06",
    "gpt-4o-1120": "gpt-4o-2024-11-20",
    "gpt-4o-mini": "gpt-4o-mini-2024-07-18",
    "qwen-7b": "Qwen/Qwen2.5-7B-Instruct",
    "qwen-72b": "Qwen/Qwen2.5-72B-Instruct",
    "deepseek": "deepseek-ai/DeepSeek-V3",
    "llama31-8b": "meta-llama/Llama-3.1-8B-Instruct",
}
"""Short names of judges and the versions they refer to in VLMEvalKit."""
DEBUG_MESSAGE = (
    "The judge does not respond. Check its address (api_base, or the variable OPENAI_API_BASE) and its key (key, or "
    "OPENAI_API_KEY): build_judge(model=NAME).generate('hello') shows the error."
)


def check_content(msgs: object) -> ContentKind:
    """Return the format of a message; an empty list counts as a list of texts."""
    if isinstance(msgs, str):
        return "str"
    if isinstance(msgs, Mapping):
        return "dict"
    if isinstance(msgs, Sequence):
        if all(isinstance(item, str) for item in msgs):
            return "liststr"
        if all(isinstance(item, Mapping) for item in msgs):
            return "listdict"
    return "unknown"


def preproc_content(inputs: object) -> list[Item]:
    """Convert any message format to a list of ``{"type", "value"}``.

    In a list of texts, paths of existing images, image URLs and data URLs are images; in a list of dicts the type is
    given and must match: a text that is the path of an image is most likely a mistake.

    Raises:
        AssertionError: If the format or a type is unknown, or type and value contradict each other, as in the original.
    """
    kind = check_content(inputs)
    if kind == "unknown":
        raise AssertionError(f"not a message: {type(inputs).__name__}; expected text, dict, or a list of one of them")
    if isinstance(inputs, str):
        return [{"type": "text", "value": inputs}]
    entries: Any = [inputs] if kind == "dict" else inputs
    return list(map(_item, entries))


def _item(given: str | Mapping[str, Any]) -> Item:
    """Check an entry of a list: a dict with type and value, or a text, whose type follows from its value."""
    item: Mapping[str, Any] = {"value": given} if isinstance(given, str) else given
    kind, value = item.get("type"), item.get("value")
    if not isinstance(value, str) or (kind not in TYPES and item is given):
        raise AssertionError(
            f"a message item needs a type ({', '.join(TYPES)}) and a text as value, not {dict(item)!r}"
        )
    found, place = parse_file(value, fetches=kind != "text")
    if kind == "text":
        if found == "image":
            raise AssertionError(f"the text {value!r} is the path of an image: should its type be image?")
        return dict(item)
    if found == "url":
        raise AssertionError(f"{value!r} is not the URL of an image (.jpg, .png, ...)")
    if kind not in (None, found):
        raise AssertionError(f"{value!r} is not an existing {kind} file, URL or data URL")
    return {**item, "type": found, "value": place}


def message_to_promptimg(message: Sequence[Item], *, mark_images: bool = False) -> tuple[str, str | None]:
    """Return one text and the first image, for models that take no more.

    Texts are joined by line breaks. With ``mark_images``, two or more images are each replaced by a line ``<image>``,
    like VLMEvalKit's API models do.
    """
    images = [item["value"] for item in message if item["type"] == "image"]
    shown = mark_images and len(images) > 1
    lines = [
        "<image>" if item["type"] == "image" else item["value"] for item in message if item["type"] == "text" or shown
    ]
    return "\n".join(lines), images[0] if images else None


class BaseModel:
    """A user's model: implement ``generate_inner(message, dataset)``, and ``chat_inner`` for dialogues.

    ``INTERLEAVE = False`` declares a model that takes one text and one image, made by `message_to_promptimg`.
    """

    INTERLEAVE: ClassVar[bool] = True
    is_api = False
    allowed_types = TYPES
    check_content = staticmethod(check_content)
    preproc_content = staticmethod(preproc_content)
    _dump_image: Callable[[Any], list[str]] | None = None

    def set_dump_image(self, dump_image: Callable[[Any], list[str]]) -> None:
        """Set the dataset's function that writes a row's images and returns their paths."""
        self._dump_image = dump_image

    def dump_image(self, line: Any, dataset: str | None = None) -> list[str]:  # noqa: ARG002 - the original's signature
        """Write a row's images and return their paths, for `build_prompt`."""
        if self._dump_image is None:
            raise NotImplementedError("call set_dump_image first: no dataset to take images from")
        return self._dump_image(line)

    def use_custom_prompt(self, dataset: str | None) -> bool:  # noqa: ARG002 - for subclasses
        """Whether `build_prompt` makes the prompts of a dataset; by default the dataset does."""
        return False

    def build_prompt(self, line: Any, dataset: str | None = None) -> list[Item]:
        """Build the prompt for a row, if `use_custom_prompt` returns True."""
        raise NotImplementedError

    def generate_inner(self, message: list[Item], dataset: str | None = None) -> Any:
        """Answer a message: a list of ``{"type": "image" or "text", "value": path or text}``."""
        raise NotImplementedError

    def generate(self, message: Any, dataset: str | None = None) -> Any:
        """Answer a message in any format: text, dict, list of texts (paths and URLs too), list of dicts."""
        return self.generate_inner(self._checked(message), dataset)

    def chat(self, messages: Sequence[Turn], dataset: str | None = None) -> Any:
        """Answer a conversation of alternating user and assistant turns, ending with the user.

        If the model fails, the oldest turns are dropped until it succeeds, as in the original.
        """
        turns, answer = self._turns(messages), self._chat_inner()
        while turns:
            try:
                return answer(turns, dataset)
            except Exception as error:  # noqa: BLE001 - whatever a user's model raises, a shorter history may help
                log.info("chat failed with %d turns: %s", len(turns), error)
                turns = turns[1:]
                while turns and turns[0]["role"] != "user":
                    turns = turns[1:]
        return CHAT_FAILED

    def message_to_promptimg(self, message: Sequence[Item], dataset: str | None = None) -> tuple[str, str | None]:  # noqa: ARG002 - the original's signature
        """Return one text, for API models with marks for images, and the first image."""
        return message_to_promptimg(message, mark_images=self.is_api)

    def _chat_inner(self) -> Callable[..., Any]:
        """Return the method ``chat_inner(message, dataset)``, which only chat models have."""
        inner: Callable[..., Any] | None = getattr(self, "chat_inner", None)
        if inner is None:
            raise ModelError(
                "{name} does not support conversations.",
                advice="Implement chat_inner(message, dataset), which receives all turns and answers the last one.",
                name=type(self).__name__,
            )
        return inner

    def _checked(self, message: Any) -> list[Item]:
        items = preproc_content(message)
        for item in items:
            if item["type"] not in self.allowed_types:
                raise AssertionError(f"{type(self).__name__} does not accept items of type {item['type']!r}")
        return items

    def _turns(self, messages: Sequence[Turn]) -> list[Turn]:
        if not messages or messages[-1].get("role") != "user":
            raise AssertionError("the last turn of a conversation must be the user's")
        for turn in messages:
            if turn.get("role") not in ("system", "user", "assistant") or "content" not in turn:
                raise AssertionError(f"a turn needs a role and a content, not {turn!r}")
        spoken = [turn["role"] for turn in messages if turn["role"] != "system"]
        if spoken != [("user", "assistant")[i % 2] for i in range(len(spoken))]:
            raise AssertionError("user and assistant turns must alternate, starting and ending with the user")
        return [{"role": turn["role"], "content": self._checked(turn["content"])} for turn in messages]


class BaseAPI(BaseModel):
    """A model behind an API: ``generate_inner`` returns ``(code, answer, log)``, 0 for success, and is retried."""

    is_api = True
    gave_up = False
    """Whether every attempt failed; `generate` then returns the last reply, as in the original."""

    def __init__(
        self,
        retry: int = 10,
        wait: float = 1,
        system_prompt: str | None = None,
        verbose: bool = True,
        fail_msg: str = f"{FAILED}.",
        **kwargs: Any,
    ) -> None:
        self.retry, self.wait, self.verbose = retry, wait, verbose
        self.system_prompt = system_prompt
        self._told = ""
        self.fail_msg = fail_msg
        self.default_kwargs = kwargs

    def generate(self, message: Any, dataset: str | None = None, **kwargs: Any) -> Any:
        """Answer a message, with retries; after the last one return ``fail_msg`` or the last reply.

        ``kwargs`` go to ``generate_inner`` and override those of the constructor.
        """
        checked, options = self._checked(message), {**self.default_kwargs, **kwargs}
        # System messages move to the system prompt, replacing those of the previous message.
        told = "".join(f"{item['value']}\n" for item in checked if item.get("role") == "system")
        if told != self._told:
            self.system_prompt = (self.system_prompt or "").removesuffix(self._told) + told or None
            self._told = told
        items = [item for item in checked if item.get("role") != "system"]
        return self._retried(lambda: self.generate_inner(items, dataset=dataset, **options))

    def chat(self, messages: Sequence[Turn], dataset: str | None = None, **kwargs: Any) -> Any:
        """Answer a conversation, with retries."""
        turns, answer, told = self._turns(messages), self._chat_inner(), {**self.default_kwargs, **kwargs}
        return self._retried(lambda: answer(turns, dataset=dataset, **told))

    def generate_inner(self, message: list[Item], dataset: str | None = None, **kwargs: Any) -> Any:
        """Send one request."""
        raise NotImplementedError

    def working(self) -> bool:
        """Whether the API responds."""
        return self.fail_msg not in str(self.generate("hello"))

    def _retried(self, ask: Callable[[], Any]) -> Any:
        answer: Any = None
        self.gave_up = False
        for attempt in range(self.retry):
            if attempt:
                time.sleep(random.uniform(0, 2 * self.wait))  # noqa: S311 - spreading retries needs no secrecy
            try:
                code, answer, note = ask()
            except Exception as error:  # noqa: BLE001 - whatever a user's API raises, the next try may succeed
                log.info("attempt %d failed: %s", attempt + 1, error)
                continue
            if code == 0 and answer not in ("", None) and self.fail_msg not in str(answer):
                return {"prediction": answer, "extra_records": note} if isinstance(note, dict) else answer
        self.gave_up = True
        return self.fail_msg if answer in ("", None) else answer


def open_generator(spec: ModelSpec) -> Any:
    """Return a generator, loaded on first use, after checking its options."""
    model = open_model(spec, "generator")
    model.family.check(spec)
    return model


class OpenAIWrapper(BaseAPI):
    """A chat model on an OpenAI-compatible server: ``$OPENAI_API_BASE``, with the key ``$OPENAI_API_KEY``."""

    def __init__(
        self,
        model: str = "gpt-4o-mini",
        retry: int = 5,
        key: str | None = None,
        verbose: bool = False,
        system_prompt: str | None = None,
        *,
        wait: float = 1,
        temperature: float = 0,
        timeout: float = 120,
        api_base: str | None = None,
        max_tokens: int = 2048,
        img_size: int = -1,
        **kwargs: Any,
    ) -> None:
        for mine in ("img_detail", "use_azure", "nproc"):  # without effect in this protocol, or meant for the caller
            kwargs.pop(mine, None)
        # The client retries as the server asks; retrying here as well would multiply the attempts.
        super().__init__(1, wait, system_prompt, verbose)
        self.model = model
        given = api_base or os.environ.get("OPENAI_API_BASE") or OFFICIAL
        address = OFFICIAL if given == "OFFICIAL" else given.removesuffix("/").removesuffix("/chat/completions")
        options = {
            "api_base": address,
            "settings": {"temperature": temperature, "max_tokens": max_tokens, **kwargs},
            **({"max_edge": img_size} if img_size > 0 else {}),
        }
        access = Access(
            key=Secret(key) if key else None, key_variable="OPENAI_API_KEY", timeout=timeout, tries=max(1, retry)
        )
        self._generator = open_generator(ModelSpec("api", model, options=options, access=access))

    def generate_inner(self, message: list[Item], dataset: str | None = None, **kwargs: Any) -> tuple[int, str, str]:  # noqa: ARG002 - the original's signature
        """Send one message; return ``(0, answer, "")``, or ``(1, fail_msg, reason)``."""
        return self._sent([{"role": "user", "content": message}], kwargs.get("temperature"))

    def chat_inner(self, message: list[Turn], dataset: str | None = None, **kwargs: Any) -> tuple[int, str, str]:  # noqa: ARG002 - the original's signature
        """Send a conversation."""
        return self._sent(message, kwargs.get("temperature"))

    def _sent(self, turns: list[Turn], temperature: float | None) -> tuple[int, str, str]:
        told = [{"role": "system", "content": self.system_prompt}] if self.system_prompt else []
        messages = to_messages([*told, *map(_absolute, turns)], self.model)
        try:
            [(_, answer)] = self._generator.load().generate_many([Prompt("", messages, temperature)])
        except EyechartError as error:  # as in the original, a failed request is an answer
            return 1, self.fail_msg, error.message
        return (1, self.fail_msg, answer.error) if answer.error else (0, answer.text, "")


GPT4V = OpenAIWrapper


class GeneratorModel(BaseModel):
    """Any generative model that Eyechart can load, by folder or hub id, with VLMEvalKit's interface."""

    def __init__(self, model_path: str, **options: Any) -> None:
        found = resolve_model(model_path, role="generator")
        self._generator = open_generator(ModelSpec(found.family, found.name, found.pretrained, options=options))

    def generate_inner(self, message: list[Item], dataset: str | None = None) -> str:
        """Answer a message."""
        return self.chat_inner([{"role": "user", "content": message}], dataset)

    def chat_inner(self, message: list[Turn], dataset: str | None = None) -> str:  # noqa: ARG002 - the original's signature
        """Answer a conversation."""
        answer = self._generator.load().generate(to_messages([*map(_absolute, message)], self._generator.spec.name))
        if answer.error:
            raise ModelError("{name} failed to answer: {error}", name=self._generator.spec.name, error=answer.error)
        return str(answer.text)


def _absolute(turn: Turn) -> Turn:
    """Make image paths absolute: scripts name them relative to the working directory."""
    items = [
        {**item, "value": str(Path(item["value"]).absolute())} if item["type"] == "image" else item
        for item in turn["content"]
    ]
    return {**turn, "content": items}


def build_judge(**kwargs: Any) -> OpenAIWrapper:
    """Make a judge: ``model`` is a short name or the server's; ``$LOCAL_LLM`` overrides it."""
    name = str(kwargs.pop("model", None) or "gpt-4o-mini")
    kwargs.pop("nproc", None)
    return OpenAIWrapper(os.environ.get("LOCAL_LLM") or JUDGES.get(name, name), **kwargs)


class SupportedModels(dict[str, Callable[..., Any]]):
    """``supported_VLM``: model factories by name. Scripts add their own; folders and hub ids resolve automatically."""

    def __missing__(self, name: str) -> Callable[..., Any]:
        if name in OWN_GENERATORS.names():
            made: Callable[..., Any] = OWN_GENERATORS.load(name)
            return made
        if "/" in name or Path(name).is_dir():
            return partial(GeneratorModel, name)
        raise KeyError(
            f"{name}: use the folder or the hub id of the model (org/name) in place of VLMEvalKit's short name, or "
            "add your own: supported_VLM[name] = functools.partial(YourModel, ...)"
        )


supported_VLM = SupportedModels()  # noqa: N816 - the original's name
