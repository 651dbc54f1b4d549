"""The HTTP client of a model behind an API."""

from __future__ import annotations

from dataclasses import asdict

from eyechart import api
from eyechart.models.access import Access
from eyechart.types import ModelSpec


def access_of(spec: ModelSpec) -> Access:
    """Return how a model is reached: as its spec says, else in the usual way."""
    return spec.access or Access()


def used_by(spec: ModelSpec) -> dict[str, int]:
    """Return what the budget that a model draws on has seen so far: requests (each try counts) and tokens."""
    return asdict(access_of(spec).budget.used)


def make_client(spec: ModelSpec, api_base: str = "") -> api.ApiClient:
    """Make the HTTP client of a spec; its address is an option, unless it is given."""
    access = access_of(spec)
    return api.ApiClient(
        api_base or spec.options["api_base"],
        access.key,
        api_key_variable=access.key_variable,
        concurrency=access.concurrency,
        timeout=access.timeout,
        retry=api.Retry(tries=access.tries),
        budget=access.budget,
    )
