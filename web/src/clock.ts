// One timer for every clock of the page: the time in seconds since 1970, brought up to date once a second.
import { signal } from "@preact/signals";

export const now = signal(Date.now() / 1000);

export function startClock(): void {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now() / 1000;
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    now.value = Date.now() / 1000;
  });
}
