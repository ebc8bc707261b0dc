"""`ronda explain RUN`: what the model of a run was sent in each round, read from the journal. Nothing is sent."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import msgspec

from ronda.agent.prompty_run import agent_of
from ronda.agent.reopen import kept_file
from ronda.agent.sent import AskedModel, describe_round, models_of, rounds_of
from ronda.cli.storage import open_storage
from ronda.cli.table import print_table
from ronda.core.events import Event, RunStarted
from ronda.drive import Provider
from ronda.errors import BadConfig, RondaError
from ronda.providers import Where, open_provider


def explain(arguments: argparse.Namespace) -> int:
    events = asyncio.run(_read(arguments))
    start = events[0]
    assert type(start) is RunStarted
    rounds = rounds_of(events) if arguments.round is None else [arguments.round]
    if not rounds:
        raise BadConfig(f"the run '{arguments.run}' has not asked its model yet")
    for number in rounds:
        models = {
            model: AskedModel(_provider_of(start, model, arguments.base_url)) for model in models_of(events, number)
        }
        told = describe_round(events, number, models)
        if arguments.json:
            print(msgspec.json.encode(told).decode())
        else:
            _print(told, is_guessed=arguments.base_url is None and start.file is None)
    return 0


async def _read(arguments: argparse.Namespace) -> list[Event]:
    async with open_storage(arguments, "runs") as storage:
        journal = storage.open_journal()
        try:
            events = await journal.read(arguments.run)
        finally:
            await journal.close()
        if not events:
            raise BadConfig(f"the journal in {storage.place} has no run '{arguments.run}'")
        return events


def _provider_of(start: RunStarted, model: str, base_url: str | None) -> Provider | None:
    """Without a key: nothing is sent. None where it cannot be opened here."""
    if start.file is not None and base_url is None and model == start.plan.model:
        try:
            return agent_of(kept_file(start.file)).provider
        except RondaError:  # a variable that is not set here, for one
            pass
    try:
        return open_provider(model, Where(base_url))
    except RondaError:
        return None


def _print(told: dict[str, Any], *, is_guessed: bool) -> None:
    """`is_guessed`: the address is the provider's own, and the server's settings may have named another."""
    prefix, cached = told["prefix"], told["cached_tokens"]
    where = f"{told['method']} {told['url']}" if told["exact"] else f"{told['model']}, as Chat Completions has it"
    if told["exact"] and is_guessed:
        where += " (unless the server had a --base-url)"
    print(f"round {told['round']}: {where}")
    said = "" if cached is None else f"; the provider had {cached} cached"
    print(f"  {told['bytes']} bytes, about {told['tokens']} tokens{said}")
    shared = 0 if prefix is None else prefix.blocks
    rows = [("  block", "kind", "bytes", "tokens", "hash", "")]
    for index, block in enumerate(told["blocks"]):
        mark = "as before" if index < shared and block.kind != "options" else ""
        if prefix is not None and block.at == prefix.broken_at:
            mark = "differs: the cached prefix ends here"
        rows.append((f"  {block.at}", block.kind, str(block.bytes), str(block.tokens), block.hash, mark))
    print_table(rows)
    if prefix is not None and prefix.reason is not None:
        print(f"  {prefix.reason}")
    for change in told["changes"]:
        print(f"  changed: {change['what']}: {change['why']}")
