"""Handlers for the tools that weather.prompty and forecast.prompty declare."""

from ronda import tool

DEGREES = {"Lisbon": 24, "Oslo": 7}


@tool(repeatable=True)
def get_weather(city: str, unit: str = "celsius") -> str:
    """The weather in a city, now."""
    degrees = DEGREES.get(city, 15)
    if unit == "fahrenheit":
        degrees = round(degrees * 9 / 5 + 32)
    return f"{city}: {degrees} degrees {unit}, sunny"
