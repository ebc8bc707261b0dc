// The events of a run, each with the time when it happened.
//
// Facts say when they happened. Previews say so only where the server keeps it, or where this page heard them as they came; the
// others are spread evenly between the two facts around them, which is an estimate and is said to be one.
import type { RunEvent } from "../events.gen";

export interface Logged {
  event: RunEvent;
  position: string;
  /** Seconds since 1970; 0 where nothing is known of it (yet). */
  at: number;
  /** Whether the time is known, not spread. */
  isKnown: boolean;
}

const PREVIEWS: ReadonlySet<RunEvent["type"]> = new Set([
  "text_delta", "reasoning_delta", "refusal_delta", "call_delta", "call_preview", "logprobs_delta", "tool_progressed",
]);

export function isPreview(event: RunEvent): boolean {
  return PREVIEWS.has(event.type);
}

/** `heardAt` is when a preview reached this page, if that was as it came; else 0. */
export function logged(event: RunEvent, position: string, heardAt = 0): Logged {
  const told = (event as { at?: unknown }).at;
  const at = typeof told === "number" && told > 0 ? told : heardAt;
  return { event, position, at, isKnown: at > 0 };
}

/** Give a time to those between `from` and the end of the list that have none. */
export function spread(events: Logged[], from = 0): void {
  let before = from > 0 ? (events[from - 1]?.at ?? 0) : 0;
  for (let start = from; start < events.length; ) {
    let end = start;
    while (end < events.length && !events[end]?.isKnown) end += 1;
    const after = events[end]?.at ?? before;
    const step = (after - before) / (end - start + 1);
    for (let at = start; at < end; at++) {
      const one = events[at];
      if (one !== undefined) one.at = before + step * (at - start + 1);
    }
    before = Math.max(before, after);
    start = end + 1;
  }
}
