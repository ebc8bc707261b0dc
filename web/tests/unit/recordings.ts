import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { RunEvent } from "../../src/events.gen";
import { fold } from "../../src/fold/fold";
import { type RunState, newRun } from "../../src/fold/state";

const folder = fileURLToPath(new URL("../recordings/", import.meta.url));

export type Recorded = [position: string, event: RunEvent];

export const NAMES = readdirSync(folder).map((name) => name.replace(/\.jsonl$/, ""));

export function recording(name: string): Recorded[] {
  const text = readFileSync(`${folder}${name}.jsonl`, "utf8");
  return text.trimEnd().split("\n").map((line) => JSON.parse(line) as Recorded);
}

export function folded(events: Recorded[]): RunState {
  const run = newRun("");
  for (const [position, event] of events) fold(run, event, position);
  return run;
}
