// How many runs are before one that is in the queue. Its events do not say that: it is asked for until its first round begins.
import { useEffect, useState } from "preact/hooks";
import { type RunRow, api } from "../api";
import { type RunState, lastRound } from "../fold/state";

const FIRST_MS = 500; // nearly every run has begun by then, and nothing is asked
const EVERY_MS = 3000;

/** null: the run is not in the queue, or it is not known yet. */
export function useQueuePlace(run: RunState): number | null {
  const [place, setPlace] = useState<number | null>(null);
  const mayBeQueued = run.id !== "" && run.end === null && run.questions.length === 0 && lastRound(run) === null;
  useEffect(() => {
    setPlace(null);
    if (!mayBeQueued) return;
    let timer: ReturnType<typeof setTimeout>;
    let isCurrent = true;
    const look = async () => {
      const row = document.hidden ? null : await api.run<RunRow>(run.id).catch(() => null);
      if (!isCurrent) return;
      if (row !== null) setPlace(row.state === "queued" ? (row.queue_position ?? null) : null);
      timer = setTimeout(() => void look(), EVERY_MS);
    };
    timer = setTimeout(() => void look(), FIRST_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [run.id, mayBeQueued]);
  return mayBeQueued ? place : null;
}

export function placeWords(place: number): string {
  return place === 0 ? "next" : `${place} before it`;
}
