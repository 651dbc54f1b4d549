"""The model part of ``eyechart info``: load a model and print its card."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that decide which model is meant."""
    group = parser.add_argument_group("for a model")
    add = group.add_argument
    add("--model_type", help="model family; without it, found out from the name or the files")
    add("--pretrained", default="", help="tag, checkpoint, folder or hub id")
    add("--precision", default="fp32", choices=["fp32", "fp16", "bf16", "amp"], help="how it computes")
    add("--device", default="auto", help="auto, cpu, cuda:1")
    add("--model_cache_dir", help="where weights are kept")
    add("--revision", help="revision of a hub model")
    add("--hub", choices=["huggingface", "modelscope"], help="where hub ids come from")
    add("--trust-remote-code", "--trust_remote_code", action="store_true", help="run code that a hub model brings")
    add("--model_option", nargs="+", default=[], metavar="KEY=VALUE", help="options of single model families")


def facts_of(args: argparse.Namespace) -> Mapping[str, Any] | None:
    """Load the model that is meant, unless its card is known, and tell what is on the card."""
    from eyechart.cli.eval import option_of
    from eyechart.config import make_config
    from eyechart.models.registry import open_model
    from eyechart.plan_models import model_specs

    if args.model_type is None and not _is_known(args.name, args.pretrained):
        return None
    settings = {
        "model_type": args.model_type,
        "model": [args.name],
        "pretrained": [args.pretrained],
        "model_options": dict(option_of(text) for text in args.model_option),
        **{name: getattr(args, name) for name in ("precision", "device", "model_cache_dir", "revision", "hub")},
        "trust_remote_code": args.trust_remote_code,
    }
    (spec,) = model_specs(make_config(settings))
    model = open_model(spec)
    model.family.check(spec)
    card = model.card
    return {
        "model": card.name,
        "family": card.family,
        "parameters": f"{card.parameters:,}" if card.parameters else None,
        "embedding size": card.embedding_dim,
        "image size": card.image_size,
        "context length": card.context_length,
        "logit scale": card.logit_scale and round(card.logit_scale, 4),
        "logit bias": card.logit_bias and round(card.logit_bias, 4),
        "similarity": card.similarity,
        "precision": card.precision,
        "weights digest": card.weights_digest,
        "fingerprint": card.fingerprint,
        "transform": " ".join(card.transform.split()),
        "notes": list(card.notes),
    }


def _is_known(name: str, pretrained: str) -> bool:
    """Tell whether a name is that of a model; one that could be anything is not looked for on a hub."""
    from eyechart.errors import UnknownNameError
    from eyechart.models.resolve import resolve_model

    try:
        return not resolve_model(name, pretrained).notice
    except UnknownNameError:
        return False
