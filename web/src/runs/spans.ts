// What took how long: events → spans, in the order of a waterfall; and the scale they are drawn on. Pure functions.
//
// The run holds its rounds; a round holds its model calls (each try is one), its waits for a person, and its tools. A tool that is an
// agent is a run of its own, whose spans are put under it when they have been read.
import type { Usage } from "../events.gen";
import { labelOf, valuesOf } from "../tools";
import { type Logged, isPreview } from "./times";

export type SpanKind = "run" | "round" | "model" | "wait" | "tool" | "child";
export type SpanState = "done" | "running" | "failed" | "waits" | "denied" | "unbegun" | "cancelled";

export interface Span {
  key: string;
  kind: SpanKind;
  level: number;
  name: string;
  /** As events count, from 0; -1 outside of rounds. */
  round: number;
  from: number;
  /** null while it goes on. */
  to: number | null;
  /** When the first token came, where that is known. */
  firstAt: number | null;
  state: SpanState;
  /** What stands beside its bar. */
  note: string;
  callId: string;
  /** The run behind a call of an agent. */
  child: string;
  usage: Usage | null;
  /** Tries of a model call, this one included. */
  tries: number;
  /** Which events it is made of, by their places in the list. */
  events: number[];
}

function span(kind: SpanKind, key: string, name: string, level: number, round: number, from: number): Span {
  return { key, kind, level, name, round, from, to: null, firstAt: null, state: "running", note: "", callId: "", child: "", usage: null, tries: 1, events: [] };
}

export function spansOf(events: readonly Logged[], prefix = "", base = 1): Span[] {
  const root = span("run", `${prefix}run`, "run", base, -1, events[0]?.at ?? 0);
  const rows: Span[] = [root];
  const calls = new Map<string, Span>();
  const waits = new Map<string, Span>();
  const asked = new Map<string, { name: string; round: number }>(); // by the model, and not begun
  let round: Span | null = null;
  let model: Span | null = null;
  const end = (one: Span | null, at: number, state: SpanState = "done") => {
    if (one === null || one.to !== null) return;
    one.to = Math.max(at, one.from);
    one.state = state;
  };
  const add = (one: Span, at: number) => {
    one.events.push(at);
    rows.push(one);
    return one;
  };
  events.forEach(({ event, at, isKnown }, index) => {
    switch (event.type) {
      case "run_started":
        root.name = event.model;
        root.events.push(index);
        return;
      case "model_started":
        closeRound(round, rows, at);
        round = add(span("round", `${prefix}r${event.round}`, `Round ${event.round + 1}`, base + 1, event.round, at), index);
        model = add(span("model", `${prefix}m${event.round}.${index}`, "Model call", base + 2, event.round, at), index);
        return;
      case "model_retried": {
        if (model === null) return;
        model.name = `Model call, try ${model.tries}`;
        model.note = `${event.reason}${event.wait ? `, again after ${Math.round(event.wait)} s` : ""}`;
        model.events.push(index);
        end(model, at, "failed");
        const again = span("model", `${prefix}m${model.round}.${index}`, "Model call", model.level, model.round, at + (event.wait ?? 0));
        again.tries = event.attempt;
        model = add(again, index);
        return;
      }
      case "model_finished": {
        if (model === null) return;
        const first = (event as { first_at?: unknown }).first_at;
        if (typeof first === "number") model.firstAt = first;
        model.usage = event.usage ?? null;
        model.events.push(index);
        end(model, at);
        for (const part of event.turn.parts) if (part.type === "tool_call") asked.set(part.id, { name: part.name, round: model.round });
        model = null;
        return;
      }
      case "model_failed":
      case "model_interrupted":
        if (model === null) return;
        model.note = event.reason;
        model.events.push(index);
        end(model, at, "failed");
        model = null;
        return;
      case "tool_started": {
        const known = asked.get(event.call_id);
        asked.delete(event.call_id);
        const name = labelOf(event.name ?? known?.name ?? "tool");
        const one = span(event.child ? "child" : "tool", `${prefix}t${event.call_id}`, name, base + 2, known?.round ?? round?.round ?? -1, at);
        one.callId = event.call_id;
        one.child = event.child ?? "";
        calls.set(event.call_id, add(one, index));
        return;
      }
      case "tool_progressed":
        calls.get(event.call_id)?.events.push(index);
        return;
      case "tool_finished": {
        const one = calls.get(event.result.call_id);
        asked.delete(event.result.call_id);
        if (one === undefined) return;
        one.events.push(index);
        one.note = noteOf(event.details);
        one.usage = event.usage ?? null;
        end(one, at, event.result.failed ? "failed" : "done");
        return;
      }
      case "asked": {
        const one = span("wait", `${prefix}w${event.id}`, labelOf(event.tool || "question"), base + 2, round?.round ?? -1, at);
        one.state = "waits";
        one.note = "waits for you";
        one.callId = event.call_id;
        waits.set(event.id, add(one, index));
        return;
      }
      case "answered": {
        const one = waits.get(event.id);
        if (one === undefined) return;
        const by = event.by ? ` by ${event.by}` : "";
        one.note = event.decision === "approve" ? `approved${by}` : event.decision === "deny" ? `denied${by}` : "not answered in time";
        one.events.push(index);
        end(one, at, event.decision === "approve" ? "done" : "denied");
        return;
      }
      case "run_finished": {
        for (const one of rows) if (one !== root && one.to === null) end(one, at, one.kind === "round" ? "done" : "cancelled");
        root.events.push(index);
        end(root, at, event.reason === "failed" || event.reason === "interrupted" ? "failed" : event.reason === "cancelled" ? "cancelled" : "done");
        return;
      }
      default:
        if (!isPreview(event)) {
          (round ?? root).events.push(index);
          return;
        }
        if (model === null) return;
        model.events.push(index);
        if (model.firstAt === null && isKnown) model.firstAt = at;
    }
  });
  const newest = Math.max(-1, ...rows.map((row) => row.round));
  for (const [id, call] of asked) {
    const one = span("tool", `${prefix}t${id}`, labelOf(call.name), base + 2, call.round, root.to ?? events.at(-1)?.at ?? root.from);
    one.to = one.from;
    one.state = "unbegun";
    one.note = root.to !== null || call.round < newest ? "not run" : "not begun";
    one.callId = id;
    rows.push(one);
  }
  closeRound(round, rows, null);
  return inRounds(rows);
}

/** A round lasts as long as what is in it; the last one is open while anything in it is. */
function closeRound(round: Span | null, rows: Span[], next: number | null): void {
  if (round === null) return;
  const inside = rows.filter((row) => row.kind !== "round" && row.kind !== "run" && row.round === round.round && row.state !== "unbegun");
  const isOpen = inside.some((row) => row.to === null);
  const last = Math.max(round.from, ...inside.map((row) => row.to ?? row.from));
  round.to = isOpen && next === null ? null : last;
  round.state = inside.some((row) => row.state === "waits") ? "waits" : round.to === null ? "running" : inside.some((row) => row.kind === "model" && row.state === "failed" && row === inside.findLast((one) => one.kind === "model")) ? "failed" : "done";
}

/** Rows of a round stand under it, whatever came in between. */
function inRounds(rows: Span[]): Span[] {
  const rounds = rows.filter((row) => row.kind === "round");
  const loose = rows.filter((row) => row.kind !== "round" && !rounds.some((round) => round.round === row.round));
  return [...loose, ...rounds.flatMap((round) => [round, ...rows.filter((row) => row.kind !== "round" && row.round === round.round)])];
}

function noteOf(details: unknown): string {
  const found = (details as { results?: unknown } | undefined)?.results;
  if (Array.isArray(found)) return found.length === 1 ? "1 source" : `${found.length} sources`;
  const from = (details as { server?: unknown } | undefined)?.server;
  return typeof from === "string" ? "MCP" : "";
}

export interface Scale {
  start: number;
  /** Seconds from edge to edge, waits cut. */
  total: number;
  /** A time → its place, from 0 to 1. */
  x: (at: number) => number;
  /** A place → the time there. */
  at: (x: number) => number;
  cuts: { from: number; to: number; shown: number }[];
  /** Seconds that nothing went on but a person's thinking. */
  waited: number;
  busy: number;
}

const LONGEST_WAIT = 10; // seconds of a wait that are drawn
const SHARE = 0.3; // of the work: where there was little of it, less of a wait is drawn

/** Waits in which nothing else went on are cut, so that the work can be seen. */
export function scaleOf(spans: readonly Span[], now: number): Scale {
  const start = spans.length === 0 ? now : Math.min(...spans.map((one) => one.from));
  const end = Math.max(...spans.map((one) => one.to ?? now), start);
  const ends = (one: Span) => ({ from: one.from, to: one.to ?? now });
  const work = merged(spans.filter((one) => one.kind === "model" || ((one.kind === "tool" || one.kind === "child") && one.state !== "unbegun")).map(ends));
  const rests = without(merged(spans.filter((one) => one.kind === "wait").map(ends)), work);
  const waited = rests.reduce((sum, one) => sum + one.to - one.from, 0);
  const busy = Math.max(0, end - start - waited);
  const most = Math.min(LONGEST_WAIT, Math.max(1, busy * SHARE));
  const cuts = rests.filter((one) => one.to - one.from > most).map((one) => ({ ...one, shown: most }));
  const lost = cuts.reduce((sum, one) => sum + one.to - one.from - one.shown, 0);
  const total = Math.max(0.05, end - start - lost);
  const passed = (at: number) => {
    let gone = at - start;
    for (const cut of cuts) {
      if (at <= cut.from) break;
      const inside = Math.min(at, cut.to) - cut.from;
      gone -= inside * (1 - cut.shown / (cut.to - cut.from));
    }
    return gone;
  };
  const time = (x: number) => {
    let left = x * total;
    let at = start;
    for (const cut of cuts) {
      const before = cut.from - at;
      if (left <= before) return at + left;
      left -= before;
      if (left <= cut.shown) return cut.from + (left / cut.shown) * (cut.to - cut.from);
      left -= cut.shown;
      at = cut.to;
    }
    return at + left;
  };
  return { start, total, x: (at) => Math.min(1, Math.max(0, passed(at) / total)), at: time, cuts, waited, busy };
}

interface Piece {
  from: number;
  to: number;
}

function merged(pieces: Piece[]): Piece[] {
  const found: Piece[] = [];
  for (const one of [...pieces].sort((a, b) => a.from - b.from)) {
    const last = found.at(-1);
    if (last !== undefined && one.from <= last.to) last.to = Math.max(last.to, one.to);
    else found.push({ ...one });
  }
  return found;
}

function without(pieces: Piece[], holes: Piece[]): Piece[] {
  return pieces.flatMap((piece) => {
    const left: Piece[] = [];
    let from = piece.from;
    for (const hole of holes) {
      if (hole.to <= from || hole.from >= piece.to) continue;
      if (hole.from > from) left.push({ from, to: hole.from });
      from = Math.max(from, hole.to);
    }
    if (from < piece.to) left.push({ from, to: piece.to });
    return left;
  });
}

const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 43_200, 86_400];
const MOST_TICKS = 6;

/** Where lines of the scale stand, in seconds of what is drawn. */
export function ticksOf(total: number): number[] {
  const step = STEPS.find((one) => total / one <= MOST_TICKS) ?? total / MOST_TICKS;
  const ticks: number[] = [];
  for (let at = 0; at <= total * 0.995; at += step) ticks.push(Number(at.toFixed(3)));
  return ticks;
}

export function tickLabel(seconds: number): string {
  if (seconds < 60) return `${Number(seconds.toFixed(2))} s`;
  if (seconds < 3600) return `${Number((seconds / 60).toFixed(1))} min`;
  return `${Number((seconds / 3600).toFixed(1))} h`;
}

/** Steps of a run that a comparison is made of: calls with what they were called with, and answers. */
export interface CompareStep {
  round: number;
  name: string;
  words: string;
  /** What makes two steps the same. */
  same: string;
  seconds: number;
  isFailed: boolean;
}

export function stepsOf(spans: readonly Span[], argumentsOf: (callId: string) => string): CompareStep[] {
  return spans
    .filter((one) => one.kind === "tool" || one.kind === "child")
    .map((one) => {
      const text = argumentsOf(one.callId);
      const values = valuesOf(text);
      const plain = (value: unknown): string => (typeof value === "string" ? value : Array.isArray(value) ? value.map(plain).join("; ") : JSON.stringify(value));
      const words = values === null ? text : Object.values(values).map(plain).join(" · ");
      return {
        round: one.round,
        name: one.name,
        words: words.slice(0, 300),
        same: `${one.name}\n${values === null ? text : JSON.stringify(values, Object.keys(values).sort())}`,
        seconds: (one.to ?? one.from) - one.from,
        isFailed: one.state === "failed",
      };
    });
}

export interface Pair {
  a: CompareStep | null;
  b: CompareStep | null;
  isSame: boolean;
}

const MOST_STEPS = 1500; // of each side: the table of the longest common part grows with both

/** Steps side by side: those that are the same stand in one row, what only one of them has stands beside a gap. */
export function aligned(a: readonly CompareStep[], b: readonly CompareStep[]): Pair[] {
  const left = a.slice(0, MOST_STEPS);
  const right = b.slice(0, MOST_STEPS);
  const width = right.length + 1;
  const best = new Uint16Array((left.length + 1) * width);
  for (let row = left.length - 1; row >= 0; row--) {
    for (let column = right.length - 1; column >= 0; column--) {
      const here = row * width + column;
      best[here] = left[row]?.same === right[column]?.same ? (best[here + width + 1] ?? 0) + 1 : Math.max(best[here + width] ?? 0, best[here + 1] ?? 0);
    }
  }
  const pairs: Pair[] = [];
  let row = 0;
  let column = 0;
  while (row < left.length || column < right.length) {
    const one = left[row] ?? null;
    const other = right[column] ?? null;
    if (one !== null && other !== null && one.same === other.same) {
      pairs.push({ a: one, b: other, isSame: true });
      row += 1;
      column += 1;
    } else if (one !== null && other !== null && one.name === other.name && isFree(best, row, column, width)) {
      // The same tool with other arguments, where neither is needed elsewhere: one row, and it differs.
      pairs.push({ a: one, b: other, isSame: false });
      row += 1;
      column += 1;
    } else if (other === null || (one !== null && (best[(row + 1) * width + column] ?? 0) >= (best[row * width + column + 1] ?? 0))) {
      pairs.push({ a: one, b: null, isSame: false });
      row += 1;
    } else {
      pairs.push({ a: null, b: other, isSame: false });
      column += 1;
    }
  }
  return pairs;
}

function isFree(best: Uint16Array, row: number, column: number, width: number): boolean {
  const here = best[row * width + column] ?? 0;
  return (best[(row + 1) * width + column + 1] ?? 0) === here;
}

/** How many rounds both begin with that are the same. */
export function sameRounds(pairs: readonly Pair[]): number {
  let rounds = -1;
  for (const pair of pairs) {
    if (!pair.isSame || pair.a === null || pair.b === null || pair.a.round !== pair.b.round) {
      const from = Math.min(pair.a?.round ?? Number.POSITIVE_INFINITY, pair.b?.round ?? Number.POSITIVE_INFINITY);
      return Math.max(0, Math.min(rounds + 1, from));
    }
    rounds = pair.a.round;
  }
  return rounds + 1;
}
