"""`ronda models`: models on this machine (an island lists and fetches them), and which model is asked when no other is named."""

from __future__ import annotations

import argparse
import os
import sys

from ronda._islands import island_module
from ronda.cli.model import check_model, choose_model
from ronda.cli.preferences import write_default_model
from ronda.errors import BadConfig
from ronda.providers import split_spec


def models(arguments: argparse.Namespace) -> int:
    if arguments.action == "default":
        return _default(arguments.spec)
    if arguments.spec is not None:
        raise BadConfig(f"'models {arguments.action}' takes no model; 'ronda models default {arguments.spec}' does")
    code: int = island_module("ronda.local.command").models(arguments)
    return code


def _default(spec: str | None) -> int:
    if spec is None:
        print(choose_model(None, None)[0])
        return 0
    split_spec(spec)
    print(f"{spec} is asked when no other is named; {write_default_model(spec)} says so")
    try:
        check_model(spec, None)
    except BadConfig as error:  # a model can be named before its key is there
        print(f"ronda: {error}", file=sys.stderr)
    if (variable := os.environ.get("RONDA_MODEL")) and variable != spec:
        print(f"ronda: RONDA_MODEL is {variable}, which counts before it", file=sys.stderr)
    return 0
