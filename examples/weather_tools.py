"""Two tools for `ronda serve --tools` and `ronda run --tools`."""

from ronda import tool


@tool(repeatable=True)
async def get_weather(city: str) -> str:
    """Get the current weather in a city.

    Args:
        city: The city's name.
    """
    return f"sunny in {city}, 24 degrees"


@tool(repeatable=True)
async def get_time(city: str) -> str:
    """Get the local time in a city.

    Args:
        city: The city's name.
    """
    return f"09:10 in {city}"
