"""The methods and types of the client. Printed by docs/make_clients.py from the OpenAPI document: change that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, Unpack

from ronda.client.transport import ServerEvent, Transport, place


class Annotation(TypedDict):
    """A stretch of the turn's text that speaks of a source: of its texts together, in Unicode characters, the end
    not included. `number` is that of the source in what the model was shown.
    """

    type: Literal["url_citation"]
    start_index: int
    end_index: int
    url: str
    title: str
    number: int


class Answered(TypedDict):
    """A person or a rule decided, or the time for it ran out. `arguments` (JSON text) go in the place of those that
    the call was asked with: they change what runs, never the model's turn. With `remember` it holds for every
    call of this tool in this run: those to come, and those in question now.
    """

    type: Literal["answered"]
    id: str
    decision: Literal["approve", "deny", "expired"]
    arguments: NotRequired[str | None]
    message: NotRequired[str | None]
    remember: NotRequired[bool]
    by: NotRequired[str]
    at: NotRequired[float]


class Approval(TypedDict):
    """A call that waits for a person."""

    type: str
    approval_id: str
    session_id: str
    round: int
    tool: ApprovalTool
    arguments: Any
    tool_name: str
    tool_call_id: str
    expires_at: float | None
    run_id: str
    created_at: float
    reason: NotRequired[str]
    question: NotRequired[str]
    message: NotRequired[str]
    schema: NotRequired[Any]


class ApprovalTool(TypedDict):
    source: str
    kind: str
    label: str


class ArgumentPatch(TypedDict):
    """ "set" puts `value` at `path`, a JSON pointer into the call's arguments; "append" adds it to the text there."""

    op: Literal["append", "set"]
    path: str
    value: Any


class AssistantTurn(TypedDict):
    type: Literal["assistant"]
    parts: list[Text | Reasoning | Refusal | ToolCall]
    stop: NotRequired[Literal["content_filter", "interrupted", "length", "stop", "tool_calls"]]
    stop_sequence: NotRequired[str | None]


class Audio(TypedDict):
    """`data` is base64, `format` the file format: wav, mp3, …"""

    type: Literal["audio"]
    data: str
    format: str


class Budget(TypedDict):
    """How far the tightest of the budgets is used that a run spends from, after a call: what was spent, and what is
    reserved for calls under way.
    """

    scope: str
    per: str
    unit: str
    limit: float
    spent: float
    reserved: float
    remaining: float
    currency: NotRequired[str | None]


class BudgetState(TypedDict):
    """How far a budget is used."""

    scope: str
    per: str
    unit: str
    limit: float
    spent: float
    reserved: float
    remaining: float
    currency: NotRequired[str | None]


class CallDelta(TypedDict):
    """A tool call grows. `index` counts the calls of this turn; `id` and `name` are what is known of them so far."""

    type: Literal["call_delta"]
    index: int
    id: str
    name: str
    arguments: str
    at: NotRequired[float]


class CallPreviewed(TypedDict):
    """What is new of the arguments that a tool wants watched (`preview`). It follows the event that it was made
    from, and has its position. `index` counts the calls of the turn.
    """

    type: Literal["call_preview"]
    index: int
    id: str
    name: str
    patches: list[ArgumentPatch]


class Checked(TypedDict):
    """An answer was checked. A `problem` names what is wrong with an answer's form, or why a guardrail said no. A
    guardrail may put something else in the place of what it saw: turns (input), a text (output), JSON arguments
    (tool).
    """

    type: Literal["checked"]
    problem: NotRequired[str | None]
    at: NotRequired[float]
    stage: NotRequired[Literal["format", "input", "output", "tool"]]
    allowed: NotRequired[bool]
    call_id: NotRequired[str | None]


class Compacted(TypedDict):
    """From here on the model is shown `summary` in the place of earlier turns; the run keeps them. Gone are the
    turns before `upto`, but for the instructions and those `kept`. `failure` says why the summary is a plain
    excerpt although a better one was asked for.
    """

    type: Literal["compacted"]
    upto: int
    summary: str
    kept: NotRequired[list[int]]
    failure: NotRequired[str | None]
    at: NotRequired[float]


class Ended(TypedDict):
    """A tool answered, or failed trying. `details` is what it tells people and programs, `files` are those that it
    made.
    """

    type: Literal["tool_finished"]
    result: ToolResult
    at: NotRequired[float]
    usage: NotRequired[Usage]
    tool_calls: NotRequired[int]
    name: NotRequired[str]
    details: NotRequired[Any]
    files: NotRequired[list[File]]
    offers: NotRequired[list[str]]


class File(TypedDict):
    """Content as a data: URL, or a provider's id of a file it already has. Of one that a tool made, also what is
    known of it where its content does not travel along; `problem` says why there is none.
    """

    type: Literal["file"]
    data: NotRequired[str | None]
    name: NotRequired[str | None]
    id: NotRequired[str | None]
    size: NotRequired[int | None]
    format: NotRequired[str]
    preview: NotRequired[str]
    problem: NotRequired[str]
    marks: NotRequired[list[str]]


class Finished(TypedDict):
    """The model's turn is complete. `first_at` is when the first of it was shown. `logprobs` are token
    probabilities, in the provider's JSON. `model` is the one that answered, where it is not the run's.
    """

    type: Literal["model_finished"]
    turn: AssistantTurn
    usage: NotRequired[Usage]
    at: NotRequired[float]
    logprobs: NotRequired[Any]
    budget: NotRequired[Budget | None]
    first_at: NotRequired[float]
    annotations: NotRequired[list[Annotation]]
    model: NotRequired[str]


class Image(TypedDict):
    """`url` is http(s) or a data: URL."""

    type: Literal["image"]
    url: str
    detail: NotRequired[str | None]


class Key(TypedDict):
    """An API key; the key itself is only in the answer to the request that made it."""

    object: Literal["key"]
    id: str
    owner: str
    scopes: list[str] | None
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    last_used_at: float | None
    key: NotRequired[str]


class LogprobsDelta(TypedDict):
    """Token probabilities of the text just shown, in the provider's JSON."""

    type: Literal["logprobs_delta"]
    logprobs: Any
    at: NotRequired[float]


class McpServer(TypedDict):
    """How an MCP server fares."""

    name: str
    transport: str
    era: str
    state: str
    tools: int
    last_error: str | None
    since: float


class Me(TypedDict):
    """Who asks, and what the server has."""

    object: Literal["me"]
    owner: str
    key_id: str | None
    scopes: list[str] | None
    needs_key: bool
    csrf: str | None
    signed_in_until: float | None
    version: str
    features: list[str]


class ModelFailed(TypedDict):
    """All tries are used up, or trying again would not help."""

    type: Literal["model_failed"]
    reason: str
    status: NotRequired[int | None]
    tries: NotRequired[int]
    at: NotRequired[float]
    too_long: NotRequired[bool]
    code: NotRequired[str]


class ModelInterrupted(TypedDict):
    """The answer broke off. What was shown of it is in `turn`; a next attempt is a new item, never a silent repeat.
    Where the upstream broke off, something was shown, and the plan says whether the model is asked again. Where
    our process ended, no client is left that was shown anything, and it is. (Journals of old do not say, and went
    on in both cases.)
    """

    type: Literal["model_interrupted"]
    turn: AssistantTurn
    reason: str
    at: NotRequired[float]
    cause: NotRequired[Literal["process", "upstream"]]
    announced: NotRequired[bool]


class ModelRetried(TypedDict):
    """A try failed before anything was shown; the next one comes after `wait` seconds."""

    type: Literal["model_retried"]
    attempt: int
    tries: int
    reason: str
    wait: NotRequired[float]
    at: NotRequired[float]


class ModelStarted(TypedDict):
    type: Literal["model_started"]
    round: int
    last: NotRequired[bool]
    nudge: NotRequired[str | None]
    at: NotRequired[float]
    owes: NotRequired[bool]


class NoticeAddress(TypedDict):
    """An address that is told about an owner's runs."""

    object: Literal["notice"]
    id: str
    url: str
    events: list[str]
    created_at: float
    undelivered: list[NoticeAddressUndeliveredItem]


class NoticeAddressUndeliveredItem(TypedDict):
    id: str
    event: str
    created_at: float
    tries: int
    problem: str
    next_try_at: float | None


class OwnerEvent(TypedDict):
    """What happens to an owner's runs and sessions: `run_started`, `run_changed`, `asked`, `answered`,
    `session_changed`, `run_event`, `ready`, `reset`.
    """

    type: str
    at: NotRequired[float]
    run: NotRequired[Any]
    question: NotRequired[Any]
    session: NotRequired[Any]
    position: NotRequired[str]
    event: NotRequired[RunEvent]


class Question(TypedDict):
    """A person has to decide: whether a call may run ("approval"), or what a tool wants to know ("input").
    `arguments` is JSON text, as in a call; `schema` says what an answer of kind "input" must look like,
    `parameters` what other arguments must look like that an approval brings. `cause` of an approval is that it is
    asked for ("permission"), or that data could leave ("taint").
    """

    type: Literal["asked"]
    id: str
    call_id: str
    kind: Literal["approval", "input"]
    tool: NotRequired[str]
    arguments: NotRequired[str]
    schema: NotRequired[Any]
    message: NotRequired[str]
    expires_at: NotRequired[float]
    at: NotRequired[float]
    child: NotRequired[str]
    cause: NotRequired[Literal["permission", "taint"]]
    parameters: NotRequired[Any]


class Reasoning(TypedDict):
    """What the model thought aloud. Never sent to another vendor, never part of an answer."""

    type: Literal["reasoning"]
    text: str


class ReasoningDelta(TypedDict):
    type: Literal["reasoning_delta"]
    text: str
    at: NotRequired[float]


class Recovered(TypedDict):
    """Another process continues the run: the one that drove it ended first."""

    type: Literal["recovered"]
    at: NotRequired[float]


class Refusal(TypedDict):
    type: Literal["refusal"]
    text: str


class RefusalDelta(TypedDict):
    type: Literal["refusal_delta"]
    text: str
    at: NotRequired[float]


class Released(TypedDict):
    """The process that drove the run was told to end, and left the run to another: nothing is wrong with either."""

    type: Literal["released"]
    at: NotRequired[float]


class Run(TypedDict):
    """How a run stands, and its result."""

    object: Literal["run"]
    id: str
    state: Literal["queued", "running", "waiting", "finished", "failed", "cancelled", "interrupted"]
    model: str
    agent: str | None
    session: str | None
    parent: RunParent | None
    created_at: float
    ended_at: float | None
    position: str
    questions: list[RunEvent]
    result: RunResult | None
    incomplete: list[RunIncompleteItem]
    end: RunEnd | None
    usage: RunUsage
    budget: BudgetState | None
    group: str | None
    previews: Literal["kept", "gone"]
    files: NotRequired[dict[str, str]]
    queue_position: NotRequired[int]


class RunParent(TypedDict):
    run: str
    facts: int
    call: str | None


class RunResult(TypedDict):
    text: str
    tool_calls: list[RunResultToolCallsItem]


class RunResultToolCallsItem(TypedDict):
    id: str
    name: str
    arguments: str


class RunIncompleteItem(TypedDict):
    text: str
    reason: str


class RunEnd(TypedDict):
    reason: str
    limit: str | None
    message: str | None
    code: str | None


class RunUsage(TypedDict):
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    cost: float | None
    cache_written_tokens: int
    rounds: int
    tool_calls: int


class RunFinished(TypedDict):
    """`tool_calls`: the caller's turn. `limit` names what was reached; `answer` is said where the model said
    nothing.
    """

    type: Literal["run_finished"]
    reason: Literal["cancelled", "content_filter", "failed", "interrupted", "length", "limit", "stop", "tool_calls"]
    limit: NotRequired[
        Literal[
            "max_seconds",
            "max_tokens",
            "max_tool_calls",
            "max_tool_rounds",
            "repeated_call",
            "unknown_tool",
            "unreadable_calls",
        ]
        | None
    ]
    message: NotRequired[str | None]
    answer: NotRequired[str | None]
    at: NotRequired[float]
    code: NotRequired[
        Literal[
            "crash_loop",
            "guardrail",
            "model_failed",
            "model_interrupted",
            "no_call",
            "superseded",
            "tool_missing",
            "wrong_format",
        ]
        | None
    ]


class RunRow(TypedDict):
    """A run as lists have it."""

    object: Literal["run"]
    id: str
    state: Literal["queued", "running", "waiting", "finished", "failed", "cancelled", "interrupted"]
    agent: str | None
    session: str | None
    created_at: float
    ended_at: float | None
    model: str | None
    input: str | None
    parent: RunRowParent | None
    group: str | None
    rounds: int | None
    tool_calls: int | None
    usage: RunRowUsage | None
    cost: float | None
    end: RunRowEnd | None
    questions: list[RunRowQuestionsItem]
    kept: bool


class RunRowParent(TypedDict):
    run: str
    call: str | None


class RunRowUsage(TypedDict):
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int


class RunRowEnd(TypedDict):
    reason: str
    limit: str | None
    code: str | None


class RunRowQuestionsItem(TypedDict):
    id: str
    kind: str
    tool: str | None
    asked_at: float


class Session(TypedDict):
    """A conversation that the server keeps."""

    id: str
    object: Literal["session"]
    created_at: float
    updated_at: float
    turns: int
    bytes: int
    title: str | None
    metadata: dict[str, Any]
    branch: str
    state: NotRequired[str | None]
    run: NotRequired[str | None]


class SessionDocument(TypedDict):
    """A session to be moved; with `limit` in the query a page of its turns, to be shown."""

    messages: NotRequired[list[dict[str, Any]]]
    data: NotRequired[list[SessionDocumentDataItem]]
    has_more: NotRequired[bool]
    next: NotRequired[str | None]


class SessionDocumentDataItem(TypedDict):
    index: int
    run: str | None
    round: int | None
    at: float
    messages: list[dict[str, Any]]
    turn: NotRequired[dict[str, Any]]


class Share(TypedDict):
    """What a run may use of what its parent had left. None is as much as it likes."""

    rounds: int
    tool_calls: NotRequired[int | None]
    tokens: NotRequired[int | None]
    seconds: NotRequired[float | None]


class Started(TypedDict):
    """A run began. `turns` is the conversation it began with, without instructions. One that is a `call` of its
    parent has a share of its parent's limits.
    """

    type: Literal["run_started"]
    version: int
    run: str
    model: str
    turns: list[UserTurn | AssistantTurn | ToolTurn]
    tools: NotRequired[list[str]]
    at: NotRequired[float]
    parent: NotRequired[list[Any] | None]
    session: NotRequired[str]
    sibling: NotRequired[int]
    call: NotRequired[str]
    limits: NotRequired[Share | None]


class Steered(TypedDict):
    """A person or a program said something while the run was under way. The model hears it with its next call."""

    type: Literal["steered"]
    turn: UserTurn
    at: NotRequired[float]


class Text(TypedDict):
    type: Literal["text"]
    text: str


class TextDelta(TypedDict):
    type: Literal["text_delta"]
    text: str
    at: NotRequired[float]


class Tool(TypedDict):
    """What a model here may call."""

    object: Literal["tool"]
    name: str
    label: str
    description: str
    source: ToolSource
    labels: list[str]
    approval: str | None
    parameters: dict[str, Any]
    offered: bool


class ToolSource(TypedDict):
    kind: str
    type: str | None
    server: str | None


class ToolCall(TypedDict):
    """What the model asks for. `arguments` is JSON text. When the model wrote something else, `repairs` names what
    was done to read it and `written` keeps its own words; when nothing could be read, `problem` says why, and the
    call is never run.
    """

    type: Literal["tool_call"]
    id: str
    name: str
    arguments: str
    repairs: NotRequired[list[str]]
    written: NotRequired[str | None]
    problem: NotRequired[str | None]


class ToolProgressed(TypedDict):
    """A tool that is running shows what it has so far. What the model reads is its result."""

    type: Literal["tool_progressed"]
    call_id: str
    text: str
    stream: NotRequired[str]
    part: NotRequired[int]
    at: NotRequired[float]


class ToolResult(TypedDict):
    """The result of a call. The model reads it whether it failed or not."""

    type: Literal["tool_result"]
    call_id: str
    content: str
    failed: NotRequired[bool]
    attachments: NotRequired[list[Image | Audio | Video | File]]
    whole: NotRequired[str]
    marks: NotRequired[list[str]]


class ToolStarted(TypedDict):
    """Journaled before the tool starts, so that a crash never leaves a call that may have run unrecorded."""

    type: Literal["tool_started"]
    call_id: str
    at: NotRequired[float]
    name: NotRequired[str]
    child: NotRequired[str]


class ToolTurn(TypedDict):
    """The results of one assistant turn, in the order the model asked."""

    type: Literal["tool"]
    results: list[ToolResult]


class Usage(TypedDict):
    """Tokens, as the provider counted them."""

    input: NotRequired[int]
    output: NotRequired[int]
    cached: NotRequired[int]
    reasoning: NotRequired[int]
    prompt_seconds: NotRequired[float]
    completion_seconds: NotRequired[float]
    cache_written: NotRequired[int]
    cost: NotRequired[float | None]


class UserTurn(TypedDict):
    type: Literal["user"]
    parts: list[Text | Image | Audio | Video | File]
    name: NotRequired[str | None]


class Video(TypedDict):
    type: Literal["video"]
    url: str


class Warned(TypedDict):
    """Something the caller should hear of that did not stop the run. With the code `unknown_event` it stands for an
    event of a kind that only a newer Ronda knows: such a run can be read, and only the newer Ronda drives it.
    """

    type: Literal["warned"]
    message: str
    at: NotRequired[float]
    code: NotRequired[str]


class StartRunsFields(TypedDict):
    input: str | list[dict[str, Any]]
    model: NotRequired[str | list[str] | None]
    instructions: NotRequired[str | None]
    variants: NotRequired[int | None]
    files: NotRequired[dict[str, str] | None]
    disabled_tools: NotRequired[list[str] | None]
    parent: NotRequired[str | None]


class StartRunsAnswer(TypedDict):
    object: Literal["run_group"]
    id: str | None
    data: list[RunRow]


class ListRunsFields(TypedDict):
    state: NotRequired[str]
    session: NotRequired[str]
    agent: NotRequired[str]
    model: NotRequired[str]
    q: NotRequired[str]
    since: NotRequired[str | float]
    until: NotRequired[str | float]
    min_cost: NotRequired[float]
    children: NotRequired[bool]
    parent: NotRequired[str]
    root: NotRequired[str]
    kept: NotRequired[bool]
    group: NotRequired[str]
    limit: NotRequired[int]
    before: NotRequired[str]


class ListRunsAnswer(TypedDict):
    object: Literal["list"]
    data: list[RunRow]
    has_more: bool
    next: str | None


class ListApprovalsFields(TypedDict):
    owner: NotRequired[str]


class ListApprovalsAnswer(TypedDict):
    object: Literal["list"]
    data: list[Approval]
    has_more: bool


class DecideFields(TypedDict):
    owner: NotRequired[str]
    decision: Literal["approve", "deny"]
    message: NotRequired[str | None]
    remember_for_session: NotRequired[bool | None]
    arguments: NotRequired[dict[str, Any] | None]


class DecideAnswer(TypedDict):
    status: Literal["resolved"]


class FollowAllFields(TypedDict):
    run: NotRequired[str]
    after: NotRequired[str]


class SummarizeRunsFields(TypedDict):
    state: NotRequired[str]
    session: NotRequired[str]
    agent: NotRequired[str]
    model: NotRequired[str]
    q: NotRequired[str]
    since: NotRequired[str | float]
    until: NotRequired[str | float]
    min_cost: NotRequired[float]
    children: NotRequired[bool]
    parent: NotRequired[str]
    root: NotRequired[str]
    kept: NotRequired[bool]
    group: NotRequired[str]
    span: NotRequired[str]
    pieces: NotRequired[int]


class SummarizeRunsAnswer(TypedDict):
    object: Literal["run_summary"]
    since: float
    until: float
    step: float
    states: dict[str, int]
    histogram: list[SummarizeRunsAnswerHistogramItem]


class SummarizeRunsAnswerHistogramItem(TypedDict):
    at: float
    states: dict[str, int]


class MarkRunFields(TypedDict):
    kept: bool


class FollowRunFields(TypedDict):
    after: NotRequired[str]


class GetRoundRequestAnswer(TypedDict):
    object: str
    model: str
    run: str
    round: int
    cached_tokens: int | None


class CancelRunFields(TypedDict):
    owner: NotRequired[str]


class CancelRunAnswer(TypedDict):
    id: str
    object: Literal["run"]
    owner: str
    state: Literal["cancelled"]


class SteerRunFields(TypedDict):
    text: str


class AnswerRunFields(TypedDict):
    id: str
    decision: Literal["approve", "deny"]
    arguments: NotRequired[Any]
    message: NotRequired[str | None]
    remember: NotRequired[bool | None]


class ListSessionsFields(TypedDict):
    limit: NotRequired[int]
    before: NotRequired[str]
    q: NotRequired[str]


class ListSessionsAnswer(TypedDict):
    object: Literal["list"]
    data: list[Session]
    has_more: bool
    next: str | None


class ForkSessionFields(TypedDict):
    id: NotRequired[str | None]
    num_turns: NotRequired[int | None]
    run: NotRequired[str | None]
    round: NotRequired[int | None]


class ForkSessionAnswer(TypedDict):
    id: str


class ListSessionApprovalsAnswer(TypedDict):
    object: Literal["list"]
    data: list[ListSessionApprovalsAnswerDataItem]
    has_more: bool


class ListSessionApprovalsAnswerDataItem(TypedDict):
    kind: Literal["tool", "send"]
    tool: str
    expires_at: float


class TakeBackApprovalsFields(TypedDict):
    tool: NotRequired[str]


class TakeBackApprovalsAnswer(TypedDict):
    object: Literal["list"]
    data: list[TakeBackApprovalsAnswerDataItem]
    has_more: bool


class TakeBackApprovalsAnswerDataItem(TypedDict):
    kind: Literal["tool", "send"]
    tool: str
    expires_at: float


class GetSessionFields(TypedDict):
    branch: NotRequired[str]
    limit: NotRequired[int]
    before: NotRequired[int]


class PutSessionFields(TypedDict):
    messages: list[dict[str, Any]]
    images: NotRequired[list[str] | None]
    files: NotRequired[list[dict[str, Any]] | None]
    title: NotRequired[str | None]
    metadata: NotRequired[dict[str, Any] | None]
    turns: NotRequired[Any]


class ChangeSessionFields(TypedDict):
    title: NotRequired[str | None]
    metadata: NotRequired[dict[str, Any] | None]
    branch: NotRequired[str | None]


class ListToolsAnswer(TypedDict):
    object: Literal["list"]
    data: list[Tool]
    has_more: bool


class ListMcpServersAnswer(TypedDict):
    servers: list[McpServer]


class RenderFields(TypedDict):
    dialect: NotRequired[Literal["chat", "messages", "responses"]]


class RenderAnswer(TypedDict):
    object: str
    model: str


class GetSystemInfoAnswer(TypedDict):
    object: Literal["system.info"]
    version: str
    python: str
    os: GetSystemInfoAnswerOs
    cpu: GetSystemInfoAnswerCpu
    memory: GetSystemInfoAnswerMemory
    model: str
    features: list[str]
    uptime: float


class GetSystemInfoAnswerOs(TypedDict):
    name: str
    release: str
    machine: str


class GetSystemInfoAnswerCpu(TypedDict):
    logical_cores: int | None
    usable_cores: int


class GetSystemInfoAnswerMemory(TypedDict):
    total_bytes: int | None
    available_bytes: int | None


class AskDoctorAnswer(TypedDict):
    object: Literal["system.doctor"]
    status: Literal["works", "fails"]
    checks: list[AskDoctorAnswerChecksItem]


class AskDoctorAnswerChecksItem(TypedDict):
    name: str
    state: Literal["works", "partly", "missing", "fails"]
    text: str
    help: str | None


class ListKeysAnswer(TypedDict):
    object: Literal["list"]
    data: list[Key]
    has_more: bool


class CreateKeyFields(TypedDict):
    owner: str
    scopes: NotRequired[list[str] | None]
    expires_in: NotRequired[float | None]


class RevokeKeyAnswer(TypedDict):
    object: Literal["key.deleted"]
    id: str
    deleted: bool


class ListActsFields(TypedDict):
    limit: NotRequired[int]
    before: NotRequired[int]


class ListActsAnswer(TypedDict):
    object: Literal["list"]
    data: list[ListActsAnswerDataItem]
    has_more: bool


class ListActsAnswerDataItem(TypedDict):
    id: int
    at: float
    owner: str
    actor: str
    act: str
    subject: str
    client: str
    details: str


class ShowOperationFields(TypedDict):
    limit: NotRequired[int]
    before: NotRequired[int]
    span: NotRequired[str]


class ShowOperationAnswer(TypedDict):
    object: Literal["operate"]
    at: float
    uptime: float
    processes: int
    queued: int
    running: int
    waiting: int
    oldest_queued: float | None
    oldest_waiting: float | None
    first_token_median: float | None
    first_token_95: float | None
    tokens_a_minute: float
    cached_share: float | None
    cost_today: float | None
    models: list[ShowOperationAnswerModelsItem]
    owners: list[ShowOperationAnswerOwnersItem]
    series: ShowOperationAnswerSeries
    runs: list[ShowOperationAnswerRunsItem]
    has_more: bool
    next: str | None
    approvals: list[ShowOperationAnswerApprovalsItem]
    process_list: list[ShowOperationAnswerProcessListItem]
    journal: ShowOperationAnswerJournal
    files: ShowOperationAnswerFiles
    mcp: list[ShowOperationAnswerMcpItem]


class ShowOperationAnswerModelsItem(TypedDict):
    name: str
    runs: int
    calls: int
    failed: int
    first_token: float | None
    cost: float | None
    cools_for: float | None


class ShowOperationAnswerOwnersItem(TypedDict):
    owner: str
    running: int
    waiting: int
    runs: int
    spent: float | None
    reserved: float
    budget: float | None


class ShowOperationAnswerSeries(TypedDict):
    open: list[int]
    queued: list[int | None]
    waiting: list[int | None]
    tokens: list[float]
    cost: list[float | None]
    first_token: list[float]


class ShowOperationAnswerRunsItem(TypedDict):
    id: str
    object: Literal["run"]
    owner: str
    state: str
    doing: str | None
    calls: list[str]


class ShowOperationAnswerApprovalsItem(TypedDict):
    run: str
    owner: str
    tool: str | None
    asked_at: float
    age: float


class ShowOperationAnswerProcessListItem(TypedDict):
    name: str
    since: float
    is_this: bool


class ShowOperationAnswerJournal(TypedDict):
    bytes: int | None


class ShowOperationAnswerFiles(TypedDict):
    count: int
    bytes: int


class ShowOperationAnswerMcpItem(TypedDict):
    name: str
    state: str


class ListErrorsFields(TypedDict):
    span: NotRequired[str]


class ListErrorsAnswer(TypedDict):
    object: Literal["list"]
    since: float
    until: float
    failed: int
    data: list[ListErrorsAnswerDataItem]


class ListErrorsAnswerDataItem(TypedDict):
    code: str | None
    model: str | None
    agent: str | None
    count: int
    last_at: float | None


class ListStepsFields(TypedDict):
    span: NotRequired[str]
    step: NotRequired[int]


class ListStepsAnswer(TypedDict):
    object: Literal["list"]
    since: float
    until: float
    step: int
    data: list[ListStepsAnswerDataItem]


class ListStepsAnswerDataItem(TypedDict):
    at: float
    started: int
    ended: int
    failed: int
    input_tokens: int
    output_tokens: int
    cost: float | None


class RetryMcpServerAnswer(TypedDict):
    object: Literal["mcp_server"]
    name: str
    state: str


class ListNoticesAnswer(TypedDict):
    object: Literal["list"]
    data: list[NoticeAddress]
    has_more: bool
    undelivered_of_requests: list[ListNoticesAnswerUndeliveredOfRequestsItem]


class ListNoticesAnswerUndeliveredOfRequestsItem(TypedDict):
    id: str
    event: str
    created_at: float
    tries: int
    problem: str
    next_try_at: float | None
    url: str


class CreateNoticeFields(TypedDict):
    url: str
    events: NotRequired[
        list[
            Literal[
                "run.finished",
                "run.failed",
                "run.waiting",
                "response.completed",
                "response.failed",
                "response.incomplete",
                "response.cancelled",
                "budget.warning",
                "budget.exhausted",
                "schedule.missed",
                "schedule.failed",
            ]
        ]
        | None
    ]


class CreateNoticeAnswer(TypedDict):
    object: Literal["notice"]
    id: str
    url: str
    events: list[str]
    created_at: float
    secret: str


class GetNoticeSecretAnswer(TypedDict):
    object: Literal["notice.secret"]
    secret: str


class DeleteNoticeAnswer(TypedDict):
    object: Literal["notice.deleted"]
    id: str
    deleted: bool


class ListBudgetsAnswer(TypedDict):
    object: Literal["list"]
    data: list[BudgetState]
    spent: dict[str, dict[str, Any]]


RunEvent: TypeAlias = (
    Started
    | Finished
    | Ended
    | Question
    | CallPreviewed
    | TextDelta
    | ReasoningDelta
    | RefusalDelta
    | CallDelta
    | LogprobsDelta
    | ToolProgressed
    | ModelStarted
    | ModelRetried
    | ModelFailed
    | ToolStarted
    | Answered
    | Compacted
    | Warned
    | Released
    | Recovered
    | RunFinished
    | ModelInterrupted
    | Checked
    | Steered
)


class Operations:
    """What the server does, a method each."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def start_runs(self, **fields: Unpack[StartRunsFields]) -> StartRunsAnswer:
        """Start a run, or up to 8 variants of it, that no client waits for."""
        answer: StartRunsAnswer = self._transport.ask("POST", "/v1/runs", fields)
        return answer

    def list_runs(self, **fields: Unpack[ListRunsFields]) -> ListRunsAnswer:
        """List your runs, the newest first."""
        answer: ListRunsAnswer = self._transport.ask("GET", "/v1/runs", fields)
        return answer

    def list_approvals(self, **fields: Unpack[ListApprovalsFields]) -> ListApprovalsAnswer:
        """List the calls that wait for a decision."""
        answer: ListApprovalsAnswer = self._transport.ask("GET", "/v1/agent/approvals", fields)
        return answer

    def decide(self, approval_id: str, **fields: Unpack[DecideFields]) -> DecideAnswer:
        """Decide about a call that waits."""
        answer: DecideAnswer = self._transport.ask(
            "POST", f"/v1/agent/approvals/{place(approval_id)}", fields, query=["owner"]
        )
        return answer

    def follow_all(self, **fields: Unpack[FollowAllFields]) -> Iterator[ServerEvent[OwnerEvent]]:
        """Follow what happens to your runs and sessions, as server-sent events."""
        return self._transport.follow("/v1/events", fields)

    def summarize_runs(self, **fields: Unpack[SummarizeRunsFields]) -> SummarizeRunsAnswer:
        """Count your runs, by state and over time."""
        answer: SummarizeRunsAnswer = self._transport.ask("GET", "/v1/runs/summary", fields)
        return answer

    def get_run(self, run_id: str) -> Run:
        """How a run stands, and its result."""
        answer: Run = self._transport.ask("GET", f"/v1/runs/{place(run_id)}", {})
        return answer

    def mark_run(self, run_id: str, **fields: Unpack[MarkRunFields]) -> RunRow:
        """Mark a run that was chosen among its variants."""
        answer: RunRow = self._transport.ask("PATCH", f"/v1/runs/{place(run_id)}", fields)
        return answer

    def follow_run(self, run_id: str, **fields: Unpack[FollowRunFields]) -> Iterator[ServerEvent[RunEvent]]:
        """Follow what happens in a run, as server-sent events."""
        return self._transport.follow(f"/v1/runs/{place(run_id)}/events", fields)

    def get_round_request(self, run_id: str, round_index: int) -> GetRoundRequestAnswer:
        """Exactly what the model was sent in a round; rounds count from 0."""
        answer: GetRoundRequestAnswer = self._transport.ask(
            "GET", f"/v1/runs/{place(run_id)}/rounds/{place(round_index)}/request", {}
        )
        return answer

    def cancel_run(self, run_id: str, **fields: Unpack[CancelRunFields]) -> Run | CancelRunAnswer:
        """End a run that is under way."""
        answer: Run | CancelRunAnswer = self._transport.ask(
            "POST", f"/v1/runs/{place(run_id)}/cancel", fields, query=["owner"]
        )
        return answer

    def steer_run(self, run_id: str, **fields: Unpack[SteerRunFields]) -> Run:
        """Say something to a run under way."""
        answer: Run = self._transport.ask("POST", f"/v1/runs/{place(run_id)}/steer", fields)
        return answer

    def answer_run(self, run_id: str, **fields: Unpack[AnswerRunFields]) -> Run:
        """Decide what a run waits for."""
        answer: Run = self._transport.ask("POST", f"/v1/runs/{place(run_id)}/answer", fields)
        return answer

    def list_sessions(self, **fields: Unpack[ListSessionsFields]) -> ListSessionsAnswer:
        """List your sessions, the last used first."""
        answer: ListSessionsAnswer = self._transport.ask("GET", "/v1/sessions", fields)
        return answer

    def fork_session(self, session_id: str, **fields: Unpack[ForkSessionFields]) -> ForkSessionAnswer:
        """Copy a session, or a part of it."""
        answer: ForkSessionAnswer = self._transport.ask("POST", f"/v1/sessions/{place(session_id)}/fork", fields)
        return answer

    def list_session_approvals(self, session_id: str) -> ListSessionApprovalsAnswer:
        """What was approved for the whole session."""
        answer: ListSessionApprovalsAnswer = self._transport.ask(
            "GET", f"/v1/sessions/{place(session_id)}/approvals", {}
        )
        return answer

    def take_back_approvals(
        self, session_id: str, **fields: Unpack[TakeBackApprovalsFields]
    ) -> TakeBackApprovalsAnswer:
        """Have the calls of a tool, or of all tools, asked about again."""
        answer: TakeBackApprovalsAnswer = self._transport.ask(
            "DELETE", f"/v1/sessions/{place(session_id)}/approvals", fields
        )
        return answer

    def get_session(self, session_id: str, **fields: Unpack[GetSessionFields]) -> SessionDocument:
        """A session as a document, or a page of its turns."""
        answer: SessionDocument = self._transport.ask("GET", f"/v1/sessions/{place(session_id)}", fields)
        return answer

    def put_session(self, session_id: str, **fields: Unpack[PutSessionFields]) -> None:
        """Bring a session in."""
        self._transport.ask("PUT", f"/v1/sessions/{place(session_id)}", fields)

    def change_session(self, session_id: str, **fields: Unpack[ChangeSessionFields]) -> Session:
        """Name a session, or continue another of its branches."""
        answer: Session = self._transport.ask("PATCH", f"/v1/sessions/{place(session_id)}", fields)
        return answer

    def delete_session(self, session_id: str) -> None:
        """Delete a session."""
        self._transport.ask("DELETE", f"/v1/sessions/{place(session_id)}", {})

    def list_tools(self) -> ListToolsAnswer:
        """List what models here may call."""
        answer: ListToolsAnswer = self._transport.ask("GET", "/v1/tools", {})
        return answer

    def list_mcp_servers(self) -> ListMcpServersAnswer:
        """How the MCP servers fare."""
        answer: ListMcpServersAnswer = self._transport.ask("GET", "/v1/mcp", {})
        return answer

    def render(self, body: Mapping[str, Any], **fields: Unpack[RenderFields]) -> RenderAnswer:
        """Exactly what a model would be sent for a request; no model is called."""
        answer: RenderAnswer = self._transport.ask("POST", "/v1/render", fields, query=["dialect"], body=body)
        return answer

    def get_me(self) -> Me:
        """Who asks, and what the server has."""
        answer: Me = self._transport.ask("GET", "/v1/me", {})
        return answer

    def get_system_info(self) -> GetSystemInfoAnswer:
        """The machine and the server on it."""
        answer: GetSystemInfoAnswer = self._transport.ask("GET", "/v1/system/info", {})
        return answer

    def ask_doctor(self) -> AskDoctorAnswer:
        """What works, what does not, and what would help."""
        answer: AskDoctorAnswer = self._transport.ask("GET", "/v1/system/doctor", {})
        return answer

    def list_keys(self) -> ListKeysAnswer:
        """List all API keys."""
        answer: ListKeysAnswer = self._transport.ask("GET", "/v1/keys", {})
        return answer

    def create_key(self, **fields: Unpack[CreateKeyFields]) -> Key:
        """Make an API key; it is shown once."""
        answer: Key = self._transport.ask("POST", "/v1/keys", fields)
        return answer

    def revoke_key(self, key_id: str) -> RevokeKeyAnswer:
        """Revoke an API key."""
        answer: RevokeKeyAnswer = self._transport.ask("DELETE", f"/v1/keys/{place(key_id)}", {})
        return answer

    def list_acts(self, **fields: Unpack[ListActsFields]) -> ListActsAnswer:
        """List what operators have done, the newest first."""
        answer: ListActsAnswer = self._transport.ask("GET", "/v1/audit", fields)
        return answer

    def show_operation(self, **fields: Unpack[ShowOperationFields]) -> ShowOperationAnswer:
        """The server as its operator sees it: runs, approvals, processes, figures of all owners."""
        answer: ShowOperationAnswer = self._transport.ask("GET", "/v1/operate", fields)
        return answer

    def list_errors(self, **fields: Unpack[ListErrorsFields]) -> ListErrorsAnswer:
        """What failed, by code, model and agent."""
        answer: ListErrorsAnswer = self._transport.ask("GET", "/v1/operate/errors", fields)
        return answer

    def list_steps(self, **fields: Unpack[ListStepsFields]) -> ListStepsAnswer:
        """Runs, tokens and cost over time."""
        answer: ListStepsAnswer = self._transport.ask("GET", "/v1/operate/series", fields)
        return answer

    def retry_mcp_server(self, mcp_name: str) -> RetryMcpServerAnswer:
        """Connect to an MCP server that failed."""
        answer: RetryMcpServerAnswer = self._transport.ask("POST", f"/v1/mcp/{place(mcp_name)}/retry", {})
        return answer

    def list_notices(self) -> ListNoticesAnswer:
        """Your addresses, and the notices that were not taken."""
        answer: ListNoticesAnswer = self._transport.ask("GET", "/v1/notices", {})
        return answer

    def create_notice(self, **fields: Unpack[CreateNoticeFields]) -> CreateNoticeAnswer:
        """Name an address that is told about your runs."""
        answer: CreateNoticeAnswer = self._transport.ask("POST", "/v1/notices", fields)
        return answer

    def get_notice_secret(self) -> GetNoticeSecretAnswer:
        """What notices to the addresses of requests (x-ronda-notify) are signed with."""
        answer: GetNoticeSecretAnswer = self._transport.ask("GET", "/v1/notices/secret", {})
        return answer

    def delete_notice(self, address_id: str) -> DeleteNoticeAnswer:
        """Forget an address."""
        answer: DeleteNoticeAnswer = self._transport.ask("DELETE", f"/v1/notices/{place(address_id)}", {})
        return answer

    def list_budgets(self) -> ListBudgetsAnswer:
        """Your limits, and what was spent."""
        answer: ListBudgetsAnswer = self._transport.ask("GET", "/v1/budgets", {})
        return answer
