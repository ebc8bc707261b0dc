"""A hundred questions that need no tool (questions.txt), and the tools that are offered with them.

Written for this project. Some are long, and some are near to the subjects of the tools on purpose ("Why is the sky blue?" beside
a weather report).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any


def _tool(name: str, description: str, **parameters: str | dict[str, Any]) -> dict[str, Any]:
    """A parameter is "type: description", or a schema; "type?" need not be there."""
    texts = {key: value.partition(": ") for key, value in parameters.items() if isinstance(value, str)}
    schemas = {key: {"type": kind.rstrip("?"), "description": about} for key, (kind, _, about) in texts.items()}
    schema = {
        "type": "object",
        "properties": {key: schemas.get(key, value) for key, value in parameters.items()},
        "required": [key for key, (kind, _, _) in texts.items() if not kind.endswith("?")],
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


WEATHER = _tool("get_weather", "Get the current weather for a location", location="string: City, e.g. Oslo, Norway")
FORECAST = _tool(
    "get_forecast",
    "Get the weather forecast of the coming days for a city.",
    city="string: The city.",
    days="integer: How many days ahead, 1 to 10.",
)
MAIL = _tool(
    "send_email",
    "Send an email to somebody.",
    to="string: The recipient's address.",
    subject="string: The subject line.",
    body="string: The text.",
)
MEETING = _tool(
    "create_event",
    "Put an appointment into the user's calendar.",
    title="string: What it is about.",
    start="string: When it begins, ISO 8601.",
    minutes="integer?: How long it takes.",
)
STOCK = _tool("stock_price", "The latest price of a share.", symbol="string: Ticker symbol, e.g. NVDA.")
LOAN = _tool(
    "calculate_loan_payment",
    "Calculate the monthly payment of a loan.",
    amount="number: The amount lent.",
    rate="number: Interest per year in percent.",
    years="integer: Term of the loan.",
)
ROUTE = _tool(
    "find_route",
    "Find the fastest way between two places.",
    origin="string: Where to begin.",
    destination="string: Where to go.",
    by={"type": "string", "enum": ["car", "train", "bicycle", "foot"]},
)
TABLE = _tool(
    "book_table",
    "Book a table in a restaurant.",
    restaurant="string: Name of the restaurant.",
    people="integer: Number of guests.",
    time="string: Date and time.",
)
LIGHT = _tool("set_light", "Turn a lamp in the house on or off.", room="string: Which room.", on="boolean: On or off.")
ORDER = _tool("order_status", "Look up where an order is.", order_id="string: The number of the order.")
CURRENCY = _tool(
    "convert_currency",
    "Convert an amount of money from one currency to another at today's rate.",
    amount="number: How much.",
    source="string: Currency code, e.g. EUR.",
    target="string: Currency code, e.g. JPY.",
)
MUSIC = _tool("play_music", "Play a song or an album.", title="string: Song or album.", artist="string?: By whom.")

OFFERED = [
    [WEATHER],
    [MAIL, MEETING],
    [STOCK],
    [LOAN, CURRENCY],
    [ROUTE],
    [WEATHER, FORECAST, ROUTE],
    [TABLE, MUSIC, LIGHT],
    [ORDER],
    [MAIL, MEETING, WEATHER, STOCK, ORDER],
    [CURRENCY],
]

QUESTIONS = Path(__file__).with_name("questions.txt").read_text().splitlines()


def without_tools() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for number, question in enumerate(QUESTIONS):
        yield question, OFFERED[number % len(OFFERED)]
