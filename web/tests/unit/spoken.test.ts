import { describe, expect, test } from "vitest";
import { spokenBefore } from "../../src/runs/turns";
import { NAMES, recording } from "./recordings";

describe.each(NAMES)("the recorded run %s", (name) => {
  const events = recording(name).map(([, event]) => event);
  const rounds = events.filter((event) => event.type === "model_started").length;

  test("says before each round what its model was told: every call with its result, in order", () => {
    for (let round = 0; round <= rounds; round++) {
      const said = spokenBefore(events, round);
      expect(said[0]?.role).toBe("user");
      const finished = events.filter((event) => event.type === "model_finished").length;
      expect(said.filter((one) => one.role === "assistant").length).toBe(Math.min(round, finished));
      said.forEach((one, at) => {
        const ids = one.tool_calls?.map((call) => call.id) ?? [];
        expect(said.slice(at + 1, at + 1 + ids.length).map((result) => result.tool_call_id)).toEqual(ids);
      });
    }
  });
});

test("words said into a run stand where its model has read them", () => {
  const events = recording("steer").map(([, event]) => event);
  const roles = spokenBefore(events, 99).map((one) => one.role);
  const steered = events.findIndex((event) => event.type === "steered");
  expect(steered).toBeGreaterThan(0);
  expect(roles.filter((role) => role === "user").length).toBe(2);
  expect(roles.lastIndexOf("user")).toBeGreaterThan(roles.indexOf("tool"));
});
