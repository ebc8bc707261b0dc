"""Settings of the sandbox: a table, flags over it, and the environment's word while the mode is auto. What is wrong is named."""

from __future__ import annotations

from typing import Any

import pytest

from ronda.errors import BadConfig
from ronda.sandbox.environment import scrubbed_environment
from ronda.sandbox.policy import AllowedHosts, FullNetwork, Loopback, NoNetwork, Policy, read_policy


def test_by_default_it_is_restricted_and_without_a_network() -> None:
    assert read_policy({}) == Policy(
        mode="auto",
        profile="restricted",
        network=NoNetwork(),
        max_memory_mb=2048,
        max_cpu_secs=600,
        max_procs=64,
        max_open_fds=1024,
        max_file_sz_mb=256,
        max_disk_mb=2048,
        extra_fs_read=(),
        extra_fs_write=(),
        extra_env=(),
    )


def test_every_setting_is_read_and_flags_win() -> None:
    table = {
        "mode": "on",
        "profile": "developer",
        "network": "allow:PyPI.org, *.example.com:8443",
        "max-memory-mb": 512,
        "max_cpu_secs": 10,
        "max_procs": 8,
        "max_open_fds": 100,
        "max_file_sz_mb": 5,
        "max_disk_mb": 50,
        "extra_fs_read": ["/srv/data"],
        "extra_fs_write": ["/srv/out"],
        "extra_env": ["NAME", "A=b=c"],
    }

    assert read_policy(table, {"max_memory_mb": 1024, "profile": None}) == Policy(
        mode="on",
        profile="developer",
        network=AllowedHosts(("pypi.org", "*.example.com:8443")),
        max_memory_mb=1024,
        max_cpu_secs=10,
        max_procs=8,
        max_open_fds=100,
        max_file_sz_mb=5,
        max_disk_mb=50,
        extra_fs_read=("/srv/data",),
        extra_fs_write=("/srv/out",),
        extra_env=("NAME", "A=b=c"),
    )


@pytest.mark.parametrize(
    ("text", "network"), [("none", NoNetwork()), ("Loopback", Loopback()), ("full", FullNetwork())]
)
def test_networks_by_name(text: str, network: object) -> None:
    assert read_policy({"network": text}).network == network


@pytest.mark.parametrize(
    ("table", "environ", "mode"),
    [
        ({}, {"RONDA_SANDBOX": "off"}, "off"),
        ({}, {"MISTRALRS_SANDBOX": "ON"}, "on"),
        ({"mode": "auto"}, {"RONDA_SANDBOX": "on", "MISTRALRS_SANDBOX": "off"}, "on"),
        ({"mode": "on"}, {"RONDA_SANDBOX": "off"}, "on"),
        ({"mode": "off"}, {"MISTRALRS_SANDBOX": "on"}, "off"),
        ({}, {"RONDA_SANDBOX": ""}, "auto"),
    ],
)
def test_the_environment_counts_only_while_the_mode_is_auto(
    table: dict[str, Any], environ: dict[str, str], mode: str
) -> None:
    assert read_policy(table, {}, environ).mode == mode


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"max_memroy_mb": 1}, r"the table \[sandbox\] has no use for 'max_memroy_mb'; did you mean 'max_memory_mb'\?"),
        ({"mode": "maybe"}, "settings do not fit"),
        ({"profile": "open"}, "settings do not fit"),
        ({"max_procs": "many"}, "settings do not fit"),
        ({"max_memory_mb": 0}, "max_memory_mb is 0; it can be 64 to"),
        ({"max_disk_mb": -1}, "max_disk_mb is -1; it can be 1 to"),
        ({"network": "internet"}, "network is 'internet'; it can be none, loopback, allow:HOST,… or full"),
        ({"network": 7}, "must be a text"),
        ({"network": "allow:"}, "without a host"),
        ({"network": "allow:127.0.0.1"}, "allows '127.0.0.1'; it must be a name"),
        ({"network": "allow:http://x.org"}, "it must be a name"),
        ({"network": "allow:*"}, "it must be a name"),
        ({"network": "allow:x.org:99999"}, "its port can be 1 to 65535"),
        ({"network": "allow:" + ",".join(f"h{n}.org" for n in range(300))}, "allows 300 hosts; it can be 256"),
        ({"extra_fs_read": ["data"]}, "extra_fs_read has 'data'; it must be an absolute path"),
        ({"extra_fs_write": ["/srv/../etc"]}, "without '..'"),
        ({"extra_fs_write": ["/"]}, "would open the whole system"),
        ({"extra_fs_read": ["/proc/"]}, "would open the whole system"),
        ({"extra_env": ["1BAD"]}, "extra_env has '1BAD'; it must be NAME or NAME=value"),
        ({"extra_env": ["BAD NAME=1"]}, "it must be NAME or NAME=value"),
    ],
)
def test_what_is_wrong_is_named(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadConfig, match=problem):
        read_policy(table)


def test_a_mode_in_the_environment_that_is_none_is_named() -> None:
    with pytest.raises(BadConfig, match="RONDA_SANDBOX is 'yes'; it can be auto, on, off"):
        read_policy({}, {}, {"RONDA_SANDBOX": "yes"})


def test_the_developer_profile_passes_locations_and_no_tokens() -> None:
    outside = {
        "PATH": "/home/me/.cargo/bin:relative:/usr/bin",
        "VIRTUAL_ENV": "/home/me/venv",
        "CARGO_HOME": "/home/me/.cargo",
        "CARGO_REGISTRY_TOKEN": "secret",
        "HTTP_PROXY": "http://user:password@proxy",
        "LANG": "de_DE.UTF-8",
        "HOME": "/home/me",
    }

    developer = scrubbed_environment(Policy(profile="developer"), outside, home="/workspace", temporary="/tmp")
    restricted = scrubbed_environment(Policy(), outside, home="/workspace", temporary="/tmp")

    assert developer["PATH"] == "/usr/local/bin:/usr/bin:/bin:/home/me/.cargo/bin"
    assert restricted["PATH"] == "/usr/local/bin:/usr/bin:/bin"
    assert (developer["VIRTUAL_ENV"], developer["HOME"]) == ("/home/me/venv", "/workspace")
    assert restricted["LANG"] == "de_DE.UTF-8"
    assert developer.keys() - restricted.keys() == {"VIRTUAL_ENV", "CARGO_HOME"}
    assert not {"CARGO_REGISTRY_TOKEN", "HTTP_PROXY"} & developer.keys()
