// What a screen reader says: one sentence for each state, once. `polite` waits for a pause; `assertive` is for what needs a person.
import { signal } from "@preact/signals";

export const polite = signal("");
export const assertive = signal("");
let last = "";

export function announce(text: string): void {
  if (text === last) return;
  last = text;
  polite.value = text;
}

export function alarm(text: string): void {
  assertive.value = text;
}
