// Keys of the whole page. Single letters count outside text fields only, and can be switched off.
import { address, go } from "./router";
import { live, stopRun } from "./store/session";
import { usesLetters } from "./store/settings";
import { cardProblem, decide, isSettled, mode, open } from "./store/approval";
import { closeLayer, layer, openLayer, openPane, pane } from "./views/panes";
import { startSession } from "./views/sidebar";
import { viewKey } from "./views/view-keys";

let lastG = Number.NEGATIVE_INFINITY;
const SEQUENCE_MS = 1200; // between G and the letter that follows

export function startKeyboard(): void {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    if (withControl(event) || plainKey(event)) event.preventDefault();
  });
}

function withControl(event: KeyboardEvent): boolean {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return false;
  if (event.key === "k") {
    if (layer.value === "finder") closeLayer();
    else openLayer("finder");
    return true;
  }
  if (event.key === "j") {
    const card = document.querySelector<HTMLElement>("[data-ask]");
    if (card === null) return false;
    card.focus();
    return true;
  }
  if (event.key === "." && live.value !== null) {
    void stopRun();
    return true;
  }
  return false;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function plainKey(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  if (event.key === "Escape") return escape();
  if (isTyping(event.target) || layer.value !== "") return false;
  if (rove(event)) return true;
  if (event.key.length > 1) return viewKey(event);
  if (!usesLetters.value) return false;
  return letter(event);
}

/** Closes what lies on top; never stops a run. */
function escape(): boolean {
  if (layer.value !== "") closeLayer();
  else if (mode.value !== "decide" && open.value !== null) mode.value = "decide";
  else if (pane.value === "settings" || (pane.value !== "" && innerWidth < 1200)) openPane("");
  else return false;
  return true;
}

function letter(event: KeyboardEvent): boolean {
  const key = event.key.toLowerCase();
  if (performance.now() - lastG < SEQUENCE_MS) {
    lastG = Number.NEGATIVE_INFINITY;
    const view = ({ c: "chat", b: "build", r: "runs", o: "operate" } as const)[key];
    if (view === undefined) return false;
    go(address(view));
    return true;
  }
  if (viewKey(event)) return true;
  if (event.key === "?") openLayer("keys");
  else if (event.key === "/") openLayer("finder");
  else if (key === "g") lastG = performance.now();
  else if (key === "n") startSession();
  else return answer(key);
  return true;
}

/** Letters answer a card while exactly one is open, and not in its first moments. */
function answer(key: string): boolean {
  const question = open.value;
  if (question === null || question.kind !== "approval" || mode.value !== "decide" || !isSettled()) return false;
  const isOnCard = document.activeElement?.closest("[data-ask]") != null;
  if (!isOnCard && (live.value?.questions.length ?? 0) !== 1) return false;
  cardProblem.value = "";
  if (key === "a") void decide(question, { decision: "approve" });
  else if (key === "s") void decide(question, { decision: "approve", remember_for_session: true });
  else if (key === "e") mode.value = "edit";
  else if (key === "d") mode.value = "deny";
  else return false;
  return true;
}

/** One stop for Tab in the talk; J, K and the arrows walk through it. */
function rove(event: KeyboardEvent): boolean {
  const target = event.target instanceof HTMLElement ? event.target : null;
  const log = target?.closest("[role=log]") ?? (target === document.body ? document.querySelector("[role=log]") : null);
  if (!log) return false;
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  if (step === undefined) return fold(event, target);
  if (!usesLetters.value && event.key.length === 1) return false;
  const stops = [...log.querySelectorAll<HTMLElement>("[data-rove]")];
  const at = target === null ? -1 : stops.indexOf(target);
  const next = at === -1 ? stops.at(step > 0 ? 0 : -1) : stops[at + step];
  if (next === undefined) return false;
  for (const stop of stops) stop.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
  return true;
}

function fold(event: KeyboardEvent, target: HTMLElement | null): boolean {
  const state = target?.getAttribute("aria-expanded");
  if (target === null || state === null || state === undefined) return false;
  if ((event.key === "ArrowRight" && state === "false") || (event.key === "ArrowLeft" && state === "true")) {
    target.click();
    return true;
  }
  return false;
}
