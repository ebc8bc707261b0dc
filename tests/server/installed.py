"""A package that brings a feature, as pip would have installed it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PARROT: Final = """
from typing import Annotated

from msgspec import Struct

from ronda.server.features.contract import Feature, Finding
from ronda.server.features.table import Command
from ronda.server.setting import Setting


class Settings(Struct, frozen=True):
    parrot_words: Annotated[int, Setting("parrots", "--parrot-words N", "how many words a parrot says", least=1)] = 3


class Parrot(Feature):
    name = "parrot"
    settings = Settings
    commands = (Command("parrot", "parrot:speak", "speak", "Speak as a parrot does."),)

    @classmethod
    def check(cls, settings):
        if settings.part(Settings).parrot_words > 9:
            yield Finding("--parrot-words is more than 9; a parrot knows no more")


def speak(arguments):
    print("croak")
    return 0
"""


def install_feature(site: Path, name: str, code: str = PARROT, place: str = "parrot:Parrot") -> None:
    """`site` is to be on the path of modules."""
    info = site / f"{name}_package-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[ronda.features]\n{name} = {place}\n")
    (site / f"{place.partition(':')[0]}.py").write_text(code)
