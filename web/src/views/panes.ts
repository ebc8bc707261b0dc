// Which pane stands beside the talk, and which layer lies over the page.
import { signal } from "@preact/signals";
import { address, go, place } from "../router";
import { sessionId } from "../store/session";
import { recall, remember } from "../store/settings";

export type Pane = "details" | "settings" | "";
export type Layer = "" | "finder" | "keys" | "sidebar" | "picker" | "preview" | "sent";

const WIDE = 1200;

export const pane = signal<Pane>(innerWidth >= WIDE && recall("pane", true) ? "details" : "");
export const layer = signal<Layer>("");
let opener: HTMLElement | null = null;
let paneOpener: HTMLElement | null = null;

function focused(): HTMLElement | null {
  return document.activeElement instanceof HTMLElement ? document.activeElement : null;
}

/** Closing gives the focus back to what opened the pane, if it is inside the pane. */
export function openPane(which: Pane): void {
  const wasInside = focused()?.closest(".pane") != null;
  if (which === "") {
    if (wasInside) paneOpener?.focus();
    paneOpener = null;
  } else if (!wasInside) paneOpener = focused();
  pane.value = which;
  if (innerWidth >= WIDE) remember("pane", which === "details" ? true : false);
}

/** The settings stand beside the talk: from any other view the way to them leads there. */
export function showSettings(): void {
  if (place.value.view !== "chat") go(address("chat", sessionId.value));
  openPane("settings");
}

export function togglePane(which: Pane): void {
  openPane(pane.value === which ? "" : which);
}

export function openLayer(which: Layer): void {
  if (layer.value === "") opener = focused();
  layer.value = which;
}

/** Closing gives the focus back to what opened it. */
export function closeLayer(): void {
  if (layer.value === "") return;
  layer.value = "";
  opener?.focus();
  opener = null;
}
