"""Settings of skills."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from ronda.server.setting import CODE, Setting


class SkillSettings(Struct, frozen=True):
    skills_dir: Annotated[
        str | None,
        Setting(
            CODE,
            "--skills-dir DIR",
            "where skills are kept",
            default="with the files of clients",
            needs="enable_shell",
            reads="path",
        ),
    ] = None
