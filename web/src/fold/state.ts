// What the page knows of a run: plain values, made from its events alone (`fold`). No component keeps anything that belongs here.
import type { AssistantTurn, File, Image, RunFinished, ToolCall, Usage, UserTurn } from "../events.gen";

export type RunPhase = "queued" | "running" | "waiting" | "finished";

export interface RunState {
  id: string;
  model: string;
  session: string;
  tools: string[];
  /** How many turns the conversation had when the run began, its question included. */
  turnsBefore: number;
  question: UserTurn | null;
  startedAt: number;
  steps: Step[];
  calls: Map<string, Call>;
  questions: Question[];
  usage: Totals;
  budget: RunBudget | null;
  end: RunFinished | null;
  /** The position of the last event: where a source goes on. */
  position: string;
  eventCount: number;
}

/** What stands on the rail, in the order of events: rounds, and lines between them. */
export type Step = Round | Note | Steering;

export interface Note {
  kind: "note";
  text: string;
  /** Opens under the line: a summary. */
  more: string;
  at: number;
}

export interface Steering {
  kind: "steering";
  turn: UserTurn;
  at: number;
}

export interface Round {
  kind: "round";
  /** As events count, from 0. */
  number: number;
  isLast: boolean;
  startedAt: number;
  finishedAt: number;
  parts: Part[];
  usage: Usage | null;
  stop: AssistantTurn["stop"] | null;
  retry: { attempt: number; tries: number; reason: string; until: number } | null;
  failure: { reason: string; status: number | null; tries: number; at: number; code: string; tooLong: boolean } | null;
  interruption: { reason: string; at: number } | null;
  refusal: { stage: string; problem: string } | null;
  /** While the model writes: calls by their index in the turn, and bytes of arguments that have come. */
  isOpen: boolean;
}

export type Part = TextPart | ReasoningPart | Call;

export interface TextPart {
  kind: "text";
  text: string;
  isRefusal: boolean;
  isDone: boolean;
}

export interface ReasoningPart {
  kind: "reasoning";
  text: string;
  isDone: boolean;
}

export type CallPhase =
  | "arriving"
  | "queued"
  | "running"
  | "waiting"
  | "done"
  | "failed"
  | "denied"
  | "expired"
  | "cancelled"
  | "unknown"
  | "unrun";

export interface Call {
  kind: "call";
  id: string;
  name: string;
  index: number;
  /** JSON text, as far as it has come. */
  arguments: string;
  /** What a person had it run with instead. */
  changed: string | null;
  phase: CallPhase;
  /** When a person was asked about it; 0 where none was. */
  askedAt: number;
  startedAt: number;
  finishedAt: number;
  child: string;
  /** What the running tool has shown so far, piece by piece. */
  progress: Output[];
  content: string;
  whole: string;
  details: unknown;
  attachments: Image[];
  files: File[];
  repairs: string[];
  problem: string;
  answer: { by: string; message: string; remember: boolean; askedAt: number; at: number } | null;
}

export interface Output {
  stream: string;
  part: number;
  text: string;
}

export interface Question {
  id: string;
  callId: string;
  kind: "approval" | "input";
  tool: string;
  arguments: string;
  schema: unknown;
  /** What other arguments must look like that an approval brings; null where the server does not say. */
  parameters: unknown;
  message: string;
  expiresAt: number;
  at: number;
  child: string;
}

export interface Totals {
  input: number;
  output: number;
  cached: number;
  reasoning: number;
  cost: number;
  /** Whether the price of some call is not known. */
  isUnpriced: boolean;
  rounds: number;
  calls: number;
}

/** The tightest of the budgets that a run spends from. */
export interface RunBudget {
  scope: string;
  per: string;
  unit: string;
  limit: number;
  spent: number;
  reserved: number;
}

export function newRun(id: string): RunState {
  return {
    id,
    model: "",
    session: "",
    tools: [],
    turnsBefore: 0,
    question: null,
    startedAt: 0,
    steps: [],
    calls: new Map(),
    questions: [],
    usage: { input: 0, output: 0, cached: 0, reasoning: 0, cost: 0, isUnpriced: false, rounds: 0, calls: 0 },
    budget: null,
    end: null,
    position: "",
    eventCount: 0,
  };
}

export function newRound(number: number, isLast: boolean, at: number): Round {
  return {
    kind: "round",
    number,
    isLast,
    startedAt: at,
    finishedAt: 0,
    parts: [],
    usage: null,
    stop: null,
    retry: null,
    failure: null,
    interruption: null,
    refusal: null,
    isOpen: true,
  };
}

export function newCall(id: string, name: string, index: number): Call {
  return {
    kind: "call",
    id,
    name,
    index,
    arguments: "",
    changed: null,
    phase: "arriving",
    askedAt: 0,
    startedAt: 0,
    finishedAt: 0,
    child: "",
    progress: [],
    content: "",
    whole: "",
    details: null,
    attachments: [],
    files: [],
    repairs: [],
    problem: "",
    answer: null,
  };
}

export function phaseOf(run: RunState): RunPhase {
  if (run.end !== null) return "finished";
  if (run.startedAt === 0) return "queued";
  return isWaiting(run) ? "waiting" : "running";
}

/** Whether nothing goes on but a person's thinking. */
export function isWaiting(run: RunState): boolean {
  if (run.questions.length === 0) return false;
  for (const call of run.calls.values()) if (call.phase === "running" || call.phase === "arriving") return false;
  return true;
}

export function roundsOf(run: RunState): Round[] {
  return run.steps.filter((step) => step.kind === "round");
}

export function lastRound(run: RunState): Round | null {
  for (let at = run.steps.length - 1; at >= 0; at--) {
    const step = run.steps[at];
    if (step?.kind === "round") return step;
  }
  return null;
}

export function callsOf(round: Round): Call[] {
  return round.parts.filter((part) => part.kind === "call");
}

/** The text of the run's answer: what its last round says. */
export function answerOf(run: RunState): string {
  if (run.end?.answer) return run.end.answer;
  const round = lastRound(run);
  return round === null ? "" : textOf(round);
}

export function textOf(round: Round): string {
  return round.parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
}

export function takeCall(call: Call, told: ToolCall): void {
  call.name = told.name;
  call.arguments = told.arguments;
  call.repairs = told.repairs ?? [];
  call.problem = told.problem ?? "";
}
