"""Models that scripts for VLMEvalKit make by name: chat servers, judges, and ``supported_VLM``."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from eyechart.api import Secret
from eyechart.compat.vlmevalkit.models import BaseAPI, BaseModel, Turn
from eyechart.datasets.questions.messages import Item, to_messages
from eyechart.errors import EyechartError, ModelError
from eyechart.models.access import Access
from eyechart.models.registry import OWN_GENERATORS, open_model
from eyechart.models.resolve import resolve_model
from eyechart.types import ModelSpec, Prompt

__all__ = ["DEBUG_MESSAGE", "GPT4V", "GeneratorModel", "OpenAIWrapper", "build_judge", "supported_VLM"]

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
"""Short names of judges, and the versions that they mean in VLMEvalKit."""
DEBUG_MESSAGE = (
    "The judge does not answer. Check its address (api_base, or the variable OPENAI_API_BASE) and its key (key, or "
    "OPENAI_API_KEY): build_judge(model=NAME).generate('hello') says what is wrong."
)


class OpenAIWrapper(BaseAPI):
    """A chat model behind a server with OpenAI's protocol: ``$OPENAI_API_BASE``, with the key ``$OPENAI_API_KEY``."""

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
        for mine in ("img_detail", "use_azure", "nproc"):  # of no use with this protocol, or meant for the caller
            kwargs.pop(mine, None)
        # The client waits and tries again as the server asks for; once more from here would multiply the tries.
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
        lazy = open_model(ModelSpec("api", model, options=options, access=access), "generator")
        lazy.family.check(lazy.spec)
        self._generator = lazy

    def generate_inner(self, message: list[Item], dataset: str | None = None, **kwargs: Any) -> tuple[int, str, str]:  # noqa: ARG002 - the original's signature
        """Send one message; return 0, the answer and nothing, or 1, the words of failure and the reason."""
        return self._sent([{"role": "user", "content": message}], kwargs.get("temperature"))

    def chat_inner(self, message: list[Turn], dataset: str | None = None, **kwargs: Any) -> tuple[int, str, str]:  # noqa: ARG002 - the original's signature
        """Send a conversation."""
        return self._sent(message, kwargs.get("temperature"))

    def _sent(self, turns: list[Turn], temperature: float | None) -> tuple[int, str, str]:
        told = [{"role": "system", "content": self.system_prompt}] if self.system_prompt else []
        messages = to_messages([*told, *map(_absolute, turns)], self.model)
        try:
            [(_, answer)] = self._generator.load().generate_many([Prompt("", messages, temperature)])
        except EyechartError as error:  # as the original: a failed request is an answer that says so
            return 1, self.fail_msg, error.message
        return (1, self.fail_msg, answer.error) if answer.error else (0, answer.text, "")


GPT4V = OpenAIWrapper


class GeneratorModel(BaseModel):
    """Any generative model that Eyechart can load, by folder or hub id, as a model of VLMEvalKit's form."""

    def __init__(self, model_path: str, **options: Any) -> None:
        found = resolve_model(model_path, role="generator")
        self._generator = open_model(
            ModelSpec(found.family, found.name, found.pretrained, options=options), "generator"
        )
        self._generator.family.check(self._generator.spec)

    def generate_inner(self, message: list[Item], dataset: str | None = None) -> str:
        """Answer a message."""
        return self.chat_inner([{"role": "user", "content": message}], dataset)

    def chat_inner(self, message: list[Turn], dataset: str | None = None) -> str:  # noqa: ARG002 - the original's signature
        """Answer a conversation."""
        answer = self._generator.load().generate(to_messages([*map(_absolute, message)], self._generator.spec.name))
        if answer.error:
            raise ModelError(f"{self._generator.spec.name} did not answer: {answer.error}")
        return str(answer.text)


def _absolute(turn: Turn) -> Turn:
    """Give images their whole path: it was the script that named them, from where it runs."""
    items = [{**item, "value": str(Path(item["value"]).absolute())} if item["type"] == "image" else item
             for item in turn["content"]]  # fmt: skip
    return {**turn, "content": items}


def build_judge(**kwargs: Any) -> OpenAIWrapper:
    """Make a judge: ``model`` is a short name or the server's; ``$LOCAL_LLM`` takes its place where it is set."""
    name = str(kwargs.pop("model", None) or "gpt-4o-mini")
    kwargs.pop("nproc", None)
    return OpenAIWrapper(os.environ.get("LOCAL_LLM") or JUDGES.get(name, name), **kwargs)


class SupportedModels(dict[str, Callable[..., Any]]):
    """``supported_VLM``: names to what makes the model. Scripts add their own; a folder or hub id makes itself."""

    def __missing__(self, name: str) -> Callable[..., Any]:
        if name in OWN_GENERATORS.names():
            made: Callable[..., Any] = OWN_GENERATORS.load(name)
            return made
        if "/" in name or Path(name).is_dir():
            return partial(GeneratorModel, name)
        raise KeyError(
            f"{name}: give the folder or the hub id of the model (org/name) in place of VLMEvalKit's short name, or "
            "add your own: supported_VLM[name] = functools.partial(YourModel, ...)"
        )


supported_VLM = SupportedModels()  # noqa: N816 - the original's name
