"""The addresses that clients of OpenAI, Anthropic and Mistral ask, described: fields by the tables of the doors' readers, answers
as far as all models and tools have them in common. What a vendor's own reference says of an answer is not repeated here."""

from __future__ import annotations

from typing import Any, Final

from ronda.server.doors.own.operations import page_of
from ronda.server.doors.responses.stored_responses import FIELDS as STORED_FIELDS
from ronda.server.http.operations import Field, Named, Operation, Shape
from ronda.wire.anthropic.fields import FIELDS as MESSAGE_FIELDS
from ronda.wire.mistral import field_tables as mistral
from ronda.wire.openai_chat.server_request import FIELDS as CHAT_FIELDS
from ronda.wire.openai_completions.server_request import FIELDS as TEXT_FIELDS
from ronda.wire.openai_responses.compaction import FIELDS as COMPACTION_FIELDS
from ronda.wire.openai_responses.server_request import FIELDS as RESPONSE_FIELDS

_ANY: Final = {"*": Any}
_USAGE: Final = ({"prompt_tokens": int, "completion_tokens": int, "total_tokens": int}, None)
_COMPLETION_FRAME: Final[dict[str, Shape]] = {"id": str, "object": str, "created": int, "model": str}
_MESSAGE: Final = {"role": str, "content": (str, [], None), "tool_calls?": ([_ANY], None)}
_FOLLOWED: Final[dict[str, Field]] = {
    "stream": (bool, "the stream of the answer, from its beginning or from where the client has come to"),
    "starting_after": (str, "with `stream`: the last event that was seen"),
}


def _deleted(name: str) -> Shape:
    return {"id": str, "object": name, "deleted": bool}


def _stored(path: str, thing: str, answer: Shape, events: Shape, deleted: str) -> dict[str, Operation]:
    """Of answers that no client waits for."""
    return {
        f"GET {path}": Operation(
            summary=f"{thing} that was asked for in the background", query=_FOLLOWED, answer=answer, events=events
        ),
        f"DELETE {path}": Operation(summary=f"Delete {thing.lower()}", answer=_deleted(deleted)),
        f"POST {path}/cancel": Operation(summary=f"End {thing.lower()} that is under way", answer=answer),
    }


# ---- OpenAI ----------------------------------------------------------------------------------------------------------

CHAT_COMPLETION: Final = Named(
    "ChatCompletion",
    {
        **_COMPLETION_FRAME,
        "choices": [{"index": int, "message": _MESSAGE, "finish_reason": (str, None), "logprobs?": Any}],
        "usage": _USAGE,
        "session_id?": (str, None),
        "status?": str,
        "approvals?": [_ANY],
        "agentic_tool_calls?": [_ANY],
        "files?": [_ANY],
        "warnings?": [str],
    },
    "An answer of Chat Completions, with what the loop adds to it.",
)
_CHUNK: Final = Named(
    "ChatChunk",
    {"id?": (str, None), "object?": str, "choices?": [{"index": int, "delta": _ANY, "finish_reason": (str, None)}]},
    "A piece of a streamed answer; the last `data:` is `[DONE]`.",
)
_TEXT_COMPLETION: Final = Named(
    "TextCompletion",
    {
        **_COMPLETION_FRAME,
        "object": "text_completion",
        "choices": [{"index": int, "text": str, "finish_reason": (str, None), "logprobs": (_ANY, None)}],
        "usage": _USAGE,
    },
)
_TEXT_CHUNK: Final = Named(
    "TextChunk",
    {"id?": str, "object?": str, "choices?": [{"index": int, "text": str, "finish_reason": (str, None)}]},
    "A piece of a streamed text; the last `data:` is `[DONE]`.",
)

CHAT: Final[dict[str, Operation]] = {
    "POST /v1/chat/completions": Operation(
        summary="Answer a conversation, with the server's tools run in between",
        fields=CHAT_FIELDS,
        needs=("messages",),
        answer=CHAT_COMPLETION,
        events=_CHUNK,
        others={202: CHAT_COMPLETION},
    ),
    **_stored("/v1/chat/completions/chatcmpl-{id}", "An answer", CHAT_COMPLETION, _CHUNK, "chat.completion.deleted"),
    "POST /v1/completions": Operation(
        summary="Continue a prompt",
        fields=TEXT_FIELDS,
        needs=("prompt",),
        answer=_TEXT_COMPLETION,
        events=_TEXT_CHUNK,
    ),
}

_RESPONSE: Final = Named(
    "Response",
    {
        "id": str,
        "object": "response",
        "created_at": (int, float),
        "status": str,
        "model": str,
        "output": [{"type": str}],
        "error": (_ANY, None),
        "usage?": (_ANY, None),
    },
    "An answer of the Responses API.",
)
RESPONSES: Final[dict[str, Operation]] = {
    "POST /v1/responses": Operation(
        summary="Answer an input, with the server's tools run in between",
        fields={**RESPONSE_FIELDS, "input": ((str, [_ANY]), "a text, or items")},
        answer=_RESPONSE,
        events={"type": str, "sequence_number": int},
        others={202: _RESPONSE},
    ),
    "WEBSOCKET /v1/responses": Operation(summary="Several answers over one connection, as events"),
    "POST /v1/responses/compact": Operation(
        summary="Make a long input short", fields=COMPACTION_FIELDS, answer={"id": str, "object": str, "output": [_ANY]}
    ),
    "POST /v1/responses/input_tokens": Operation(
        summary="Count the tokens of an input; no model is called",
        fields={**RESPONSE_FIELDS, "input": ((str, [_ANY]), "a text, or items")},
        answer={"object": "response.input_tokens", "input_tokens": int},
    ),
    "GET /v1/responses/{id}": Operation(
        summary="A response that is kept",
        query=STORED_FIELDS["GET /v1/responses/{id}"],
        answer=_RESPONSE,
        events={"type": str, "sequence_number": int},
    ),
    "DELETE /v1/responses/{id}": Operation(summary="Delete a response", answer=_deleted("response")),
    "POST /v1/responses/{id}/cancel": Operation(summary="End a response that is under way", answer=_RESPONSE),
    "GET /v1/responses/{id}/input_items": Operation(
        summary="List what a response was asked",
        query=STORED_FIELDS["GET /v1/responses/{id}/input_items"],
        answer=page_of(_ANY),
    ),
}

# ---- Anthropic -------------------------------------------------------------------------------------------------------

_ANTHROPIC_MESSAGE: Final = Named(
    "Message",
    {
        "id": str,
        "type": "message",
        "role": "assistant",
        "model": str,
        "content": [{"type": str}],
        "stop_reason": (str, None),
        "usage": _ANY,
    },
    "An answer of the Messages API.",
)
_UNFINISHED: Final = {"id": str, "type?": str, "status": str}
MESSAGES: Final[dict[str, Operation]] = {
    "POST /v1/messages": Operation(
        summary="Answer messages, with the server's tools run in between",
        fields=MESSAGE_FIELDS,
        needs=("max_tokens", "messages"),
        answer=_ANTHROPIC_MESSAGE,
        events={"type": str},
        others={202: _UNFINISHED},
    ),
    **_stored("/v1/messages/msg_{id}", "A message", _UNFINISHED, {"type": str}, "message.deleted"),
    "POST /v1/messages/count_tokens": Operation(
        summary="Count the tokens of messages; no model is called",
        fields=MESSAGE_FIELDS,
        needs=("messages",),
        answer={"input_tokens": int},
    ),
}

# ---- Mistral ---------------------------------------------------------------------------------------------------------

_AGENT: Final = Named("Agent", {"object": "agent", "id": str, "name": str, "model": str, "version": int})
_ALIAS: Final = {"alias": str, "version": int}
_CONVERSATION: Final = Named("Conversation", {"object": "conversation", "id": str})
_CONVERSATION_ANSWER: Final = Named(
    "ConversationAnswer", {"object": "conversation.response", "conversation_id": str, "outputs": [_ANY], "usage": _ANY}
)
_PAGE: Final[dict[str, Field]] = {"page": (int, "which page, from 0"), "page_size": (int, "of one page")}
_AGENT_PATH: Final = "/v1/agents/{agent_id}"
_CONVERSATION_PATH: Final = "/v1/conversations/{conversation_id}"
_VERSION: Final[dict[str, Field]] = {"version": (int, "which version")}


def _conversing(summary: str, fields: dict[str, str], *needs: str) -> Operation:
    return Operation(
        summary=summary,
        fields={**fields, "inputs": ((str, [_ANY]), "a text, or entries")},
        needs=needs,
        answer=_CONVERSATION_ANSWER,
        events={"type": str},
        others={202: _CONVERSATION_ANSWER},
    )


MISTRAL: Final[dict[str, Operation]] = {
    "POST /v1/agents/completions": Operation(
        summary="Answer a conversation as an agent",
        fields=mistral.COMPLETION,
        needs=("messages", "agent_id"),
        answer=CHAT_COMPLETION,
        events=_CHUNK,
        others={202: CHAT_COMPLETION},
    ),
    **_stored("/v1/agents/completions/{id}", "An agent's answer", CHAT_COMPLETION, _CHUNK, "chat.completion.deleted"),
    "POST /v1/agents": Operation(summary="Make an agent", fields=mistral.AGENT, needs=("model", "name"), answer=_AGENT),
    "GET /v1/agents": Operation(summary="List your agents", query=_PAGE, answer=[_AGENT]),
    "GET /v1/agents/pages": Operation(
        summary="List your agents, in pages",
        query=_PAGE,
        answer={"object": "list", "data": [_AGENT], "next_page_token?": (str, None)},
    ),
    f"GET {_AGENT_PATH}": Operation(
        summary="An agent", query={"agent_version": (str, "a version, or an alias of one")}, answer=_AGENT
    ),
    f"PATCH {_AGENT_PATH}": Operation(summary="Change an agent: another version", fields=mistral.AGENT, answer=_AGENT),
    f"DELETE {_AGENT_PATH}": Operation(summary="Delete an agent", answer=None, status=204),
    f"PATCH {_AGENT_PATH}/version": Operation(
        summary="Go back to a version", query=_VERSION, needs=("version",), answer=_AGENT
    ),
    f"GET {_AGENT_PATH}/versions": Operation(summary="List the versions", query=_PAGE, answer=[_AGENT]),
    f"GET {_AGENT_PATH}/versions/{{version}}": Operation(summary="A version", answer=_AGENT),
    f"PUT {_AGENT_PATH}/aliases": Operation(
        summary="Name a version",
        query={"alias": (str, "its name"), **_VERSION},
        needs=("alias", "version"),
        answer=_ALIAS,
    ),
    f"GET {_AGENT_PATH}/aliases": Operation(summary="List the names of versions", answer=[_ALIAS]),
    f"DELETE {_AGENT_PATH}/aliases": Operation(
        summary="Take a name away", query={"alias": (str, "its name")}, needs=("alias",), answer=None, status=204
    ),
    "POST /v1/conversations": _conversing("Begin a conversation", mistral.START, "inputs"),
    "GET /v1/conversations": Operation(
        summary="List your conversations",
        query={**_PAGE, "metadata": (str, "JSON: members that a conversation must have")},
        answer=[_CONVERSATION],
    ),
    f"POST {_CONVERSATION_PATH}": _conversing("Continue a conversation", mistral.APPEND),
    f"GET {_CONVERSATION_PATH}": Operation(
        summary="A conversation, or its answer that was asked for in the background",
        query=_FOLLOWED,
        answer=_CONVERSATION,
        events={"type": str},
    ),
    f"DELETE {_CONVERSATION_PATH}": Operation(summary="Delete a conversation", answer=None, status=204),
    f"POST {_CONVERSATION_PATH}/restart": _conversing(
        "Begin a conversation from an entry of another", mistral.RESTART, "from_entry_id"
    ),
    f"GET {_CONVERSATION_PATH}/history": Operation(
        summary="All entries of a conversation",
        answer={"object": "conversation.history", "conversation_id": str, "entries": [_ANY]},
    ),
    f"GET {_CONVERSATION_PATH}/messages": Operation(
        summary="The messages of a conversation",
        answer={"object": "conversation.messages", "conversation_id": str, "messages": [_ANY]},
    ),
}

# ---- files, containers and skills, for clients of all three -----------------------------------------------------------

_FILE: Final = Named(
    "StoredFile", {"id": str, "object?": "file", "type?": "file", "filename": str}, "In the client's form."
)
_DELETED: Final = {"id": str, "object?": str, "type?": str, "deleted?": bool}
_BYTES: Final = "*/*"  # of the file's own media type
_FILE_PAGE: Final = {"data": [_FILE], "has_more?": bool}
_CONTAINER: Final = Named("Container", {"id": str, "object": "container", "name": str, "status": str})
_CONTAINER_FILE: Final = Named("ContainerFile", {"id": str, "object": "container.file", "path": str, "bytes": int})
_FILE_FIELDS: Final[dict[str, Field]] = {
    "file": (Any, "the file itself"),
    "purpose": (str, "what it is for: user_data"),
}
_LISTING: Final[dict[str, Field]] = {
    "limit": (int, "of one page"),
    "after": (str, "an id: those behind it"),
    "order": (str, "asc, desc"),
}

FILES: Final[dict[str, Operation]] = {
    "POST /v1/files": Operation(summary="Upload a file", form=_FILE_FIELDS, needs=("file", "purpose"), answer=_FILE),
    "GET /v1/files": Operation(
        summary="List your files", query={**_LISTING, "purpose": (str, "only those of it")}, answer=_FILE_PAGE
    ),
    "GET /v1/files/{id}": Operation(summary="What is known of a file", answer=_FILE),
    "DELETE /v1/files/{id}": Operation(summary="Delete a file", answer=_DELETED),
    "GET /v1/files/{id}/content": Operation(summary="The file itself", answer=Any, kind=_BYTES),
    "GET /v1/files/{id}/url": Operation(
        summary="A link that loads the file for a while, without a key",
        query={"expiry": (int, "hours")},
        answer={"url": str},
    ),
    "GET /v1/file-links/{token}": Operation(summary="The file behind a link", answer=Any, kind=_BYTES),
    "POST /v1/containers": Operation(
        summary="Make a container",
        fields={
            "name": (str, "of the container"),
            "file_ids": ([str], "files that it has"),
            "memory_limit": (str, "1g, 4g, 16g, 64g"),
            "network_policy": (Any, "disabled, or the domains that are allowed"),
            "expires_after": (Any, "`anchor` and `minutes`"),
            "skills": ([], "skills that it has"),
        },
        needs=("name",),
        answer=_CONTAINER,
    ),
    "GET /v1/containers": Operation(
        summary="List your containers", query={**_LISTING, "name": (str, "of one")}, answer=page_of(_CONTAINER)
    ),
    "GET /v1/containers/{id}": Operation(summary="A container", answer=_CONTAINER),
    "DELETE /v1/containers/{id}": Operation(summary="Delete a container", answer=_DELETED),
    "POST /v1/containers/{id}/files": Operation(
        summary="Put a file into a container, as a form or by the id of one",
        fields={"file_id": (str, "of a file of yours")},
        needs=("file_id",),
        answer=_CONTAINER_FILE,
    ),
    "GET /v1/containers/{id}/files": Operation(
        summary="List the files of a container", query=_LISTING, answer=page_of(_CONTAINER_FILE)
    ),
    "GET /v1/containers/{id}/files/{file_id}": Operation(summary="A file of a container", answer=_CONTAINER_FILE),
    "DELETE /v1/containers/{id}/files/{file_id}": Operation(summary="Delete it", answer=_DELETED),
    "GET /v1/containers/{id}/files/{file_id}/content": Operation(summary="The file itself", answer=Any, kind=_BYTES),
}

_SKILL: Final = Named("Skill", {"id": str, "object?": "skill", "type?": "skill"}, "In the client's form.")
_SKILL_VERSION: Final = Named("SkillVersion", {"id": str, "skill_id": str, "version": str, "name": str})
_SKILL_FORM: Final[dict[str, Field]] = {"files": (Any, "the files of a skill, or one archive; SKILL.md is among them")}
_SKILL_PATH: Final = "/v1/skills/{id}"

SKILLS: Final[dict[str, Operation]] = {
    "POST /v1/skills": Operation(summary="Upload a skill", form=_SKILL_FORM, needs=("files",), answer=_SKILL),
    "GET /v1/skills": Operation(
        summary="List your skills", query=_LISTING, answer={"data": [_SKILL], "has_more": bool}
    ),
    f"GET {_SKILL_PATH}": Operation(summary="A skill", answer=_SKILL),
    f"POST {_SKILL_PATH}": Operation(
        summary="Choose the version that is used",
        fields={"default_version": (str, "its number")},
        needs=("default_version",),
        answer=_SKILL,
    ),
    f"DELETE {_SKILL_PATH}": Operation(summary="Delete a skill", answer=_DELETED),
    f"GET {_SKILL_PATH}/content": Operation(summary="The skill as an archive", answer=Any, kind="application/zip"),
    f"POST {_SKILL_PATH}/versions": Operation(
        summary="Upload another version", form=_SKILL_FORM, needs=("files",), answer=_SKILL_VERSION
    ),
    f"GET {_SKILL_PATH}/versions": Operation(
        summary="List the versions", query=_LISTING, answer={"data": [_SKILL_VERSION], "has_more": bool}
    ),
    f"GET {_SKILL_PATH}/versions/{{version}}": Operation(summary="A version", answer=_SKILL_VERSION),
    f"DELETE {_SKILL_PATH}/versions/{{version}}": Operation(summary="Delete a version", answer=_DELETED),
    f"GET {_SKILL_PATH}/versions/{{version}}/content": Operation(
        summary="A version as an archive", answer=Any, kind="application/zip"
    ),
}
