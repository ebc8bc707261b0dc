"""A skill is a folder with a SKILL.md in it, whose front matter says what the skill is called and when to use it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ronda.errors import BadRequest

SKILL_FILE: Final = "SKILL.md"
_LONGEST_FRONT_MATTER: Final = 32 * 1024
_LONGEST_NAME: Final = 255
_LONGEST_DESCRIPTION: Final = 8 * 1024


class SkillFolder(Struct, frozen=True):
    """`files` are by their paths below the folder itself."""

    name: str
    description: str
    files: dict[str, bytes]

    @property
    def directory(self) -> str:
        """Under what name it is mounted."""
        return re.sub(r"[^A-Za-z0-9_-]", "_", self.name)[:100]


def named_skill(files: Mapping[str, bytes], name: str, description: str) -> SkillFolder:
    """One whose caller says what it is: SKILL.md need not."""
    inside = dict(files) if SKILL_FILE in files else _below_the_only_folder(files)
    return SkillFolder(
        _fit(name.strip(), "name", _LONGEST_NAME), _fit(description, "description", _LONGEST_DESCRIPTION), inside
    )


def read_skill(files: Mapping[str, bytes]) -> SkillFolder:
    """`files` with SKILL.md among them, or all in one folder that has it."""
    inside = dict(files) if SKILL_FILE in files else _below_the_only_folder(files)
    text = inside[SKILL_FILE].decode("utf-8-sig", "replace").replace("\r\n", "\n")
    front = _front_matter(text)
    return SkillFolder(_text(front, "name", _LONGEST_NAME), _text(front, "description", _LONGEST_DESCRIPTION), inside)


def _below_the_only_folder(files: Mapping[str, bytes]) -> dict[str, bytes]:
    if not files:
        raise BadRequest("Skill upload requires multipart file field `files`.", param="files")
    tops = {path.partition("/")[0] for path in files if "/" in path}
    if len(tops) != 1 or any("/" not in path for path in files):
        raise BadRequest("Skill upload must contain exactly one top-level folder with SKILL.md.", param="files")
    inside = {path.partition("/")[2]: content for path, content in files.items()}
    if SKILL_FILE not in inside:
        raise BadRequest("Skill upload top-level folder must contain SKILL.md.", param="files")
    return inside


def _front_matter(text: str) -> Mapping[object, object]:
    found = re.match(r"---[ \t]*\n(.*?)^---[ \t]*$", text[:_LONGEST_FRONT_MATTER], re.DOTALL | re.MULTILINE)
    if found is None:
        raise BadRequest("SKILL.md must begin with front matter: a line `---`, YAML, and a line `---`.", param="files")
    if re.search(r"(^|[\s\[{,:-])[&*][\w-]", found[1]):
        raise BadRequest("the front matter of SKILL.md may not have YAML anchors and aliases", param="files")
    import yaml  # few servers see a skill

    try:
        front = yaml.safe_load(found[1])
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        problem = str(error).splitlines()[0] if str(error) else "nested too deeply"
        raise BadRequest(f"the front matter of SKILL.md is no YAML: {problem}", param="files") from error
    if not isinstance(front, Mapping):
        raise BadRequest("the front matter of SKILL.md must be a mapping with `name` and `description`", param="files")
    return front


def _text(front: Mapping[object, object], key: str, limit: int) -> str:
    value = front.get(key)
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        raise BadRequest(f"the front matter of SKILL.md must have `{key}`, a text that is not empty", param="files")
    return _fit(text, key, limit)


def _fit(text: str, key: str, limit: int) -> str:
    if len(text) > limit:
        raise BadRequest(f"`{key}` of a skill has {len(text)} characters; {limit} are allowed", param="files")
    return text
