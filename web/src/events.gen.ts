// Made by `npm run types` from `ronda schema events`.

/**
 * Members and kinds of events may be added within a version: pass over what you do not know.
 */
export type RunEvent = (Started | Finished | Ended | Question | CallPreviewed | TextDelta | ReasoningDelta | RefusalDelta | CallDelta | LogprobsDelta | ToolProgressed | ModelStarted | ModelRetried | ModelFailed | ToolStarted | Answered | Compacted | Warned | Released | Recovered | RunFinished | ModelInterrupted | Checked | Steered)

/**
 * A run began. `turns` is the conversation it began with, without instructions. One that is a `call` of its parent has a
 * share of its parent's limits.
 */
export interface Started {
type: "run_started"
version: number
run: string
model: string
turns: (UserTurn | AssistantTurn | ToolTurn)[]
tools?: string[]
at?: number
parent?: (never[] | null)
session?: string
sibling?: number
call?: string
limits?: (Share | null)
}
export interface UserTurn {
type: "user"
parts: (Text | Image | Audio | Video | File)[]
name?: (string | null)
}
export interface Text {
type: "text"
text: string
}
/**
 * `url` is http(s) or a data: URL.
 */
export interface Image {
type: "image"
url: string
detail?: (string | null)
}
/**
 * `data` is base64, `format` the file format: wav, mp3, …
 */
export interface Audio {
type: "audio"
data: string
format: string
}
export interface Video {
type: "video"
url: string
}
/**
 * Content as a data: URL, or a provider's id of a file it already has.
 * 
 * Of one that a tool made, also what is known of it where its content does not travel along; `problem` says why there is none.
 */
export interface File {
type: "file"
data?: (string | null)
name?: (string | null)
id?: (string | null)
size?: (number | null)
format?: string
preview?: string
problem?: string
marks?: string[]
}
export interface AssistantTurn {
type: "assistant"
parts: (Text | Reasoning | Refusal | ToolCall)[]
stop?: ("content_filter" | "interrupted" | "length" | "stop" | "tool_calls")
stop_sequence?: (string | null)
}
/**
 * What the model thought aloud. Never sent to another vendor, never part of an answer.
 */
export interface Reasoning {
type: "reasoning"
text: string
}
export interface Refusal {
type: "refusal"
text: string
}
/**
 * What the model asks for. `arguments` is JSON text.
 * 
 * When the model wrote something else, `repairs` names what was done to read it and `written` keeps its own words; when
 * nothing could be read, `problem` says why, and the call is never run.
 */
export interface ToolCall {
type: "tool_call"
id: string
name: string
arguments: string
repairs?: string[]
written?: (string | null)
problem?: (string | null)
}
/**
 * The results of one assistant turn, in the order the model asked.
 */
export interface ToolTurn {
type: "tool"
results: ToolResult[]
}
/**
 * The result of a call. The model reads it whether it failed or not.
 */
export interface ToolResult {
type: "tool_result"
call_id: string
content: string
failed?: boolean
attachments?: (Image | Audio | Video | File)[]
whole?: string
marks?: string[]
}
/**
 * What a run may use of what its parent had left. None is as much as it likes.
 */
export interface Share {
rounds: number
tool_calls?: (number | null)
tokens?: (number | null)
seconds?: (number | null)
}
/**
 * The model's turn is complete. `first_at` is when the first of it was shown. `logprobs` are token probabilities, in the
 * provider's JSON. `model` is the one that answered, where it is not the run's.
 */
export interface Finished {
type: "model_finished"
turn: AssistantTurn
usage?: Usage
at?: number
logprobs?: {
[k: string]: unknown
}
budget?: (Budget | null)
first_at?: number
annotations?: Annotation[]
model?: string
}
/**
 * Tokens, as the provider counted them.
 */
export interface Usage {
input?: number
output?: number
cached?: number
reasoning?: number
prompt_seconds?: number
completion_seconds?: number
cache_written?: number
cost?: (number | null)
}
/**
 * How far the tightest of the budgets is used that a run spends from, after a call: what was spent, and what is reserved for
 * calls under way.
 */
export interface Budget {
scope: string
per: string
unit: string
limit: number
spent: number
reserved: number
remaining: number
currency?: (string | null)
}
/**
 * A stretch of the turn's text that speaks of a source: of its texts together, in Unicode characters, the end not included.
 * `number` is that of the source in what the model was shown.
 */
export interface Annotation {
type: "url_citation"
start_index: number
end_index: number
url: string
title: string
number: number
}
/**
 * A tool answered, or failed trying. `details` is what it tells people and programs, `files` are those that it made.
 */
export interface Ended {
type: "tool_finished"
result: ToolResult
at?: number
usage?: Usage1
tool_calls?: number
name?: string
details?: {
[k: string]: unknown
}
files?: File[]
offers?: string[]
}
/**
 * Tokens, as the provider counted them.
 */
export interface Usage1 {
input?: number
output?: number
cached?: number
reasoning?: number
prompt_seconds?: number
completion_seconds?: number
cache_written?: number
cost?: (number | null)
}
/**
 * A person has to decide: whether a call may run ("approval"), or what a tool wants to know ("input").
 * 
 * `arguments` is JSON text, as in a call; `schema` says what an answer of kind "input" must look like, `parameters` what other
 * arguments must look like that an approval brings. `cause` of an approval is that it is asked for ("permission"), or that data
 * could leave ("taint").
 */
export interface Question {
type: "asked"
id: string
call_id: string
kind: ("approval" | "input")
tool?: string
arguments?: string
schema?: {
[k: string]: unknown
}
message?: string
expires_at?: number
at?: number
child?: string
cause?: ("permission" | "taint")
parameters?: {
[k: string]: unknown
}
}
/**
 * What is new of the arguments that a tool wants watched (`preview`). It follows the event that it was made from, and has its
 * position. `index` counts the calls of the turn.
 */
export interface CallPreviewed {
type: "call_preview"
index: number
id: string
name: string
patches: ArgumentPatch[]
}
/**
 * "set" puts `value` at `path`, a JSON pointer into the call's arguments; "append" adds it to the text there.
 */
export interface ArgumentPatch {
op: ("append" | "set")
path: string
value: unknown
}
export interface TextDelta {
type: "text_delta"
text: string
at?: number
}
export interface ReasoningDelta {
type: "reasoning_delta"
text: string
at?: number
}
export interface RefusalDelta {
type: "refusal_delta"
text: string
at?: number
}
/**
 * A tool call grows. `index` counts the calls of this turn; `id` and `name` are what is known of them so far.
 */
export interface CallDelta {
type: "call_delta"
index: number
id: string
name: string
arguments: string
at?: number
}
/**
 * Token probabilities of the text just shown, in the provider's JSON.
 */
export interface LogprobsDelta {
type: "logprobs_delta"
logprobs: unknown
at?: number
}
/**
 * A tool that is running shows what it has so far. What the model reads is its result.
 */
export interface ToolProgressed {
type: "tool_progressed"
call_id: string
text: string
stream?: string
part?: number
at?: number
}
export interface ModelStarted {
type: "model_started"
round: number
last?: boolean
nudge?: (string | null)
at?: number
owes?: boolean
}
/**
 * A try failed before anything was shown; the next one comes after `wait` seconds.
 */
export interface ModelRetried {
type: "model_retried"
attempt: number
tries: number
reason: string
wait?: number
at?: number
}
/**
 * All tries are used up, or trying again would not help.
 */
export interface ModelFailed {
type: "model_failed"
reason: string
status?: (number | null)
tries?: number
at?: number
too_long?: boolean
code?: string
}
/**
 * Journaled before the tool starts, so that a crash never leaves a call that may have run unrecorded.
 */
export interface ToolStarted {
type: "tool_started"
call_id: string
at?: number
name?: string
child?: string
}
/**
 * A person or a rule decided, or the time for it ran out. `arguments` (JSON text) go in the place of those that the call was
 * asked with: they change what runs, never the model's turn. With `remember` it holds for every call of this tool in this run:
 * those to come, and those in question now.
 */
export interface Answered {
type: "answered"
id: string
decision: ("approve" | "deny" | "expired")
arguments?: (string | null)
message?: (string | null)
remember?: boolean
by?: string
at?: number
}
/**
 * From here on the model is shown `summary` in the place of earlier turns; the run keeps them.
 * 
 * Gone are the turns before `upto`, but for the instructions and those `kept`. `failure` says why the summary is a plain
 * excerpt although a better one was asked for.
 */
export interface Compacted {
type: "compacted"
upto: number
summary: string
kept?: number[]
failure?: (string | null)
at?: number
}
/**
 * Something the caller should hear of that did not stop the run. With the code `unknown_event` it stands for an event of a
 * kind that only a newer Ronda knows: such a run can be read, and only the newer Ronda drives it.
 */
export interface Warned {
type: "warned"
message: string
at?: number
code?: string
}
/**
 * The process that drove the run was told to end, and left the run to another: nothing is wrong with either.
 */
export interface Released {
type: "released"
at?: number
}
/**
 * Another process continues the run: the one that drove it ended first.
 */
export interface Recovered {
type: "recovered"
at?: number
}
/**
 * `tool_calls`: the caller's turn. `limit` names what was reached; `answer` is said where the model said nothing.
 */
export interface RunFinished {
type: "run_finished"
reason: ("cancelled" | "content_filter" | "failed" | "interrupted" | "length" | "limit" | "stop" | "tool_calls")
limit?: (("max_seconds" | "max_tokens" | "max_tool_calls" | "max_tool_rounds" | "repeated_call" | "unknown_tool" | "unreadable_calls") | null)
message?: (string | null)
answer?: (string | null)
at?: number
code?: (("crash_loop" | "guardrail" | "model_failed" | "model_interrupted" | "no_call" | "superseded" | "tool_missing" | "wrong_format") | null)
}
/**
 * The answer broke off. What was shown of it is in `turn`; a next attempt is a new item, never a silent repeat.
 * 
 * Where the upstream broke off, something was shown, and the plan says whether the model is asked again. Where our process
 * ended, no client is left that was shown anything, and it is. (Journals of old do not say, and went on in both cases.)
 */
export interface ModelInterrupted {
type: "model_interrupted"
turn: AssistantTurn
reason: string
at?: number
cause?: ("process" | "upstream")
announced?: boolean
}
/**
 * An answer was checked. A `problem` names what is wrong with an answer's form, or why a guardrail said no.
 * 
 * A guardrail may put something else in the place of what it saw: turns (input), a text (output), JSON arguments (tool).
 */
export interface Checked {
type: "checked"
problem?: (string | null)
at?: number
stage?: ("format" | "input" | "output" | "tool")
allowed?: boolean
call_id?: (string | null)
}
/**
 * A person or a program said something while the run was under way. The model hears it with its next call.
 */
export interface Steered {
type: "steered"
turn: UserTurn
at?: number
}
