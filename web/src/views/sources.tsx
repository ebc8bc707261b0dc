// Sources of a conversation, and the way between a citation, its chip and its row in the pane.
import { computed, signal } from "@preact/signals";
import type { VNode } from "preact";
import { changed } from "../changes";
import type { RunState } from "../fold/state";
import type { Cite } from "../markdown/view";
import { entries } from "../store/session";
import { type Source, kindOf, sourcesOf } from "../tools";
import { shown } from "../visible";
import { openPane } from "./panes";

export const marked = signal(0);

/** Counted through the conversation, as the model counts them. */
export function sourcesIn(runs: RunState[]): Source[] {
  const found = new Map<number, Source>();
  for (const run of runs) {
    for (const call of run.calls.values()) {
      if (kindOf(call.name) !== "search" && kindOf(call.name) !== "page") continue;
      for (const source of sourcesOf(call)) if (!found.has(source.number)) found.set(source.number, source);
    }
  }
  return [...found.values()].sort((a, b) => a.number - b.number);
}

/** Of all exchanges that are shown. What stands behind one may be read after it is shown. */
export const runs = computed(() =>
  entries.value.map((entry) => {
    changed(entry);
    return entry.run;
  }),
);

export function jumpToSource(number: number): void {
  openPane("details");
  marked.value = number;
  requestAnimationFrame(() => {
    const row = document.getElementById(`source-${number}`);
    row?.scrollIntoView({ block: "nearest" });
    row?.focus({ preventScroll: true });
  });
}

export function citer(run: RunState): Cite {
  return function cite(number: number): VNode | null {
    const source = sourcesIn(runs.peek()).find((one) => one.number === number) ?? sourcesIn([run]).find((one) => one.number === number);
    if (source === undefined) return null;
    return (
      <a
        key={`c${number}`}
        class="cite"
        href={`#source-${number}`}
        aria-label={`Source ${number}, ${shown(source.title)}`}
        title={`${shown(source.title)}\n${shown(source.url)}`}
        onClick={(event) => {
          event.preventDefault();
          jumpToSource(number);
        }}
      >
        {number}
      </a>
    );
  };
}
