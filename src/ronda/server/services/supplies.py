"""What a request gives its tools: files and skills that it names, and files that it wants → tools that have them.

It is decided once, before the run begins, and kept with the run: the process that resumes it gives its tools the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from ronda.core.events import RunStarted
from ronda.core.parts import File, SystemTurn, Turn, files_in
from ronda.core.plan import ToolSpec
from ronda.core.supplies import NO_LIMITS, NO_SUPPLIES, SkillMount, Supplies
from ronda.drive import Capabilities, Tool, ToolContext, capabilities_of
from ronda.errors import BadRequest, NotFound
from ronda.files.archives import is_zip, unpack_zip
from ronda.files.file_store import USER_UPLOAD, FileStore
from ronda.files.skill_folders import SkillFolder, named_skill, read_skill
from ronda.files.skill_mounts import distinct, tree
from ronda.files.skill_store import SkillStore
from ronda.server.services.container_host import ContainerHost
from ronda.server.services.input_files import InputFiles, describe_files
from ronda.server.services.models import Target, TargetOpening
from ronda.server.services.session_folders import SessionFolders
from ronda.server.services.toolbox import Offer
from ronda.tools.files.documents import Documents, ExtractedText, is_document
from ronda.tools.files.reading import LIST, READ, ListFilesTool, ReadFileTool
from ronda.tools.files.session_files import KnownFile, SessionFiles, decode
from ronda.wire.shared.door_request import DoorRequest
from ronda.wire.shared.supplies import InlineSkill, SkillWish, StoredSkillWish, about_supplies, supplies_of
from ronda.wire.upstream.input_files import is_listed

CODE: Final = ("code_execution", "shell")  # types of tools that find files in their folder
_LONGEST_INLINE_SKILL: Final = 50 * 1024 * 1024


def asks_for_code(request: DoorRequest) -> bool:
    return any(name in ("python", "shell") for need in request.needs for name in need.capabilities)


class Supplier:
    """`folders`: what runs code here, if anything does."""

    def __init__(
        self,
        files: FileStore,
        skills: SkillStore,
        containers: ContainerHost,
        documents: Documents,
        folders: Callable[[], SessionFolders | None],
    ) -> None:
        self._files = files
        self._skills = skills
        self._containers = containers
        self._documents = documents
        self._folders = folders

    def inputs(self, owner: str, able: Capabilities, *, runs_code: bool) -> InputFiles:
        """What turns the files of a request into what a model is sent, or told."""
        return InputFiles(self._files, self._documents, owner, able, runs_code=runs_code)

    def _equipment(self, supplies: Supplies) -> Equipment:
        return Equipment(self._files, self._skills, self._documents, self._folders(), supplies)

    async def gather(self, owner: str, request: DoorRequest, able: Capabilities) -> Supplies:
        """What a request names besides its conversation, found. Raises BadRequest for what is not there."""
        wish = request.container
        if not (wish.id or wish.file_ids or wish.skills or request.outputs or wish.limits != NO_LIMITS):
            return Supplies()
        inputs = self.inputs(owner, replace(able, keeps_files=False), runs_code=True)
        files: list[File] = []
        for file_id in dict.fromkeys(wish.file_ids):
            stored = await inputs.find(file_id)
            if stored is not None:
                files.append(await inputs.list_file(stored))
        before: tuple[SkillMount, ...] = ()
        limits = wish.limits
        if wish.id:
            container = await self._containers.find(owner, wish.id)
            before = container.skills
            limits |= container.limits
            inside = await self._containers.files(owner, container.session)
            files += [await inputs.list_file(file) for file in inside if file.source == USER_UPLOAD]
        return Supplies(tuple(files), await self.mounts(owner, wish.skills, before), request.outputs, limits)

    async def mounts(
        self, owner: str, wishes: Sequence[SkillWish], before: Sequence[SkillMount] = ()
    ) -> tuple[SkillMount, ...]:
        """Skills, each with a folder of its own. Raises BadRequest for one that is not there."""
        skills = [*before, *[await self._mount(owner, wish) for wish in wishes]]
        directories = distinct([skill.directory for skill in skills])
        return tuple([replace(skill, directory=name) for skill, name in zip(skills, directories, strict=True)])

    async def _mount(self, owner: str, wish: SkillWish) -> SkillMount:
        match wish:
            case StoredSkillWish(id=skill_id, version=name, path=path):
                try:
                    skill = await self._skills.find(owner, skill_id)
                except NotFound as error:
                    raise BadRequest(str(error), param=f"{path}.skill_id", code="skill_not_found") from error
                version = skill.version(name) if name else skill.current
                if version is None:
                    is_known = name.isdigit() or name.startswith("skill_")
                    problem = (
                        f"Skill `{skill_id}` version was not found."
                        if is_known
                        else f"Invalid skill version `{name[:100]}`"
                    )
                    raise BadRequest(problem, param=f"{path}.version")
                files = await self._skills.files_of(owner, version.id)
                number = str(version.number)
                listed = tuple(tree(list(files)))
                return SkillMount(
                    version.name, version.description, version.directory, version.id, skill.id, number, listed
                )
            case InlineSkill(path=path):
                if len(wish.data) > _LONGEST_INLINE_SKILL * 4 // 3:
                    raise BadRequest(f"'{path}.source.data' has more than {_LONGEST_INLINE_SKILL} bytes", param=path)
                folder = await asyncio.to_thread(_unpack_skill, wish)
                content = await self._skills.keep_inline(owner, folder)
                listed = tuple(tree(list(folder.files)))
                return SkillMount(folder.name, folder.description, folder.directory, content, tree=listed)

    async def supply(
        self, owner: str, target: Target, request: DoorRequest, opened: TargetOpening, offer: Offer, rounds: int
    ) -> tuple[TargetOpening, Offer]:
        """With the files and skills that the request brings."""
        supplies = await self.gather(owner, request, capabilities_of(target.provider))
        has_files = bool(supplies.files) or any(map(is_listed, files_in(opened.turns)))
        runs_code = self._folders() is not None and any(spec.tool_type in CODE for spec in offer.specs)
        if not (has_files or runs_code or supplies != NO_SUPPLIES):
            return opened, offer
        if rounds == 0:
            return replace(opened, turns=tell(opened.turns, supplies, offer.specs)), offer
        brought = has_files or bool(files_in(opened.turns))
        handlers = self._equipment(supplies).equip(offer.handlers, has_files=brought)
        known = [handlers[spec.name].spec if spec.name in handlers else spec for spec in offer.specs]
        names = {spec.name for spec in known}
        specs = (*known, *[tool.spec for name, tool in handlers.items() if name not in names])
        offer = Offer(specs, handlers, offer.stand_ins, {**offer.about, **about_supplies(supplies)})
        return replace(opened, turns=tell(opened.turns, supplies, specs)), offer

    def reopen_tools(self, start: RunStarted, handlers: dict[str, Tool]) -> dict[str, Tool]:
        """The tools of a run that was begun before, with what it was given then."""
        supplies = supplies_of(start)
        names = {spec.name for spec in start.plan.tools}
        equipped = self._equipment(supplies).equip(handlers, has_files=bool(files_in(start.turns)))
        return {name: tool for name, tool in equipped.items() if name in names}


def _unpack_skill(wish: InlineSkill) -> SkillFolder:
    data = decode(wish.data)
    if not is_zip("", data):
        raise BadRequest(f"'{wish.path}.source.data' is no zip", param=wish.path)
    files = unpack_zip(data)
    return named_skill(files, wish.name, wish.description) if wish.name and wish.description else read_skill(files)


class Equipment:
    """The tools of one run, with what its request gave them."""

    def __init__(
        self,
        files: FileStore,
        skills: SkillStore,
        documents: Documents,
        folders: SessionFolders | None,
        supplies: Supplies,
    ) -> None:
        self._skills = skills
        self._documents = documents
        self._folders = folders
        self._supplies = supplies
        self.files = SessionFiles(files, supplies.files)

    def equip(self, handlers: Mapping[str, Tool], *, has_files: bool) -> dict[str, Tool]:
        """The same tools for this run, and those that read files where there may be some."""
        found = dict(handlers)
        code = self._folders
        runs_code = {name for name, tool in handlers.items() if tool.spec.tool_type in CODE}
        if code is not None and runs_code:
            found |= code.prepare_tools(
                {name: handlers[name] for name in runs_code}, self.files, self._supplies, self._skills
            )
        if has_files or runs_code or self._supplies.files:
            found |= {READ: ReadFileTool(self.files, self._extract), LIST: ListFilesTool(self.files)}
        return found

    async def _extract(self, context: ToolContext, file: KnownFile) -> ExtractedText | None:
        if not is_document(file.format) or file.purpose == "agent_output":  # which the model knows as it wrote it
            return None
        file_id = file.id if file.stored is None else file.stored.hash
        return await self._documents.extract(file_id, file.format, file.size, partial(self.files.read, file))


def tell(turns: tuple[Turn, ...], supplies: Supplies, specs: Sequence[ToolSpec]) -> tuple[Turn, ...]:
    """The conversation with what a model must know of files and skills, at its top."""
    brought = files_in(turns)
    runs_code = any(spec.tool_type in CODE for spec in specs)
    texts: list[str] = []
    if supplies.files or any(map(is_listed, brought)) or (runs_code and brought):
        may_read = any(spec.name == READ for spec in specs)
        texts.append(describe_files([*brought, *supplies.files], runs_code=runs_code, may_read=may_read))
    if supplies.skills:
        texts.append(describe_skills(supplies.skills))
    return (SystemTurn("\n\n".join(texts)), *turns) if texts else turns


def describe_skills(skills: Sequence[SkillMount]) -> str:
    lines = [
        "Skills are folders of instructions, scripts and data, in `skills/` of the shell's working directory; read-only.",
        "Before you do anything that a skill is for, read its instructions with the command that stands next to it.",
    ]
    for skill in skills:
        place = f"skills/{skill.directory}"
        lines += ["", f"Skill: {skill.name}", skill.description, f"First command: cat {place}/SKILL.md", f"{place}/"]
        lines += [f"  {line}" for line in skill.tree]
    return "\n".join(lines)
