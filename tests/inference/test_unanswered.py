"""Stored answers in front of a generator: what is known without loading it."""

import pytest

from eyechart.inference.answers import CachedGenerator
from eyechart.models.lazy_model import LazyModel
from eyechart.store.answer_store import ResponseStore
from eyechart.types import Answer, Message, ModelCard, ModelSpec, Prompt

PROMPTS = [Prompt(name, (Message("user", (f"question {name}",)),)) for name in "abc"]


class Family:
    """A local family that counts how often its generator is loaded."""

    def __init__(self, identity):
        self.known, self.loads = identity, 0

    def identity(self, spec):
        return self.known

    def load(self, spec):
        self.loads += 1
        return self

    card = ModelCard("test", "test", "0", "none")

    def generate(self, messages):
        return Answer("yes")


@pytest.mark.parametrize("identity", [None, "one"])
def test_without_a_card_every_question_is_unanswered_and_nothing_is_loaded(tmp_path, identity):
    family = Family(identity)
    model = CachedGenerator(LazyModel(ModelSpec("test", "test"), family), ResponseStore(tmp_path))

    assert model.unanswered(PROMPTS) == ["a", "b", "c"]
    assert family.loads == 0


def test_questions_with_a_stored_answer_are_answered(tmp_path):
    store, family = ResponseStore(tmp_path), Family("one")
    first = CachedGenerator(LazyModel(ModelSpec("test", "test"), family), store)
    assert {name: answer.text for name, answer in first.generate(PROMPTS[:2])} == {"a": "yes", "b": "yes"}

    again = CachedGenerator(LazyModel(ModelSpec("test", "test"), family), store)

    assert again.unanswered(PROMPTS) == ["c"]
    assert family.loads == 1
