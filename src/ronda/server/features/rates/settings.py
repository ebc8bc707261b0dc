"""Settings of rates."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Struct

from ronda.server.setting import Setting

_rates = partial(Setting, "prices and budgets")


class Rate(Struct, frozen=True, forbid_unknown_fields=True):
    """Of one key. None: as many as it likes."""

    requests: int | None = None  # a minute
    tokens: int | None = None  # a minute
    runs: int | None = None  # at a time


class RateOptions(Rate, frozen=True, forbid_unknown_fields=True):
    """Of each key, or of each owner where there are no keys; `keys` has others for some, by the ids of keys."""

    keys: dict[str, Rate] = {}


class RateSettings(Struct, frozen=True):
    rates: Annotated[
        RateOptions,
        _rates(
            "",
            "what each key may ask: requests and tokens a minute, runs at a time; see [rates](budgets.md#rates)",
            members={
                "requests": _rates("--rate-requests N", "requests for models that each key may send in a minute"),
                "tokens": _rates("--rate-tokens N", "tokens that each key may use in a minute"),
                "runs": _rates("--rate-runs N", "requests for models that each key may have under way at a time"),
            },
        ),
    ] = RateOptions()
