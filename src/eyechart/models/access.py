"""Access to models behind an API: address, key, limits and prices."""

from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any

from eyechart.api import ApiClient, Budget, Retry, Secret
from eyechart.api.budget import Price, find_price
from eyechart.api.transport import check_api_base
from eyechart.errors import UsageError
from eyechart.types import ModelSpec


@dataclass(frozen=True)
class Access:
    """How a model is reached. None of it changes the answers, so it is not part of any cache key."""

    key: Secret | None = field(default=None, repr=False)
    key_variable: str | None = None
    concurrency: int = 8
    timeout: float = 120.0
    """Seconds per request, from the first byte sent to the last one received."""
    tries: int = 6
    batch_size: int = 4
    """Conversations per forward pass of a local model; texts per request of a remote encoder."""
    budget: Budget = field(default_factory=Budget)
    price: Price | None = None
    """Token prices, if known."""
    since: float | None = None
    """Answers stored before this time, in seconds since 1970, are requested again; None uses all."""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without the usage counters. A cap is refused: it cannot be enforced across processes."""
        if self.budget.max_requests is not None or self.budget.max_tokens is not None:
            raise TypeError("a cap on requests or tokens only works within one process")
        kept: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "budget"}
        return (partial(Access, **kept), ())


def access_of(spec: ModelSpec) -> Access:
    """Return the access settings of a model spec, or the defaults."""
    return spec.access if isinstance(spec.access, Access) else Access()


def priced(access: Access, table: str, model: str) -> Access:
    """Add the token prices of the model, if a price table has them."""
    price = find_price(table, model)
    return access if price is None else replace(access, price=price)


def used_by(spec: ModelSpec) -> dict[str, int]:
    """Return the usage of the model's budget so far: requests (retries included) and tokens."""
    return asdict(access_of(spec).budget.used)


def address_of(spec: ModelSpec) -> str:
    """Return the server address: the option ``api_base``, or ``pretrained``."""
    address = str(spec.options.get("api_base") or spec.pretrained)
    if not address:
        raise UsageError(
            "The model {name!r} needs the address of its server (api_base).",
            advice="Set api_base or {--pretrained}, for example to http://localhost:8000/v1",
            name=spec.name,
        )
    return check_api_base(address)


def make_client(spec: ModelSpec, key_header: str = "") -> ApiClient:
    """Create the HTTP client of a model spec; ``key_header`` replaces the Bearer scheme."""
    access = access_of(spec)
    return ApiClient(
        address_of(spec),
        access.key,
        api_key_variable=access.key_variable,
        concurrency=access.concurrency,
        timeout=access.timeout,
        retry=Retry(tries=access.tries),
        budget=access.budget,
        key_header=key_header,
    )


class ServedFamily:
    """A family of models served behind an address, selected by name."""

    model: type[Any]
    """Class of its models, created from the spec."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing or malformed address, without contacting the server."""
        address_of(spec)

    def probe(self, spec: ModelSpec) -> None:
        """Check that the server is reachable and serves the model."""
        make_client(spec).check(spec.name)

    def load(self, spec: ModelSpec) -> Any:
        """Create the model; weights stay on the server."""
        return self.model(spec)


class ServedModel:
    """A model behind an address."""

    key_header = ""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec

    @cached_property
    def client(self) -> ApiClient:
        """HTTP client, created on first use: reading stored answers needs no key."""
        return make_client(self.spec, self.key_header)
