"""What a request says of its searches, in the original's words."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any


class SearchContextSize(enum.Enum):
    Low = "low"
    Medium = "medium"
    High = "high"


@dataclass(frozen=True)
class ApproximateUserLocation:
    city: str
    country: str
    region: str
    timezone: str


@dataclass(frozen=True)
class WebSearchUserLocation:
    place: ApproximateUserLocation

    @staticmethod
    def approximate(place: ApproximateUserLocation) -> WebSearchUserLocation:
        return WebSearchUserLocation(place)

    Approximate = approximate


@dataclass(frozen=True)
class WebSearchOptions:
    search_context_size: SearchContextSize | None = None
    user_location: WebSearchUserLocation | None = None
    search_description: str | None = None
    extract_description: str | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """As a request has them."""
        size, location = self.search_context_size, self.user_location
        fields: dict[str, Any] = {
            "search_context_size": None if size is None else size.value,
            "user_location": None
            if location is None
            else {"type": "approximate", "approximate": asdict(location.place)},
            "search_description": self.search_description,
            "extract_description": self.extract_description,
        }
        return {name: value for name, value in fields.items() if value is not None}
