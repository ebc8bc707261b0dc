// A run → the bars of its rounds on one scale, for the pane beside the talk. Long waits for a person are drawn short.
import { type Call, type Round, type RunState, callsOf, roundsOf } from "./state";

const MANY = 8; // calls of one round: of more, one bar is drawn
const LONG_WAIT = 10; // seconds: more of a wait is cut

export interface Bar {
  kind: "m" | "t" | "w" | "c" | "f";
  from: number;
  to: number;
  row: number;
}

interface Wait {
  from: number;
  to: number;
}

export interface Bars {
  rounds: { round: Round; bars: Bar[]; length: number }[];
  total: number;
  waited: number;
}

export function barsOf(run: RunState, until: number): Bars {
  const waits = together([...run.calls.values()].flatMap((call) => waitOf(call, until) ?? []));
  const at = (time: number) => time - run.startedAt - waits.reduce((sum, one) => sum + cutBefore(one, time), 0);
  const rounds = roundsOf(run).map((round) => {
    const end = round.finishedAt || until;
    const bars: Bar[] = [{ kind: round.failure === null ? "m" : "f", from: at(round.startedAt), to: at(end), row: 0 }];
    let last = end;
    const calls = callsOf(round);
    if (calls.length > MANY) {
      const begun = calls.filter((call) => call.startedAt > 0);
      const to = Math.max(...begun.map((call) => call.finishedAt || until), end);
      if (begun.length > 0) bars.push({ kind: "t", from: at(Math.min(...begun.map((call) => call.startedAt))), to: at(to), row: 0 });
      return { round, bars, length: to - round.startedAt };
    }
    calls.forEach((call, number) => {
      const wait = waitOf(call, until);
      if (wait !== null) {
        bars.push({ kind: "w", from: at(wait.from), to: at(wait.to), row: number % 2 });
        last = Math.max(last, wait.to);
      }
      if (call.startedAt > 0) {
        const to = call.finishedAt || until;
        bars.push({ kind: call.child === "" ? (call.phase === "failed" ? "f" : "t") : "c", from: at(call.startedAt), to: at(to), row: number % 2 });
        last = Math.max(last, to);
      }
    });
    return { round, bars, length: last - round.startedAt };
  });
  return { rounds, total: Math.max(0.001, at(until)), waited: waits.reduce((sum, one) => sum + one.to - one.from, 0) };
}

function waitOf(call: Call, until: number): Wait | null {
  if (call.answer !== null) return { from: call.answer.askedAt, to: call.answer.at };
  return call.phase === "waiting" ? { from: call.askedAt, to: until } : null;
}

/** Calls that wait at the same time are one wait. */
function together(waits: Wait[]): Wait[] {
  const found: Wait[] = [];
  for (const one of waits.sort((a, b) => a.from - b.from)) {
    const last = found.at(-1);
    if (last !== undefined && one.from <= last.to) last.to = Math.max(last.to, one.to);
    else found.push({ ...one });
  }
  return found;
}

/** The seconds of a wait that are not drawn, as far as they lie before a time. */
function cutBefore(wait: Wait, time: number): number {
  return Math.max(0, Math.min(time, wait.to) - wait.from - LONG_WAIT);
}
