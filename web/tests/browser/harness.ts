// A real server with a scripted model, and a real browser in front of it. Every page is watched: an error in its console, or a
// request to another host, fails the test that opened it.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Browser, type BrowserContext, type BrowserContextOptions, type Page, chromium } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const PYTHON = process.env["RONDA_PYTHON"] ?? join(ROOT, ".venv/bin/python");
const BROWSERS = ["chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];
export const PICTURES = fileURLToPath(new URL("../../pictures/", import.meta.url));

export function browserPath(): string | undefined {
  const named = process.env["CHROMIUM"];
  if (named !== undefined) return named;
  const folders = (process.env["PATH"] ?? "").split(":");
  return BROWSERS.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path));
}

/**
 * Answers that a browser puts into its console, and that the page takes as the design says: a run may end, or begin to wait, while
 * words or a stop are on their way to it.
 */
const EXPECTED = /^Failed to load resource: the server responded with a status of 409 .*\/v1\/runs\/[^/]+\/(steer|cancel)$/;

export interface ServerOptions {
  /** Seconds between two pieces of an answer. */
  pace?: number;
  code?: boolean;
  keys?: boolean;
  /** The small model on this machine answers, instead of a scripted one. */
  local?: boolean;
  /** A week of runs is there before the first page is: tests/web/gallery.py. */
  gallery?: boolean;
  /** How many runs are driven at a time. */
  runs?: number;
  /** There is a model "elsewhere", which this provider has; it gets the key. */
  provider?: { url: string; key: string };
}

export class PageServer {
  url = "";
  /** By name: those of tests/web/page_server.py. */
  keys: Record<string, string> = {};
  private process: ChildProcess | null = null;
  private readonly data = mkdtempSync(join(tmpdir(), "ronda-page-"));

  constructor(private readonly options: ServerOptions = {}) {}

  async start(): Promise<void> {
    const port = this.url === "" ? "0" : new URL(this.url).port;
    const words = ["-m", "tests.web.page_server", "--data", this.data, "--port", port, "--pace", String(this.options.pace ?? 0.01)];
    if (this.options.code) words.push("--code");
    if (this.options.keys) words.push("--keys");
    if (this.options.local) words.push("--local");
    if (this.options.gallery) words.push("--gallery");
    if (this.options.runs !== undefined) words.push("--runs", String(this.options.runs));
    const env = { ...process.env };
    if (this.options.provider) {
      words.push("--provider", this.options.provider.url);
      env["OPENAI_API_KEY"] = this.options.provider.key;
    }
    const child = spawn(PYTHON, words, { cwd: ROOT, env, stdio: ["pipe", "pipe", "inherit"] });
    this.process = child;
    const told = await new Promise<{ url: string; keys: Record<string, string> }>((resolve, reject) => {
      let text = "";
      child.stdout.on("data", (piece: Buffer) => {
        text += piece.toString();
        if (text.includes("\n")) resolve(JSON.parse(text.split("\n")[0] ?? "") as { url: string; keys: Record<string, string> });
      });
      child.once("exit", (code) => reject(new Error(`the server ended: ${code}`)));
    });
    this.url = told.url;
    this.keys = told.keys;
    for (let tries = 0; tries < 200; tries++) {
      if (await fetch(`${this.url}/health`).then((answer) => answer.ok, () => false)) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  revoke(name: string): void {
    this.process?.stdin?.write(`${name}\n`);
  }

  /** As `kill -9` does it. */
  async kill(): Promise<void> {
    const child = this.process;
    if (child === null) return;
    this.process = null;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.data, { recursive: true, force: true });
  }
}

/** ms of a page's main thread: of the processor, which other programs may share, and of the clock. */
export interface Task {
  processor: number;
  clock: number;
}

interface TraceEvent {
  name: string;
  pid: number;
  tid: number;
  dur?: number;
  tdur?: number;
  args?: { name?: string };
}

/** What the tests of a file share: one server, one browser, and pages that are closed after each test. */
export function harness(options: ServerOptions = {}): {
  server: PageServer;
  open: (path?: string, context?: BrowserContextOptions) => Promise<Page>;
  tab: (page: Page, path: string) => Promise<Page>;
  expectTrouble: () => void;
  longestTask: (page: Page, work: () => Promise<void>) => Promise<Task>;
} {
  const server = new PageServer(options);
  let browser: Browser;
  let contexts: BrowserContext[] = [];
  let problems: string[] = [];
  let isTroubled = false;

  beforeAll(async () => {
    const executablePath = browserPath();
    if (executablePath === undefined) throw new Error("no Chromium is installed: setup/system-packages python3 page");
    await server.start();
    browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--font-render-hinting=none"] });
  });
  afterAll(async () => {
    await browser?.close();
    await server.stop();
  });
  afterEach(async () => {
    const found = problems;
    const troubled = isTroubled;
    problems = [];
    isTroubled = false;
    for (const context of contexts) await context.close();
    contexts = [];
    if (!troubled) expect(found).toEqual([]);
  });

  const watch = (page: Page) => {
    page.on("console", (message) => {
      if (message.type() !== "error" && message.type() !== "warning") return;
      const text = `${message.text()} ${message.location().url}`;
      if (!EXPECTED.test(text)) problems.push(`console: ${text}`);
    });
    page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
    page.on("request", (request) => {
      const { origin, protocol } = new URL(request.url());
      if (protocol.startsWith("http") && origin !== server.url) problems.push(`another host: ${request.url()}`);
    });
  };

  return {
    server,
    open: async (path = "/ui", context = {}) => {
      const opened = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce", ...context });
      contexts.push(opened);
      if (options.gallery) await opened.request.post(`${server.url}/v1/login`, { data: { key: server.keys["ops"] } });
      const page = await opened.newPage();
      watch(page);
      await page.goto(server.url + path);
      await page.waitForSelector("#app .main");
      return page;
    },
    tab: async (page, path) => {
      const other = await page.context().newPage();
      watch(other);
      await other.goto(server.url + path);
      await other.waitForSelector("#app .main");
      return other;
    },
    /** The server will be away: a browser says so in its console. */
    expectTrouble: () => {
      isTroubled = true;
    },
    /** The longest task of the page while `work` is done. The clock also counts what other programs of this machine took. */
    longestTask: async (page, work) => {
      await browser.startTracing(page, { categories: ["-*", "toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"] });
      await work();
      const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: TraceEvent[] };
      const main = new Set(traceEvents.filter((one) => one.args?.name === "CrRendererMain").map((one) => `${one.pid}:${one.tid}`));
      const tasks = traceEvents.filter((one) => /RunTask$/.test(one.name) && main.has(`${one.pid}:${one.tid}`));
      return {
        processor: Math.max(0, ...tasks.map((one) => (one.tdur ?? 0) / 1000)),
        clock: Math.max(0, ...tasks.map((one) => (one.dur ?? 0) / 1000)),
      };
    },
  };
}

export async function ask(page: Page, text: string): Promise<void> {
  await page.fill("#composer", text);
  await page.press("#composer", "Enter");
}

/** Until the run is over. */
export async function answered(page: Page, text?: string): Promise<void> {
  if (text !== undefined) await page.waitForSelector(`.say:has-text("${text}")`);
  await page.waitForSelector(".ending");
  await page.waitForSelector('[role=log][aria-busy="false"]');
}

export async function talkText(page: Page): Promise<string> {
  return page.locator("[role=log]").innerText();
}
