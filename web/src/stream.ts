// A run's events from the server: one EventSource, read again from where it was when it breaks off.
//
//     connect(run) → events to `take`, in their order, each once; what the connection does to `connection`
//
// A frame named `error` has data and comes from the server; the source's own error has none. A source that was told that there is
// nothing more (204) does not come again.
import { signal } from "@preact/signals";
import { api, needKey } from "./api";
import type { RunEvent } from "./events.gen";

export type ConnectionState =
  | { kind: "open" }
  | { kind: "reconnecting"; at: number; position: string }
  | { kind: "back"; count: number }
  | { kind: "gone"; since: number };

export const connection = signal<ConnectionState>({ kind: "open" });

const QUIET_MS = 1000; // until a lost connection is worth a word
const GONE_MS = 30_000;
const BACK_MS = 4000;
const LONGEST_WAIT = 15_000;
const REST_MS = 700; // between two looks at a run that waits for a person

export const KINDS = [
  "run_started", "model_started", "model_retried", "model_finished", "model_interrupted", "model_failed", "tool_started",
  "tool_finished", "asked", "answered", "checked", "steered", "compacted", "warned", "released", "recovered", "run_finished",
  "text_delta", "reasoning_delta", "refusal_delta", "call_delta", "logprobs_delta", "tool_progressed", "call_preview",
] as const satisfies readonly RunEvent["type"][];

export interface Reader {
  take: (event: RunEvent, position: string) => void;
  /** The run's last event has come, or it is not there. */
  ended: () => void;
  /** Whether the run only waits for a person: then the server ends the stream, and there is nothing wrong. */
  isResting: () => boolean;
}

export class Follower {
  private source: EventSource | null = null;
  private position = "";
  private wait = 1000;
  private lostAt = 0;
  private sinceLost = 0;
  private timers: ReturnType<typeof setTimeout>[] = [];
  private isClosed = false;
  private isOpened = false;

  constructor(
    private readonly run: string,
    private readonly reader: Reader,
    after = "",
  ) {
    this.position = after;
    this.open();
  }

  close(): void {
    this.isClosed = true;
    this.source?.close();
    this.source = null;
    this.clear();
    if (this.lostAt !== 0) connection.value = { kind: "open" };
    if (current === this) current = null;
  }

  /** Try at once instead of waiting. */
  retryNow(): void {
    if (this.isClosed || this.source !== null) return;
    this.clear();
    this.open();
  }

  private open(): void {
    current = this;
    this.isOpened = false;
    const source = new EventSource(api.eventsAddress(this.run, this.position));
    this.source = source;
    for (const kind of KINDS) source.addEventListener(kind, (event) => this.hear(event));
    source.addEventListener("error", (event) => {
      // The server's own word for a failure has data: the run's fold will say what became of it.
      if (event instanceof MessageEvent && typeof event.data === "string") return;
      this.lost(source);
    });
    source.onopen = () => {
      this.isOpened = true;
      this.found();
    };
  }

  private hear(event: MessageEvent<string>): void {
    if (this.isClosed) return;
    this.found();
    if (event.lastEventId !== "") this.position = event.lastEventId;
    if (this.lostAt !== 0) this.sinceLost += 1;
    const read = JSON.parse(event.data) as RunEvent;
    this.reader.take(read, event.lastEventId);
    if (read.type === "run_finished") {
      this.settle();
      this.close();
      this.reader.ended();
    }
  }

  private found(): void {
    this.wait = 1000;
    if (this.lostAt === 0) return;
    this.clear();
    // Whatever came in meanwhile comes at once: the sum of it is said when it is in.
    this.timers.push(setTimeout(() => this.settle(), 400));
  }

  private settle(): void {
    if (this.lostAt === 0) return;
    this.lostAt = 0;
    if (connection.value.kind === "open") return;
    sayBack(this.sinceLost);
  }

  private lost(source: EventSource): void {
    if (this.isClosed || source !== this.source) return;
    source.close();
    this.source = null;
    if (this.isOpened && this.reader.isResting()) {
      this.timers.push(setTimeout(() => this.retryNow(), REST_MS));
      return;
    }
    if (this.lostAt === 0) {
      this.lostAt = Date.now();
      this.sinceLost = 0;
    }
    void this.check();
  }

  private async check(): Promise<void> {
    // A run that is over, or never was, is not a lost connection.
    const answer = await fetch(api.eventsAddress(this.run, this.position), { headers: { accept: "text/event-stream" } }).catch(
      () => null,
    );
    void answer?.body?.cancel();
    if (this.isClosed) return;
    if (answer !== null && (answer.status === 204 || answer.status === 404)) {
      this.settle();
      this.close();
      this.reader.ended();
      return;
    }
    if (answer?.status === 401) {
      // The login lies over the page now; when it is done, it says so.
      needKey();
      return;
    }
    if (answer?.ok) {
      this.timers.push(setTimeout(() => this.retryNow(), REST_MS));
      return;
    }
    const jitter = 0.75 + Math.random() * 0.5;
    const wait = Math.round(this.wait * jitter);
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
    this.report(Date.now() + wait);
    this.timers.push(setTimeout(() => this.retryNow(), wait));
  }

  private report(next: number): void {
    const lostFor = Date.now() - this.lostAt;
    if (lostFor > GONE_MS) connection.value = { kind: "gone", since: this.lostAt };
    else if (lostFor > QUIET_MS || connection.value.kind === "reconnecting") {
      connection.value = { kind: "reconnecting", at: next, position: this.position };
    } else {
      const timer = setTimeout(() => {
        if (this.lostAt !== 0 && this.source === null) {
          connection.value = { kind: "reconnecting", at: next, position: this.position };
        }
      }, QUIET_MS - lostFor);
      this.timers.push(timer);
    }
  }

  private clear(): void {
    for (const timer of this.timers) clearTimeout(timer);
    this.timers = [];
  }
}

let current: Follower | null = null;

/** Something was decided: whatever comes of it is worth a look at once. */
export function lookNow(): void {
  current?.retryNow();
}

export function retryNow(): void {
  if (current !== null) current.retryNow();
  else void checkServer();
}

/** Whether the server is there, where no source would tell. */
export async function checkServer(): Promise<boolean> {
  const isUp = await api.isUp();
  if (isUp) serverAnswers();
  else if (connection.value.kind === "open") connection.value = { kind: "gone", since: Date.now() };
  return isUp;
}

/** The server has answered something: it is back, unless a source is still looking for it. */
export function serverAnswers(): void {
  if (connection.value.kind === "gone" && current === null) sayBack(0);
}

function sayBack(count: number): void {
  const back: ConnectionState = { kind: "back", count };
  connection.value = back;
  setTimeout(() => {
    if (connection.value === back) connection.value = { kind: "open" };
  }, BACK_MS);
}

/** The events of a run that is over, all at once: (event, position) pairs. */
export async function readEvents(run: string): Promise<[RunEvent, string][]> {
  const answer = await api.events(run);
  const found: [RunEvent, string][] = [];
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (reader === undefined) return found;
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest += value ?? "";
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const event = readFrame(block);
      if (event !== null) found.push(event);
      if (event?.[0].type === "run_finished") {
        void reader.cancel();
        return found;
      }
    }
    if (done) return found;
  }
}

const LONGEST_START = 2_000_000; // characters that are read in search of a run's first event

/** The first line of what a run was asked: of its events the first is read, and no more. */
export async function firstQuestion(run: string): Promise<string> {
  const answer = await api.events(run);
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (reader !== undefined && text.length < LONGEST_START && !text.includes("\n\n")) {
    const { done, value } = await reader.read();
    text += value ?? "";
    if (done) break;
  }
  void reader?.cancel();
  const event = readFrame(text.split("\n\n")[0] ?? "")?.[0];
  const turn = event?.type === "run_started" ? event.turns.findLast((one) => one.type === "user") : undefined;
  const words = turn?.parts.map((part) => (part.type === "text" ? part.text : "")).join("\n").trim() ?? "";
  return (words.split("\n")[0] ?? "").slice(0, 200);
}

export function readFrame(block: string): [RunEvent, string] | null {
  let id = "";
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("id: ")) id = line.slice(4);
    else if (line.startsWith("data: ")) data = line.slice(6);
  }
  if (data === "" || id === "") return null;
  return [JSON.parse(data) as RunEvent, id];
}
