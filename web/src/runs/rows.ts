// Rows of the list of runs, and their sums. The server filters, searches and counts.
//
// What a row lacks is read from `GET /v1/runs/{id}` when the row comes into sight.
import { signal } from "@preact/signals";
import { Problem, type RunRow, type RunSummary, api } from "../api";
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

const known = new Map<string, RunRow>();
const version = signal(0);
let wanted: RunRow[] = [];
let reading = 0;
const AT_ONCE = 2; // requests for rows: lists must not keep the page's other requests waiting
const MOST_KNOWN = 2000;

export function lineOf(row: RunRow): RunLine {
  void version.value;
  const more: RunRow = isWhole(row) ? row : { ...row, ...known.get(keyOf(row)), input: row.input ?? known.get(keyOf(row))?.input ?? null };
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

/** A list has the code of what went wrong, not its words; of runs that an older Ronda began, not even what was asked. */
function isWhole(row: RunRow): boolean {
  return row.model != null && (row.state !== "failed" || row.end?.message !== undefined);
}

/** The row is in sight: have read what the list does not say of it. */
export function wantLine(row: RunRow): void {
  if (isWhole(row) || known.has(keyOf(row)) || wanted.some((one) => one.id === row.id)) return;
  wanted.push(row);
  void read();
}

async function read(): Promise<void> {
  if (reading >= AT_ONCE) return;
  reading += 1;
  try {
    for (let row = wanted.shift(); row !== undefined; row = wanted.shift()) {
      const document = await api.run<RunRow>(row.id).catch((error: unknown) => {
        if (error instanceof Problem) return null;
        throw error;
      });
      if (document === null) continue;
      if (!row.input && !document.input && !hasTitle(row)) document.input = await firstQuestion(row.id).catch(() => "");
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
  model: string;
  session: string;
  words: string;
  /** How far back, in hours; 0: as far as there are runs. */
  hours: number;
  /** Whether runs that are calls of others are shown, too. */
  children: boolean;
}

const PAGE = 50;

export class RunList {
  readonly rows = signal<RunRow[]>([]);
  readonly summary = signal<RunSummary | null>(null);
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
      const page = await api.runs(this.query());
      const oldest = page.has_more ? 0 : (page.data.at(-1)?.created_at ?? 0);
      const summary = await api.runSummary(this.sums(oldest));
      if (turn !== this.turn) return;
      this.summary.value = summary;
      const ids = new Set(page.data.map((row) => row.id));
      const last = page.data.at(-1)?.created_at ?? Number.POSITIVE_INFINITY;
      const older = page.has_more ? this.rows.value.filter((row) => !ids.has(row.id) && row.created_at < last) : [];
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

  private chosen(): URLSearchParams {
    const { agent, model, session, words, children } = this.filter;
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries({ agent, model, session, q: words.trim() })) if (value !== "") query.set(name, value);
    if (!children) query.set("children", "false");
    return query;
  }

  private query(): string {
    const query = this.chosen();
    query.set("limit", String(PAGE));
    if (this.filter.state !== "") query.set("state", this.filter.state);
    if (this.filter.hours > 0) query.set("since", String(Math.floor(Date.now() / 1000 - this.filter.hours * 3600)));
    return query.toString();
  }

  /** A histogram of a week of which an hour is known would be one bar: it begins where the runs do, as far as that is known. */
  private sums(oldest: number): string {
    const query = this.chosen();
    const most = this.filter.hours > 0 ? this.filter.hours : LONGEST_HOURS;
    const known = oldest === 0 || this.filter.state !== "" ? most : Math.ceil((Date.now() / 1000 - oldest) / 3600 + 0.02);
    query.set("span", `${Math.max(1, Math.min(most, known))}h`);
    query.set("pieces", "48");
    return query.toString();
  }
}

const LONGEST_HOURS = 366 * 24; // as far as the server counts
