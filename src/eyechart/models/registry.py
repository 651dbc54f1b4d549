"""Registries of model families by name."""

from collections.abc import Sequence

from eyechart.models.family import Family
from eyechart.models.lazy_model import LazyModel
from eyechart.plugins import Registry
from eyechart.types import Input, ModelSpec, Role

ENCODERS = Registry(
    "models",
    "model type",
    {
        "api": "eyechart.models.api_models:ApiFamily",
        "internvl": "eyechart.models.internvl.encoder:InternVLFamily",
        "ja_clip": "eyechart.models.encoders.ja_clip:JaClipFamily",
        "object": "eyechart.models.objects.families:ObjectFamily",
        "onnx": "eyechart.models.onnx_encoder:OnnxFamily",
        "open_clip": "eyechart.models.encoders.open_clip:OpenClipFamily",
        "python": "eyechart.models.objects.families:PythonFamily",
        "sentence-transformers": "eyechart.models.encoders.sentence_transformers:SentenceTransformersFamily",
        "timm": "eyechart.models.encoders.timm:TimmFamily",
        "transformers": "eyechart.models.encoders.transformers:TransformersFamily",
    },
)
GENERATORS = Registry(
    "generators",
    "generator type",
    {
        "api": "eyechart.models.api_models:ApiGeneratorFamily",
        "open_clip": "eyechart.models.local_generators:CocaFamily",
        "python": "eyechart.models.objects.families:PythonGeneratorFamily",
        "transformers": "eyechart.models.local_generators:TransformersGeneratorFamily",
    },
)
RERANKERS = Registry(
    "rerankers",
    "reranker type",
    {
        "api": "eyechart.models.api_models:ApiRerankerFamily",
        "cross-encoder": "eyechart.models.rerankers:CrossEncoderFamily",
    },
)
OWN_GENERATORS = Registry("vlms", "model class", {})
"""Classes with ``generate(message, dataset)``, registered by packages."""

FAMILIES: dict[Role, Registry] = {"encoder": ENCODERS, "generator": GENERATORS, "reranker": RERANKERS}


def family_of(spec: ModelSpec, role: Role) -> Family:
    """Return the family that loads a model in a role."""
    family: Family = FAMILIES[role].load(spec.family)()
    return family


def inputs_of(family: Family, spec: ModelSpec) -> Sequence[Input] | None:
    """Return what an encoder takes as its files show; None if only loading it tells."""
    tell = getattr(family, "inputs", None)
    return tell(spec) if tell is not None else None


def is_multi_vector(spec: ModelSpec) -> bool | None:
    """Whether an encoder gives several vectors per input, as its files show; None if only loading it tells."""
    tell = getattr(family_of(spec, "encoder"), "multi_vector", None)
    return tell(spec) if tell is not None else False


def open_model(spec: ModelSpec, role: Role = "encoder") -> LazyModel:
    """Return a model whose weights are loaded on first use."""
    return LazyModel(spec, family_of(spec, role))
