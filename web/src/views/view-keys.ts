// Keys of the view that is shown: they count outside text fields, after those of the whole page.
import { useEffect, useRef } from "preact/hooks";

/** What the key is called that goes with letters, on the keyboard of this machine. */
export const CTRL = /^(Mac|iPhone|iPad)/.test(navigator.platform) ? "⌘" : "Ctrl";

export type ViewKeys = (event: KeyboardEvent) => boolean;

let current: ViewKeys | null = null;

/** Whether the view has taken the key. */
export function viewKey(event: KeyboardEvent): boolean {
  return current?.(event) ?? false;
}

export function useViewKeys(keys: ViewKeys): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const mine: ViewKeys = (event) => latest.current(event);
    current = mine;
    return () => {
      if (current === mine) current = null;
    };
  }, []);
}
