// What lies open closes with Escape, and when a person presses or focuses something else.
import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";

export function useLeaving(box: RefObject<HTMLElement | null>, isOpen: boolean, close: () => void): void {
  useLayoutEffect(() => { // before the next key is pressed
    if (!isOpen) return;
    const onOther = (event: Event) => {
      if (!(event.target instanceof Node && box.current?.contains(event.target))) close();
    };
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      close();
    };
    document.addEventListener("pointerdown", onOther);
    document.addEventListener("focusin", onOther);
    document.addEventListener("keydown", onKey, true);
    return () => {
      document.removeEventListener("pointerdown", onOther);
      document.removeEventListener("focusin", onOther);
      document.removeEventListener("keydown", onKey, true);
    };
  }, [isOpen]);
}
