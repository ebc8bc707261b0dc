// What is being built: versions, each with its variants. A variant is a run that writes a page; what is shown of it is made from its
// events, and from its files when a call has ended. A version goes on from one variant of the version before it.
import { signal } from "@preact/signals";
import { Problem, type RunRow, api } from "../api";
import { touch } from "../changes";
import type { RunEvent } from "../events.gen";
import { fold } from "../fold/fold";
import { type RunState, isWaiting, newRun } from "../fold/state";
import { wordsOf } from "../fold/turns";
import { recall, remember } from "../store/settings";
import { Follower } from "../stream";

const MAIN = "index.html";
const MOST_VERSIONS = 40; // that are walked back to

export interface RunDocument extends RunRow {
  group: string | null;
  parent: { run: string } | null;
  files?: Record<string, string>;
  model: string;
}

export class Variant {
  readonly run: RunState;
  files: Record<string, string> = {};
  /** The page as far as it has come, and whether that is all of it. */
  code = "";
  isWhole = false;
  /** Whether a person has chosen it, as the server remembers it. */
  isKept: boolean;
  private follower: Follower | null = null;
  private contents = new Map<number, { name: string; path: string; content: string }>();
  private asked = 0;

  constructor(
    readonly id: string,
    readonly index: number,
    isKept: boolean,
  ) {
    this.run = newRun(id);
    this.isKept = isKept;
  }

  get letter(): string {
    return String.fromCharCode(65 + this.index);
  }

  open(): this {
    this.follower = new Follower(this.id, {
      take: (event, position) => this.take(event, position),
      ended: () => void this.readFiles(),
      isResting: () => isWaiting(this.run),
    });
    return this;
  }

  close(): void {
    this.follower?.close();
    this.follower = null;
  }

  mark(isKept: boolean): void {
    if (this.isKept === isKept) return;
    this.isKept = isKept;
    void api.keepRun(this.id, isKept).catch(() => undefined); // the choice holds here anyway
  }

  private take(event: RunEvent, position: string): void {
    fold(this.run, event, position, touch);
    if (event.type === "model_started") this.contents.clear();
    else if (event.type === "call_preview") this.preview(event);
    else if (event.type === "tool_finished") void this.readFiles();
    touch(this);
  }

  /** A file that is being written: its arguments come piece by piece. */
  private preview(event: Extract<RunEvent, { type: "call_preview" }>): void {
    const kept = this.contents.get(event.index) ?? { name: event.name, path: "", content: "" };
    for (const { op, path, value } of event.patches) {
      if (typeof value !== "string") continue;
      if (path === "/content") kept.content = op === "append" ? kept.content + value : value;
      else if (path === "/path") kept.path = op === "append" ? kept.path + value : value;
    }
    this.contents.set(event.index, kept);
    if (kept.name !== "create_file" || kept.content === "" || (kept.path !== "" && !MAIN.startsWith(kept.path))) return;
    this.code = kept.content;
    this.isWhole = false;
  }

  private async readFiles(): Promise<void> {
    const turn = ++this.asked;
    const document = await api.run<RunDocument>(this.id).catch(() => null);
    if (document === null || turn !== this.asked) return;
    this.files = document.files ?? {};
    const page = this.files[MAIN] ?? Object.entries(this.files).find(([path]) => /\.html?$/.test(path))?.[1];
    if (page !== undefined) {
      this.code = page;
      this.isWhole = true;
    }
    touch(this);
  }
}

export interface Version {
  group: string;
  variants: Variant[];
  /** The run that it goes on from: one variant of the version before. */
  parent: string;
}

export function askedFor(version: Version): string {
  const words = wordsOf(version.variants[0]?.run.question ?? null);
  return (words.split("\n\n[element]")[0] ?? words).trim();
}

export class Project {
  readonly versions = signal<Version[]>([]);
  readonly problem = signal<Problem | null>(null);
  readonly isRead = signal(false);

  /** The newest version, by its group; those before it are found by what each goes on from. */
  async load(group: string): Promise<void> {
    try {
      let next = group;
      for (let count = 0; next !== "" && count < MOST_VERSIONS; count++) {
        const version = await readVersion(next);
        this.versions.value = [version, ...this.versions.value];
        this.isRead.value = true;
        next = version.parent === "" ? "" : ((await api.run<RunDocument>(version.parent)).group ?? "");
      }
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.problem.value = error;
      this.isRead.value = true;
    }
  }

  close(): void {
    for (const version of this.versions.value) for (const variant of version.variants) variant.close();
  }
}

async function readVersion(group: string): Promise<Version> {
  const page = await api.runs(`group=${encodeURIComponent(group)}`);
  const first = page.data[0];
  if (first === undefined) throw new Problem(404, "There is no such page, or it is not kept any more.");
  const document = await api.run<RunDocument>(first.id);
  return { group, variants: page.data.map((row, at) => new Variant(row.id, at, row.kept === true).open()), parent: document.parent?.run ?? "" };
}

export interface Picked {
  selector: string;
  markup: string;
}

export interface Wish {
  text: string;
  variants: number;
  models: string[];
  parent: string;
  picked: Picked | null;
  pictures: Picture[];
}

/** A picture that goes along with a wish: `url` has all of it. */
export interface Picture {
  name: string;
  url: string;
}

/** The new version's group. */
export async function build({ text, variants, models, parent, picked, pictures }: Wish): Promise<string> {
  const about = picked === null ? "" : `\n\n[element] The change is about the element \`${picked.selector}\` of the page:\n${picked.markup}`;
  const words = text + about;
  const parts = pictures.map(({ url }) => ({ type: "image_url", image_url: { url } }));
  const input = parts.length === 0 ? words : [{ role: "user", content: [...parts, { type: "text", text: words }] }];
  const made = await api.startRuns({ input, variants, ...(models.length > 0 ? { model: models } : {}), ...(parent === "" ? { files: {} } : { parent }) });
  const known = recall<Recent[]>("builds", []).filter((one) => one.group !== made.id);
  remember("builds", [{ group: made.id, title: text.slice(0, 80), at: Date.now() / 1000 }, ...known].slice(0, 12));
  return made.id;
}

export interface Recent {
  group: string;
  title: string;
  at: number;
}

/** What was built in this browser: the server has no list of it yet. */
export function recent(): Recent[] {
  return recall<Recent[]>("builds", []);
}
