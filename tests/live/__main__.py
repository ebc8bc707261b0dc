"""`make live`: the providers whose keys are in the environment, asked for real: a dozen requests each, and a table.

    python -m tests.live                            every provider that has a key here
    python -m tests.live --only anthropic,mistral   only these
    python -m tests.live --model groq:NAME          another model, of any provider

The requests together cost at most --cap dollars (five cents): once that is spent, the rest is not asked. Ends with 1 where a
check failed. Without a key it says so, and ends with 0: nothing in CI needs it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from tests.live.checks import CHECKS, Asked, Failed

from ronda.errors import RondaError

CAP: Final = 0.05  # US dollars, of all requests together
SECONDS: Final = 90.0  # of one check
UNKNOWN_PRICE: Final = 10e-6  # dollars for a token of a model whose price is not known: more than small models cost


class Provider(Struct, frozen=True):
    """The smallest model of each that can do what is asked: it is the API that is tried, not the model."""

    name: str
    spec: str
    keys: tuple[str, ...]


PROVIDERS: Final = (
    Provider("openai", "openai:gpt-5.4-nano", ("OPENAI_API_KEY",)),
    Provider("openai-chat", "openai-chat:gpt-5.4-nano", ("OPENAI_API_KEY",)),
    Provider("anthropic", "anthropic:claude-haiku-4-5", ("ANTHROPIC_API_KEY",)),
    Provider("gemini", "gemini:gemini-3.1-flash-lite", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    Provider("mistral", "mistral:mistral-small-latest", ("MISTRAL_API_KEY",)),
)


class Row(Struct, frozen=True):
    check: str
    outcome: str  # "ok", or why not
    asked: Asked

    @property
    def is_ok(self) -> bool:
        return self.outcome == "ok"


class Purse:
    """What all requests may cost, and what they have cost so far."""

    def __init__(self, cap: float) -> None:
        self.cap = cap
        self.spent = 0.0

    def pay(self, asked: Asked) -> None:
        self.spent += asked.tokens * UNKNOWN_PRICE if asked.cost is None else asked.cost

    @property
    def is_empty(self) -> bool:
        return self.spent >= self.cap


def chosen(models: Sequence[str], only: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The models to ask: those that are named, or one of each provider that has a key."""
    if models:
        return list(models)
    return [
        one.spec for one in PROVIDERS if (not only or one.name in only) and any(environ.get(key) for key in one.keys)
    ]


async def ask_all(spec: str, base_url: str | None, purse: Purse) -> list[Row]:
    rows = []
    for name, check in CHECKS.items():
        asked = Asked()
        if purse.is_empty:
            rows.append(Row(name, f"not asked: {purse.cap:.2f} dollars are spent", asked))
            continue
        try:
            async with asyncio.timeout(SECONDS):
                await check(spec, base_url, asked)
            outcome = "ok"
        except Failed as error:
            outcome = str(error)
        except (RondaError, TimeoutError) as error:
            outcome = f"{type(error).__name__}: {error}"
        purse.pay(asked)
        rows.append(Row(name, outcome, asked))
    return rows


def table(spec: str, rows: Sequence[Row]) -> str:
    lines = [spec, f"  {'check':24}{'calls':>6}{'tokens in':>11}{'out':>7}{'dollars':>10}  outcome"]
    for row in rows:
        asked = row.asked
        cost = "?" if asked.cost is None else f"{asked.cost:.5f}"
        lines.append(
            f"  {row.check:24}{asked.calls:>6}{asked.input:>11,}{asked.output:>7,}{cost:>10}  {row.outcome:.160}"
        )
    return "\n".join(lines)


async def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    parser = argparse.ArgumentParser(prog="make live", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="providers, with commas between them")
    parser.add_argument("--model", action="append", default=[], help="PROVIDER:NAME; may be repeated")
    parser.add_argument("--base-url", help="where the models are, if not at their vendors'")
    parser.add_argument("--cap", type=float, default=CAP, help=f"dollars, of all requests together (default {CAP})")
    flags = parser.parse_args(arguments)
    specs = chosen(flags.model, [name for name in flags.only.split(",") if name], environ)
    if not specs:
        keys = ", ".join(dict.fromkeys(key for one in PROVIDERS for key in one.keys))
        print(f"nothing was asked: the environment has no key of a provider ({keys})")
        return 0
    purse, failed = Purse(flags.cap), 0
    for spec in specs:
        rows = await ask_all(spec, flags.base_url, purse)
        print(table(spec, rows), flush=True)
        failed += sum(not row.is_ok for row in rows)
    print(f"{failed} of {len(specs) * len(CHECKS)} failed; {purse.spent:.4f} dollars of {purse.cap:.2f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:], os.environ)))
