"""The families of models that are known by name."""

from __future__ import annotations

from eyechart.models.family import Family
from eyechart.models.lazy import LazyModel
from eyechart.plugins import Registry
from eyechart.types import ModelSpec, Role

ENCODERS = Registry(
    "models",
    "model type",
    {
        "api": "eyechart.models.encoders.api:ApiFamily",
        "internvl": "eyechart.models.internvl.family:InternVLFamily",
        "ja_clip": "eyechart.models.encoders.ja_clip:JaClipFamily",
        "object": "eyechart.models.objects.family:ObjectFamily",
        "onnx": "eyechart.models.onnx.encoder:OnnxFamily",
        "open_clip": "eyechart.models.encoders.open_clip:OpenClipFamily",
        "python": "eyechart.models.encoders.python:PythonFamily",
        "sentence-transformers": "eyechart.models.encoders.sentence_transformers:SentenceTransformersFamily",
        "transformers": "eyechart.models.encoders.transformers:TransformersFamily",
    },
)
GENERATORS = Registry(
    "generators",
    "generator type",
    {
        "api": "eyechart.models.generators.api:ApiGeneratorFamily",
        "open_clip": "eyechart.models.generators.open_clip:CocaFamily",
        "python": "eyechart.models.generators.python:PythonGeneratorFamily",
        "transformers": "eyechart.models.generators.transformers:TransformersGeneratorFamily",
    },
)
RERANKERS = Registry(
    "rerankers",
    "reranker type",
    {
        "api": "eyechart.models.rerankers.api:ApiRerankerFamily",
        "cross-encoder": "eyechart.models.rerankers.cross_encoder:CrossEncoderFamily",
    },
)
OWN_GENERATORS = Registry("vlms", "model class", {})
"""Classes with ``generate(message, dataset)`` that packages registered by name."""

FAMILIES: dict[Role, Registry] = {"encoder": ENCODERS, "generator": GENERATORS, "reranker": RERANKERS}


def family_of(spec: ModelSpec, role: Role) -> Family:
    """Return the family that loads a model in a role."""
    family: Family = FAMILIES[role].load(spec.family)()
    return family


def open_model(spec: ModelSpec, role: Role = "encoder") -> LazyModel:
    """Prepare a model; its weights are read when they are first needed."""
    return LazyModel(spec, family_of(spec, role))
