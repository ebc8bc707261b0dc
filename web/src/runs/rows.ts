// Rows of the list of runs. The one module that knows what the server's list has, and what must be asked for run by run.
//
// A list of today has states, agents, sessions and times. What a row shows beside that is read from `GET /v1/runs/{id}` when the row
// comes into sight; columns that the list brings itself are taken from it, and then nothing more is asked for.
import { signal } from "@preact/signals";
import { Problem, type RunRow, api } from "../api";
import { sessions } from "../store/sessions";
import { firstQuestion } from "../stream";

export interface RunEnd {
  reason: string;
  limit?: string | null;
  message?: string | null;
  code?: string | null;
}

export interface RunLine {
  id: string;
  state: string;
  agent: string;
  session: string;
  createdAt: number;
  endedAt: number | null;
  /** First words of what was asked, the session's title, or the run's name. */
  asked: string;
  model: string | null;
  rounds: number | null;
  calls: number | null;
  tokens: number | null;
  /** null: not known. */
  cost: number | null;
  end: RunEnd | null;
  waitsFor: string;
}

/** What a row may have beside `RunRow`, of the list or of the run's own document. */
interface RunColumns extends RunRow {
  model?: string | null;
  input?: string | null;
  rounds?: number | null;
  tool_calls?: number | null;
  cost?: number | null;
  end?: RunEnd | null;
  questions?: { tool?: string }[];
  usage?: { input_tokens?: number; output_tokens?: number; tool_calls?: number; rounds?: number; cost?: number | null };
}

const known = new Map<string, RunColumns>();
const version = signal(0);
let wanted: RunRow[] = [];
let reading = 0;
const AT_ONCE = 2; // requests for rows: lists must not keep the page's other requests waiting
const MOST_KNOWN = 2000;

export function lineOf(row: RunRow): RunLine {
  void version.value;
  const more: RunColumns = { ...known.get(keyOf(row)), ...row };
  const usage = more.usage;
  const words = more.input?.trim() ?? "";
  const counted = usage?.input_tokens === undefined ? null : usage.input_tokens + (usage.output_tokens ?? 0);
  return {
    id: row.id,
    state: row.state,
    agent: row.agent ?? "",
    session: row.session ?? "",
    createdAt: row.created_at,
    endedAt: row.ended_at,
    asked: words !== "" ? words : hasTitle(row) ? titleOf(row) : row.id,
    model: more.model ?? null,
    rounds: more.rounds ?? usage?.rounds ?? null,
    calls: more.tool_calls ?? usage?.tool_calls ?? null,
    tokens: counted,
    cost: more.cost ?? usage?.cost ?? null,
    end: more.end ?? null,
    waitsFor: more.questions?.[0]?.tool ?? "",
  };
}

const UNNAMED = ["", "Untitled", "New session"];

function titleOf(row: RunRow): string {
  return sessions.value.find((one) => one.id === row.session)?.title ?? "";
}

function hasTitle(row: RunRow): boolean {
  return !UNNAMED.includes(titleOf(row));
}

/** What a run ended with, or how it stands, in one word. */
export function stateWord(line: RunLine): string {
  if (line.end?.reason === "limit") return "Limit";
  return line.state.charAt(0).toUpperCase() + line.state.slice(1);
}

/** The row is in sight: have read what the list does not say of it. */
export function wantLine(row: RunRow): void {
  if ((row as RunColumns).model !== undefined || known.has(keyOf(row)) || wanted.some((one) => one.id === row.id)) return;
  wanted.push(row);
  void read();
}

async function read(): Promise<void> {
  if (reading >= AT_ONCE) return;
  reading += 1;
  try {
    for (let row = wanted.shift(); row !== undefined; row = wanted.shift()) {
      const document = await api.run<RunColumns>(row.id).catch((error: unknown) => {
        if (error instanceof Problem) return null;
        throw error;
      });
      if (document === null) continue;
      if (!document.input && !hasTitle(row)) document.input = await firstQuestion(row.id).catch(() => "");
      if (known.size > MOST_KNOWN) known.clear();
      known.set(keyOf(row), document);
      version.value += 1;
    }
  } finally {
    reading -= 1;
  }
}

/** A run that goes on is asked about again when its state has changed. */
function keyOf(row: RunRow): string {
  return `${row.id}:${row.state}`;
}

export interface Filter {
  state: string;
  agent: string;
  session: string;
  words: string;
}

const PAGE = 50;

export class RunList {
  readonly rows = signal<RunRow[]>([]);
  readonly counts = signal<Record<string, string>>({});
  readonly problem = signal<Problem | null>(null);
  readonly isRead = signal(false);
  private next: string | null = null;
  private turn = 0;

  constructor(readonly filter: Filter) {}

  get hasMore(): boolean {
    return this.next !== null;
  }

  /** The first page, again: rows that were read before it stay. */
  async refresh(): Promise<void> {
    const turn = ++this.turn;
    try {
      const [page] = await Promise.all([api.runs(this.query()), this.count()]);
      if (turn !== this.turn) return;
      const ids = new Set(page.data.map((row) => row.id));
      const oldest = page.data.at(-1)?.created_at ?? Number.POSITIVE_INFINITY;
      const older = page.has_more ? this.rows.value.filter((row) => !ids.has(row.id) && row.created_at < oldest) : [];
      if (older.length === 0) this.next = page.next ?? null;
      this.rows.value = [...page.data, ...older];
      this.problem.value = null;
      this.isRead.value = true;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (turn === this.turn) this.problem.value = error;
    }
  }

  async more(): Promise<void> {
    const before = this.next;
    if (before === null) return;
    this.next = null;
    const page = await api.runs(`${this.query()}&before=${encodeURIComponent(before)}`).catch(() => null);
    if (page === null) {
      this.next = before;
      return;
    }
    this.next = page.next ?? null;
    const ids = new Set(this.rows.value.map((row) => row.id));
    this.rows.value = [...this.rows.value, ...page.data.filter((row) => !ids.has(row.id))];
  }

  private query(): string {
    const { state, agent, session } = this.filter;
    const words = new URLSearchParams({ limit: String(PAGE) });
    if (state !== "") words.set("state", state);
    if (agent !== "") words.set("agent", agent);
    if (session !== "") words.set("session", session);
    return words.toString();
  }

  /** How many there are of those that are few; the list does not count, so beyond a page it is "100+". */
  private async count(): Promise<void> {
    const states = ["running", "waiting", "failed"];
    const pages = await Promise.all(states.map((state) => api.runs(`state=${state}&limit=100`)));
    this.counts.value = Object.fromEntries(pages.map((page, at) => [states[at], page.has_more ? `${page.data.length}+` : String(page.data.length)]));
  }
}

/** Words are looked for in what is loaded: the server's list cannot search yet. */
export function fits(line: RunLine, words: string): boolean {
  const text = `${line.asked}\n${line.id}\n${line.session}\n${line.model ?? ""}\n${line.agent}`.toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
