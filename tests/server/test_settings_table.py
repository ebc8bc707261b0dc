"""A setting is written once: from its row come its flag, its key, its variable and its check."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import certifi
import pytest
from tests.cli.test_cli_tls import make_pair
from tests.server.installed import install_feature

from ronda.cli.main import parse
from ronda.cli.serve_flags import flag_rows
from ronda.cli.settings import read_config
from ronda.errors import BadConfig
from ronda.server.features.table import all_rows, all_values
from ronda.server.setting import Row

ROWS = {row.name: row for row in all_rows()}
# Settings that are of no use, or refused, without others.
NEEDED: dict[str, list[str]] = {
    "model": ["--base-url", "http://127.0.0.1:9/v1"],
    "base_url": ["--model", "openai-chat:other"],
    "slots": ["--model", "local:smollm2"],
    "context": ["--model", "local:smollm2"],
    "queue": ["--database", "postgresql://user@host/name"],
    "offer": ["--agent"],
    "tool_dispatch_secret": ["--tool-dispatch-url", "http://127.0.0.1:9"],
    "trust_user_header": ["--from", "10.0.0.5"],
    "trust_user_from": ["--trust-user-header", "X-User"],
    "otel_content": ["--otel"],
    "embedding_model": ["--embedding-base-url", "http://127.0.0.1:9/v1"],
    "embedding_base_url": ["--embedding-model", "openai:other"],
}
# Values that a number or a text of the right type is not enough for.
VALUES: dict[str, Any] = {
    "ca_file": certifi.where(),
    "model": "openai-chat:other",
    "base_url": "http://127.0.0.1:9/v1",
    "allow_origins": "http://localhost:3000",
    "tool_dispatch_url": "http://127.0.0.1:9/tools",
    "mcp_allow_url": "https://mcp.example.com",
    "database": "postgresql://user@host/name",
    "max_body_memory": 1024 * 1024 * 1024,
    "max_body": 1024,
    "max_result_chars": 5000,
    "context": 4096,
    "workers": 2,
    "lease_seconds": 7.0,
    "features": "parrot",
    "trust_user_from": "10.0.0.5",
    "more_models": "openai-chat:other",
    "embedding_model": "openai:other",
    "embedding_base_url": "http://127.0.0.1:9/v1",
}


@pytest.fixture(autouse=True)
def parrot_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_feature(tmp_path / "site", "parrot")
    monkeypatch.syspath_prepend(tmp_path / "site")


@pytest.fixture(autouse=True)
def there_is_a_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert, key = [str(file) for file in make_pair(tmp_path)]
    monkeypatch.setitem(VALUES, "tls_cert", cert)
    monkeypatch.setitem(VALUES, "tls_key", key)
    monkeypatch.setitem(NEEDED, "tls_cert", ["--tls-key", key])
    monkeypatch.setitem(NEEDED, "tls_key", ["--tls-cert", cert])


def other_value(row: Row) -> Any:
    """One that is not the default."""
    if row.name in VALUES:
        return VALUES[row.name]
    if row.choices:
        return row.choices[-1]
    kind = row.kinds[0]
    if kind is bool:
        return True
    return kind(3) if kind in (int, float) else "other"


def needed(row: Row) -> list[str]:
    switch = [f"--{row.setting.needs.replace('_', '-')}"] if row.setting.needs else []
    return [*switch, *NEEDED.get(row.name, [])]


def as_it_is_kept(row: Row, value: Any) -> Any:
    return (value,) if row.is_list else value


FEATURE_SETTINGS = r"ronda\.server\.features\.\w+(\.settings|\.commands)?"

SINGLE = [row for row in ROWS.values() if not row.is_table]


@pytest.mark.parametrize("row", [row for row in SINGLE if row.setting.flag], ids=lambda row: row.name)
def test_a_flag_sets_it(row: Row) -> None:
    value, name = other_value(row), row.setting.flag.split(", ")[-1].split(" ")[0]
    words = [name] if row.kinds == (bool,) else [name, str(value)]

    config = read_config(parse(["serve", *needed(row), *words]))

    assert all_values(config)[row.name] == as_it_is_kept(row, value)


@pytest.mark.parametrize("row", SINGLE, ids=lambda row: row.name)
def test_a_variable_sets_it(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    value = other_value(row)
    monkeypatch.setenv(str(row.variable), "true" if value is True else str(value))

    assert all_values(read_config(parse(["serve", *needed(row)])))[row.name] == as_it_is_kept(row, value)


def test_a_flag_wins_over_a_variable_and_a_variable_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ronda.toml"
    file.write_text("port = 1\nmax-tool-rounds = 1\nmax-grace = 1\n")
    monkeypatch.setenv("RONDA_PORT", "2")
    monkeypatch.setenv("RONDA_MAX_TOOL_ROUNDS", "2")

    config = read_config(parse(["serve", "--config", str(file), "--port", "3"]))

    assert (config.port, config.max_tool_rounds, config.max_grace) == (3, 2, 1)


@pytest.mark.parametrize(
    ("variable", "text", "problem"),
    [
        ("RONDA_PORT", "many", "RONDA_PORT is 'many'; it must be a number"),
        ("RONDA_PORT", "-1", "--port is -1"),
        ("RONDA_ENABLE_SHELL", "perhaps", "RONDA_ENABLE_SHELL is 'perhaps'; it can be true or false"),
        ("RONDA_TOOL_CALLS", "some", "tool_calls"),
        ("RONDA_APPROVAL_DAYS", "0", "--approval-days is 0; it must be more than 0 days"),
    ],
)
def test_a_variable_that_cannot_be_is_named(
    variable: str, text: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)

    with pytest.raises(BadConfig) as refused:
        read_config(parse(["serve"]))

    assert problem in str(refused.value)


def test_a_list_in_a_variable_is_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RONDA_ALIASES", "gpt-5, claude")

    assert read_config(parse(["serve"])).aliases == ("gpt-5", "claude")


@pytest.mark.parametrize(
    "row", [row for row in SINGLE if row.setting.above is not None or row.setting.least], ids=lambda row: row.name
)
def test_a_number_below_its_bound_is_refused_by_name(row: Row) -> None:
    value = -1.0 if row.setting.above is not None else float(row.setting.least or 0) - 1
    given = argparse.Namespace(config=None, **{row.name: row.kinds[0](value)})
    for switch in ("enable_code_execution", "enable_shell"):
        setattr(given, switch, True)

    with pytest.raises(BadConfig) as refused:
        read_config(given)

    assert row.name.replace("_", "-") in str(refused.value) or row.name in str(refused.value)


def test_no_two_settings_have_one_flag() -> None:
    names = [word for row in flag_rows() for word in row.setting.flag.split() if word.startswith("-")]

    assert len(names) == len(set(names))


def test_help_loads_the_table_and_no_server() -> None:
    script = (
        "import sys\nfrom ronda.cli.main import parse\n"
        "try:\n    parse(['serve', '--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.partition('.')[0] == 'ronda'], file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    modules: list[str] = eval(done.stderr)
    of_features = [name for name in modules if re.fullmatch(FEATURE_SETTINGS, name)]
    assert len(modules) - len(of_features) <= 30, modules
    known = ("ronda.server.setting", "ronda.server.config", "ronda.server.features", "ronda.server.features.table")
    assert not [
        name
        for name in modules
        if name.startswith("ronda.server.") and name not in known and not re.fullmatch(FEATURE_SETTINGS, name)
    ]
