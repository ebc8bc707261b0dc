// The list of sessions, with the state of each, and what waits for a person in all of them.
//
// Lists are read when the server reports a change, when the page does something, and when another tab has.
import { computed, effect, signal, untracked } from "@preact/signals";
import { type Approval, Problem, type RunRow, type SessionRow, api } from "../api";
import { firstWords } from "../format";
import { checkServer, serverAnswers } from "../stream";
import { changes, isFed } from "./feed";
import { needsKey } from "./server";
import { recall } from "./settings";

export type Mark = "running" | "waits" | "failed" | "";

export interface ListedSession {
  id: string;
  title: string;
  updatedAt: number;
  mark: Mark;
}

const EVERY_MS = 4000;
const RARELY_MS = 60_000; // where changes are told: a clock that stood still, or a notice that was lost

const stored = signal<SessionRow[]>([]);
const active = signal<RunRow[]>([]);
const recent = signal<RunRow[]>([]);
const removed = signal<ReadonlySet<string>>(new Set());
let next: string | null = null;
let isMore = false;

export const approvals = signal<Approval[]>([]);
export const isListed = signal(false);
export const running = computed(() => active.value.filter((run) => run.state !== "waiting").length);

export const sessions = computed<ListedSession[]>(() => {
  const marks = new Map<string, Mark>();
  for (const run of recent.value) {
    if (run.session !== null && run.state === "failed" && !marks.has(run.session)) marks.set(run.session, "failed");
    else if (run.session !== null && !marks.has(run.session)) marks.set(run.session, "");
  }
  for (const run of active.value) {
    if (run.session !== null) marks.set(run.session, run.state === "waiting" ? "waits" : "running");
  }
  for (const one of approvals.value) marks.set(one.session_id, "waits");
  const rows = stored.value.map((row) => ({
    id: row.id,
    title: titleOf(row),
    updatedAt: row.updated_at,
    mark: marks.get(row.id) ?? "",
  }));
  const known = new Set(rows.map((row) => row.id));
  // A session is written down when its first run ends: until then its run stands for it.
  for (const run of active.value) {
    if (run.session === null || known.has(run.session) || !run.session.startsWith("chat-")) continue;
    known.add(run.session);
    const mark = marks.get(run.session) ?? "running";
    rows.unshift({ id: run.session, title: recall(`title.${run.session}`, "") || firstWords(run.input ?? "") || "New session", updatedAt: run.created_at, mark });
  }
  return rows.filter((row) => !removed.value.has(row.id));
});

/** As a person or the page has named it; else by what was asked in it first, as far as its runs are known here. */
function titleOf(row: SessionRow): string {
  const named = row.title ?? recall(`title.${row.id}`, "");
  if (named !== "") return named;
  if (!row.id.startsWith("chat-")) return row.id;
  return firstWords(recent.value.findLast((run) => run.session === row.id)?.input ?? "") || "Untitled";
}

/** The sessions that the server finds by these words, also those that the list has not read. */
export async function findSessions(words: string): Promise<ListedSession[]> {
  const rows = await api.findSessions(words);
  const listed = new Map(sessions.value.map((one) => [one.id, one]));
  const found = rows.map((row) => listed.get(row.id) ?? { id: row.id, title: titleOf(row), updatedAt: row.updated_at, mark: "" as const });
  return found.filter((one) => !removed.value.has(one.id));
}

let asked: Promise<void> | null = null;
let isStale = false;

/** What changes while lists are being read is read after that. */
export function refreshLists(): Promise<void> {
  if (asked !== null) {
    isStale = true;
    return asked;
  }
  isStale = false;
  asked = ask().finally(() => {
    asked = null;
    if (isStale) void refreshLists();
  });
  return asked;
}

async function ask(): Promise<void> {
  if (needsKey.value) return;
  try {
    const [page, open, waiting, latest, waits] = await Promise.all([
      api.sessions(null),
      api.runs("state=running&limit=100"),
      api.runs("state=waiting&limit=100"),
      api.runs("limit=50"),
      api.approvals(),
    ]);
    const older = stored.value.filter((row) => !page.data.some((one) => one.id === row.id) && isMore);
    stored.value = [...page.data, ...older.slice(0, Math.max(0, older.length))];
    if (!isMore) next = page.next ?? null;
    active.value = [...open.data, ...latest.data.filter((row) => row.state === "queued"), ...waiting.data];
    recent.value = latest.data;
    approvals.value = waits;
    isListed.value = true;
    serverAnswers();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.isOffline) await checkServer();
  }
}

export async function loadMore(): Promise<void> {
  if (next === null) return;
  const page = await api.sessions(next);
  isMore = true;
  next = page.next ?? null;
  stored.value = [...stored.value, ...page.data.filter((row) => !stored.value.some((one) => one.id === row.id))];
}

/** Whether a session may be written down: those of later pages are not known here. */
export function mayBeStored(id: string): boolean {
  return !isListed.value || next !== null || stored.value.some((row) => row.id === id);
}

export function hasMore(): boolean {
  return next !== null;
}

const UNDO_MS = 6000;
export const undo = signal<{ id: string; title: string; until: number } | null>(null);
let undoTimer: ReturnType<typeof setTimeout> | undefined;

/** Gone from the list at once, and from the server when it is too late to undo. */
export function removeSession(id: string, title: string): void {
  finishRemoval();
  removed.value = new Set([...removed.value, id]);
  undo.value = { id, title, until: Date.now() + UNDO_MS };
  undoTimer = setTimeout(finishRemoval, UNDO_MS);
}

export function undoRemoval(): void {
  clearTimeout(undoTimer);
  const kept = undo.value;
  undo.value = null;
  if (kept !== null) removed.value = new Set([...removed.value].filter((id) => id !== kept.id));
}

function finishRemoval(): void {
  clearTimeout(undoTimer);
  const gone = undo.value;
  undo.value = null;
  if (gone !== null) void api.deleteSession(gone.id).then(refreshLists, refreshLists);
}

const tabs = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("ronda");

export function tellTabs(session: string): void {
  tabs?.postMessage({ session });
}

export function startLists(heard: (session: string) => void): void {
  void refreshLists();
  let looked = Date.now();
  setInterval(() => {
    if (document.hidden || (isFed.value && Date.now() - looked < RARELY_MS)) return;
    looked = Date.now();
    void refreshLists();
  }, EVERY_MS);
  effect(() => {
    if (changes.value > 0 && !document.hidden) void untracked(refreshLists);
  });
  document.addEventListener("visibilitychange", () => !document.hidden && void refreshLists());
  addEventListener("pagehide", finishRemoval);
  tabs?.addEventListener("message", (event: MessageEvent<{ session?: string }>) => {
    void refreshLists();
    if (typeof event.data.session === "string") heard(event.data.session);
  });
}
