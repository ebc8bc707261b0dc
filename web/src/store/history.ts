// Exchanges as a conversation tells them → as the events of their runs do, with times, costs, files and what went wrong.
//
// Read one after the other, newest first, as they come into sight.
import { touch } from "../changes";
import { fold } from "../fold/fold";
import { type RunState, newRun } from "../fold/state";
import { readEvents } from "../stream";

export interface Entry {
  key: string;
  /** Where its question stands in the conversation. */
  start: number;
  run: RunState;
  /** The run whose events tell more of it than the conversation does; null: there is none. */
  runId: string | null;
  /** Whether those have been read: "none" where there are none to read. */
  events: "unread" | "reading" | "read" | "none";
}

const SLICE = 500; // events that are folded in one task

export class History {
  private unread: Entry[] = [];
  private isReading = false;
  private age = 0;

  /** Another session is open. */
  forget(): void {
    this.age += 1;
    this.unread = [];
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
    const run = entry.runId === null ? null : await readRun(entry.runId).catch(() => null);
    if (age !== this.age) return;
    entry.events = run === null || run.startedAt === 0 ? "none" : "read"; // what a server no longer keeps has no events
    if (run === null || entry.events === "none") return;
    entry.run = run;
    touch(entry);
  }
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
