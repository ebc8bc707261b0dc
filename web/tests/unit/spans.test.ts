import { describe, expect, test } from "vitest";
import type { RunEvent } from "../../src/events.gen";
import { type CompareStep, aligned, sameRounds, scaleOf, spansOf, stepsOf, ticksOf } from "../../src/runs/spans";
import { type Logged, logged, spread } from "../../src/runs/times";
import { NAMES, recording } from "./recordings";

function log(events: RunEvent[]): Logged[] {
  const found = events.map((event, at) => logged(event, String(at)));
  spread(found);
  return found;
}

function recorded(name: string): Logged[] {
  const found = recording(name).map(([position, event]) => logged(event, position));
  spread(found);
  return found;
}

const call = (id: string, name: string, text = "{}") => ({ type: "tool_call" as const, id, name, arguments: text });
const START: RunEvent = { type: "run_started", version: 1, run: "run_1", model: "m", turns: [], at: 100 };

describe.each(NAMES)("the recorded run %s", (name) => {
  const events = recorded(name);
  const spans = spansOf(events);

  test("has bars that agree with its events", () => {
    for (const one of spans) {
      expect(one.to).not.toBeNull();
      expect(one.to ?? 0).toBeGreaterThanOrEqual(one.from);
    }
    for (const [index, { event, at }] of events.entries()) {
      if (event.type !== "tool_started" && event.type !== "model_started") continue;
      expect(spans.find((one) => one.events.includes(index) && one.kind !== "round" && one.kind !== "run")?.from).toBe(at);
    }
    const ended = events.at(-1);
    expect(spans[0]?.to).toBe(ended?.at);
  });

  test("has times that never go back, and a scale that can be walked both ways", () => {
    events.reduce((before, { at }) => {
      expect(at).toBeGreaterThanOrEqual(before - 0.01); // clocks of two threads
      return Math.max(before, at);
    }, 0);
    const scale = scaleOf(spans, 0);
    for (const share of [0, 0.1, 0.5, 0.9, 1]) expect(scale.x(scale.at(share))).toBeCloseTo(share, 3);
  });
});

test("a run under way has open ends, and a try that failed has its own bar", () => {
  const spans = spansOf(
    log([
      START,
      { type: "model_started", round: 0, at: 101 },
      { type: "model_retried", attempt: 2, tries: 5, reason: "503 overloaded", wait: 4, at: 102 },
      { type: "model_finished", turn: { type: "assistant", parts: [call("c1", "shell"), call("c2", "place_order")] }, usage: { input: 10, output: 2 }, at: 110 },
      { type: "tool_started", call_id: "c1", name: "shell", at: 110.5 },
      { type: "asked", id: "q1", call_id: "c2", kind: "approval", tool: "place_order", at: 111 },
    ]),
  );
  expect(spans.map((one) => [one.kind, one.name, one.from, one.to, one.state, one.note])).toEqual([
    ["run", "m", 100, null, "running", ""],
    ["round", "Round 1", 101, null, "waits", ""],
    ["model", "Model call, try 1", 101, 102, "failed", "503 overloaded, again after 4 s"],
    ["model", "Model call", 106, 110, "done", ""],
    ["tool", "shell", 110.5, null, "running", ""],
    ["wait", "place_order", 111, null, "waits", "waits for you"],
    ["tool", "place_order", 111, 111, "unbegun", "not begun"],
  ]);
});

test("a long wait in which nothing went on is cut; one beside work is not", () => {
  const events = (finished: number): RunEvent[] => [
    START,
    { type: "model_started", round: 0, at: 100 },
    { type: "model_finished", turn: { type: "assistant", parts: [call("c1", "a"), call("c2", "b")] }, at: 120 },
    { type: "tool_started", call_id: "c1", name: "a", at: 120 },
    { type: "asked", id: "q1", call_id: "c2", kind: "approval", tool: "b", at: 120 },
    { type: "tool_finished", result: { type: "tool_result", call_id: "c1", content: "" }, at: finished },
    { type: "answered", id: "q1", decision: "approve", at: 320 },
    { type: "run_finished", reason: "stop", at: 320 },
  ];
  const rested = scaleOf(spansOf(log(events(121))), 0);
  expect(rested.cuts).toHaveLength(1);
  expect(rested.waited).toBe(199);
  expect(rested.total).toBeLessThan(40);
  expect(rested.x(120)).toBeLessThan(rested.x(321));
  const worked = scaleOf(spansOf(log(events(319))), 0);
  expect(worked.cuts).toEqual([]);
  expect(worked.total).toBe(220);
});

test("previews without a time are spread between the facts around them; a first token is known where a time is", () => {
  const events = log([
    START,
    { type: "model_started", round: 0, at: 100 },
    { type: "text_delta", text: "a" },
    { type: "text_delta", text: "b" },
    { type: "text_delta", text: "c" },
    { type: "model_finished", turn: { type: "assistant", parts: [] }, at: 104 },
  ]);
  expect(events.map((one) => one.at)).toEqual([100, 100, 101, 102, 103, 104]);
  expect(spansOf(events)[2]?.firstAt).toBeNull();
  const heard = [...events];
  heard[2] = logged({ type: "text_delta", text: "a" }, "1.1", 101.5);
  expect(spansOf(heard)[2]?.firstAt).toBe(101.5);
});

test("there are at most seven lines on a scale", () => {
  for (const total of [0.05, 0.3, 1, 7, 38.6, 61, 400, 5000, 200_000]) {
    expect(ticksOf(total).length).toBeGreaterThan(1);
    expect(ticksOf(total).length).toBeLessThanOrEqual(7);
  }
});

const step = (round: number, name: string, words = ""): CompareStep => ({ round, name, words, same: `${name}\n${words}`, seconds: 1, isFailed: false });

test("steps are aligned by name and arguments, with gaps where only one run has them", () => {
  const a = [step(0, "sql", "x"), step(1, "shell", "repack"), step(2, "sql", "y"), step(3, "python", "plot"), step(4, "read_file", "4100")];
  const b = [step(0, "sql", "x"), step(1, "sql", "y"), step(2, "read_file", "800")];
  const pairs = aligned(a, b);
  expect(pairs.map((pair) => [pair.a?.words ?? "-", pair.b?.words ?? "-", pair.isSame])).toEqual([
    ["x", "x", true],
    ["repack", "-", false],
    ["y", "y", true],
    ["plot", "-", false],
    ["4100", "800", false],
  ]);
  expect(sameRounds(pairs)).toBe(1);
  expect(sameRounds(aligned(a, a))).toBe(5);
  expect(aligned([], [])).toEqual([]);
});

test("the order of arguments does not make a step another", () => {
  const spans = spansOf(log([START, { type: "model_started", round: 0, at: 100 }, { type: "model_finished", turn: { type: "assistant", parts: [call("c1", "a")] }, at: 101 }, { type: "tool_started", call_id: "c1", name: "a", at: 101 }]));
  const one = stepsOf(spans, () => '{"x": 1, "y": "2"}')[0];
  const other = stepsOf(spans, () => '{"y": "2", "x": 1}')[0];
  expect(one?.same).toBe(other?.same);
  expect(one?.words).toBe("1 · 2");
});
