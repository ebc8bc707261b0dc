// What tools are called by people, what stands for each, and the one line that says what a call is about.
import type { Call } from "./fold/state";

const LABELS: Record<string, string> = {
  mistralrs_execute_python: "python",
  mistralrs_reset_python_session: "python_reset",
  mistralrs_shell: "shell",
  mistralrs_surface_outputs: "show_files",
  mistralrs_search_the_web: "web_search",
  mistralrs_website_content_extractor: "read_page",
};

export type ToolKind = "python" | "shell" | "search" | "page" | "agent" | "file" | "send" | "other";

export function labelOf(name: string): string {
  return LABELS[name] ?? name;
}

export function kindOf(name: string, child = ""): ToolKind {
  if (child !== "") return "agent";
  if (name === "mistralrs_execute_python") return "python";
  if (name === "mistralrs_shell") return "shell";
  if (name === "mistralrs_search_the_web") return "search";
  if (name === "mistralrs_website_content_extractor" || name.includes("fetch")) return "page";
  if (/file|document/.test(name)) return "file";
  if (/send|mail|order|post|publish/.test(name)) return "send";
  return "other";
}

const ICONS: Record<ToolKind, string> = {
  python: "prompt", shell: "terminal", search: "globe", page: "globe", agent: "bot", file: "file", send: "send", other: "wrench",
};

export function iconOf(call: Call): string {
  return ICONS[kindOf(call.name, call.child)];
}

/** The same by a name that people read. */
export function iconFor(label: string, child = ""): string {
  const name = Object.keys(LABELS).find((one) => LABELS[one] === label) ?? label;
  return ICONS[kindOf(name, child)];
}

export function valuesOf(text: string): Record<string, unknown> | null {
  try {
    const read: unknown = JSON.parse(text);
    return typeof read === "object" && read !== null && !Array.isArray(read) ? (read as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

/** The text of one argument while its JSON still arrives: as far as it can be read. */
export function partialText(text: string, name: string): string | null {
  const found = new RegExp(`"${name}"\\s*:\\s*"`).exec(text);
  if (found === null) return null;
  const rest = text.slice(found.index + found[0].length);
  let end = 0;
  while (end < rest.length && rest[end] !== '"') end += rest[end] === "\\" ? 2 : 1;
  let body = rest.slice(0, Math.min(end, rest.length));
  body = body.replace(/\\(u[0-9a-fA-F]{0,3})?$/, "");
  try {
    return JSON.parse(`"${body}"`) as string;
  } catch {
    return body;
  }
}

function short(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return JSON.stringify(value);
}

/** What the row of a call says beside its name. */
export function summaryOf(call: Call): string {
  const text = call.changed ?? call.arguments;
  const values = valuesOf(text);
  if (values === null) return text.trim() === "" ? "" : text.slice(0, 200);
  const kind = kindOf(call.name, call.child);
  if (kind === "search" && typeof values["query"] === "string") return `“${values["query"]}”`;
  if (kind === "page" && typeof values["url"] === "string") return values["url"].replace(/^https?:\/\//, "");
  if (kind === "shell" && Array.isArray(values["commands"])) return values["commands"].map(short).join("; ").slice(0, 200);
  return Object.values(values).map(short).join(" · ").slice(0, 200);
}

export interface Source {
  number: number;
  title: string;
  url: string;
}

const known = new WeakMap<Call, { content: string; sources: Source[] }>();

/** What a search has found, as its details say; else as its result does. */
export function sourcesOf(call: Call): Source[] {
  const before = known.get(call);
  if (before !== undefined && before.content === call.content) return before.sources;
  const sources = findSources(call);
  known.set(call, { content: call.content, sources });
  return sources;
}

function findSources(call: Call): Source[] {
  const listed = (call.details as { results?: unknown } | null)?.results;
  const found = readSources(listed);
  if (found.length > 0 || kindOf(call.name) !== "search") return found;
  try {
    return readSources((JSON.parse(call.content) as { output?: unknown }).output);
  } catch {
    return [];
  }
}

function readSources(listed: unknown): Source[] {
  if (!Array.isArray(listed)) return [];
  return listed.flatMap((one: unknown, at): Source[] => {
    if (typeof one !== "object" || one === null) return [];
    const { number, title, url } = one as { number?: unknown; title?: unknown; url?: unknown };
    if (typeof url !== "string") return [];
    return [{ number: typeof number === "number" ? number : at + 1, title: typeof title === "string" && title !== "" ? title : url, url }];
  });
}

export function hostOf(url: string): string {
  try {
    return new URL(url).host || url;
  } catch {
    return url;
  }
}

export interface Terminal {
  stdout: string;
  stderr: string;
}

/** What a program wrote: its result's own words, or what it has shown so far. */
export function outputOf(call: Call): Terminal {
  const details = call.details as { stdout?: unknown; stderr?: unknown; exception?: unknown; outputs?: unknown; result?: unknown } | null;
  if (details !== null && typeof details === "object") {
    if (Array.isArray(details.outputs)) {
      const outputs = details.outputs as { stdout?: string; stderr?: string }[];
      return {
        stdout: outputs.map((one) => one.stdout ?? "").join(""),
        stderr: outputs.map((one) => one.stderr ?? "").join(""),
      };
    }
    const text = (value: unknown) => (typeof value === "string" ? value : "");
    const found = { stdout: [text(details.stdout).replace(/\n$/, ""), text(details.result)].filter((one) => one !== "").join("\n"), stderr: [text(details.stderr), text(details.exception)].filter((one) => one !== "").join("\n") };
    if (found.stdout !== "" || found.stderr !== "") return found;
  }
  if (call.content === "") {
    const of = (stream: string) => call.progress.filter((one) => (one.stream === "stderr") === (stream === "stderr")).map((one) => one.text).join("");
    return { stdout: of("stdout"), stderr: of("stderr") };
  }
  const values = valuesOf(call.content);
  if (values === null) return { stdout: call.content, stderr: "" };
  const text = (name: string) => (typeof values[name] === "string" ? values[name] : "");
  return { stdout: text("stdout"), stderr: [text("stderr"), text("exception")].filter((one) => one !== "").join("\n") };
}
