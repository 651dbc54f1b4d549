"""Base classes for models written for VLMEvalKit: they run here after changing the import line."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from eyechart.compat.vlmevalkit.messages import TYPES, check_content, message_to_promptimg, preproc_content
from eyechart.datasets.questions.messages import Item
from eyechart.errors import ModelError
from eyechart.metrics.texts.choices import CHAT_FAILED, FAILED

__all__ = ["BaseAPI", "BaseModel"]

log = logging.getLogger("eyechart.vlm")

Turn = dict[str, Any]


class BaseModel:
    """A model of one's own: implement ``generate_inner(message, dataset)``, and ``chat_inner`` for dialogues.

    ``INTERLEAVE = False`` says that the model takes one text and one image: `message_to_promptimg` makes them.
    """

    INTERLEAVE: ClassVar[bool] = True
    allowed_types = TYPES
    check_content = staticmethod(check_content)
    preproc_content = staticmethod(preproc_content)
    _dump_image: Callable[[Any], list[str]] | None = None

    def set_dump_image(self, dump_image: Callable[[Any], list[str]]) -> None:
        """Take the dataset's function that writes a row's images and returns their paths."""
        self._dump_image = dump_image

    def dump_image(self, line: Any, dataset: str | None = None) -> list[str]:  # noqa: ARG002 - the original's signature
        """Write a row's images and return their paths, for `build_prompt`."""
        if self._dump_image is None:
            raise NotImplementedError("set_dump_image was not called: there is no dataset to take images from")
        return self._dump_image(line)

    def use_custom_prompt(self, dataset: str | None) -> bool:  # noqa: ARG002 - for subclasses
        """Say whether `build_prompt` shall make the prompts of a dataset; by default the dataset does."""
        return False

    def build_prompt(self, line: Any, dataset: str | None = None) -> list[Item]:
        """Make the message for a row, where `use_custom_prompt` says so."""
        raise NotImplementedError

    def generate_inner(self, message: list[Item], dataset: str | None = None) -> Any:
        """Answer a message: a list of ``{"type": "image" or "text", "value": path or text}``."""
        raise NotImplementedError

    def generate(self, message: Any, dataset: str | None = None) -> Any:
        """Answer a message in any of its forms: text, dict, list of texts (paths and URLs too), list of dicts."""
        return self.generate_inner(self._checked(message), dataset)

    def chat(self, messages: Sequence[Turn], dataset: str | None = None) -> Any:
        """Answer a conversation: user and assistant in turns, the user last.

        If the model fails, the oldest turns are left out until it does not, as the original does.
        """
        turns = self._turns(messages)
        answer = self._chat_inner()
        while turns:
            try:
                return answer(turns, dataset)
            except Exception as error:  # noqa: BLE001 - whatever somebody's model raises, a shorter history may help
                log.info("chat failed with %d turns: %s", len(turns), error)
                turns = turns[1:]
                while turns and turns[0]["role"] != "user":
                    turns = turns[1:]
        return CHAT_FAILED

    def message_to_promptimg(self, message: Sequence[Item], dataset: str | None = None) -> tuple[str, str | None]:  # noqa: ARG002 - the original's signature
        """Return one text and the first image."""
        return message_to_promptimg(message)

    def _chat_inner(self) -> Callable[..., Any]:
        """Return the method ``chat_inner(message, dataset)``, which only models that can chat have."""
        inner: Callable[..., Any] | None = getattr(self, "chat_inner", None)
        if inner is None:
            raise ModelError(
                f"{type(self).__name__} cannot hold a conversation.",
                advice="Write chat_inner(message, dataset), which gets all turns, the user's last.",
            )
        return inner

    def _checked(self, message: Any) -> list[Item]:
        items = preproc_content(message)
        for item in items:
            if item["type"] not in self.allowed_types:
                raise AssertionError(f"{type(self).__name__} does not take items of the type {item['type']!r}")
        return items

    def _turns(self, messages: Sequence[Turn]) -> list[Turn]:
        if not messages or messages[-1].get("role") != "user":
            raise AssertionError("the last turn of a conversation is the user's")
        for turn in messages:
            if turn.get("role") not in ("system", "user", "assistant") or "content" not in turn:
                raise AssertionError(f"a turn has a role and a content, not {turn!r}")
        spoken = [turn["role"] for turn in messages if turn["role"] != "system"]
        if spoken != [("user", "assistant")[i % 2] for i in range(len(spoken))]:
            raise AssertionError("user and assistant speak in turns, an odd number of them: the user first and last")
        return [{"role": turn["role"], "content": self._checked(turn["content"])} for turn in messages]


class BaseAPI(BaseModel):
    """A model behind some API: ``generate_inner`` returns ``(code, answer, log)``, 0 for success, and is retried."""

    is_api = True
    gave_up = False
    """Whether no try succeeded; `generate` then returns what came instead of an answer, as the original does."""

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
        """Answer a message, with retries; after the last one the answer is ``fail_msg``, or what came instead.

        ``kwargs`` go to ``generate_inner``, before those that the model was made with.
        """
        items, told = self._without_system(self._checked(message)), {**self.default_kwargs, **kwargs}
        return self._retried(lambda: self.generate_inner(items, dataset=dataset, **told))

    def chat(self, messages: Sequence[Turn], dataset: str | None = None, **kwargs: Any) -> Any:
        """Answer a conversation, with retries."""
        turns, answer, told = self._turns(messages), self._chat_inner(), {**self.default_kwargs, **kwargs}
        return self._retried(lambda: answer(turns, dataset=dataset, **told))

    def generate_inner(self, message: list[Item], dataset: str | None = None, **kwargs: Any) -> Any:
        """Send one request."""
        raise NotImplementedError

    def message_to_promptimg(self, message: Sequence[Item], dataset: str | None = None) -> tuple[str, str | None]:  # noqa: ARG002 - the original's signature
        """Return one text, with a mark where images stood, and the first image."""
        return message_to_promptimg(message, mark_images=True)

    def working(self) -> bool:
        """Tell whether the API answers at all."""
        return self.fail_msg not in str(self.generate("hello"))

    def _without_system(self, items: list[Item]) -> list[Item]:
        """Add the system messages to the system prompt, in place of those of the message before."""
        told = "".join(f"{item['value']}\n" for item in items if item.get("role") == "system")
        if told != self._told:
            self.system_prompt = (self.system_prompt or "").removesuffix(self._told) + told or None
            self._told = told
        return [item for item in items if item.get("role") != "system"]

    def _retried(self, ask: Callable[[], Any]) -> Any:
        answer: Any = None
        self.gave_up = False
        for attempt in range(self.retry):
            if attempt:
                time.sleep(random.uniform(0, 2 * self.wait))  # noqa: S311 - spreading retries needs no secrecy
            try:
                code, answer, note = ask()
            except Exception as error:  # noqa: BLE001 - whatever somebody's API raises, the next try may succeed
                log.info("try %d failed: %s", attempt + 1, error)
                continue
            if code == 0 and answer not in ("", None) and self.fail_msg not in str(answer):
                return {"prediction": answer, "extra_records": note} if isinstance(note, dict) else answer
        self.gave_up = True
        return self.fail_msg if answer in ("", None) else answer
