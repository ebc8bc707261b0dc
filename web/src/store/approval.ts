// The question that is shown: how its card stands, and the answer that goes to the server.
import { computed, signal } from "@preact/signals";
import { type Decision, Problem, api } from "../api";
import { changed } from "../changes";
import type { Question } from "../fold/state";
import { lookNow } from "../stream";
import { live } from "./session";
import { refreshLists } from "./sessions";

export type Mode = "decide" | "edit" | "deny";

export const mode = signal<Mode>("decide");
export const sending = signal(false);
export const cardProblem = signal("");
/** When the card that is shown came: letters typed before that are not meant for it. */
export const shownAt = signal(0);

export const open = computed<Question | null>(() => {
  const run = live.value;
  if (run === null) return null;
  changed(run);
  return run.questions[0] ?? null;
});

const SETTLE_MS = 400; // so that a typist hits nothing

export function isSettled(): boolean {
  return performance.now() - shownAt.value >= SETTLE_MS;
}

let decidedAt = Number.NEGATIVE_INFINITY;

export async function decide(question: Question, decision: Decision): Promise<void> {
  // The second click of two is not meant for the question that came after the first.
  if (sending.value || performance.now() - decidedAt < SETTLE_MS) return;
  sending.value = true;
  cardProblem.value = "";
  try {
    await api.decide(question.id, decision);
    decidedAt = performance.now();
    mode.value = "decide";
    lookNow();
  } catch (error) {
    if (error instanceof Problem && error.status === 404) {
      cardProblem.value = "This was answered meanwhile.";
    } else cardProblem.value = error instanceof Error ? error.message : String(error);
  } finally {
    sending.value = false;
    void refreshLists();
  }
}
