// What happens to all runs and sessions of this owner: one stream for all tabs → lists are read again when something has changed.
//
//     GET /v1/events ── the tab that holds the lock ──► `changes`, in this tab and, by a channel, in the others
//
// A browser has six connections for all tabs of a server: each tab needs one for the run that it shows, so the lists of all tabs
// share another. Where a server has no such stream, or a browser no locks, lists are asked for every few seconds.
import { signal } from "@preact/signals";
import { api, base } from "../api";
import { facts, needsKey } from "./server";

const KINDS = ["run_started", "run_changed", "asked", "answered", "session_changed", "reset"];
const GATHER_MS = 150; // several things happen at once: the start of a run, its session, its first question
const AGAIN_MS = 2000;

/** Counts what has happened: lists read themselves again when it does. */
export const changes = signal(0);
/** Whether changes are told; else lists have to be asked for. */
export const isFed = signal(false);

type Told = "changed" | "lost" | "fed" | "who";
const channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(`ronda.feed${base}`);
let isHolder = false;
let isLost = false;
let timer: ReturnType<typeof setTimeout> | undefined;

function tell(what: Told): void {
  channel?.postMessage(what);
  take(what);
}

function take(what: Told): void {
  if (what === "changed" || what === "lost") {
    if (what === "lost") {
      isFed.value = false;
      isLost = true;
    }
    changes.value += 1;
  } else if (what === "fed") {
    isFed.value = true;
    if (isLost) changes.value += 1; // the server is back, and nothing else may tell
    isLost = false;
  } else if (isHolder && isFed.value) tell("fed");
}

function gather(): void {
  clearTimeout(timer);
  timer = setTimeout(() => tell("changed"), GATHER_MS);
}

/** Until the stream is over for good: the server has none, or wants a key. */
function follow(): Promise<void> {
  return new Promise((resolve) => {
    const source = new EventSource(api.feedAddress());
    source.addEventListener("ready", () => tell("fed"));
    for (const kind of KINDS) source.addEventListener(kind, gather);
    source.onerror = () => {
      tell("lost"); // the lists find out whether the server is there
      if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself, from where it was
      source.close();
      resolve();
    };
  });
}

export function startFeed(): void {
  channel?.addEventListener("message", (event: MessageEvent<Told>) => take(event.data));
  if (channel === null || navigator.locks === undefined) return;
  channel.postMessage("who" satisfies Told);
  void navigator.locks.request(`ronda.feed${base}`, async () => {
    isHolder = true;
    for (;;) {
      if (!needsKey.value && facts.value?.features.events === true) await follow();
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  });
}
