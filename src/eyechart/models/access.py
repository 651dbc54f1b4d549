"""How a model is reached, and within what limits; what all models behind an address have in common."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any

from eyechart.api import ApiClient, Budget, Retry, Secret
from eyechart.api.prices import Price, find_price
from eyechart.api.transport import check_api_base
from eyechart.errors import UsageError
from eyechart.types import ModelSpec


@dataclass(frozen=True)
class Access:
    """Nothing of this changes what a model answers, so it is in no key."""

    key: Secret | None = field(default=None, repr=False)
    key_variable: str | None = None
    concurrency: int = 8
    timeout: float = 120.0
    """Seconds for one request, from the first byte sent to the last one received."""
    tries: int = 6
    batch_size: int = 4
    """Conversations per forward pass of a local model; texts per request of a remote encoder."""
    budget: Budget = field(default_factory=Budget)
    price: Price | None = None
    """What its tokens cost, if that is known."""

    def __reduce__(self) -> tuple[object, ...]:
        """Travel to another process, which counts anew. A cap stays here: nobody could count for all of them."""
        if self.budget.max_requests is not None or self.budget.max_tokens is not None:
            raise TypeError("a cap on requests or tokens holds in one process only")
        kept: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "budget"}
        return (partial(Access, **kept), ())


def access_of(spec: ModelSpec) -> Access:
    """Return how a model is reached: as its spec says, else in the usual way."""
    return spec.access or Access()


def priced(access: Access, table: str, model: str) -> Access:
    """Return the same access with what the model's tokens cost, by a file of prices if there is one."""
    price = find_price(table, model)
    return access if price is None else replace(access, price=price)


def used_by(spec: ModelSpec) -> dict[str, int]:
    """Return what the budget that a model draws on has seen so far: requests (each try counts) and tokens."""
    return asdict(access_of(spec).budget.used)


def has_address(spec: ModelSpec) -> bool:
    """Tell whether an address was given."""
    return bool(spec.options.get("api_base") or spec.pretrained)


def address_of(spec: ModelSpec) -> str:
    """Return the server's address: the option ``api_base``, or what stands in the place of the weights."""
    if not has_address(spec):
        raise UsageError(
            f"The model {spec.name!r} has no api_base: it needs an address.",
            advice="Give it as api_base, or as --pretrained: http://localhost:8000/v1",
        )
    return check_api_base(str(spec.options.get("api_base") or spec.pretrained))


def make_client(spec: ModelSpec) -> ApiClient:
    """Make the HTTP client of a spec."""
    access = access_of(spec)
    return ApiClient(
        address_of(spec),
        access.key,
        api_key_variable=access.key_variable,
        concurrency=access.concurrency,
        timeout=access.timeout,
        retry=Retry(tries=access.tries),
        budget=access.budget,
    )


class ServedFamily:
    """Models behind an address, by their name there."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing or bad address; the server itself is not asked."""
        address_of(spec)

    def probe(self, spec: ModelSpec) -> None:
        """Ask the server which models it serves."""
        make_client(spec).check(spec.name)


class ServedModel:
    """A model behind an address."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec

    @cached_property
    def client(self) -> ApiClient:
        """Make the client when something is asked: who only counts needs no key."""
        return make_client(self.spec)
