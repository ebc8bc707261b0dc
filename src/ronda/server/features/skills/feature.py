"""Skills, as a feature: folders of instructions and scripts that clients keep at /v1/skills, and requests name.

`services.supplies` finds them for a run; they work in the folder of the shell (`features/code`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ronda.files.blobs import FolderBlobs
from ronda.files.file_store import FileStore
from ronda.files.skill_store import SkillStore
from ronda.server.doors.dialects import SKILLS
from ronda.server.doors.own.files import TIDY_SECONDS, tidy_files
from ronda.server.doors.own.skills import SkillsDoor
from ronda.server.features.contract import Chore, Feature, Services
from ronda.server.features.skills.settings import SkillSettings
from ronda.server.http.operations import Operation
from ronda.server.http.routing import Route

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig

_SKILL = "/v1/skills/{id}"
_VERSION = _SKILL + "/versions/{version}"


class Skills(Feature):
    name = "skills"
    is_door = True

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        files, folder = services.files, settings.part(SkillSettings).skills_dir
        self._own_files: FileStore | None = (
            None  # None: skills are kept with the files of clients, which others tidy up
        )
        if folder is not None:
            files = self._own_files = FileStore(services.catalog.files, FolderBlobs(folder), files.limits)
        self._skills = SkillStore(services.catalog.skills, files)
        self._door = SkillsDoor(self._skills, settings.max_body)

    def provides(self) -> Mapping[type, object]:
        return {SkillStore: self._skills}

    def chores(self) -> Sequence[Chore]:
        if self._own_files is None:
            return ()
        return [Chore("the tidying of skills", TIDY_SECONDS, partial(tidy_files, self._own_files.sweep))]

    def operations(self) -> Mapping[str, Operation]:
        from ronda.server.doors import vendor_operations  # few ask for the document

        return vendor_operations.SKILLS

    def routes(self) -> Sequence[Route]:
        door = self._door
        return (
            Route("POST", "/v1/skills", SKILLS, door.create, "write"),
            Route("GET", "/v1/skills", SKILLS, door.list_skills, "read"),
            Route("GET", _SKILL, SKILLS, door.get, "read"),
            Route("POST", _SKILL, SKILLS, door.update, "write"),
            Route("DELETE", _SKILL, SKILLS, door.delete, "write"),
            Route("GET", f"{_SKILL}/content", SKILLS, door.content, "read"),
            Route("POST", f"{_SKILL}/versions", SKILLS, door.create_version, "write"),
            Route("GET", f"{_SKILL}/versions", SKILLS, door.list_versions, "read"),
            Route("GET", _VERSION, SKILLS, door.get_version, "read"),
            Route("DELETE", _VERSION, SKILLS, door.delete_version, "write"),
            Route("GET", f"{_VERSION}/content", SKILLS, door.version_content, "read"),
        )
