"""Language codes: one canonical code per language, and its aliases.

``zh``, ``cn``, ``zh-CN`` and ``zho_Hans`` are one language; ``zho_Hant`` is another. Results keep the code that the
user wrote; only lookups use the canonical one.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

MAIN = "en"


@dataclass(frozen=True, slots=True)
class Language:
    """A language and its codes."""

    code: str
    """The canonical code: ISO 639-1 where there is one, else FLORES-200."""
    name: str
    aliases: tuple[str, ...] = ()

    @property
    def flores(self) -> str | None:
        """The FLORES-200 code, such as ``deu_Latn``."""
        return next((code for code in (self.code, *self.aliases) if "_" in code), None)


@cache
def known() -> tuple[Language, ...]:
    """List the languages of ``languages.toml``, in its order."""
    text = resources.files("eyechart").joinpath("languages.toml").read_text(encoding="utf-8")
    return tuple(Language(code, name, tuple(aliases)) for code, (name, *aliases) in tomllib.loads(text).items())


def canonical(code: str) -> str:
    """Return the canonical code; an unknown code is returned unchanged."""
    if code == MAIN:  # the usual one, without reading the table
        return MAIN
    found = _by_spelling().get(_spelling(code))
    return found.code if found else code


def name_of(code: str) -> str:
    """Return the English name of a language, or the code itself."""
    found = _by_spelling().get(_spelling(code))
    return found.name if found else code


def is_main(code: str) -> bool:
    """Whether a code means English, the language of files without a language in their name."""
    return canonical(code) == MAIN


def find_same(code: str, available: Iterable[str]) -> str | None:
    """Return the code in ``available`` for the same language as ``code``: itself, else an alias."""
    spellings = list(available)
    if code in spellings:
        return code
    wanted = canonical(code)
    return next((spelling for spelling in spellings if canonical(spelling) == wanted), None)


def flores_codes() -> tuple[str, ...]:
    """List the known FLORES-200 codes, sorted."""
    return tuple(sorted(language.flores for language in known() if language.flores))


@cache
def _by_spelling() -> dict[str, Language]:
    return {_spelling(code): language for language in known() for code in (language.code, *language.aliases)}


def _spelling(code: str) -> str:
    return code.strip().lower().replace("_", "-")
