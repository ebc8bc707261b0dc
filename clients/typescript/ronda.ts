// Printed by docs/make_clients.py from the OpenAPI document: change that. What sends requests is in transport.ts.
import { type ClientOptions, place, type ServerEvent, Transport } from "./transport.ts";

export { type ClientOptions, RondaHttpError, type ServerEvent } from "./transport.ts";

/** A stretch of the turn's text that speaks of a source: of its texts together, in Unicode characters, the end not included. `number` is that of the source in what the model was shown. */
export interface Annotation {
  type: "url_citation";
  start_index: number;
  end_index: number;
  url: string;
  title: string;
  number: number;
}

/** A person or a rule decided, or the time for it ran out. `arguments` (JSON text) go in the place of those that the call was asked with: they change what runs, never the model's turn. With `remember` it holds for every call of this tool in this run: those to come, and those in question now. */
export interface Answered {
  type: "answered";
  id: string;
  decision: "approve" | "deny" | "expired";
  arguments?: string | null;
  message?: string | null;
  remember?: boolean;
  by?: string;
  at?: number;
}

/** A call that waits for a person. */
export interface Approval {
  type: string;
  approval_id: string;
  session_id: string;
  round: number;
  tool: { source: string; kind: string; label: string };
  arguments: unknown;
  tool_name: string;
  tool_call_id: string;
  expires_at: number | null;
  run_id: string;
  created_at: number;
  reason?: string;
  question?: string;
  message?: string;
  schema?: unknown;
}

/** "set" puts `value` at `path`, a JSON pointer into the call's arguments; "append" adds it to the text there. */
export interface ArgumentPatch {
  op: "append" | "set";
  path: string;
  value: unknown;
}

export interface AssistantTurn {
  type: "assistant";
  parts: Array<Text | Reasoning | Refusal | ToolCall>;
  stop?: "content_filter" | "interrupted" | "length" | "stop" | "tool_calls";
  stop_sequence?: string | null;
}

/** `data` is base64, `format` the file format: wav, mp3, … */
export interface Audio {
  type: "audio";
  data: string;
  format: string;
}

/** How far the tightest of the budgets is used that a run spends from, after a call: what was spent, and what is reserved for calls under way. */
export interface Budget {
  scope: string;
  per: string;
  unit: string;
  limit: number;
  spent: number;
  reserved: number;
  remaining: number;
  currency?: string | null;
}

/** How far a budget is used. */
export interface BudgetState {
  scope: string;
  per: string;
  unit: string;
  limit: number;
  spent: number;
  reserved: number;
  remaining: number;
  currency?: string | null;
}

/** A tool call grows. `index` counts the calls of this turn; `id` and `name` are what is known of them so far. */
export interface CallDelta {
  type: "call_delta";
  index: number;
  id: string;
  name: string;
  arguments: string;
  at?: number;
}

/** What is new of the arguments that a tool wants watched (`preview`). It follows the event that it was made from, and has its position. `index` counts the calls of the turn. */
export interface CallPreviewed {
  type: "call_preview";
  index: number;
  id: string;
  name: string;
  patches: Array<ArgumentPatch>;
}

/** An answer was checked. A `problem` names what is wrong with an answer's form, or why a guardrail said no. A guardrail may put something else in the place of what it saw: turns (input), a text (output), JSON arguments (tool). */
export interface Checked {
  type: "checked";
  problem?: string | null;
  at?: number;
  stage?: "format" | "input" | "output" | "tool";
  allowed?: boolean;
  call_id?: string | null;
}

/** From here on the model is shown `summary` in the place of earlier turns; the run keeps them. Gone are the turns before `upto`, but for the instructions and those `kept`. `failure` says why the summary is a plain excerpt although a better one was asked for. */
export interface Compacted {
  type: "compacted";
  upto: number;
  summary: string;
  kept?: Array<number>;
  failure?: string | null;
  at?: number;
}

/** A tool answered, or failed trying. `details` is what it tells people and programs, `files` are those that it made. */
export interface Ended {
  type: "tool_finished";
  result: ToolResult;
  at?: number;
  usage?: Usage;
  tool_calls?: number;
  name?: string;
  details?: unknown;
  files?: Array<File>;
  offers?: Array<string>;
}

/** Content as a data: URL, or a provider's id of a file it already has. Of one that a tool made, also what is known of it where its content does not travel along; `problem` says why there is none. */
export interface File {
  type: "file";
  data?: string | null;
  name?: string | null;
  id?: string | null;
  size?: number | null;
  format?: string;
  preview?: string;
  problem?: string;
  marks?: Array<string>;
}

/** The model's turn is complete. `first_at` is when the first of it was shown. `logprobs` are token probabilities, in the provider's JSON. `model` is the one that answered, where it is not the run's. */
export interface Finished {
  type: "model_finished";
  turn: AssistantTurn;
  usage?: Usage;
  at?: number;
  logprobs?: unknown;
  budget?: Budget | null;
  first_at?: number;
  annotations?: Array<Annotation>;
  model?: string;
}

/** `url` is http(s) or a data: URL. */
export interface Image {
  type: "image";
  url: string;
  detail?: string | null;
}

/** An API key; the key itself is only in the answer to the request that made it. */
export interface Key {
  object: "key";
  id: string;
  owner: string;
  scopes: Array<string> | null;
  created_at: number;
  expires_at: number | null;
  revoked_at: number | null;
  last_used_at: number | null;
  key?: string;
}

/** Token probabilities of the text just shown, in the provider's JSON. */
export interface LogprobsDelta {
  type: "logprobs_delta";
  logprobs: unknown;
  at?: number;
}

/** How an MCP server fares. */
export interface McpServer {
  name: string;
  transport: string;
  era: string;
  state: string;
  tools: number;
  last_error: string | null;
  since: number;
}

/** Who asks, and what the server has. */
export interface Me {
  object: "me";
  owner: string;
  key_id: string | null;
  scopes: Array<string> | null;
  needs_key: boolean;
  csrf: string | null;
  signed_in_until: number | null;
  version: string;
  features: Array<string>;
}

/** All tries are used up, or trying again would not help. */
export interface ModelFailed {
  type: "model_failed";
  reason: string;
  status?: number | null;
  tries?: number;
  at?: number;
  too_long?: boolean;
  code?: string;
}

/** The answer broke off. What was shown of it is in `turn`; a next attempt is a new item, never a silent repeat. Where the upstream broke off, something was shown, and the plan says whether the model is asked again. Where our process ended, no client is left that was shown anything, and it is. (Journals of old do not say, and went on in both cases.) */
export interface ModelInterrupted {
  type: "model_interrupted";
  turn: AssistantTurn;
  reason: string;
  at?: number;
  cause?: "process" | "upstream";
  announced?: boolean;
}

/** A try failed before anything was shown; the next one comes after `wait` seconds. */
export interface ModelRetried {
  type: "model_retried";
  attempt: number;
  tries: number;
  reason: string;
  wait?: number;
  at?: number;
}

export interface ModelStarted {
  type: "model_started";
  round: number;
  last?: boolean;
  nudge?: string | null;
  at?: number;
  owes?: boolean;
}

/** An address that is told about an owner's runs. */
export interface NoticeAddress {
  object: "notice";
  id: string;
  url: string;
  events: Array<string>;
  created_at: number;
  undelivered: Array<{ id: string; event: string; created_at: number; tries: number; problem: string; next_try_at: number | null }>;
}

/** What happens to an owner's runs and sessions: `run_started`, `run_changed`, `asked`, `answered`, `session_changed`, `run_event`, `ready`, `reset`. */
export interface OwnerEvent {
  type: string;
  at?: number;
  run?: unknown;
  question?: unknown;
  session?: unknown;
  position?: string;
  event?: RunEvent;
}

/** A person has to decide: whether a call may run ("approval"), or what a tool wants to know ("input"). `arguments` is JSON text, as in a call; `schema` says what an answer of kind "input" must look like, `parameters` what other arguments must look like that an approval brings. `cause` of an approval is that it is asked for ("permission"), or that data could leave ("taint"). */
export interface Question {
  type: "asked";
  id: string;
  call_id: string;
  kind: "approval" | "input";
  tool?: string;
  arguments?: string;
  schema?: unknown;
  message?: string;
  expires_at?: number;
  at?: number;
  child?: string;
  cause?: "permission" | "taint";
  parameters?: unknown;
}

/** What the model thought aloud. Never sent to another vendor, never part of an answer. */
export interface Reasoning {
  type: "reasoning";
  text: string;
}

export interface ReasoningDelta {
  type: "reasoning_delta";
  text: string;
  at?: number;
}

/** Another process continues the run: the one that drove it ended first. */
export interface Recovered {
  type: "recovered";
  at?: number;
}

export interface Refusal {
  type: "refusal";
  text: string;
}

export interface RefusalDelta {
  type: "refusal_delta";
  text: string;
  at?: number;
}

/** The process that drove the run was told to end, and left the run to another: nothing is wrong with either. */
export interface Released {
  type: "released";
  at?: number;
}

/** How a run stands, and its result. */
export interface Run {
  object: "run";
  id: string;
  state: "queued" | "running" | "waiting" | "finished" | "failed" | "cancelled" | "interrupted";
  model: string;
  agent: string | null;
  session: string | null;
  parent: { run: string; facts: number; call: string | null } | null;
  created_at: number;
  ended_at: number | null;
  position: string;
  questions: Array<RunEvent>;
  result: { text: string; tool_calls: Array<{ id: string; name: string; arguments: string }> } | null;
  incomplete: Array<{ text: string; reason: string }>;
  end: { reason: string; limit: string | null; message: string | null; code: string | null } | null;
  usage: { input_tokens: number; output_tokens: number; cached_tokens: number; reasoning_tokens: number; cost: number | null; cache_written_tokens: number; rounds: number; tool_calls: number };
  budget: BudgetState | null;
  group: string | null;
  previews: "kept" | "gone";
  files?: Record<string, string>;
  queue_position?: number;
}

/** Members and kinds of events may be added within a version: pass over what you do not know. */
export type RunEvent = Started | Finished | Ended | Question | CallPreviewed | TextDelta | ReasoningDelta | RefusalDelta | CallDelta | LogprobsDelta | ToolProgressed | ModelStarted | ModelRetried | ModelFailed | ToolStarted | Answered | Compacted | Warned | Released | Recovered | RunFinished | ModelInterrupted | Checked | Steered;

/** `tool_calls`: the caller's turn. `limit` names what was reached; `answer` is said where the model said nothing. */
export interface RunFinished {
  type: "run_finished";
  reason: "cancelled" | "content_filter" | "failed" | "interrupted" | "length" | "limit" | "stop" | "tool_calls";
  limit?: "max_seconds" | "max_tokens" | "max_tool_calls" | "max_tool_rounds" | "repeated_call" | "unknown_tool" | "unreadable_calls" | null;
  message?: string | null;
  answer?: string | null;
  at?: number;
  code?: "crash_loop" | "guardrail" | "model_failed" | "model_interrupted" | "no_call" | "superseded" | "tool_missing" | "wrong_format" | null;
}

/** A run as lists have it. */
export interface RunRow {
  object: "run";
  id: string;
  state: "queued" | "running" | "waiting" | "finished" | "failed" | "cancelled" | "interrupted";
  agent: string | null;
  session: string | null;
  created_at: number;
  ended_at: number | null;
  model: string | null;
  input: string | null;
  parent: { run: string; call: string | null } | null;
  group: string | null;
  rounds: number | null;
  tool_calls: number | null;
  usage: { input_tokens: number; output_tokens: number; cached_tokens: number; reasoning_tokens: number } | null;
  cost: number | null;
  end: { reason: string; limit: string | null; code: string | null } | null;
  questions: Array<{ id: string; kind: string; tool: string | null; asked_at: number }>;
  kept: boolean;
}

/** A conversation that the server keeps. */
export interface Session {
  id: string;
  object: "session";
  created_at: number;
  updated_at: number;
  turns: number;
  bytes: number;
  title: string | null;
  metadata: Record<string, unknown>;
  branch: string;
  state?: string | null;
  run?: string | null;
}

/** A session to be moved; with `limit` in the query a page of its turns, to be shown. */
export interface SessionDocument {
  messages?: Array<Record<string, unknown>>;
  data?: Array<{ index: number; run: string | null; round: number | null; at: number; messages: Array<Record<string, unknown>>; turn?: Record<string, unknown> }>;
  has_more?: boolean;
  next?: string | null;
}

/** What a run may use of what its parent had left. None is as much as it likes. */
export interface Share {
  rounds: number;
  tool_calls?: number | null;
  tokens?: number | null;
  seconds?: number | null;
}

/** A run began. `turns` is the conversation it began with, without instructions. One that is a `call` of its parent has a share of its parent's limits. */
export interface Started {
  type: "run_started";
  version: number;
  run: string;
  model: string;
  turns: Array<UserTurn | AssistantTurn | ToolTurn>;
  tools?: Array<string>;
  at?: number;
  parent?: Array<unknown> | null;
  session?: string;
  sibling?: number;
  call?: string;
  limits?: Share | null;
}

/** A person or a program said something while the run was under way. The model hears it with its next call. */
export interface Steered {
  type: "steered";
  turn: UserTurn;
  at?: number;
}

export interface Text {
  type: "text";
  text: string;
}

export interface TextDelta {
  type: "text_delta";
  text: string;
  at?: number;
}

/** What a model here may call. */
export interface Tool {
  object: "tool";
  name: string;
  label: string;
  description: string;
  source: { kind: string; type: string | null; server: string | null };
  labels: Array<string>;
  approval: string | null;
  parameters: Record<string, unknown>;
  offered: boolean;
}

/** What the model asks for. `arguments` is JSON text. When the model wrote something else, `repairs` names what was done to read it and `written` keeps its own words; when nothing could be read, `problem` says why, and the call is never run. */
export interface ToolCall {
  type: "tool_call";
  id: string;
  name: string;
  arguments: string;
  repairs?: Array<string>;
  written?: string | null;
  problem?: string | null;
}

/** A tool that is running shows what it has so far. What the model reads is its result. */
export interface ToolProgressed {
  type: "tool_progressed";
  call_id: string;
  text: string;
  stream?: string;
  part?: number;
  at?: number;
}

/** The result of a call. The model reads it whether it failed or not. */
export interface ToolResult {
  type: "tool_result";
  call_id: string;
  content: string;
  failed?: boolean;
  attachments?: Array<Image | Audio | Video | File>;
  whole?: string;
  marks?: Array<string>;
}

/** Journaled before the tool starts, so that a crash never leaves a call that may have run unrecorded. */
export interface ToolStarted {
  type: "tool_started";
  call_id: string;
  at?: number;
  name?: string;
  child?: string;
}

/** The results of one assistant turn, in the order the model asked. */
export interface ToolTurn {
  type: "tool";
  results: Array<ToolResult>;
}

/** Tokens, as the provider counted them. */
export interface Usage {
  input?: number;
  output?: number;
  cached?: number;
  reasoning?: number;
  prompt_seconds?: number;
  completion_seconds?: number;
  cache_written?: number;
  cost?: number | null;
}

export interface UserTurn {
  type: "user";
  parts: Array<Text | Image | Audio | Video | File>;
  name?: string | null;
}

export interface Video {
  type: "video";
  url: string;
}

/** Something the caller should hear of that did not stop the run. With the code `unknown_event` it stands for an event of a kind that only a newer Ronda knows: such a run can be read, and only the newer Ronda drives it. */
export interface Warned {
  type: "warned";
  message: string;
  at?: number;
  code?: string;
}

export interface StartRunsFields {
  input: string | Array<Record<string, unknown>>;
  model?: string | Array<string> | null;
  instructions?: string | null;
  variants?: number | null;
  files?: Record<string, string> | null;
  disabled_tools?: Array<string> | null;
  parent?: string | null;
}

export type StartRunsAnswer = { object: "run_group"; id: string | null; data: Array<RunRow> };

export interface ListRunsFields {
  state?: string;
  session?: string;
  agent?: string;
  model?: string;
  q?: string;
  since?: string | number;
  until?: string | number;
  min_cost?: number;
  children?: boolean;
  parent?: string;
  root?: string;
  kept?: boolean;
  group?: string;
  limit?: number;
  before?: string;
}

export type ListRunsAnswer = { object: "list"; data: Array<RunRow>; has_more: boolean; next: string | null };

export interface ListApprovalsFields {
  owner?: string;
}

export type ListApprovalsAnswer = { object: "list"; data: Array<Approval>; has_more: boolean };

export interface DecideFields {
  owner?: string;
  decision: "approve" | "deny";
  message?: string | null;
  remember_for_session?: boolean | null;
  arguments?: Record<string, unknown> | null;
}

export type DecideAnswer = { status: "resolved" };

export interface FollowAllFields {
  run?: string;
  after?: string;
}

export interface SummarizeRunsFields {
  state?: string;
  session?: string;
  agent?: string;
  model?: string;
  q?: string;
  since?: string | number;
  until?: string | number;
  min_cost?: number;
  children?: boolean;
  parent?: string;
  root?: string;
  kept?: boolean;
  group?: string;
  span?: string;
  pieces?: number;
}

export type SummarizeRunsAnswer = { object: "run_summary"; since: number; until: number; step: number; states: Record<string, number>; histogram: Array<{ at: number; states: Record<string, number> }> };

export interface MarkRunFields {
  kept: boolean;
}

export interface FollowRunFields {
  after?: string;
}

export type GetRoundRequestAnswer = { object: string; model: string; run: string; round: number; cached_tokens: number | null };

export interface CancelRunFields {
  owner?: string;
}

export type CancelRunAnswer = Run | { id: string; object: "run"; owner: string; state: "cancelled" };

export interface SteerRunFields {
  text: string;
}

export interface AnswerRunFields {
  id: string;
  decision: "approve" | "deny";
  arguments?: unknown;
  message?: string | null;
  remember?: boolean | null;
}

export interface ListSessionsFields {
  limit?: number;
  before?: string;
  q?: string;
}

export type ListSessionsAnswer = { object: "list"; data: Array<Session>; has_more: boolean; next: string | null };

export interface ForkSessionFields {
  id?: string | null;
  num_turns?: number | null;
  run?: string | null;
  round?: number | null;
}

export type ForkSessionAnswer = { id: string };

export type ListSessionApprovalsAnswer = { object: "list"; data: Array<{ kind: "tool" | "send"; tool: string; expires_at: number }>; has_more: boolean };

export interface TakeBackApprovalsFields {
  tool?: string;
}

export type TakeBackApprovalsAnswer = { object: "list"; data: Array<{ kind: "tool" | "send"; tool: string; expires_at: number }>; has_more: boolean };

export interface GetSessionFields {
  branch?: string;
  limit?: number;
  before?: number;
}

export interface PutSessionFields {
  messages: Array<Record<string, unknown>>;
  images?: Array<string> | null;
  files?: Array<Record<string, unknown>> | null;
  title?: string | null;
  metadata?: Record<string, unknown> | null;
  turns?: unknown;
}

export interface ChangeSessionFields {
  title?: string | null;
  metadata?: Record<string, unknown> | null;
  branch?: string | null;
}

export type ListToolsAnswer = { object: "list"; data: Array<Tool>; has_more: boolean };

export type ListMcpServersAnswer = { servers: Array<McpServer> };

export interface RenderFields {
  dialect?: "chat" | "messages" | "responses";
}

export type RenderAnswer = { object: string; model: string };

export type GetSystemInfoAnswer = { object: "system.info"; version: string; python: string; os: { name: string; release: string; machine: string }; cpu: { logical_cores: number | null; usable_cores: number }; memory: { total_bytes: number | null; available_bytes: number | null }; model: string; features: Array<string>; uptime: number };

export type AskDoctorAnswer = { object: "system.doctor"; status: "works" | "fails"; checks: Array<{ name: string; state: "works" | "partly" | "missing" | "fails"; text: string; help: string | null }> };

export type ListKeysAnswer = { object: "list"; data: Array<Key>; has_more: boolean };

export interface CreateKeyFields {
  owner: string;
  scopes?: Array<string> | null;
  expires_in?: number | null;
}

export type RevokeKeyAnswer = { object: "key.deleted"; id: string; deleted: boolean };

export interface ListActsFields {
  limit?: number;
  before?: number;
}

export type ListActsAnswer = { object: "list"; data: Array<{ id: number; at: number; owner: string; actor: string; act: string; subject: string; client: string; details: string }>; has_more: boolean };

export interface ShowOperationFields {
  limit?: number;
  before?: number;
  span?: string;
}

export type ShowOperationAnswer = { object: "operate"; at: number; uptime: number; processes: number; queued: number; running: number; waiting: number; oldest_queued: number | null; oldest_waiting: number | null; first_token_median: number | null; first_token_95: number | null; tokens_a_minute: number; cached_share: number | null; cost_today: number | null; models: Array<{ name: string; runs: number; calls: number; failed: number; first_token: number | null; cost: number | null; cools_for: number | null }>; owners: Array<{ owner: string; running: number; waiting: number; runs: number; spent: number | null; reserved: number; budget: number | null }>; series: { open: Array<number>; queued: Array<number | null>; waiting: Array<number | null>; tokens: Array<number>; cost: Array<number | null>; first_token: Array<number> }; runs: Array<{ id: string; object: "run"; owner: string; state: string; doing: string | null; calls: Array<string> }>; has_more: boolean; next: string | null; approvals: Array<{ run: string; owner: string; tool: string | null; asked_at: number; age: number }>; process_list: Array<{ name: string; since: number; is_this: boolean }>; journal: { bytes: number | null }; files: { count: number; bytes: number }; mcp: Array<{ name: string; state: string }> };

export interface ListErrorsFields {
  span?: string;
}

export type ListErrorsAnswer = { object: "list"; since: number; until: number; failed: number; data: Array<{ code: string | null; model: string | null; agent: string | null; count: number; last_at: number | null }> };

export interface ListStepsFields {
  span?: string;
  step?: number;
}

export type ListStepsAnswer = { object: "list"; since: number; until: number; step: number; data: Array<{ at: number; started: number; ended: number; failed: number; input_tokens: number; output_tokens: number; cost: number | null }> };

export type RetryMcpServerAnswer = { object: "mcp_server"; name: string; state: string };

export type ListNoticesAnswer = { object: "list"; data: Array<NoticeAddress>; has_more: boolean; undelivered_of_requests: Array<{ id: string; event: string; created_at: number; tries: number; problem: string; next_try_at: number | null; url: string }> };

export interface CreateNoticeFields {
  url: string;
  events?: Array<"run.finished" | "run.failed" | "run.waiting" | "response.completed" | "response.failed" | "response.incomplete" | "response.cancelled" | "budget.warning" | "budget.exhausted" | "schedule.missed" | "schedule.failed"> | null;
}

export type CreateNoticeAnswer = { object: "notice"; id: string; url: string; events: Array<string>; created_at: number; secret: string };

export type GetNoticeSecretAnswer = { object: "notice.secret"; secret: string };

export type DeleteNoticeAnswer = { object: "notice.deleted"; id: string; deleted: boolean };

export type ListBudgetsAnswer = { object: "list"; data: Array<BudgetState>; spent: Record<string, Record<string, unknown>> };

/** What the server does, a method each. */
export class Ronda {
  readonly #transport: Transport;

  constructor(options: ClientOptions) {
    this.#transport = new Transport(options);
  }

  /** Start a run, or up to 8 variants of it, that no client waits for. */
  startRuns(fields: StartRunsFields): Promise<StartRunsAnswer> {
    return this.#transport.ask("POST", "/v1/runs", fields);
  }

  /** List your runs, the newest first. */
  listRuns(fields: ListRunsFields = {}): Promise<ListRunsAnswer> {
    return this.#transport.ask("GET", "/v1/runs", fields);
  }

  /** List the calls that wait for a decision. */
  listApprovals(fields: ListApprovalsFields = {}): Promise<ListApprovalsAnswer> {
    return this.#transport.ask("GET", "/v1/agent/approvals", fields);
  }

  /** Decide about a call that waits. */
  decide(approvalId: string, fields: DecideFields): Promise<DecideAnswer> {
    return this.#transport.ask("POST", `/v1/agent/approvals/${place(approvalId)}`, fields, ["owner"]);
  }

  /** Follow what happens to your runs and sessions, as server-sent events. */
  followAll(fields: FollowAllFields = {}): AsyncGenerator<ServerEvent<OwnerEvent>> {
    return this.#transport.follow("/v1/events", fields);
  }

  /** Count your runs, by state and over time. */
  summarizeRuns(fields: SummarizeRunsFields = {}): Promise<SummarizeRunsAnswer> {
    return this.#transport.ask("GET", "/v1/runs/summary", fields);
  }

  /** How a run stands, and its result. */
  getRun(runId: string): Promise<Run> {
    return this.#transport.ask("GET", `/v1/runs/${place(runId)}`, {});
  }

  /** Mark a run that was chosen among its variants. */
  markRun(runId: string, fields: MarkRunFields): Promise<RunRow> {
    return this.#transport.ask("PATCH", `/v1/runs/${place(runId)}`, fields);
  }

  /** Follow what happens in a run, as server-sent events. */
  followRun(runId: string, fields: FollowRunFields = {}): AsyncGenerator<ServerEvent<RunEvent>> {
    return this.#transport.follow(`/v1/runs/${place(runId)}/events`, fields);
  }

  /** Exactly what the model was sent in a round; rounds count from 0. */
  getRoundRequest(runId: string, roundIndex: number): Promise<GetRoundRequestAnswer> {
    return this.#transport.ask("GET", `/v1/runs/${place(runId)}/rounds/${place(roundIndex)}/request`, {});
  }

  /** End a run that is under way. */
  cancelRun(runId: string, fields: CancelRunFields = {}): Promise<CancelRunAnswer> {
    return this.#transport.ask("POST", `/v1/runs/${place(runId)}/cancel`, fields, ["owner"]);
  }

  /** Say something to a run under way. */
  steerRun(runId: string, fields: SteerRunFields): Promise<Run> {
    return this.#transport.ask("POST", `/v1/runs/${place(runId)}/steer`, fields);
  }

  /** Decide what a run waits for. */
  answerRun(runId: string, fields: AnswerRunFields): Promise<Run> {
    return this.#transport.ask("POST", `/v1/runs/${place(runId)}/answer`, fields);
  }

  /** List your sessions, the last used first. */
  listSessions(fields: ListSessionsFields = {}): Promise<ListSessionsAnswer> {
    return this.#transport.ask("GET", "/v1/sessions", fields);
  }

  /** Copy a session, or a part of it. */
  forkSession(sessionId: string, fields: ForkSessionFields = {}): Promise<ForkSessionAnswer> {
    return this.#transport.ask("POST", `/v1/sessions/${place(sessionId)}/fork`, fields);
  }

  /** What was approved for the whole session. */
  listSessionApprovals(sessionId: string): Promise<ListSessionApprovalsAnswer> {
    return this.#transport.ask("GET", `/v1/sessions/${place(sessionId)}/approvals`, {});
  }

  /** Have the calls of a tool, or of all tools, asked about again. */
  takeBackApprovals(sessionId: string, fields: TakeBackApprovalsFields = {}): Promise<TakeBackApprovalsAnswer> {
    return this.#transport.ask("DELETE", `/v1/sessions/${place(sessionId)}/approvals`, fields);
  }

  /** A session as a document, or a page of its turns. */
  getSession(sessionId: string, fields: GetSessionFields = {}): Promise<SessionDocument> {
    return this.#transport.ask("GET", `/v1/sessions/${place(sessionId)}`, fields);
  }

  /** Bring a session in. */
  putSession(sessionId: string, fields: PutSessionFields): Promise<void> {
    return this.#transport.ask("PUT", `/v1/sessions/${place(sessionId)}`, fields);
  }

  /** Name a session, or continue another of its branches. */
  changeSession(sessionId: string, fields: ChangeSessionFields = {}): Promise<Session> {
    return this.#transport.ask("PATCH", `/v1/sessions/${place(sessionId)}`, fields);
  }

  /** Delete a session. */
  deleteSession(sessionId: string): Promise<void> {
    return this.#transport.ask("DELETE", `/v1/sessions/${place(sessionId)}`, {});
  }

  /** List what models here may call. */
  listTools(): Promise<ListToolsAnswer> {
    return this.#transport.ask("GET", "/v1/tools", {});
  }

  /** How the MCP servers fare. */
  listMcpServers(): Promise<ListMcpServersAnswer> {
    return this.#transport.ask("GET", "/v1/mcp", {});
  }

  /** Exactly what a model would be sent for a request; no model is called. */
  render(body: Record<string, unknown>, fields: RenderFields = {}): Promise<RenderAnswer> {
    return this.#transport.ask("POST", "/v1/render", fields, ["dialect"], body);
  }

  /** Who asks, and what the server has. */
  getMe(): Promise<Me> {
    return this.#transport.ask("GET", "/v1/me", {});
  }

  /** The machine and the server on it. */
  getSystemInfo(): Promise<GetSystemInfoAnswer> {
    return this.#transport.ask("GET", "/v1/system/info", {});
  }

  /** What works, what does not, and what would help. */
  askDoctor(): Promise<AskDoctorAnswer> {
    return this.#transport.ask("GET", "/v1/system/doctor", {});
  }

  /** List all API keys. */
  listKeys(): Promise<ListKeysAnswer> {
    return this.#transport.ask("GET", "/v1/keys", {});
  }

  /** Make an API key; it is shown once. */
  createKey(fields: CreateKeyFields): Promise<Key> {
    return this.#transport.ask("POST", "/v1/keys", fields);
  }

  /** Revoke an API key. */
  revokeKey(keyId: string): Promise<RevokeKeyAnswer> {
    return this.#transport.ask("DELETE", `/v1/keys/${place(keyId)}`, {});
  }

  /** List what operators have done, the newest first. */
  listActs(fields: ListActsFields = {}): Promise<ListActsAnswer> {
    return this.#transport.ask("GET", "/v1/audit", fields);
  }

  /** The server as its operator sees it: runs, approvals, processes, figures of all owners. */
  showOperation(fields: ShowOperationFields = {}): Promise<ShowOperationAnswer> {
    return this.#transport.ask("GET", "/v1/operate", fields);
  }

  /** What failed, by code, model and agent. */
  listErrors(fields: ListErrorsFields = {}): Promise<ListErrorsAnswer> {
    return this.#transport.ask("GET", "/v1/operate/errors", fields);
  }

  /** Runs, tokens and cost over time. */
  listSteps(fields: ListStepsFields = {}): Promise<ListStepsAnswer> {
    return this.#transport.ask("GET", "/v1/operate/series", fields);
  }

  /** Connect to an MCP server that failed. */
  retryMcpServer(mcpName: string): Promise<RetryMcpServerAnswer> {
    return this.#transport.ask("POST", `/v1/mcp/${place(mcpName)}/retry`, {});
  }

  /** Your addresses, and the notices that were not taken. */
  listNotices(): Promise<ListNoticesAnswer> {
    return this.#transport.ask("GET", "/v1/notices", {});
  }

  /** Name an address that is told about your runs. */
  createNotice(fields: CreateNoticeFields): Promise<CreateNoticeAnswer> {
    return this.#transport.ask("POST", "/v1/notices", fields);
  }

  /** What notices to the addresses of requests (x-ronda-notify) are signed with. */
  getNoticeSecret(): Promise<GetNoticeSecretAnswer> {
    return this.#transport.ask("GET", "/v1/notices/secret", {});
  }

  /** Forget an address. */
  deleteNotice(addressId: string): Promise<DeleteNoticeAnswer> {
    return this.#transport.ask("DELETE", `/v1/notices/${place(addressId)}`, {});
  }

  /** Your limits, and what was spent. */
  listBudgets(): Promise<ListBudgetsAnswer> {
    return this.#transport.ask("GET", "/v1/budgets", {});
  }
}
