"""Which addresses this machine may call when others name them: a model, a request, a page that redirects.

Public ones, and those that the operator has listed. Everything that reaches this machine, its neighbours or a cloud's own
services is refused, in whatever form the address is written: IPv6 can carry an IPv4 address in several ways.

The tables are the registries of special-purpose addresses at IANA, written out: what `ipaddress` calls private or global has
changed between releases of Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from msgspec import Struct

from ronda.errors import BadConfig

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

_V4: Final[tuple[tuple[IPv4Network, str], ...]] = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "an address of this machine"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "an address inside a carrier's network"),
        ("127.0.0.0/8", "a loopback address"),
        ("168.63.129.16/32", "a cloud's own service"),  # Azure's, in a range that is otherwise public
        ("169.254.0.0/16", "a link-local address"),  # 169.254.169.254 gives out a cloud's keys
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "an address for documentation"),
        ("192.88.99.0/24", "a reserved address"),
        ("192.168.0.0/16", "a private address"),
        ("198.18.0.0/15", "an address for measurements"),
        ("198.51.100.0/24", "an address for documentation"),
        ("203.0.113.0/24", "an address for documentation"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
    )
)
_V6: Final[tuple[tuple[IPv6Network, str], ...]] = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("::1/128", "a loopback address"),
        ("::/96", "a reserved address"),
        ("64:ff9b:1::/48", "a translated address"),  # of a network's own choice: what is behind it cannot be known
        ("2001::/23", "a reserved address"),  # Teredo, too
        ("2001:db8::/32", "an address for documentation"),
        ("2002::/16", "a translated address"),  # 6to4
        ("3fff::/20", "an address for documentation"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a private address"),
        ("ff00::/8", "a multicast address"),
    )
)
_PUBLIC_V6: Final = IPv6Network("2000::/3")
# Where the last 32 bits are an IPv4 address: mapped, translated by a host, translated by a network (NAT64).
_CARRIERS: Final = tuple(IPv6Network(f"{prefix}/96") for prefix in ("::ffff:0:0", "::ffff:0:0:0", "64:ff9b::"))
_ISATAP: Final = (
    0x0000_5EFE,
    0x0200_5EFE,
)  # the third quarter of an address that tunnels to the IPv4 address in the fourth


def why_refused(address: Address) -> str | None:
    """What kind of address it is, if it is not public."""
    address = plain(address)
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _V4 if address in network), None)
    if (kind := next((kind for network, kind in _V6 if address in network), None)) is not None:
        return kind
    if address not in _PUBLIC_V6:
        return "a reserved address"
    number = int(address)
    if (number >> 32) & 0xFFFF_FFFF in _ISATAP:
        return why_refused(IPv4Address(number & 0xFFFF_FFFF))
    return None


def plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for; any other as it is, without its zone."""
    if isinstance(address, IPv4Address):
        return address
    if any(address in network for network in _CARRIERS):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return IPv6Address(int(address))


class _Entry(Struct, frozen=True):
    """One address range or one name; `*.corp.example` is every name below that one."""

    network: Network | None = None
    name: str = ""
    port: int | None = None

    def matches(self, host: str, address: Address, port: int) -> bool:
        if self.port is not None and self.port != port:
            return False
        if self.network is not None:
            return address in self.network
        return host.endswith(self.name[1:]) if self.name.startswith("*.") else host == self.name


_ENTRY: Final = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+))(?::(?P<port>\d{1,5}))?")
_NAME: Final = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?")


class AllowList(Struct, frozen=True):
    """The operator's exceptions: `10.1.0.0/16`, `127.0.0.1:8080`, `[::1]:8080`, `wiki.corp.example`, `*.corp.example`."""

    entries: tuple[_Entry, ...] = ()

    @classmethod
    def parse(cls, entries: Iterable[str]) -> AllowList:
        """Raises BadConfig for an entry that is neither an address, nor a range of addresses, nor a name."""
        return cls(tuple([_parse(entry) for entry in entries]))

    def allows(self, host: str, address: Address, port: int) -> bool:
        """A name that is listed may be at any address."""
        host, address = host.lower().rstrip("."), plain(address)
        return any(entry.matches(host, address, port) for entry in self.entries)


def _parse(text: str) -> _Entry:
    text = text.strip().lower()
    if (network := _network(text)) is not None:  # an IPv6 address has colons and no port
        return _Entry(network)
    found = _ENTRY.fullmatch(text)
    if found is not None:
        port = int(found["port"]) if found["port"] else None
        host = found["v6"] or found["host"].rstrip(".")
        network = _network(host)
        if port is None or 0 < port < 65_536:
            if network is not None:
                return _Entry(network, port=port)
            if found["v6"] is None and _NAME.fullmatch(host) and not host.replace(".", "").isdigit():
                return _Entry(name=host, port=port)
    raise BadConfig(
        f"{text!r} is not an address that can be allowed; "
        "write '10.1.0.0/16', '127.0.0.1:8080', '[::1]:8080', 'wiki.example' or '*.example'"
    )


def _network(text: str) -> Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def parse_address(text: str) -> Address:
    return ip_address(text.partition("%")[0])


NOWHERE: Final = AllowList()  # beyond the public network
ANYWHERE: Final = AllowList.parse(("0.0.0.0/0", "::/0"))  # for addresses that the operator's own files name
