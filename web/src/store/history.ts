// Exchanges as a conversation tells them → as the events of their runs do, with times, costs, files and what went wrong.
//
// A conversation does not say which run made which exchange. Both are in one order: the run of an exchange is the newest whose
// conversation ends with the exchange's question. Read one after the other, newest first, as they come into sight.
import { type RunRow, sameWords } from "../api";
import { touch } from "../changes";
import { fold } from "../fold/fold";
import { type RunState, newRun } from "../fold/state";
import { readEvents } from "../stream";

export interface Entry {
  key: string;
  /** Where its question stands in the conversation. */
  start: number;
  run: RunState;
  /** Whether the events of its run have been read: "none" where there are none to read. */
  events: "unread" | "reading" | "read" | "none";
}

export interface Known {
  rows: RunRow[];
  entries: Entry[];
  hasBranches: boolean;
}

const SLICE = 500; // events that are folded in one task

export class History {
  private unread: Entry[] = [];
  private tried = new Map<string, RunState>();
  private isReading = false;
  private age = 0;

  constructor(private readonly known: () => Known) {}

  /** Another session is open. */
  forget(): void {
    this.age += 1;
    this.unread = [];
    this.tried = new Map();
  }

  want(entry: Entry): void {
    if (entry.events !== "unread" || this.unread.includes(entry)) return;
    this.unread.push(entry);
    if (!this.isReading) void this.read();
  }

  private async read(): Promise<void> {
    this.isReading = true;
    try {
      while (this.unread.length > 0) {
        this.unread.sort((a, b) => b.start - a.start);
        const entry = this.unread.shift();
        if (entry?.events === "unread") await this.readEntry(entry);
      }
    } finally {
      this.isReading = false;
    }
  }

  private async readEntry(entry: Entry): Promise<void> {
    const age = this.age;
    entry.events = "reading";
    const { rows, entries, hasBranches } = this.known();
    const taken = new Set(entries.map((one) => one.run.id));
    for (const row of rows) {
      if (row.ended_at === null || taken.has(row.id)) continue;
      const run = this.tried.get(row.id) ?? (await readRun(row.id).catch(() => null));
      if (age !== this.age) return;
      if (run === null) continue;
      this.tried.set(row.id, run);
      if (run.turnsBefore - 1 < entry.start) break;
      if (run.turnsBefore - 1 !== entry.start || !sameWords(run.question, entry.run.question)) continue;
      if (hasBranches && wordsIn(run) !== wordsIn(entry.run)) continue;
      this.tried.delete(row.id);
      entry.run = run;
      entry.events = "read";
      touch(entry);
      return;
    }
    entry.events = "none";
  }
}

function wordsIn(run: RunState): string {
  const rounds = run.steps.filter((step) => step.kind === "round");
  return rounds.flatMap((round) => round.parts.map((part) => (part.kind === "text" ? part.text.trim() : ""))).join("");
}

/** A run that is over. */
export async function readRun(id: string): Promise<RunState> {
  const run = newRun(id);
  const events = await readEvents(id);
  for (let at = 0; at < events.length; at += SLICE) {
    for (const [event, position] of events.slice(at, at + SLICE)) fold(run, event, position);
    if (at + SLICE < events.length) await new Promise((resolve) => setTimeout(resolve));
  }
  return run;
}
