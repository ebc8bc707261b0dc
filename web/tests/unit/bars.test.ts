import { expect, test } from "vitest";
import type { RunEvent } from "../../src/events.gen";
import { barsOf } from "../../src/fold/bars";
import { fold } from "../../src/fold/fold";
import { newRun } from "../../src/fold/state";

const call = (id: string) => ({ type: "tool_call" as const, id, name: "place_order", arguments: "{}" });

test("calls that wait at the same time are one wait, which is drawn short once", () => {
  const run = newRun("run_1");
  const events: RunEvent[] = [
    { type: "run_started", version: 1, run: "run_1", model: "m", turns: [], at: 100 },
    { type: "model_started", round: 0, at: 100 },
    { type: "model_finished", turn: { type: "assistant", parts: [call("c1"), call("c2")] }, usage: { input: 1, output: 1 }, at: 102 },
    { type: "asked", id: "q1", kind: "approval", call_id: "c1", at: 102 },
    { type: "asked", id: "q2", kind: "approval", call_id: "c2", at: 103 },
  ];
  events.forEach((event, at) => fold(run, event, String(at)));
  const { rounds, total, waited } = barsOf(run, 402);
  expect([total, waited]).toEqual([12, 300]); // the model's two seconds, and ten of five minutes
  const bars = rounds[0]?.bars.map(({ kind, from, to }) => [kind, from, to]);
  expect(bars).toEqual([["m", 0, 2], ["w", 2, 12], ["w", 3, 12]]);
});
