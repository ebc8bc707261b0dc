"""Which addresses may be called when a model or a request names them."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.errors import BadConfig
from ronda.tools.fetch.addresses import ANYWHERE, NOWHERE, AllowList, plain, why_refused

REFUSED = {
    "0.0.0.0": "this machine",
    "0.1.2.3": "this machine",
    "10.0.0.1": "private",
    "100.64.0.1": "carrier",
    "100.100.100.200": "carrier",  # Alibaba's metadata
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "168.63.129.16": "cloud",
    "169.254.169.254": "link-local",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.192": "reserved",  # Oracle's metadata
    "192.0.2.1": "documentation",
    "192.168.1.1": "private",
    "198.18.0.1": "measurements",
    "224.0.0.1": "multicast",
    "255.255.255.255": "reserved",
    "::": "reserved",
    "::1": "loopback",
    "::7f00:1": "reserved",  # 127.0.0.1, as it was once written
    "::ffff:127.0.0.1": "loopback",
    "::ffff:10.0.0.1": "private",
    "::ffff:0:169.254.169.254": "link-local",
    "64:ff9b::169.254.169.254": "link-local",
    "64:ff9b::7f00:1": "loopback",
    "64:ff9b:1::a00:1": "translated",
    "100::1": "reserved",
    "2001::1": "reserved",
    "2001:0:a00:1::1": "reserved",
    "2001:db8::1": "documentation",
    "2002:7f00:1::": "translated",
    "2606:4700::5efe:10.0.0.1": "private",
    "2606:4700::200:5efe:127.0.0.1": "loopback",
    "3fff::1": "documentation",
    "4000::1": "reserved",
    "fd00:ec2::254": "private",
    "fe80::1%eth0": "link-local",
    "fec0::1": "private",
    "ff02::1": "multicast",
}


@pytest.mark.parametrize(("address", "kind"), REFUSED.items())
def test_an_address_that_not_everybody_can_reach_is_refused(address: str, kind: str) -> None:
    assert kind in (why_refused(ip_address(address)) or "")


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "9.255.255.255", "100.128.0.1", "172.32.0.1", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2606:4700::1111"],
)
def test_a_public_address_may_be_called(address: str) -> None:
    assert why_refused(ip_address(address)) is None


@given(st.integers(0, 2**32 - 1), st.sampled_from(["::ffff:{}", "::ffff:0:{}", "64:ff9b::{}"]))
def test_ipv4_inside_of_ipv6_is_judged_as_itself(number: int, form: str) -> None:
    address = IPv4Address(number)
    carried = ip_address(form.format(address))

    assert plain(carried) == address
    assert why_refused(carried) == why_refused(address)


@pytest.mark.parametrize(
    ("entry", "host", "address", "port", "allowed"),
    [
        ("10.1.0.0/16", "x", "10.1.2.3", 80, True),
        ("10.1.0.0/16", "x", "10.2.2.3", 80, False),
        ("10.1.0.0/16", "x", "::ffff:10.1.2.3", 80, True),
        ("127.0.0.1", "x", "127.0.0.1", 80, True),
        ("127.0.0.1:8080", "x", "127.0.0.1", 8080, True),
        ("127.0.0.1:8080", "x", "127.0.0.1", 80, False),
        ("::1", "x", "::1", 80, True),
        ("[::1]:8080", "x", "::1", 8080, True),
        ("[::1]:8080", "x", "::1", 80, False),
        ("Wiki.Corp.Example", "wiki.corp.example.", "10.0.0.1", 80, True),
        ("wiki.corp.example", "evil.wiki.corp.example", "10.0.0.1", 80, False),
        ("*.corp.example", "a.b.corp.example", "10.0.0.1", 80, True),
        ("*.corp.example", "evilcorp.example", "10.0.0.1", 80, False),
        ("localhost:1", "localhost", "127.0.0.1", 1, True),
    ],
)
def test_an_operator_can_list_exceptions(entry: str, host: str, address: str, port: int, allowed: bool) -> None:
    assert AllowList.parse([entry]).allows(host, ip_address(address), port) is allowed
    assert not NOWHERE.allows(host, ip_address(address), port)
    assert ANYWHERE.allows(host, ip_address(address), port)


@pytest.mark.parametrize(
    "entry", ["", "http://x/", "10.0.0.0/99", "1.2.3", "x:0", "x:99999", "[x]:1", "*", "a b", "[1.2"]
)
def test_an_entry_that_is_no_address_is_refused_by_name(entry: str) -> None:
    with pytest.raises(BadConfig, match="is not an address that can be allowed; write"):
        AllowList.parse([entry])
