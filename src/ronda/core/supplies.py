"""What a request gives its tools besides its conversation: files, skills, names of files that are wanted. Kept with the run."""

from __future__ import annotations

from msgspec import Struct

from ronda.core.parts import File


class RequestedFile(Struct, frozen=True, omit_defaults=True):
    """A file that the caller wants to get. `description` says what should be in it."""

    name: str
    format: str = ""
    description: str = ""


class SkillMount(Struct, frozen=True, omit_defaults=True):
    """A version of a skill, for one session. `content` names its zip; `directory` is its folder below `skills/`."""

    name: str
    description: str
    directory: str
    content: str
    skill_id: str = ""  # "" of one that came with the request
    version: str = ""
    tree: tuple[str, ...] = ()  # its files, as far as they are listed


class CodeLimits(Struct, frozen=True, omit_defaults=True):
    """What a client lets its code have at the most. The operator's limits hold as well."""

    memory_mb: int = 0  # 0: the operator's
    is_offline: bool = False

    def __or__(self, other: CodeLimits) -> CodeLimits:
        """Both."""
        memory = [limits.memory_mb for limits in (self, other) if limits.memory_mb]
        return CodeLimits(min(memory, default=0), self.is_offline or other.is_offline)


NO_LIMITS = CodeLimits()


class Supplies(Struct, frozen=True, omit_defaults=True):
    """`files` are those that no message shows; those of the conversation are in its turns."""

    files: tuple[File, ...] = ()
    skills: tuple[SkillMount, ...] = ()
    outputs: tuple[RequestedFile, ...] = ()
    limits: CodeLimits = NO_LIMITS


NO_SUPPLIES = Supplies()
