// What a person has set: of the page (theme, keys), and of a session (model, tools, sampling, instructions).
// Kept in this browser; a session's settings go along with it as its metadata, too.
import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

export interface SessionSettings {
  model: string;
  python: boolean;
  shell: boolean;
  search: boolean;
  askFirst: boolean;
  rounds: number | null;
  temperature: number | null;
  maxTokens: number | null;
  instructions: string;
  /** Tools that the session goes without, by their names, and MCP servers as `mcp:NAME`. */
  off: string[];
  /** What the chosen agent is asked with. */
  inputs: Record<string, unknown>;
}

export const DEFAULTS: SessionSettings = {
  model: "",
  python: true,
  shell: true,
  search: true,
  askFirst: false,
  rounds: null,
  temperature: null,
  maxTokens: null,
  instructions: "",
  off: [],
  inputs: {},
};

export function recall<T>(key: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(`ronda.${key}`);
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise; // a browser that keeps nothing
  }
}

export function remember(key: string, value: unknown): void {
  try {
    if (value === null || value === "") localStorage.removeItem(`ronda.${key}`);
    else localStorage.setItem(`ronda.${key}`, JSON.stringify(value));
  } catch {
    // as above
  }
}

export const theme = signal<Theme>(recall<Theme>("theme", "system"));
export const usesLetters = signal(recall("letters", true));

/** What is shown: `public/theme.js` decides it, before the page is there. */
export const isDark = signal(typeof document !== "undefined" && document.documentElement.dataset["theme"] === "dark");

export function setTheme(choice: Theme): void {
  theme.value = choice;
  remember("theme", choice === "system" ? null : choice);
  applyTheme();
}

function applyTheme(): void {
  window.rondaTheme?.();
  isDark.value = document.documentElement.dataset["theme"] === "dark";
}

if (typeof matchMedia === "function") matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);

declare global {
  interface Window {
    rondaTheme?: () => void;
  }
}

export function settingsOf(session: string, metadata: Record<string, unknown> = {}): SessionSettings {
  const kept = metadata["page"];
  const fromServer = typeof kept === "object" && kept !== null ? (kept as Partial<SessionSettings>) : {};
  return {
    ...DEFAULTS,
    ...recall<Partial<SessionSettings>>("settings", {}),
    ...fromServer,
    ...recall<Partial<SessionSettings>>(`settings.${session}`, {}),
  };
}

export function keepSettings(session: string, settings: SessionSettings): void {
  remember(session === "" ? "settings" : `settings.${session}`, settings);
}
