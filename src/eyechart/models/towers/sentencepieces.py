"""Tokenizers that agree with SentencePiece.

transformers 5 rebuilds most SentencePiece vocabularies with another library. The tokens are the same for ordinary
vocabularies, but not for one with pieces appended later (Chinese after LLaMA's, custom symbols), nor for one of a
different algorithm than the class expects. Both are compared on the same texts when a model is loaded. If they
disagree, SentencePiece's tokens are used.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from eyechart.models import hub

FILES = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
PROBES = (
    "a photo of a cat",
    "Two DOGS, 3 houses & a tree (really?)",
    "two  spaces, a tab\tand a space at the end ",
    "ein Käfer auf der Wiese",
    "一只猫坐在草地上看着天空",
    "\ufb01ne \ufb01gures \u00bd \uff26\uff35\uff2c\uff2c",
    "😀",
)
TRIED = 1000
"""Number of pieces compared at each end of a vocabulary, where pieces are added."""
NOTE = "transformers tokenizes some texts differently from SentencePiece; SentencePiece's tokens are used."


def exact_tokenizer(tokenizer: Any, cache: str | None = None, revision: str | None = None) -> tuple[Any, list[str]]:
    """Return a tokenizer that gives SentencePiece's tokens, and a note if it is not the given one, of transformers.

    ``cache`` and ``revision`` are those that it was loaded from, if not the defaults.
    """
    pieces = _pieces(tokenizer, cache, revision)
    if pieces is None or not any(_disagreements(tokenizer, pieces, _texts(pieces.model))):
        return tokenizer, []
    return pieces, [NOTE]


def disagreements(tokenizer: Any, cache: str | None = None, revision: str | None = None) -> list[str]:
    """Return the ordinary texts that a tokenizer splits differently from SentencePiece; see `exact_tokenizer`."""
    pieces = _pieces(tokenizer, cache, revision)
    return list(_disagreements(tokenizer, pieces, PROBES)) if pieces is not None else []


class PieceTokenizer:
    """A tokenizer of transformers with SentencePiece's tokens; special tokens, padding etc. are unchanged."""

    def __init__(self, tokenizer: Any, file: Path) -> None:
        from sentencepiece import SentencePieceProcessor

        self.inner = tokenizer
        self.sp_model = self.model = SentencePieceProcessor(model_file=str(file))
        names = [self.model.id_to_piece(i) for i in range(self.model.get_piece_size())]
        self.ids: list[int] = tokenizer.convert_tokens_to_ids(names)
        self.lower = tokenizer("A")["input_ids"] == tokenizer("a")["input_ids"]

    @property
    def src_lang(self) -> str | None:
        """Language of a tokenizer that depends on it."""
        return getattr(self.inner, "src_lang", None)

    @src_lang.setter
    def src_lang(self, language: str) -> None:
        self.inner.src_lang = language

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def body(self, text: str) -> list[int]:
        """Return the tokens of a text, without special tokens."""
        return [self.ids[i] for i in self.model.encode(text.lower() if self.lower else text)]

    def __call__(
        self,
        texts: str | Sequence[str],
        *,
        add_special_tokens: bool = True,
        truncation: bool = False,
        max_length: int | None = None,
        padding: bool | str = False,
        return_tensors: str | None = None,
        **_: Any,
    ) -> Any:
        """Tokenize like transformers: truncate but keep the special tokens, then pad."""
        before, after = [], []
        if add_special_tokens:  # found around a text
            inside, whole = self.inner("a", add_special_tokens=False)["input_ids"], self.inner("a")["input_ids"]
            start = next(i for i in range(len(whole)) if whole[i : i + len(inside)] == inside)
            before, after = whole[:start], whole[start + len(inside) :]
        room = (max_length or self.inner.model_max_length) - len(before) - len(after) if truncation else None
        rows = [[*before, *self.body(text)[:room], *after] for text in ([texts] if isinstance(texts, str) else texts)]
        filled = {"input_ids": rows[0] if isinstance(texts, str) else rows}
        full = max_length if padding == "max_length" else None
        return self.inner.pad(filled, padding=padding, max_length=full, return_tensors=return_tensors)


def _pieces(tokenizer: Any, cache: str | None, revision: str | None) -> PieceTokenizer | None:
    """Wrap a tokenizer with SentencePiece, if it has such a vocabulary and does not use it itself."""
    if find_spec("sentencepiece") is None or hasattr(tokenizer, "sp_model"):
        return None
    source = str(getattr(tokenizer, "name_or_path", ""))
    if not source:
        return None
    folder = Path(source) if Path(source).is_dir() else hub.cached_folder(source, cache, revision)
    file = next((folder / name for name in FILES if (folder / name).is_file()), None) if folder else None
    return PieceTokenizer(tokenizer, file) if file is not None else None


def _texts(model: Any) -> Iterator[str]:
    """Yield texts that reveal differences: ordinary ones, and pieces that may have been appended."""
    yield from PROBES
    size = model.get_piece_size()
    for number in {*range(min(TRIED, size)), *range(max(0, size - TRIED), size)}:
        if not (model.is_control(number) or model.is_unknown(number) or model.is_byte(number)):
            piece = model.id_to_piece(number).replace("▁", " ")
            yield from (f"{piece} a".lstrip(), f"a {piece}b", f"a{piece} b")


def _disagreements(tokenizer: Any, pieces: PieceTokenizer, texts: Iterator[str] | Sequence[str]) -> Iterator[str]:
    model = pieces.model
    numbers = {mark: model.piece_to_id(mark) for mark in tokenizer.all_special_tokens if mark}
    marks = [mark for mark, number in numbers.items() if model.is_control(number) or model.is_unknown(number)]
    for text in texts:
        if not any(mark in text for mark in marks):
            read = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
            if list(read) != pieces.body(text):
                yield text
