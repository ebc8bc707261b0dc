"""What requests say of containers, skills and files that they want to get, in whatever dialect → one value of each.

code_interpreter.container, shell.environment     of Responses, and of Chat Completions
container                                         of Messages
files: [{name, format?, description?}]            of every door
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import RunStarted
from ronda.core.parts import NULL
from ronda.core.supplies import NO_LIMITS, NO_SUPPLIES, CodeLimits, RequestedFile, SkillMount, Supplies
from ronda.errors import BadRequest
from ronda.wire.codec.json import decode_or, encode
from ronda.wire.shared.fields import bad, check_count, decode_field, field

MOST_FILES: Final = 100  # that a request may name for its container
MOST_SKILLS: Final = 20
MOST_OUTPUTS: Final = 64
_ABOUT: Final = "supplies"


class StoredSkillWish(Struct, frozen=True):
    """`version` is a number, the id of a version, `latest`, or "" for the one that its owner has chosen."""

    id: str
    version: str
    path: str


class InlineSkill(Struct, frozen=True):
    """A skill that comes with the request, as a zip in base64."""

    name: str
    description: str
    data: str
    path: str


SkillWish: TypeAlias = StoredSkillWish | InlineSkill


class ContainerWish(Struct, frozen=True):
    """Where code is to run, and with what. `id` is "" for a new container, or that of the session."""

    id: str = ""
    path: str = ""  # where the request says it
    file_ids: tuple[str, ...] = ()
    skills: tuple[SkillWish, ...] = ()
    limits: CodeLimits = NO_LIMITS

    def __or__(self, other: ContainerWish) -> ContainerWish:
        return ContainerWish(
            self.id or other.id,
            self.path or other.path,
            self.file_ids + other.file_ids,
            self.skills + other.skills,
            self.limits | other.limits,
        )


ANY_CONTAINER: Final = ContainerWish()


class _Source(Struct, frozen=True):
    type: str = "base64"
    media_type: str = "application/zip"
    data: str = ""


class _Skill(Struct, frozen=True):
    type: str
    skill_id: str | None = None
    version: str | int | None = None
    name: str = ""
    description: str = ""
    source: _Source | None = None


MemoryLimit: TypeAlias = Literal["1g", "4g", "16g", "64g"]


class _Environment(Struct, frozen=True):
    """`auto` of a code interpreter, `container_auto` and `container_reference` of a shell."""

    type: str
    container_id: str | None = None
    file_ids: list[str] | None = None
    skills: list[Raw] | None = None
    memory_limit: MemoryLimit | None = None
    network_policy: Raw = NULL


class _Place(Struct, frozen=True):
    container: str | _Environment | None = None
    environment: _Environment | None = None


def read_place(raw: Raw, path: str) -> ContainerWish:
    """Of a tool that runs code: `container` of a code interpreter, `environment` of a shell."""
    place: _Place = decode_field(raw, _Place, path)
    if isinstance(place.container, str):
        return ContainerWish(place.container, f"{path}.container")
    name = "container" if place.container is not None else "environment"
    found = place.container or place.environment
    if found is None:
        return ANY_CONTAINER
    return _read_environment(found, f"{path}.{name}")


def _read_environment(found: _Environment, path: str) -> ContainerWish:
    kinds = ("auto", "container_auto", "container_reference")
    if found.type not in kinds:
        raise bad(f"{path}.type", f"is {found.type[:40]!r}; it can be {', '.join(kinds)}")
    limits = read_limits(found.memory_limit, found.network_policy, f"{path}.network_policy")
    check_count(found.file_ids or (), MOST_FILES, f"{path}.file_ids")
    check_count(found.skills or (), MOST_SKILLS, f"{path}.skills")
    skills = [read_skill(one, f"{path}.skills[{index}]") for index, one in enumerate(found.skills or ())]
    if found.type == "container_reference" and not found.container_id:
        raise bad(f"{path}.container_id", "is missing")
    where = f"{path}.container_id" if found.container_id else f"{path}.file_ids"
    return ContainerWish(found.container_id or "", where, tuple(found.file_ids or ()), tuple(skills), limits)


class _NetworkPolicy(Struct, frozen=True):
    type: str


def read_limits(memory: MemoryLimit | None, network: Raw, path: str) -> CodeLimits:
    """Both can be less than the operator's; a wish for more memory is one for as much as there is."""
    if network != NULL and not _is_disabled(network):
        raise bad(path, "cannot be wider than the operator's; leave it out, or say 'disabled'")
    return CodeLimits(0 if memory is None else int(memory[:-1]) * 1024, network != NULL)


def _is_disabled(raw: Raw) -> bool:
    return decode_or(_NetworkPolicy(""), _NetworkPolicy, raw).type == "disabled"


def read_skill(raw: Raw, path: str) -> SkillWish:
    skill: _Skill = decode_field(raw, _Skill, path)
    match skill.type:
        case "skill_reference" | "custom":
            if not skill.skill_id:
                raise bad(f"{path}.skill_id", "is missing")
            version = "" if skill.version is None else str(skill.version)
            return StoredSkillWish(skill.skill_id, version, path)
        case "inline":
            source = skill.source or _Source()
            if source.type != "base64" or source.media_type != "application/zip" or not source.data:
                raise bad(f"{path}.source", 'must be {"type": "base64", "media_type": "application/zip", "data": "…"}')
            return InlineSkill(skill.name, skill.description, source.data, path)
        case "anthropic":
            raise BadRequest(
                f"Skill `{(skill.skill_id or '')[:100]}` of Anthropic's is not bundled with this server; upload it.",
                param=path,
            )
        case "local":
            raise bad(f"{path}.type", "is 'local'; a server takes no paths: upload the skill to /v1/skills")
        case _:
            raise bad(f"{path}.type", f"is {skill.type[:40]!r}; it can be skill_reference, inline or custom")


class _MessagesContainer(Struct, frozen=True):
    id: str | None = None
    skills: list[Raw] | None = None


def read_container(raw: Raw) -> ContainerWish:
    """`container` of Messages: its id, or an object."""
    found: str | _MessagesContainer = decode_field(raw, str | _MessagesContainer, "container")
    if isinstance(found, str):
        return ContainerWish(found, "container")
    check_count(found.skills or (), MOST_SKILLS, "container.skills")
    skills = [read_skill(one, f"container.skills[{index}]") for index, one in enumerate(found.skills or ())]
    return ContainerWish(found.id or "", "container.id", (), tuple(skills))


SKILLS: Final = "shell_skills"  # of Chat Completions, whose tools have no environment


def read_shell_skills(fields: Mapping[str, Raw]) -> ContainerWish:
    skills: list[Raw] = field(fields, SKILLS, list[Raw], [])
    check_count(skills, MOST_SKILLS, SKILLS)
    return ContainerWish(skills=tuple([read_skill(one, f"{SKILLS}[{index}]") for index, one in enumerate(skills)]))


class _Output(Struct, frozen=True):
    name: str
    format: str | None = None
    description: str | None = None


def read_outputs(fields: Mapping[str, Raw]) -> tuple[RequestedFile, ...]:
    """Files that the caller wants to get from the code that runs for it."""
    if bytes(fields.get("files", NULL)) == b"false":
        return ()
    outputs: list[_Output | str] = field(fields, "files", list[_Output | str], [])
    check_count(outputs, MOST_OUTPUTS, "files")
    found: dict[str, RequestedFile] = {}
    for index, output in enumerate(outputs):
        wanted = _Output(output) if isinstance(output, str) else output
        check_output_name(wanted.name, f"files[{index}].name")
        found[wanted.name] = RequestedFile(wanted.name, wanted.format or "", (wanted.description or "")[:1000])
    return tuple(found.values())


def check_output_name(name: str, path: str) -> None:
    parts = name.split("/")
    if len(name) > 255 or not name.isprintable() or any(part in ("", ".", "..") for part in parts):
        raise bad(path, f"is {name[:80]!r}; it must be a path below the working directory, without '..'")


OUTPUTS_FATE: Final = "read: files that code should make; on a server with --enable-code-execution or --enable-shell"


def about_supplies(supplies: Supplies) -> dict[str, Raw]:
    return {} if supplies == NO_SUPPLIES else {_ABOUT: Raw(encode(supplies))}


def supplies_of(start: RunStarted) -> Supplies:
    raw = start.about.get(_ABOUT)
    return NO_SUPPLIES if raw is None else msgspec.json.decode(raw, type=Supplies)


def write_mounts(skills: Sequence[SkillMount]) -> list[dict[str, str]]:
    """The skills of a container, as Messages names them."""
    return [{"type": "custom", "skill_id": one.skill_id, "version": one.version} for one in skills if one.skill_id]
