"""A hundred questions that need no tool (questions.txt), and the tools that are offered with them.

Written for this project. Some are long, and some are near to the subjects of the tools on purpose ("Why is the sky blue?" beside
a weather report).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any


def _tool(name: str, description: str, required: list[str], **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _text(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}


def _number(description: str) -> dict[str, str]:
    return {"type": "number", "description": description}


WEATHER = _tool(
    "get_weather", "Get the current weather for a location", ["location"], location=_text("City, e.g. Oslo, Norway")
)
FORECAST = _tool(
    "get_forecast",
    "Get the weather forecast of the coming days for a city.",
    ["city", "days"],
    city=_text("The city."),
    days={"type": "integer", "description": "How many days ahead, 1 to 10."},
)
MAIL = _tool(
    "send_email",
    "Send an email to somebody.",
    ["to", "subject", "body"],
    to=_text("The recipient's address."),
    subject=_text("The subject line."),
    body=_text("The text."),
)
MEETING = _tool(
    "create_event",
    "Put an appointment into the user's calendar.",
    ["title", "start"],
    title=_text("What it is about."),
    start=_text("When it begins, ISO 8601."),
    minutes={"type": "integer", "description": "How long it takes."},
)
STOCK = _tool("stock_price", "The latest price of a share.", ["symbol"], symbol=_text("Ticker symbol, e.g. NVDA."))
LOAN = _tool(
    "calculate_loan_payment",
    "Calculate the monthly payment of a loan.",
    ["amount", "rate", "years"],
    amount=_number("The amount lent."),
    rate=_number("Interest per year in percent."),
    years={"type": "integer", "description": "Term of the loan."},
)
ROUTE = _tool(
    "find_route",
    "Find the fastest way between two places.",
    ["origin", "destination"],
    origin=_text("Where to begin."),
    destination=_text("Where to go."),
    by={"type": "string", "enum": ["car", "train", "bicycle", "foot"]},
)
TABLE = _tool(
    "book_table",
    "Book a table in a restaurant.",
    ["restaurant", "people", "time"],
    restaurant=_text("Name of the restaurant."),
    people={"type": "integer", "description": "Number of guests."},
    time=_text("Date and time."),
)
LIGHT = _tool(
    "set_light",
    "Turn a lamp in the house on or off.",
    ["room", "on"],
    room=_text("Which room."),
    on={"type": "boolean", "description": "On or off."},
)
ORDER = _tool("order_status", "Look up where an order is.", ["order_id"], order_id=_text("The number of the order."))
CURRENCY = _tool(
    "convert_currency",
    "Convert an amount of money from one currency to another at today's rate.",
    ["amount", "source", "target"],
    amount=_number("How much."),
    source=_text("Currency code, e.g. EUR."),
    target=_text("Currency code, e.g. JPY."),
)
MUSIC = _tool(
    "play_music", "Play a song or an album.", ["title"], title=_text("Song or album."), artist=_text("By whom.")
)

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
