"""Settings of `ronda serve` for pages, and `ronda page setup`."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from ronda.cli.settings import read_config
from ronda.errors import BadConfig


def test_the_image_service_has_its_key_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAINTER_KEY", "s3cret")
    file = tmp_path / "ronda.toml"
    file.write_text('[images]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "painter"\napi_key = "${env:PAINTER_KEY}"\n')
    config = read_config(argparse.Namespace(config=str(file)))
    assert config.images == {"base_url": "http://127.0.0.1:9/v1", "model": "painter", "api_key": "s3cret"}
    assert "s3cret" not in repr(config)


@pytest.mark.parametrize("table", ['[images]\nmodel = "painter"', "[page]\nnope = 1"])
def test_settings_for_pages_that_make_no_sense_stop_the_server(table: str, tmp_path: Path) -> None:
    file = tmp_path / "ronda.toml"
    file.write_text(table)
    with pytest.raises(BadConfig, match="cannot be used"):
        read_config(argparse.Namespace(config=str(file)))
