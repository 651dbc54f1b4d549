"""An encoder with a vector cache: stored vectors are read, missing ones computed and stored."""

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError, ModelError, UsageError
from eyechart.inference.image_batches import KeyedSample, bytes_held, trait_notices
from eyechart.inference.pipeline import FLUSH_ROWS, Pipeline
from eyechart.io.digests import DIGEST_SIZE, digest_bytes
from eyechart.io.progress import Bar, NoProgress, Progress
from eyechart.io.stopwatch import Stopwatch
from eyechart.manifest import DatasetScan, EmbeddedSamples, Failure, Manifest
from eyechart.messages import UserMessage
from eyechart.metrics.compression import BITS, Compression
from eyechart.metrics.vectors import MultiVectors
from eyechart.models.family import need_inputs
from eyechart.models.lazy_model import LazyModel
from eyechart.models.towers.precision import precision_notices
from eyechart.store.vector_store import Digests, EmbeddingStore, VectorTable, text_digests
from eyechart.types import DEFAULT_ENCODING, EncodeOptions, Input, ModelCard, Notice, OnError, Sample, digest_json

TRAITS = "image-traits"
"""Role of the table of image traits, which has rows only for images that have any."""
ROUNDED = ("image", "text", "joint")
"""Kinds of inputs; their tables exist in half precision, too."""
CUTS = {"text": "text-cut", "joint": "joint-cut"}
"""Tables of whether a text was truncated, by kind of input."""
LOOKED_UP = 256
"""Images looked up in the store at a time, unless they exceed the byte limit."""
LOOKED_UP_BYTES = 32 * 1024 * 1024


@dataclass(eq=False)
class CachedEncoder:
    """Embeds images and texts with one model in this process, reusing stored vectors."""

    model: LazyModel
    store: EmbeddingStore
    options: EncodeOptions = DEFAULT_ENCODING
    _: KW_ONLY
    on_error: OnError = "fail"
    progress: Progress = field(default_factory=NoProgress)
    watch: Stopwatch = field(default_factory=Stopwatch)

    def __post_init__(self) -> None:
        self.pipeline = Pipeline(self.model, self.options, self.on_error, self.watch)
        self.compression = Compression("float16" if self.options.half else "float32")
        self._widest = 0
        self._opened: set[tuple[str, str]] = set()
        """Tables in use: kind of input and instruction."""
        self._ignored_prompt = False
        self._truncated = 0
        self._traits: dict[bytes, int] = {}
        self._given: str | None = None
        """Fingerprint of the model whose vectors were returned; vectors of two models are never mixed."""
        self.size: int | None = None
        """Dimensions of the stored vectors read so far."""

    @property
    def card(self) -> ModelCard:
        """Card of the model; loads the model only if no card is cached."""
        return self.model.card

    def prepare_compression(self, dims: Sequence[int], precisions: Sequence[str]) -> None:
        """Reject a model whose vectors cannot be compressed this way; call it before vectors are read."""
        self._widest = max(dims, default=0)
        if self.card.multi_vector:  # the card loads the model unless it is cached
            text = "{label} returns several vectors per item, which {--truncate_dim} and {--quantize} do not support."
            raise UsageError(text, label=self.model.spec.label)
        self.model.check_dim(self._widest)
        self.compression.calibrates = "int8" in precisions

    def compressed(self, dims: Sequence[int], precisions: Sequence[str]) -> Iterator[Self]:
        """Yield copies that compress the vectors they return; the store keeps them as they are."""
        for compression in self.compression.variants([dim for dim in dims if dim < (self.size or 0)], precisions):
            other = copy.copy(self)
            other.compression = compression
            yield other

    def describe_vectors(self) -> dict[str, Any]:
        """Return dimension, precision and bytes of a vector."""
        dim, precision = self.compression.dim or self.size or 0, self.compression.precision
        return {"dim": dim, "precision": precision, "bytes": -(-dim * BITS[precision] // 8)}

    def unit(self, vectors: Any) -> Any:
        """Scale rows to unit length, and binary codes to one length."""
        return self.compression.unit(vectors)

    def missing_samples(self, manifest: Manifest) -> list[KeyedSample]:
        """List the distinct images without a vector, in order, for another process to embed.

        Images whose bytes exist only in this process are listed without them: the other process finds them by id.
        """
        absent = np.flatnonzero(self._absent("image", manifest.digests))
        wanted = {manifest.digests[i].tobytes() for i in absent}
        return [
            (key, Sample(sample.id, sample.need_image().elsewhere()))
            for key, sample in (_missing_samples(manifest, wanted) if wanted else ())
        ]

    def count_missing(self, manifest: Manifest) -> int:
        """Count the samples whose image has no vector yet, duplicates included."""
        return int(self._table().missing(manifest.digests).sum())

    def embed_samples(self, samples: Sequence[KeyedSample], read: Callable[[], Manifest]) -> None:
        """Embed images listed by `missing_samples`; the dataset is read only for images listed without bytes."""
        here = {key: sample for key, sample in samples if sample.image and sample.image.within_reach()}
        if len(here) < len(samples):
            self._embed(read(), {key for key, _ in samples})
        elif wanted := self._missing(here, load=True):
            found = ((key, sample) for key, sample in here.items() if key in wanted)
            with self.progress.step("images", len(wanted)) as bar:
                self.pipeline.embed_images(found, self._table(), bar, self._table(TRAITS))

    def _instruction(self, kind: Input, role: str, prompt: str) -> str:
        """Return what the model receives along with an input: a prompt or a role, if it takes one."""
        need_inputs(self.model.spec.label, self.card.inputs, (kind,))
        if prompt and self.card.prompting == "role" and prompt != self.card.prompts.get(role):
            raise ModelError(
                "{label} takes the role of an input, query or document, and no other prompt.",
                advice="Omit {--query_prompt} and {--document_prompt}.",
                label=self.model.spec.label,
            )
        own = self.card.prompts.values()
        self._ignored_prompt |= kind == "image" and self.card.prompting == "prefix" and prompt not in ("", *own)
        return {"prefix": "", "message": prompt, "role": role}[self.card.prompting]

    def _missing(self, keys: Iterable[bytes], instruction: str = "", *, load: bool = False) -> set[bytes]:
        listed = list(keys)
        digests = np.frombuffer(b"".join(listed), np.uint8).reshape(len(listed), -1)
        return {listed[i] for i in np.flatnonzero(self._absent("image", digests, instruction, load=load))}

    def _absent(self, kind: str, keys: Digests, instruction: str = "", *, load: bool = False) -> NDArray[np.bool_]:
        """Return a mask of the vectors to compute; vectors stored in full precision are rounded instead.

        With ``load``, the model is loaded if there are any, and they are looked up again under its current card. A
        cached card may be outdated: new vectors are neither stored under it nor mixed with vectors returned under it.
        """
        absent = self._table(kind, instruction).missing(keys)
        if self._half and absent.any():
            full = self.store.table(self.card.fingerprint, table_role(kind, instruction))
            known = np.flatnonzero(absent & ~full.missing(keys))
            step = LOOKED_UP if self.card.multi_vector else FLUSH_ROWS
            for start in range(0, len(known), step):
                rows = keys[known[start : start + step]]
                self._table(kind, instruction).add(rows, full.get(rows))
            absent[known] = False
        if kind in CUTS:
            absent |= self._table(CUTS[kind], instruction).missing(keys)
        if load and absent.any():
            self.model.load(self._given)
            return self._absent(kind, keys, instruction)
        return absent

    def images(self, listed: Manifest | DatasetScan, *, role: str = "", prompt: str = "") -> EmbeddedSamples:
        """Embed images; each distinct image is encoded once per model and instruction, ever.

        An unread dataset is embedded while it is read. ``role`` is ``query`` or ``document``, for models that take a
        role; ``prompt`` is the instruction, for models that take one with an image.
        """
        instruction = self._instruction("image", role, prompt)
        if isinstance(listed, DatasetScan) and not listed.done:
            self._embed_as_read(listed, instruction)
        manifest = listed.manifest if isinstance(listed, DatasetScan) else listed
        failures = self._embed(manifest, {key.tobytes() for key in manifest.digests}, instruction)
        return self._embedded("image", manifest, manifest.digests, failures, instruction)

    def joint(self, manifest: Manifest, texts: Sequence[str], *, role: str = "", prompt: str = "") -> EmbeddedSamples:
        """Embed each sample's image and its text as one input; equal pairs are encoded once."""
        instruction = self._instruction("image+text", role, prompt)
        written = [prompt + text for text in texts] if self.card.prompting == "prefix" else list(texts)
        pairs = np.hstack([manifest.digests, text_digests(written, "")])
        keys = np.array([list(digest_bytes(pair.tobytes())) for pair in pairs], np.uint8).reshape(-1, DIGEST_SIZE)
        missing = np.flatnonzero(self._absent("joint", keys, instruction, load=True))
        failures: list[Failure] = []
        if len(missing):
            wanted = {pairs[i].tobytes(): written[i] for i in missing}
            name = UserMessage("images and texts of {name}", name=manifest.info.name)
            with self.progress.step(name, len(wanted)) as bar:
                failures = self.pipeline.embed_images(
                    _missing_samples(manifest, wanted, pairs),
                    self._table("joint", instruction),
                    bar,
                    self._table(TRAITS),
                    instruction=instruction,
                    texts=wanted,
                    cuts=self._table(CUTS["joint"], instruction),
                )
        found = self._embedded("joint", manifest, keys, failures, instruction)
        cuts = self._table(CUTS["joint"], instruction).get(np.unique(keys[found.kept], axis=0))
        self._truncated += int(cuts.sum())
        return found

    def _embedded(
        self, kind: str, manifest: Manifest, keys: Digests, failures: list[Failure], instruction: str
    ) -> EmbeddedSamples:
        """Read the vectors of samples, which have keys of their own, and the traits of their images."""
        kept = np.flatnonzero(~self._table(kind, instruction).missing(keys))
        if len(kept) + len(failures) < len(manifest):  # a broken image may occur several times
            reasons = {failure.id: failure.reason for failure in failures}
            listed = [(entry.id, key.tobytes()) for entry, key in zip(manifest.entries, manifest.digests, strict=True)]
            by_key = {key: reasons[name] for name, key in listed if name in reasons}
            lost = dict(listed[i] for i in np.setdiff1d(np.arange(len(manifest)), kept))
            if gone := [name for name, key in lost.items() if key not in by_key]:
                text = "{first}: missing when the dataset was read a second time."
                raise DataError(text, advice="Run again.", first=gone[0])
            failures = [Failure(name, by_key[key]) for name, key in lost.items()]
        self._given = self.card.fingerprint
        with self.watch.phase("store"):
            vectors = self._read_vectors(kind, keys[kept], instruction)
            noted = manifest.digests[~self._table(TRAITS).missing(manifest.digests)]
            flags = self._table(TRAITS).get(noted)
            self._traits |= {key.tobytes(): int(row[0]) for key, row in zip(noted, flags, strict=True)}
        return EmbeddedSamples(vectors, kept, tuple(failures))

    @property
    def _half(self) -> bool:
        """Whether vectors are stored in half precision: by choice, or by default if there are several per item."""
        return self.card.multi_vector if self.options.half is None else self.options.half

    def _read_vectors(self, kind: str, keys: Digests, instruction: str) -> Any:
        """Read and compress vectors, refusing a length that differs from earlier vectors."""
        if not len(keys) and self.card.multi_vector:
            return MultiVectors.of([], self.card.embedding_dim or 0)
        vectors = self._table(kind, instruction).get(keys)
        if len(vectors):
            size, self.size = self.size, vectors.shape[1]
            self.model.check_dim(self._widest, self.size)
            if size not in (None, self.size):
                raise ModelError(
                    "{label} returned vectors of {size} and of {other} dimensions.",
                    advice="Images and texts need vectors of the same length.",
                    label=self.model.spec.label,
                    size=size,
                    other=self.size,
                )
        return self.compression.apply(vectors)

    def _table(self, kind: str = "image", instruction: str = "") -> VectorTable:
        self._opened.add((kind, instruction))
        role = table_role(kind, instruction)
        return self.store.table(self.card.fingerprint, role, half=self._half and kind in ROUNDED)

    def _embed(self, manifest: Manifest, keys: set[bytes], instruction: str = "") -> list[Failure]:
        wanted = self._missing(keys, instruction, load=True)
        if not wanted:
            return []
        with self.progress.step(UserMessage("images of {name}", name=manifest.info.name), len(wanted)) as bar:
            missing = _missing_samples(manifest, wanted)
            table = self._table("image", instruction)
            return self.pipeline.embed_images(missing, table, bar, self._table(TRAITS), instruction=instruction)

    def _embed_as_read(self, reading: DatasetScan, instruction: str) -> None:
        """Read a dataset and encode missing images from the bytes they are keyed by.

        An image that fails to decode has no vector afterwards; `_embed` reports it.
        """
        with self.progress.step(UserMessage("images of {name}", name=reading.info.name), len(reading)) as bar:
            missing = self._missing_as_read(reading, bar, instruction)
            with self.watch.phase("read"):
                first = next(missing, None)
            if first is None:
                return
            self.model.load(self._given)  # its current card may name another table: look there for the first image, too
            left = chain([first] if self._missing([first[0]], instruction) else [], missing)
            table = self._table("image", instruction)
            self.pipeline.embed_images(left, table, bar, self._table(TRAITS), instruction=instruction)

    def _missing_as_read(self, reading: DatasetScan, bar: Bar, instruction: str) -> Iterator[KeyedSample]:
        """Yield the first sample of each image without a vector, in order, with the bytes its key was computed from.

        The bar advances by the samples that are not yielded.
        """
        seen: set[bytes] = set()
        for some in _groups(reading.samples()):
            fresh: dict[bytes, Sample] = {}
            for key, sample in some:
                if sample.image is not None and key not in seen:
                    fresh.setdefault(key, sample)
            seen.update(fresh)
            wanted = self._missing(fresh, instruction) if fresh else set()
            bar.advance(len(some) - len(wanted))
            yield from ((key, sample) for key, sample in fresh.items() if key in wanted)

    def texts(self, texts: Sequence[str], *, language: str = "en", role: str = "", prompt: str = "") -> Any:
        """Embed texts in the given order, each distinct one once; `images` explains role and prompt."""
        instruction = self._instruction("text", role, prompt)
        texts = [prompt + text for text in texts] if self.card.prompting == "prefix" else list(texts)
        distinct = list(dict.fromkeys(texts))
        keys = text_digests(distinct, language)
        missing = np.flatnonzero(self._absent("text", keys, instruction, load=True))
        if len(missing):
            with self.progress.step("texts", len(missing)) as bar:
                texts_left = [distinct[i] for i in missing]
                sinks = self._table("text", instruction), self._table(CUTS["text"], instruction)
                self.pipeline.embed_texts(texts_left, keys[missing], sinks, language, bar, instruction=instruction)
        self._given = self.card.fingerprint
        position = {text: i for i, text in enumerate(distinct)}
        with self.watch.phase("store"):
            self._truncated += int(self._table(CUTS["text"], instruction).get(keys).sum())
            vectors = self._read_vectors("text", keys, instruction)
        return vectors if len(distinct) == len(texts) else vectors[[position[text] for text in texts]]

    def notices(self) -> Sequence[Notice]:
        """Return the notes of the model, the number of truncated texts and of damaged parts, and batch notices."""
        found = [Notice("model_note", 1, note) for note in self.card.notes] + precision_notices(self.card)
        found += trait_notices(self._traits)
        if self._ignored_prompt:
            message = UserMessage(
                "The prompt has no effect on images: {label} takes prompts with texts only.", label=self.card.name
            )
            found.append(Notice("ignored_prompt", 1, message))
        if self._truncated:
            message = UserMessage(
                "{truncated} texts exceed the context length of {length} tokens and were truncated.",
                truncated=self._truncated,
                length=self.card.context_length,
            )
            found.append(Notice("truncated_texts", self._truncated, message))
        tables = [self._table(*opened) for opened in sorted(self._opened) if opened[0] != TRAITS]
        parts = [part for table in tables for part in table.damaged]
        if parts:
            message = UserMessage(
                "{n} parts of the embedding store {n:was|were} damaged; the vectors were recomputed.", n=len(parts)
            )
            found.append(Notice("damaged_store", len(parts), message))
        return found + self.pipeline.notices()


def table_role(kind: str, instruction: str) -> str:
    """Return the name of the table of a kind of input, one per instruction."""
    return f"{kind}-{digest_json(instruction)[:16]}" if instruction else kind


def _missing_samples(
    manifest: Manifest, wanted: Collection[bytes], keys: Digests | None = None
) -> Iterator[tuple[bytes, Sample]]:
    """Stream the dataset again, yielding the first sample of each wanted key, by default the image's digest."""
    keys_of: dict[str, list[bytes]] = {}
    for entry, key in zip(manifest.entries, manifest.digests if keys is None else keys, strict=True):
        keys_of.setdefault(entry.id, []).append(key.tobytes())
    left = set(wanted)
    for sample in manifest.samples():
        for key in keys_of.get(sample.id, ()):
            if key in left:
                left.discard(key)
                yield key, sample
        if not left:
            return


def _groups(samples: Iterable[KeyedSample]) -> Iterator[list[KeyedSample]]:
    """Group samples by number and by size."""
    some: list[KeyedSample] = []
    held = 0
    for key, sample in samples:
        some.append((key, sample))
        held += bytes_held(sample)
        if len(some) == LOOKED_UP or held > LOOKED_UP_BYTES:
            yield some
            some, held = [], 0
    yield some
