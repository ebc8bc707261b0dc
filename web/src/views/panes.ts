// Which pane stands beside the talk, and which layer lies over the page.
import { signal } from "@preact/signals";
import { recall, remember } from "../store/settings";

export type Pane = "details" | "settings" | "";
export type Layer = "" | "finder" | "keys" | "sidebar" | "picker" | "preview" | "sent";

const WIDE = 1200;

export const pane = signal<Pane>(innerWidth >= WIDE && recall("pane", true) ? "details" : "");
export const layer = signal<Layer>("");
let opener: HTMLElement | null = null;

export function openPane(which: Pane): void {
  pane.value = which;
  if (innerWidth >= WIDE) remember("pane", which === "details" ? true : false);
}

export function togglePane(which: Pane): void {
  openPane(pane.value === which ? "" : which);
}

export function openLayer(which: Layer): void {
  if (layer.value === "") opener = document.activeElement instanceof HTMLElement ? document.activeElement : null;
  layer.value = which;
}

/** Closing gives the focus back to what opened it. */
export function closeLayer(): void {
  if (layer.value === "") return;
  layer.value = "";
  opener?.focus();
  opener = null;
}
