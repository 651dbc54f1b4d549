"""What can go wrong far away, told apart: no network, no such dataset, not allowed, not in the cache."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from eyechart.errors import MIRRORS, DataError, NotHereError, unreachable


def redacted(url: str) -> str:
    """Return an address without user name, password, query and fragment, which may hold secrets."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit((parts.scheme, host + port, parts.path, "", ""))


def no_network(address: str, error: object) -> DataError:
    """Make the error for a place that cannot be reached."""
    host = urlsplit(address).hostname or ""
    return unreachable(DataError, address, error, next((hub for hub in MIRRORS if hub in host), ""))


def no_dataset(address: str) -> DataError:
    """Make the error for a place where there is no dataset."""
    return DataError(
        f"There is no dataset at {address}.",
        advice="The server answers, but has nothing there: check the name and --dataset_root "
        "(a private or gated repository looks the same without a login).",
    )


def not_allowed(address: str) -> DataError:
    """Make the error for a place that asks for a login."""
    return DataError(
        f"{address} refuses access.", advice="Accept its terms on its page, and log in with the hub's own tool."
    )


def not_cached(address: str, name: str) -> NotHereError:
    """Make the error for a file that --offline would need but that was never fetched, or changed since."""
    return NotHereError(
        f"{name} of {address} is not in the cache, and --offline forbids fetching it.",
        advice="Run once without --offline, which also fetches again what was changed in the cache, or give the "
        "--wds_cache_dir that was used before.",
        source=address,
    )


def changed(address: str, what: str) -> DataError:
    """Make the error for a file that is not what its place promised."""
    return DataError(f"{address}: {what}.", advice="Try again; if it stays, the copy there is damaged.")
