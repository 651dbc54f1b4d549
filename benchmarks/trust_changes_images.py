"""Changes for `trust.py`: images of an unknown range, unsteady towers, and models that are not dense encoders."""

from __future__ import annotations

import io
import shutil
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image
from trust_edits import CLASSIFY, IMAGE, TEXTS, WDS, Change, Fault, in_tar, replace, write

OWN = ["--model", "python:own_encoder:Colours", "--dataset", "queries", "--recall_k", "1", "5"]
LETTERS = "np.bincount([ord(c) % 8 for c in t], minlength=8) + 0.1 for t in texts"
PADDED = "np.bincount([ord(c) % 8 for c in t.ljust(max(map(len, texts)))], minlength=8) + 0.1 for t in texts"
NO_TEXT_NOTICE = Fault(
    "models/objects/fingerprint.py", "notes += [] if steady else [UNSTEADY_TEXTS]", "notes += [] if steady else []"
)
NO_IMAGE_NOTICE = Fault(
    "models/objects/fingerprint.py", "notes += [] if steady else [_UNSTEADY]", "notes += [] if steady else []"
)
STRETCHED = Fault(
    "io/images.py",
    "    if values.dtype.itemsize == 2:\n",
    "    if values.dtype.itemsize == 4:\n"
    "        return Image.fromarray((values / max(values.max(), 1) * 255).astype(np.uint8))\n"
    "    if values.dtype.itemsize == 2:\n",
)
ANY_KIND = Fault("models/hub.py", "        if kind and kind != LATE:\n", "        if False:\n")
LATE_FILES = Fault(
    "models/hub.py",
    'return content_identity(self.places(spec), "sentence-transformers", *self.read_by, *self.needs)',
    'return "same"',
)


def tiff(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, "TIFF")
    return stream.getvalue()


def unlike(folder: str, world: Path) -> None:
    """Save a tiny random BERT with several vectors per text, sparse vectors, or scores of pairs."""
    import transformers
    from sentence_transformers import MultiVectorEncoder, SparseEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz0123456789"]
    words += [f"##{word}" for word in words[5:]]
    plain = world / folder / "bert"
    plain.mkdir(parents=True)
    (plain / "vocab.txt").write_text("\n".join(words) + "\n")
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=len(words), num_labels=1, **sizes)
    kinds = {"late": "BertModel", "sparse": "BertForMaskedLM", "cross": "BertForSequenceClassification"}
    target = world / folder if folder == "cross" else plain
    getattr(transformers, kinds[folder])(config).save_pretrained(target)
    transformers.BertTokenizerFast(str(plain / "vocab.txt")).save_pretrained(target)
    if folder == "late":
        modules = [Transformer(str(plain)), MultiVectorMask()]
        MultiVectorEncoder(modules=modules, device="cpu").save_pretrained(str(world / folder))
    if folder == "sparse":
        modules = [Transformer(str(plain), transformer_task="fill-mask"), SpladePooling()]
        SparseEncoder(modules=modules, device="cpu").save_pretrained(str(world / folder))


def texts_with(folder: str) -> list[str]:
    return ["--model", folder, "--dataset", "texts", "--task", "text_retrieval"]


def kind(folder: str, name: str) -> Change:
    words = texts_with(folder)
    return Change(name, TEXTS, bool, words, prepare=partial(unlike, folder), refused=True, defence=(ANY_KIND,))


def retrained(folder: str, world: Path) -> None:
    """Save the model again with other random weights."""
    shutil.rmtree(world / folder)
    unlike(folder, world)


CHANGES = [
    Change(
        "tower: random texts",
        OWN,
        prepare=partial(replace, "own_encoder.py", LETTERS, "np.random.standard_normal(8) for t in texts"),
        notice="for the same text",
        defence=(NO_TEXT_NOTICE,),
    ),
    Change(
        "tower: padding of texts is not masked, other batches",
        OWN,
        prepare=partial(replace, "own_encoder.py", LETTERS, PADDED),
        words_after=[*OWN, "--batch_size", "1"],
        notice="for the same text",
        defence=(NO_TEXT_NOTICE,),
    ),
    Change(
        "tower: texts are centred in their batch, other batches",
        OWN,
        prepare=lambda w: replace(
            "own_encoder.py", f"np.stack([{LETTERS}])", f"(lambda v: v - v.mean(0) / 2)(np.stack([{LETTERS}]))", w
        ),
        words_after=[*OWN, "--batch_size", "3"],
        notice="for the same text",
        defence=(NO_TEXT_NOTICE,),
    ),
    Change(
        "tower: images are centred in their batch, other batches",
        OWN,
        prepare=partial(replace, "own_encoder.py", " ** STRENGTH", " - np.mean([np.mean(i) for i in images]) / 255"),
        words_after=[*OWN, "--batch_size", "1"],
        notice="for the same image",
        defence=(NO_IMAGE_NOTICE,),
    ),
    Change(
        "image: 32-bit TIFF",
        CLASSIFY,
        partial(write, IMAGE, tiff(np.arange(1024, dtype=np.int32).reshape(32, 32))),
        refused=True,
        defence=(STRETCHED,),
    ),
    Change(
        "image: floats beyond 1 in a tar",
        WDS,
        partial(
            in_tar,
            "wds_c/test/0.tar",
            lambda name, data: (
                (name, tiff(np.linspace(0, 26, 1024, dtype=np.float32).reshape(32, 32)))
                if name == "s003.png"
                else (name, data)
            ),
        ),
        refused=True,
        defence=(STRETCHED,),
    ),
    Change(
        "model: weights of several vectors per text",
        texts_with("late"),
        partial(retrained, "late"),
        prepare=partial(unlike, "late"),
        defence=(LATE_FILES,),
    ),
    kind("sparse", "model: sparse vectors"),
    kind("cross", "model: scores of pairs"),
]
