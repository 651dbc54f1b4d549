"""The grammar: what an image shows, said in English and in German.

A caption is drawn from sentence frames, synonyms and inflections. Every caption names its garments and their
arrangement; `colours=False` leaves the colours out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from scenes import NOTHING, Scene


class Phrase(NamedTuple):
    """One garment in words, in the three forms that the frames need."""

    nominative: str
    dative: str
    bare: str  # without article


@dataclass(frozen=True)
class Language:
    """Words and sentence frames; `phrase` says a garment and its colour with drawn synonyms."""

    code: str
    singles: tuple[str, ...]
    pairs: tuple[str, ...]
    relations: tuple[tuple[str, ...], ...]  # left of, above, right of, below
    places: tuple[str, ...]  # of the first garment under each of these relations
    phrase: Callable[[int, int, random.Random], Phrase]


def caption(language: Language, scene: Scene, rng: random.Random, *, colours: bool = True) -> str:
    """Say what the scene shows; which garment of a pair comes first in the sentence is drawn too."""
    first = (scene.garment, scene.colour if colours else NOTHING)
    if scene.relation == NOTHING:
        return rng.choice(language.singles).format(a=language.phrase(*first, rng))
    second = (scene.other_garment, scene.other_colour if colours else NOTHING)
    relation, inverse = scene.relation, scene.relation + 2
    if rng.random() < 0.5:
        first, second, relation, inverse = second, first, inverse, relation
    return rng.choice(language.pairs).format(
        a=language.phrase(*first, rng),
        b=language.phrase(*second, rng),
        relation=rng.choice(language.relations[relation]),
        place=language.places[relation],
        other_place=language.places[inverse],
    )


ENGLISH_NOUNS = (
    ("t-shirt", "t-shirt", "top", "tee"),
    ("pair of trousers", "pair of trousers", "pair of pants"),
    ("pullover", "pullover", "sweater"),
    ("dress",),
    ("coat",),
    ("sandal",),
    ("shirt",),
    ("sneaker", "sneaker", "trainer"),
    ("bag", "bag", "handbag"),
    ("ankle boot", "ankle boot", "boot"),
)
ENGLISH_COLOURS = (
    ("red",),
    ("orange",),
    ("yellow",),
    ("green",),
    ("turquoise", "turquoise", "cyan"),
    ("blue",),
    ("purple", "purple", "violet"),
    ("white",),
)


def _english(garment: int, colour: int, rng: random.Random) -> Phrase:
    noun = rng.choice(ENGLISH_NOUNS[garment])
    if colour != NOTHING:
        shade = rng.choice(ENGLISH_COLOURS[colour])
        head, pair, rest = noun.partition("pair of ")
        noun = f"{head}{pair}{shade} {rest}" if pair else f"{shade} {noun}"
    phrase = f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
    return Phrase(phrase, phrase, noun)


ENGLISH = Language(
    code="en",
    singles=(
        "{a.nominative}",
        "{a.nominative}.",
        "a photo of {a.nominative}",
        "a photo of {a.nominative}.",
        "an image of {a.nominative}",
        "an image of {a.nominative}",
        "a close-up photo of {a.nominative}",
        "a product photo of {a.nominative}",
        "a small image of {a.nominative}",
        "a blurry photo of {a.nominative}",
        "a good photo of {a.nominative}",
        "this is {a.nominative}",
        "there is {a.nominative} in the image",
        "{a.bare}",
        "{a.nominative}, a piece of clothing",
    ),
    pairs=(
        "{a.nominative} {relation} {b.nominative}",
        "{a.nominative} {relation} {b.nominative}",
        "{a.nominative} is {relation} {b.nominative}",
        "a photo of {a.nominative} {relation} {b.nominative}",
        "an image of {a.nominative} {relation} {b.nominative}.",
        "there is {a.nominative} {relation} {b.nominative}",
        "{place} {a.nominative}, {other_place} {b.nominative}",
        "{a.nominative} {place} and {b.nominative} {other_place}",
    ),
    relations=(
        ("to the left of", "left of"),
        ("above", "over"),
        ("to the right of", "right of"),
        ("below", "under"),
    ),
    places=("on the left", "at the top", "on the right", "at the bottom"),
    phrase=_english,
)

GERMAN_NOUNS = (  # noun and gender
    (("T-Shirt", "n"), ("T-Shirt", "n"), ("Oberteil", "n")),
    (("Hose", "f"),),
    (("Pullover", "m"), ("Pullover", "m"), ("Pulli", "m")),
    (("Kleid", "n"),),
    (("Mantel", "m"),),
    (("Sandale", "f"),),
    (("Hemd", "n"),),
    (("Turnschuh", "m"), ("Turnschuh", "m"), ("Sneaker", "m")),
    (("Tasche", "f"), ("Tasche", "f"), ("Handtasche", "f")),
    (("Stiefelette", "f"), ("Stiefelette", "f"), ("Stiefel", "m")),
)
GERMAN_COLOURS = ("rot", "orangefarben", "gelb", "grün", "türkisfarben", "blau", "violett", "weiß")
GERMAN_ENDINGS = {  # gender: article and adjective ending in the nominative, then in the dative
    "m": (("ein", "er"), ("einem", "en")),
    "f": (("eine", "e"), ("einer", "en")),
    "n": (("ein", "es"), ("einem", "en")),
}


def _german(garment: int, colour: int, rng: random.Random) -> Phrase:
    noun, gender = rng.choice(GERMAN_NOUNS[garment])
    nominative, dative = (
        f"{article} {noun}" if colour == NOTHING else f"{article} {GERMAN_COLOURS[colour]}{ending} {noun}"
        for article, ending in GERMAN_ENDINGS[gender]
    )
    return Phrase(nominative, dative, nominative.partition(" ")[2])


GERMAN = Language(
    code="de",
    singles=(
        "{a.nominative}",
        "{a.nominative}.",
        "ein Foto von {a.dative}",
        "ein Bild von {a.dative}.",
        "eine Aufnahme von {a.dative}",
        "ein Produktfoto von {a.dative}",
        "ein unscharfes Foto von {a.dative}",
        "{a.bare}",
        "Foto: {a.bare}",
        "Bild: {a.bare}.",
        "Kleidungsstück: {a.bare}",
        "Motiv: {a.bare}",
        "das ist {a.nominative}",
        "auf dem Bild ist {a.nominative}",
        "{a.nominative}, ein Kleidungsstück",
    ),
    pairs=(
        "{a.nominative} {relation} {b.dative}",
        "{a.nominative} {relation} {b.dative}",
        "{a.nominative} liegt {relation} {b.dative}",
        "ein Foto von {a.dative} {relation} {b.dative}",
        "ein Bild von {a.dative} {relation} {b.dative}.",
        "auf dem Bild ist {a.nominative} {relation} {b.dative}",
        "{place} {a.nominative}, {other_place} {b.nominative}",
        "{a.nominative} {place} und {b.nominative} {other_place}",
    ),
    relations=(
        ("links von", "links neben"),
        ("über", "oberhalb von"),
        ("rechts von", "rechts neben"),
        ("unter", "unterhalb von"),
    ),
    places=("links", "oben", "rechts", "unten"),
    phrase=_german,
)

LANGUAGES = (ENGLISH, GERMAN)
