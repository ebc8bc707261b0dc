// One timer for every clock of the page: the time in seconds since 1970, brought up to date once a second.
import { signal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";

export const now = signal(Date.now() / 1000);

/** The time of what is drawn inside, where that is not now: a run that is played again. */
export const PlayedAt = createContext<number | null>(null);

export function useNow(): number {
  const played = useContext(PlayedAt);
  return played ?? now.value;
}

export function startClock(): void {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now() / 1000;
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    now.value = Date.now() / 1000;
  });
}
