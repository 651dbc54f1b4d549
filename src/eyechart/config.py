"""The validated settings of an evaluation. Flags, config files and Python arguments all become a `Config`."""

from collections.abc import Mapping
from typing import Any

from eyechart.io.secrets import refuse_misplaced
from eyechart.messages import UserMessage
from eyechart.settings.evaluation import DataSettings, ModelSettings, PromptSettings, ResultSettings, RunSettings
from eyechart.settings.generation import QuestionSettings
from eyechart.settings.presets import OWN, changes, filled
from eyechart.types import Notice


class Config(DataSettings, ModelSettings, RunSettings, PromptSettings, ResultSettings):
    """All settings of an evaluation."""

    questions: QuestionSettings

    def notes(self) -> tuple[Notice, ...]:
        """Return a notice that lists the settings changed by a preset."""
        if self.preset == OWN:
            return ()
        ours = {name: field.default for name, field in Config.fields().items()}
        found = changes(self.preset, self.as_dict(), ours)
        text = UserMessage(
            "Defaults of the preset {preset} ({--preset}): {found}.", preset=self.preset, found="; ".join(found)
        )
        return (Notice("like", len(found), text),) if found else ()


def make_config(values: Mapping[str, Any]) -> Config:
    """Validate a dict of settings; the error has one line per problem, naming the setting."""
    refuse_misplaced(values)
    names = {alias: name for name, one in Config.fields().items() for alias in one.aliases}
    return Config(**filled({names.get(name, name): value for name, value in values.items()}))


__all__ = ["Config", "QuestionSettings", "make_config"]
