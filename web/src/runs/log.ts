// One run, followed from its first event: everything that it said stays here, so that it can be drawn as a waterfall, played again and
// compared. What it waits for or writes now comes in by the same source.
import { signal } from "@preact/signals";
import { type RunRow, api } from "../api";
import { touch } from "../changes";
import type { RunEvent } from "../events.gen";
import { fold } from "../fold/fold";
import { type RunState, isWaiting, newRun } from "../fold/state";
import { Follower } from "../stream";
import { type Span, spansOf } from "./spans";
import { type Logged, isPreview, logged, spread } from "./times";

export class RunLog {
  readonly events: Logged[] = [];
  readonly run: RunState;
  readonly isMissing = signal(false);
  readonly isOver = signal(false);
  /** The agent that was asked, if it was one: events do not name it. */
  readonly agent = signal("");
  /** Runs of agents that were called, as far as they were asked for. */
  readonly children = new Map<string, RunLog>();
  private follower: Follower | null = null;
  private openedAt = Date.now() / 1000;
  private roundAt = 0;
  private spreadTo = 0;
  private made: { count: number; spans: Span[] } = { count: -1, spans: [] };

  constructor(readonly id: string) {
    this.run = newRun(id);
  }

  open(): this {
    this.openedAt = Date.now() / 1000;
    this.follower = new Follower(this.id, {
      take: (event, position) => this.take(event, position),
      ended: () => {
        this.isOver.value = true;
        this.isMissing.value = this.events.length === 0;
        touch(this);
      },
      isResting: () => isWaiting(this.run),
    });
    return this;
  }

  close(): void {
    this.follower?.close();
    this.follower = null;
    for (const child of this.children.values()) child.close();
  }

  /** The run behind a call, read when it is first asked for. */
  child(id: string): RunLog {
    let found = this.children.get(id);
    if (found === undefined) {
      found = new RunLog(id).open();
      this.children.set(id, found);
    }
    return found;
  }

  /** Spans of the facts that are there, made again when one was added. */
  spans(prefix = "", level = 1): Span[] {
    this.spread();
    if (this.made.count !== this.events.length) this.made = { count: this.events.length, spans: spansOf(this.events, prefix, level) };
    return this.made.spans;
  }

  private take(event: RunEvent, position: string): void {
    if (event.type === "run_started") void api.run<RunRow>(this.id).then((row) => (this.agent.value = row.agent ?? ""), () => undefined);
    if (event.type === "model_started") this.roundAt = event.at ?? 0;
    // What a round says that began after this page opened is shown as it comes.
    const heardAt = isPreview(event) && this.roundAt >= this.openedAt ? Date.now() / 1000 : 0;
    this.events.push(logged(event, position, heardAt));
    fold(this.run, event, position, touch);
    touch(this);
  }

  private spread(): void {
    const last = this.events.findLastIndex((one) => one.isKnown);
    if (last < this.spreadTo) return;
    spread(this.events, this.spreadTo);
    this.spreadTo = last + 1;
  }
}
