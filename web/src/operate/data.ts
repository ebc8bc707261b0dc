// What the view Operate shows. The one module that knows which of it the server offers: own runs, decisions and MCP servers are
// always there, keys for a key with the scope `operate:write`, budgets and figures over all owners where `/ui/server` says so.
import { signal } from "@preact/signals";
import { type Approval, type Budget, type Finding, type McpServer, type OperateStep, Problem, type RunRow, type ServerKey, api } from "../api";
import { facts, me } from "../store/server";

/** How far back figures, series and errors go, and how long a step of the series is. */
export const SPANS = {
  "1h": { step: 120, words: "hour" },
  "24h": { step: 2880, words: "24 hours" },
  "7d": { step: 20_160, words: "7 days" },
} as const;
export type Span = keyof typeof SPANS;

/** What an owner has done since the month began. Where the server keeps no ledger, `spent` is null. */
export interface OperateOwner {
  owner: string;
  running: number;
  waiting: number;
  runs: number;
  spent: number | null;
  reserved: number;
  budget: number | null;
}

export interface OperateModel {
  name: string;
  calls: number;
  failed: number;
  first_token: number | null;
  cost: number | null;
  /** Seconds for which another is asked in its place: it has failed. */
  cools_for?: number | null;
}

/** A run of any owner, without a word of theirs. */
export interface OperateRun {
  id: string;
  owner: string;
  state: string;
  agent: string | null;
  model: string | null;
  rounds: number | null;
  tool_calls: number | null;
  cost: number | null;
  /** Those that wait for a decision. */
  tools: string[];
  /** Null where another process drives it. `tools`: those in `calls`. */
  doing?: "next" | "model" | "tools" | "waits" | null;
  calls?: string[];
  created_at: number;
}

/** Runs of any owner that failed alike. */
export interface OperateError {
  code: string | null;
  model: string | null;
  agent: string | null;
  count: number;
  last_at: number;
}

/** Each of the figures may be missing. */
export interface OperateFigures {
  processes?: number;
  uptime?: number;
  running?: number;
  queued?: number;
  waiting?: number;
  oldest_queued?: number | null;
  oldest_waiting?: number | null;
  first_token_95?: number | null;
  first_token_median?: number | null;
  tokens_a_minute?: number | null;
  cached_share?: number | null;
  cost_today?: number | null;
  owners?: OperateOwner[];
  models?: OperateModel[];
  runs?: OperateRun[];
  journal?: { bytes: number | null };
  files?: { count: number; bytes: number };
  series?: Record<string, (number | null)[]>;
}

/** A box loads by itself, and says by itself what went wrong. */
export interface Box<T> {
  value: T | null;
  problem: Problem | null;
}

const EMPTY = { value: null, problem: null };

export class OperateData {
  readonly running = signal<Box<RunRow[]>>(EMPTY);
  readonly failed = signal<Box<RunRow[]>>(EMPTY);
  readonly decisions = signal<Box<Approval[]>>(EMPTY);
  readonly servers = signal<Box<McpServer[]>>(EMPTY);
  readonly keys = signal<Box<ServerKey[]>>(EMPTY);
  readonly budgets = signal<Box<Budget[]>>(EMPTY);
  readonly span = signal<Span>("1h");
  /** Of all owners, over the span. */
  readonly steps = signal<Box<OperateStep[]>>(EMPTY);
  readonly errors = signal<Box<OperateError[]>>(EMPTY);
  readonly doctor = signal<Box<Finding[]>>(EMPTY);
  readonly figures = signal<Box<OperateFigures>>(EMPTY);

  /** On a server without keys, everyone may. */
  get mayOperate(): boolean {
    return me.value?.needs_key !== true || (me.value.scopes ?? []).some((scope) => scope === "operate" || scope === "operate:write");
  }

  get hasFigures(): boolean {
    return facts.value?.features.operate === true && this.mayOperate;
  }

  get hasBudgets(): boolean {
    return facts.value?.features.budgets === true;
  }

  /** On a server without keys there are none to manage, but everything else is everyone's. */
  get mayChange(): boolean {
    return me.value?.needs_key !== true || this.mayManageKeys;
  }

  get mayManageKeys(): boolean {
    return me.value?.scopes?.includes("operate:write") === true;
  }

  look(span: Span): void {
    this.span.value = span;
    void this.refresh();
  }

  async refresh(): Promise<void> {
    const span = this.span.value;
    await Promise.all([
      fill(this.running, async () => {
        const pages = await Promise.all(["running", "queued", "waiting"].map((state) => api.runs(`state=${state}&limit=100`)));
        return pages.flatMap((page) => page.data);
      }),
      fill(this.failed, async () => (await api.runs("state=failed&limit=100")).data),
      fill(this.decisions, () => api.approvals()),
      fill(this.servers, () => api.mcp()),
      this.mayManageKeys ? fill(this.keys, () => api.keys()) : Promise.resolve(),
      this.hasBudgets ? fill(this.budgets, () => api.budgets()) : Promise.resolve(),
      this.hasFigures ? fill(this.figures, () => api.operate<OperateFigures>(span)) : Promise.resolve(),
      this.hasFigures && this.doctor.value.value === null ? fill(this.doctor, () => api.doctor()) : Promise.resolve(),
      this.hasFigures ? fill(this.steps, () => api.operateSeries(span, SPANS[span].step).then((series) => series.data)) : Promise.resolve(),
      this.hasFigures ? fill(this.errors, () => api.operateErrors<OperateError>(span)) : Promise.resolve(),
    ]);
  }
}

async function fill<T>(box: { value: Box<T> }, read: () => Promise<T>): Promise<void> {
  try {
    box.value = { value: await read(), problem: null };
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    box.value = { value: box.value.value, problem: error };
  }
}
