"""InternVL's tokens: SentencePiece itself, with LLaMA's marks, read as its authors' tokenizer reads.

transformers 5 joins the pieces that were appended to LLaMA's vocabulary (all of score 0) otherwise than SentencePiece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from eyechart.errors import ModelError
from eyechart.models.towers.small_files import tokenizing
from eyechart.types import ModelSpec

FILE = "tokenizer.model"
SIBLINGS = ("InternVL-14B-224px", "chinese_alpaca_lora_7b")
"""Folders beside a checkpoint that hold the same vocabulary: the other form, and the one that its authors ship."""
CONTEXT = 80


class LlamaPieces:
    """A vocabulary with a begin and an end mark."""

    def __init__(self, path: Path) -> None:
        from sentencepiece import SentencePieceProcessor

        with tokenizing(str(path)):
            self.sp_model = SentencePieceProcessor(model_file=str(path))
        model = self.sp_model
        if min(model.bos_id(), model.eos_id()) < 0:
            raise ModelError(f"{path} has no begin or no end mark: it is not LLaMA's.", advice=ADVICE)
        self.marks = {model.id_to_piece(i): i for i in (model.bos_id(), model.eos_id(), model.unk_id())}
        self._split = re.compile(f"({'|'.join(map(re.escape, self.marks))})")

    def __len__(self) -> int:
        return int(self.sp_model.get_piece_size())

    def encode(self, text: str, limit: int | None = None) -> list[int]:
        """Return the ids of a text between the two marks, at most ``limit`` in all; the end mark stays."""
        body = [number for part in self._split.split(text) for number in self._part(part)]
        room = None if limit is None else limit - 2
        return [self.sp_model.bos_id(), *body[:room], self.sp_model.eos_id()]

    def padded(self, texts: Sequence[str]) -> list[list[int]]:
        """Return ids of one length, filled up with 0."""
        rows = [self.encode(text, CONTEXT) for text in texts]
        return [row + [0] * (CONTEXT - len(row)) for row in rows]

    def _part(self, part: str) -> list[int]:
        """Read what stands between marks on its own, and a mark that somebody wrote as that mark."""
        if part in self.marks:
            return [self.marks[part]]
        ids: list[int] = self.sp_model.encode(part)
        return ids


def find_vocabulary(spec: ModelSpec, checkpoint: Path) -> Path:
    """Find the vocabulary: where the user says, with the checkpoint, or in one of the folders beside it.

    Raises:
        ModelError: If it is in none of these places.
    """
    places = list(_places(spec, checkpoint))
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        looked = ", ".join(str(path) for path in places)
        raise ModelError(f"There is no tokenizer for {checkpoint}. Looked for: {looked}.", advice=ADVICE)
    return found


def _places(spec: ModelSpec, checkpoint: Path) -> Iterator[Path]:
    given = spec.options.get("tokenizer")
    if given:
        yield Path(given) / FILE if Path(given).is_dir() else Path(given)
        return
    home = checkpoint if checkpoint.is_dir() else checkpoint.parent
    yield home / FILE
    yield from (folder / FILE for folder in siblings(checkpoint))


def siblings(checkpoint: Path) -> list[Path]:
    """List the folders beside a checkpoint that may hold what belongs to it."""
    # The parent of a path as it is written: `model/` and a link have others.
    return [checkpoint.absolute().parent / folder for folder in SIBLINGS]


ADVICE = (
    f"Put {FILE} of InternVL-14B-224px beside the checkpoint, or the folder {' or '.join(SIBLINGS)}, or name it with "
    "--model_option tokenizer=PATH."
)
