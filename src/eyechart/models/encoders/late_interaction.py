"""Encoders with several vectors per input (late interaction).

sentence-transformers' ``MultiVectorEncoder`` loads its own folders and those of PyLate and Stanford's ColBERT;
transformers loads its ``...ForRetrieval`` classes (ColPali, ColQwen2, ColModernVBert). Queries and documents are
processed differently, so the role is part of an input; a text without a role is a query, an image a document.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.errors import ModelError, UsageError
from eyechart.metrics.vectors import MultiVectors, float_array
from eyechart.models import hub
from eyechart.models.family import MODULES, UNSTEADY_TEXTS, BaseEncoder, probe_vectors, read_saved
from eyechart.models.towers import torch_tools
from eyechart.models.towers.checkpoints import POOLER, load_errors, whole_weights
from eyechart.models.towers.torch_encoder import BATCH_TOLERANCE, COARSE_TOLERANCE, PROBE_TEXTS
from eyechart.types import Input, ModelCard, ModelSpec, digest_json

OPTIONS = frozenset(
    {"token_pooling", "model_kwargs", "config_kwargs", "prompts", "cache_dir", "revision", "hub", "trust_remote_code"}
)
"""Supported model options."""
NATIVE = "ForRetrieval"
"""End of the names of transformers' late-interaction classes."""
NO_LIMIT = 100_000


class LateInteractionEncoder(BaseEncoder):
    """The library's own preprocessing and forward pass, without padding in the result."""

    def __init__(self, spec: ModelSpec) -> None:
        unsupported = sorted(name for name, value in spec.options.items() if value and name not in OPTIONS)
        if unsupported:
            raise UsageError(
                "{--model_option} {name} is not supported for {label}, which has several vectors per input.",
                advice="Omit it.",
                name=unsupported[0],
                label=spec.label,
            )
        self.spec = spec
        self.device = torch_tools.choose_device(spec.device)
        self.devices = [self.device]
        place = Path(hub.place_of(hub.source_of(spec), spec) or "")
        saved_as = str((read_saved(place).get("architectures") or [""])[0])
        native = saved_as.endswith(NATIVE) and not (place / MODULES).is_file()
        self.library: Any = (_TransformersModel if native else _SentenceTransformersModel)(spec, saved_as)
        model = self.library.model
        facts, structure = torch_tools.model_facts(model), torch_tools.structure_digest(model)
        self.library.model = torch_tools.cast(model, spec.precision).eval().to(self.device)
        self.pooling: Any = None
        if spec.options.get("token_pooling"):
            from sentence_transformers.multi_vector_encoder.modules import HierarchicalTokenPooling

            self.pooling = HierarchicalTokenPooling(spec.options["token_pooling"])
        self.role = "query"
        """Role of the last texts, whose length limit `truncated` applies."""
        tolerance = BATCH_TOLERANCE if spec.precision == "fp32" else COARSE_TOLERANCE
        together, steady = probe_vectors(self.encode_texts, PROBE_TEXTS[:2], tolerance)
        tokens = self.library.preprocess(list(PROBE_TEXTS), "query")["input_ids"].tolist()
        reading = digest_json([tokens, torch_tools.tokenizer_digest(self.library.tokenizer)])
        pooled = f"token pooling {self.pooling.get_config_dict()}" if self.pooling is not None else ""
        notes = [*self.library.notes, *torch_tools.precision_notes(spec.precision, self.device)]
        self.card = ModelCard(
            family=spec.family,
            name=spec.label,
            transform=" | ".join(filter(None, [self.library.settings, reading, structure, pooled])),
            precision=spec.precision,
            embedding_dim=int(together.shape[1]),
            context_length=self.library.limit("document"),
            similarity=self.library.similarity,
            prompts=self.library.prompts,
            notes=(*notes, *([] if steady else [UNSTEADY_TEXTS])),
            inputs=self.library.inputs,
            prompting="role",
            multi_vector=True,
            **facts,
        )

    def prepare_image(self, image: Image.Image) -> NDArray[Any]:
        """Keep the RGB pixels: the library processes a batch of images as a whole."""
        return np.asarray(image.convert("RGB"))

    def encode_images(self, batch: Sequence[NDArray[Any]], *, instruction: str = "") -> MultiVectors:
        """Encode images as documents, unless ``instruction`` names another role."""
        return self._encode([Image.fromarray(pixels) for pixels in batch], instruction or "document")

    def encode_texts(self, texts: Sequence[str], *, language: str = "en", instruction: str = "") -> MultiVectors:  # noqa: ARG002 - one tokenizer for all
        """Encode texts as queries, unless ``instruction`` names another role."""
        self.role = instruction or "query"
        return self._encode(list(texts), self.role)

    def _encode(self, inputs: list[Any], role: str) -> MultiVectors:
        import torch

        if not inputs:
            return MultiVectors.of([], self.card.embedding_dim or 0)
        with torch.inference_mode(), torch_tools.forward_pass(self.spec.precision, self.device, tf32=False):
            found = self.library.encode(inputs, role)
            if self.pooling is not None:
                found = self.pooling.pool(found, task=role)
        items = [float_array(item) for item in found]
        return MultiVectors.of([item[item.any(axis=1)] for item in items])  # padding may be zero rows

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Find the texts that exceed the context length of their role."""
        limit = self.library.limit(self.role)
        if limit is None or not len(texts):
            return super().truncated(texts)
        prompt = self.library.prompts.get(self.role, "")
        tokens = self.library.tokenizer([prompt + text for text in texts], truncation=False, verbose=False)
        return [len(row) > limit for row in tokens["input_ids"]]


def module_options(spec: ModelSpec) -> dict[str, dict[str, Any]]:
    """Return the user's arguments of sentence-transformers' modules; weights are loaded in float32 by default."""
    options = dict(spec.options.get("model_kwargs") or {})
    dtype = options.pop("torch_dtype", None) or options.get("dtype")
    options["dtype"] = "float32" if dtype in (None, "auto") else dtype  # auto means float32 here
    return {"model_kwargs": options, "config_kwargs": dict(spec.options.get("config_kwargs") or {})}


def describe_modules(model: Any) -> str:
    """Describe the modules of a sentence-transformers model and the settings of their image processors."""
    parts = []
    for module in model:
        settings: dict[str, Any] = getattr(module, "get_config_dict", dict)()
        processor = getattr(getattr(module, "processor", None), "image_processor", None)
        parts.append(f"{type(module).__name__} {settings} {processor.to_dict() if processor is not None else ''}")
    return " > ".join(parts)


class _SentenceTransformersModel:
    """A ``MultiVectorEncoder``."""

    def __init__(self, spec: ModelSpec, saved_as: str) -> None:
        from sentence_transformers import MultiVectorEncoder

        source = hub.source_of(spec)
        with load_errors(f"sentence-transformers {source}"), whole_weights(source, unused=POOLER) as notes:
            name = hub.source_for_library(source, spec)
            where = hub.loading(spec, cache="cache_folder")
            self.model = MultiVectorEncoder(name, device="cpu", **module_options(spec), **where)
        place = Path(hub.place_of(source, spec) or source) / MODULES
        listed = json.loads(place.read_bytes()) if place.is_file() else []
        stanford = saved_as == "HF_ColBERT"
        projections = sum(str(module["type"]).endswith("Dense") for module in listed) + stanford
        if sum(type(module).__name__ == "Dense" for module in self.model) > projections:
            raise ModelError(
                "{source} ({kind}) has no projection that sentence-transformers can load; it would be random.",
                advice="Use the folder that transformers (class ...ForRetrieval) or sentence-transformers saved.",
                source=source,
                kind=saved_as,
            )
        self.notes = [note for note in notes if not (stanford and "linear.weight" in str(note))]  # read separately
        self.tokenizer, self.similarity = self.model.tokenizer, str(self.model.similarity_fn_name)
        self.prompts = {role: str(text) for role, text in (self.model.prompts or {}).items() if text}
        self.inputs: tuple[Input, ...] = ("image", "text") if "image" in self.model.modalities else ("text",)
        self.settings = f"{describe_modules(self.model)} | {self.prompts} {self.model.default_prompt_name}"

    def preprocess(self, inputs: list[Any], role: str) -> Any:
        return self.model.preprocess(inputs, prompt=self.prompts.get(role), task=role)

    def encode(self, inputs: list[Any], role: str) -> Any:
        encode = self.model.encode_query if role == "query" else self.model.encode_document
        return encode(inputs, batch_size=len(inputs), show_progress_bar=False)

    def limit(self, role: str) -> int | None:
        expansion = getattr(self.model[0], "query_expansion", None) or {}
        width = expansion.get("length") if role == "query" and expansion.get("strategy") == "fixed" else None
        limits = getattr(self.model[0], f"{role}_length", None), self.model.max_seq_length, width
        return min((int(limit) for limit in limits if limit and limit < NO_LIMIT), default=None)


class _TransformersModel:
    """A class of transformers whose name ends in ``ForRetrieval``, and its processor."""

    similarity = "maxsim"
    inputs: tuple[Input, ...] = ("image", "text")

    def __init__(self, spec: ModelSpec, saved_as: str) -> None:
        import transformers

        source, options = hub.source_for_library(hub.source_of(spec), spec), hub.loading(spec)
        kind = getattr(transformers, saved_as, None)
        if kind is None:
            raise ModelError("transformers has no class {kind}.", advice="Upgrade transformers.", kind=saved_as)
        with load_errors(f"transformers {source}"), whole_weights(source) as notes:
            self.model = kind.from_pretrained(source, dtype="float32", **options)
            self.processor = transformers.AutoProcessor.from_pretrained(source, **options)
        if not hasattr(self.processor, "process_queries"):
            raise ModelError(
                "{kind} has no process_queries and process_images, as ColPali and ColQwen2 have.",
                advice="Save it with sentence-transformers as a MultiVectorEncoder.",
                kind=type(self.processor).__name__,
            )
        self.tokenizer = self.processor.tokenizer
        self.prompts: dict[str, str] = {}
        self.notes = [*notes, "This model encodes every text as a query, also a document."]
        self.settings = json.dumps(self.processor.to_dict(), sort_keys=True, default=str)

    def preprocess(self, inputs: list[Any], role: str) -> Any:  # noqa: ARG002 - texts are queries, images documents
        if isinstance(inputs[0], str):
            return self.processor.process_queries(text=inputs, return_tensors="pt")
        return self.processor.process_images(images=inputs, return_tensors="pt")

    def encode(self, inputs: list[Any], role: str) -> Any:
        tensors = self.preprocess(inputs, role).to(self.model.device, self.model.dtype)
        vectors = self.model(**tensors).embeddings
        return [item[mask] for item, mask in zip(vectors, tensors["attention_mask"].bool(), strict=True)]

    def limit(self, role: str) -> int | None:  # noqa: ARG002 - the same for all
        length = getattr(self.tokenizer, "model_max_length", None)
        return int(length) if length and length < NO_LIMIT else None
