// Addresses are state: what is shown is read from the address, and changed by changing it.
import { signal } from "@preact/signals";
import { base } from "./api";

export type View = "chat" | "build" | "runs" | "operate";

export interface Place {
  view: View;
  /** The session of a chat; empty is a new one. */
  id: string;
  query: URLSearchParams;
}

export const place = signal<Place>(readPlace());

function readPlace(): Place {
  const path = location.pathname.slice(`${base}/ui`.length).replace(/^\//, "");
  const [view = "", ...rest] = path.split("/");
  const known: View[] = ["chat", "build", "runs", "operate"];
  return {
    view: known.find((one) => one === view) ?? "chat",
    id: rest.map((piece) => decodeSafely(piece)).join("/"),
    query: new URLSearchParams(location.search),
  };
}

function decodeSafely(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function address(view: View, id = "", query: Record<string, string> = {}): string {
  const search = new URLSearchParams(query).toString();
  const path = id === "" ? `${base}/ui/${view}` : `${base}/ui/${view}/${id.split("/").map(encodeURIComponent).join("/")}`;
  return search === "" ? path : `${path}?${search}`;
}

export function go(to: string, replace = false): void {
  if (to === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  place.value = readPlace();
}

/** Links of the page change the address without loading it again. */
export function startRouter(): void {
  addEventListener("popstate", () => {
    place.value = readPlace();
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (link === null || link.target !== "" || link.origin !== location.origin || link.hasAttribute("download")) return;
    if (!link.pathname.startsWith(`${base}/ui`) || (link.hash !== "" && link.pathname === location.pathname)) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}
