import { describe, expect, test } from "vitest";
import { fold } from "../../src/fold/fold";
import { type RunState, answerOf, callsOf, isWaiting, lastRound, newRun, phaseOf, roundsOf } from "../../src/fold/state";
import { type Message, type PlacedTurn, exchangesOf, wholeRuns } from "../../src/fold/turns";
import { NAMES, type Recorded, folded, recording } from "./recordings";

const PREVIEWS = new Set(["text_delta", "reasoning_delta", "refusal_delta", "call_delta", "call_preview", "logprobs_delta", "tool_progressed"]);

/** What a reload would be sent at this point: previews that a fact has replaced are not kept. */
function reloaded(events: Recorded[]): Recorded[] {
  const closed = new Map<string, number>();
  let model = -1;
  events.forEach(([, event], at) => {
    if (event.type === "tool_finished") closed.set(event.result.call_id, at);
    if (["model_finished", "model_failed", "model_interrupted"].includes(event.type)) model = at;
  });
  return events.filter(([, event], at) => {
    if (!PREVIEWS.has(event.type)) return true;
    return event.type === "tool_progressed" ? at > (closed.get(event.call_id) ?? -1) : at > model;
  });
}

/** All that is shown; how many events there were is not. */
function shownOf(run: RunState): object {
  return { ...run, eventCount: 0, calls: [...run.calls.entries()] };
}

describe.each(NAMES)("the recorded run %s", (name) => {
  const events = recording(name);

  test("every beginning folds to what a reload at that point shows", () => {
    for (let end = 1; end <= events.length; end++) {
      const prefix = events.slice(0, end);
      expect(shownOf(folded(reloaded(prefix)))).toEqual(shownOf(folded(prefix)));
    }
  });

  test("an event that is not known changes nothing", () => {
    const strange: Recorded[] = events.flatMap((one) => [one, ["", { type: "from_the_future", text: "x" } as never]]);
    expect(shownOf(folded(strange))).toEqual(shownOf(folded(events)));
  });

  test("it ends, and leaves nothing open", () => {
    const run = folded(events);
    expect(phaseOf(run)).toBe("finished");
    expect(run.questions).toEqual([]);
    for (const call of run.calls.values()) expect(["arriving", "queued", "running", "waiting"]).not.toContain(call.phase);
    expect(roundsOf(run).some((round) => round.isOpen)).toBe(false);
  });

  test("parts that are shown stay the same objects when the turn is complete", () => {
    const run = newRun("");
    let before: object[] = [];
    for (const [position, event] of events) {
      if (event.type === "model_finished") before = [...(lastRound(run)?.parts ?? [])];
      fold(run, event, position);
      if (event.type === "model_finished") expect(lastRound(run)?.parts).toEqual(before.length > 0 ? before : lastRound(run)?.parts);
    }
  });
});

test("a call that is asked about goes from waiting to what was decided", () => {
  const phases: string[] = [];
  const run = newRun("");
  for (const [position, event] of recording("order")) {
    fold(run, event, position);
    const call = [...run.calls.values()][0];
    if (call !== undefined && phases.at(-1) !== call.phase) phases.push(call.phase);
    if (call?.phase === "waiting") expect(isWaiting(run)).toBe(true);
  }
  expect(phases).toEqual(["arriving", "queued", "waiting", "denied"]);
  const call = [...run.calls.values()][0];
  expect(call?.answer?.message).toBe("Not before Friday.");
  expect(call?.content).toBe("Error: not run: it was not approved: Not before Friday.");
});

test("what a person changed stands beside what the model wrote", () => {
  const call = [...folded(recording("plan")).calls.values()].find((one) => one.name === "place_order");
  expect(JSON.parse(call?.arguments ?? "")).toMatchObject({ quantity: 1450 });
  expect(JSON.parse(call?.changed ?? "")).toMatchObject({ quantity: 1200 });
});

test("a failure, a broken answer and a stop are told apart", () => {
  expect(lastRound(folded(recording("fail")))?.failure?.reason).toContain("overloaded");
  expect(lastRound(folded(recording("cut")))?.interruption).not.toBeNull();
  const stopped = folded(recording("slow"));
  expect(stopped.end?.reason).toBe("cancelled");
  expect([...stopped.calls.values()][0]?.phase).toBe("cancelled");
});

test("words said into a run stand at their place", () => {
  const run = folded(recording("steer"));
  const kinds = run.steps.map((step) => step.kind);
  expect(kinds.indexOf("steering")).toBeGreaterThan(0);
  expect(answerOf(run)).toContain("Only the harbour, please.");
});

test("files, usage and rounds are counted", () => {
  const run = folded(recording("plan"));
  expect(run.usage).toMatchObject({ rounds: 4, calls: 4, input: 97_400 });
  expect(roundsOf(run).flatMap((round) => callsOf(round).flatMap((call) => call.files)).map((file) => file.name)).toEqual(["plan.csv"]);
});

test("a call that no tool answered says so when the next round begins", () => {
  const run = newRun("");
  const turn = { type: "assistant" as const, parts: [{ type: "tool_call" as const, id: "c1", name: "nothing", arguments: "{}" }], stop: "tool_calls" as const };
  fold(run, { type: "run_started", version: 1, run: "r", model: "m", turns: [], tools: ["other"], at: 1 }, "0");
  fold(run, { type: "model_started", round: 0, at: 2 }, "1");
  fold(run, { type: "model_finished", turn, at: 3 }, "2");
  fold(run, { type: "model_started", round: 1, at: 4 }, "3");
  expect(run.calls.get("c1")?.phase).toBe("unrun");
});

test("a server that ends while a tool runs leaves a call that may have run", () => {
  const run = newRun("");
  const turn = { type: "assistant" as const, parts: [{ type: "tool_call" as const, id: "c1", name: "pay", arguments: "{}" }], stop: "tool_calls" as const };
  fold(run, { type: "run_started", version: 1, run: "r", model: "m", turns: [], tools: ["pay"], at: 1 }, "0");
  fold(run, { type: "model_started", round: 0, at: 2 }, "1");
  fold(run, { type: "model_finished", turn, at: 3 }, "2");
  fold(run, { type: "tool_started", call_id: "c1", name: "pay", at: 4 }, "3");
  fold(run, { type: "recovered", at: 5 }, "4");
  expect(run.calls.get("c1")?.phase).toBe("unknown");
});

const user = (content: string): Message[] => [{ role: "user", content }];
const assistant = (content: string): Message[] => [{ role: "assistant", content }];

/** Turns in their order: (run, round, messages) each. */
function placed(...turns: [string | null, number | null, Message[]][]): PlacedTurn[] {
  return turns.map(([run, round, messages], index) => ({ index, run, round, at: 1, messages }));
}

const CALLED = placed(
  ["r1", null, user("one")],
  ["r1", 0, [{ role: "assistant", content: "", tool_calls: [{ id: "a", function: { name: "f", arguments: "{}" } }] }]],
  ["r1", 0, [{ role: "tool", tool_call_id: "a", content: "result" }]],
  ["r1", null, user("hurry")],
  ["r1", 1, assistant("answer")],
  ["r2", null, user("two")],
  ["r2", 0, assistant("other")],
);

test("turns become exchanges with their runs and rounds; what was said into a run stays in its exchange", () => {
  const exchanges = exchangesOf(CALLED);
  expect(exchanges.map(({ start, end, run, runId }) => [start, end, runId, run.usage.rounds, answerOf(run)])).toEqual([
    [0, 5, "r1", 2, "answer"],
    [5, 7, "r2", 1, "other"],
  ]);
  expect(exchanges[0]?.run.calls.get("a")).toMatchObject({ phase: "done", content: "result" });
  expect(exchanges[0]?.run.steps.map((step) => step.kind)).toEqual(["round", "steering", "round"]);
});

test("of the questions that one request brought, its run answers the last", () => {
  const exchanges = exchangesOf(placed(["r1", null, user("one")], ["r1", null, assistant("told")], ["r1", null, user("two")], ["r1", 0, assistant("answer")]));
  expect(exchanges.map(({ start, runId, run }) => [start, runId, answerOf(run)])).toEqual([[0, null, "told"], [2, "r1", "answer"]]);
});

test("a question that was asked again has the run that answered it last", () => {
  const again = placed(["r1", null, user("one")], ["r2", 0, assistant("again")], ["r3", null, user("two")], ["r3", 0, assistant("other")]);
  expect(exchangesOf(again).map(({ runId, run }) => [runId, answerOf(run)])).toEqual([["r2", "again"], ["r3", "other"]]);
  expect(wholeRuns(again.map((one) => ({ ...one, index: one.index + 7 }))).map((one) => one.index)).toEqual([9, 10]);
});

test("what a turn has beyond its messages is shown", () => {
  const results = [{ type: "tool_result" as const, call_id: "a", content: "no", failed: true }];
  const turns = CALLED.map((one) => (one.index === 2 ? { ...one, turn: { type: "tool" as const, results } } : one));
  expect(exchangesOf(turns)[0]?.run.calls.get("a")).toMatchObject({ phase: "failed", content: "no" });
});

test("a page from the middle begins with the first run that it has whole", () => {
  expect(wholeRuns(CALLED)).toEqual(CALLED);
  expect(wholeRuns(CALLED.slice(2)).map((one) => one.index)).toEqual([5, 6]);
  expect(wholeRuns(CALLED.slice(2, 5))).toEqual([]);
});
