"""Which hosts are inside: this machine and its network, however their addresses are written."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_NAMES = ("localhost", "localdomain", "local", "internal", "lan", "home.arpa")
"""Top names that no public server of names knows."""
_UNICAST = ip_network("2000::/3")
"""All of IPv6 that can be public."""
_NOT_PUBLIC = tuple(map(ip_network, ("192.0.0.0/24", "2001::/23", "2001:db8::/32", "3fff::/20")))
"""Special ranges that some versions of Python take for public ones. Teredo, whose addresses hold two others, is one."""
_CARRIERS = (
    (ip_network("::/96"), 0),  # compatible
    (ip_network("::ffff:0:0/96"), 0),  # mapped
    (ip_network("::ffff:0:0:0/96"), 0),  # translated
    (ip_network("64:ff9b::/96"), 0),  # NAT64
    (ip_network("2002::/16"), 80),  # 6to4
)
"""IPv6 networks whose addresses hold one of IPv4, and after how many bits from the right."""


def is_internal(host: str) -> bool:
    """Tell whether a host is this machine, its network, or nothing public; names are not looked up."""
    name = host.strip("[]").rstrip(".").lower()  # a dot at the end only says that the name is whole
    try:
        return not _is_public(ip_address(name))
    except ValueError:
        pass
    try:
        return not _is_public(IPv4Address(socket.inet_aton(name)))  # 2130706433 and 0x7f.1 are addresses, too
    except OSError:
        return "." not in name or name.endswith(tuple(f".{top}" for top in _NAMES))


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if inner := list(_carried(address)):
        return all(map(_is_public, inner))
    special = address.is_multicast or any(address in network for network in _NOT_PUBLIC)
    return address.is_global and not special and (address.version == 4 or address in _UNICAST)


def _carried(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address]:
    for network, bits in _CARRIERS:
        if address in network:
            yield IPv4Address(int(address) >> bits & 0xFFFFFFFF)
