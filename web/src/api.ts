// The server's addresses, as functions. Every failure is a `Problem` with what the server says of it.
import type { UserTurn } from "./events.gen";
import type { Message, PlacedTurn } from "./fold/turns";

/** Where the server is: the page's own address up to `/ui`. */
export const base = location.pathname.replace(/\/ui(\/.*)?$/, "");

export class Problem extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code: string = "",
    readonly param: string = "",
  ) {
    super(message);
  }

  /** Whether no answer came at all. */
  get isOffline(): boolean {
    return this.status === 0;
  }
}

export interface ServerFacts {
  version: string;
  model: string;
  owner: string;
  has_keys: boolean;
  tools: string[];
  features: {
    python: boolean;
    shell: boolean;
    search: boolean;
    search_always: boolean;
    /** Whether the server keeps what it sends: `GET /v1/runs/{id}/rounds/{n}/request`. It is asked for only where this says so. */
    round_requests?: boolean;
    /** Whether there is `GET /v1/events`. */
    events?: boolean;
    /** Whether there is `GET /v1/budgets`. */
    budgets?: boolean;
    /** Whether there is `GET /v1/operate`. */
    operate?: boolean;
  };
  permission: "auto" | "ask" | "deny";
  rounds: number;
  max_rounds: number;
  max_upload: number;
  session_days: number;
}

export interface Model {
  id: string;
  status: string;
  /** What an agent does, and what it wants to be asked with. */
  agent?: { title: string | null; description: string | null; inputs: FormSchema; tools: { name: string }[] };
}

/** As much of a JSON Schema as a form is made of. */
export interface FormSchema {
  properties?: Record<string, { type?: string; title?: string; description?: string; enum?: unknown[]; default?: unknown; examples?: unknown[] }>;
  required?: string[];
}

export interface Budget {
  scope: string;
  per: string;
  unit: string;
  limit: number;
  spent: number;
  reserved: number;
}

/** A key, without its secret. */
export interface ServerKey {
  id: string;
  owner: string;
  /** null: one that was made before there were scopes. */
  scopes: string[] | null;
  expires_at: number | null;
  revoked_at: number | null;
  last_used_at: number | null;
}

/** What all owners did in one step of time. */
export interface OperateStep {
  at: number;
  started: number;
  failed: number;
  input_tokens: number;
  output_tokens: number;
  cost: number | null;
}

/** One thing that `ronda doctor` has looked at. */
export interface Finding {
  name: string;
  state: "works" | "partly" | "missing" | "fails" | string;
  text: string;
  help: string | null;
}

/** A tool of the server's own, or of one of its MCP servers. */
export interface ServerTool {
  name: string;
  label: string;
  description: string;
  source: { kind: string; server: string | null };
  /** "ask": it is asked about whatever the session says. */
  approval: string;
  /** Whether every request has it; others ask for it. */
  offered: boolean;
}

export interface SessionRow {
  id: string;
  title: string | null;
  updated_at: number;
  created_at: number;
  metadata: Record<string, unknown>;
  branch: string;
}

export interface Branch {
  id: string;
  run: string | null;
  turns: number;
  created_at: number;
  is_head: boolean;
}

/** The end of a conversation, or what comes before `next` of such a page. */
export interface SessionPage extends SessionRow {
  branches: Branch[];
  data: PlacedTurn[];
  next: string | null;
}

export interface RunRow {
  id: string;
  state: "queued" | "running" | "waiting" | "finished" | "failed" | "cancelled" | string;
  agent: string | null;
  session: string | null;
  created_at: number;
  ended_at: number | null;
  model?: string | null;
  /** The first words of what was asked. */
  input?: string | null;
  rounds?: number | null;
  tool_calls?: number | null;
  /** null: the price is not known. */
  cost?: number | null;
  end?: { reason: string; limit?: string | null; code?: string | null; message?: string | null } | null;
  questions?: { tool?: string | null; asked_at?: number }[];
  usage?: { input_tokens?: number; output_tokens?: number; cached_tokens?: number; tool_calls?: number; rounds?: number; cost?: number | null } | null;
  parent?: { run: string; call?: string | null } | null;
  /** Whether its owner has chosen it among variants. */
  kept?: boolean;
  /** Of a run that is in the queue, where it is asked about by its id: how many are before it. */
  queue_position?: number;
}

/** How many runs there are in each state, and when they began. */
export interface RunSummary {
  since: number;
  until: number;
  states: Record<string, number>;
  histogram: { at: number; states: Record<string, number> }[];
}

/** What was sent to a provider in one round: written again from the run's journal, without keys. */
export interface RoundRequest {
  method?: string | null;
  url?: string | null;
  headers?: Record<string, string>;
  body?: unknown;
  /** False: the model is not called over HTTP, and the body says the same in other words. */
  exact?: boolean;
  /** What the prompt is made of, in the order in which a provider reads it. */
  blocks?: { at: string; kind: string; tokens: number }[];
  /** What it has in common with the request of the round before. */
  prefix?: { blocks: number; tokens: number; broken_at: string | null; reason: string | null } | null;
  cached_tokens?: number | null;
  changes?: { what?: string | null; why?: string | null }[];
}

export interface Approval {
  approval_id: string;
  session_id: string;
  run_id: string;
  round: number;
  tool_name: string;
  arguments?: unknown;
  /** "input": the tool asks for values, not for a yes. */
  question?: string;
  reason?: string;
  expires_at?: number;
  created_at: number;
}

export interface McpServer {
  name: string;
  state: string;
  tools?: number;
  [more: string]: unknown;
}

export interface StoredFile {
  id: string;
  filename: string;
  bytes: number;
}

interface Page<T> {
  data: T[];
  has_more: boolean;
  next?: string | null;
}

/** The word that a signed-in page says with whatever changes something; other pages cannot read it. */
let csrf = "";
let refused: () => void = () => undefined;

/** `work` is done when the server wants a key that this page has not given, or does not take the one it gave any more. */
export function onRefused(work: () => void): void {
  refused = work;
}

export function needKey(): void {
  refused();
}

export function wordsOfPage(method: string): Record<string, string> {
  return csrf === "" || method === "GET" ? {} : { "x-ronda-csrf": csrf };
}

async function send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
  let answer: Response;
  try {
    const init: RequestInit = { method, headers: { ...headers, ...wordsOfPage(method) } };
    if (body !== undefined) {
      init.body = JSON.stringify(body);
      init.headers = { ...init.headers, "content-type": "application/json" };
    }
    answer = await fetch(base + path, init);
  } catch {
    throw new Problem(0, "The server does not answer.");
  }
  if (answer.status === 401 && path !== "/v1/login") refused();
  if (!answer.ok) throw await problemOf(answer);
  return answer;
}

/** Who uses the page, as `GET /v1/me` says it. */
export interface Me {
  owner: string;
  key_id: string | null;
  /** What the key may do; null: everything that its owner may. */
  scopes: string[] | null;
  needs_key: boolean;
  csrf: string | null;
}

/** A way to sign in; one with an address is a link. */
interface LoginWay {
  kind: string;
  name?: string;
  url?: string;
}

export type LoginLink = LoginWay & { url: string };

function known(me: Me): Me {
  csrf = me.csrf ?? "";
  return me;
}

async function problemOf(answer: Response): Promise<Problem> {
  const text = await answer.text().catch(() => "");
  try {
    const read = JSON.parse(text) as { error?: { message?: string; code?: string; param?: string }; message?: string; status?: string };
    const message = read.error?.message ?? read.message ?? text;
    return new Problem(answer.status, message, read.error?.code ?? read.status ?? "", read.error?.param ?? "");
  } catch {
    return new Problem(answer.status, text || `The server answered ${answer.status}.`);
  }
}

async function read<T>(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<T> {
  return (await (await send(method, path, body, headers)).json()) as T;
}

const name = encodeURIComponent;

let last: Promise<unknown> = Promise.resolve();

/** One change of a session after the other: the server refuses the second of two at once. */
function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const done = last.then(work, work);
  last = done.catch(() => undefined);
  return done;
}

export const api = {
  me: () => read<Me>("GET", "/v1/me").then(known),
  login: (key: string) => read<Me>("POST", "/v1/login", { key }).then(known),
  /** Ways to sign in beside a key. */
  ways: () => read<{ data: LoginWay[] }>("GET", "/v1/login").then((page) => page.data.filter((way): way is LoginLink => way.url !== undefined)),
  logout: () => send("POST", "/v1/logout"),
  facts: () => read<ServerFacts>("GET", "/ui/server"),
  isUp: () => send("GET", "/health").then(() => true, () => false),
  models: () => read<Page<Model>>("GET", "/v1/models").then((page) => page.data),
  tools: () => read<Page<ServerTool>>("GET", "/v1/tools").then((page) => page.data),
  /** What the first model call of a request would be: nothing is sent, and nothing is kept. */
  render: (request: unknown) => read<RoundRequest>("POST", "/v1/render", request),
  retryMcp: (id: string) => send("POST", `/v1/mcp/${name(id)}/retry`),
  mcp: () => read<{ servers: McpServer[] }>("GET", "/v1/mcp").then((one) => one.servers),

  sessions: (before: string | null) =>
    read<Page<SessionRow>>("GET", `/v1/sessions?limit=50${before === null ? "" : `&before=${name(before)}`}`),
  /** Those whose title, or the first words of one of whose questions, have these words. */
  findSessions: (words: string) => read<Page<SessionRow>>("GET", `/v1/sessions?limit=50&q=${name(words)}`).then((page) => page.data),
  sessionPage: (id: string, branch: string | null, limit: number, before: string | null = null) =>
    read<SessionPage>("GET", `/v1/sessions/${name(id)}?limit=${limit}${branch === null ? "" : `&branch=${name(branch)}`}${before === null ? "" : `&before=${before}`}`),
  /** All that was said in a session, as Chat Completions has it. */
  conversation: (id: string, branch: string | null) =>
    read<{ messages: Message[] }>("GET", `/v1/sessions/${name(id)}${branch === null ? "" : `?branch=${name(branch)}`}`).then((found) => found.messages),
  changeSession: (id: string, change: { title?: string | null; metadata?: Record<string, unknown>; branch?: string }) =>
    inTurn(() => read<SessionRow>("PATCH", `/v1/sessions/${name(id)}`, change)),
  deleteSession: (id: string) => send("DELETE", `/v1/sessions/${name(id)}`),
  fork: (id: string, run: string, round: number) =>
    read<{ id: string }>("POST", `/v1/sessions/${name(id)}/fork`, { run, round }),

  runs: (query: string) => read<Page<RunRow>>("GET", `/v1/runs?${query}`),
  feedAddress: () => `${base}/v1/events`,
  runSummary: (query: string) => read<RunSummary>("GET", `/v1/runs/summary?${query}`),
  budgets: () => read<Page<Budget>>("GET", "/v1/budgets").then((page) => page.data),
  keys: () => read<Page<ServerKey>>("GET", "/v1/keys").then((page) => page.data),
  /** The answer is the one place where the key itself is. */
  createKey: (wish: { owner: string; scopes: string[]; expires_in?: number }) => read<ServerKey & { key: string }>("POST", "/v1/keys", wish),
  revokeKey: (id: string) => send("DELETE", `/v1/keys/${name(id)}`),
  operateSeries: (span: string, step: number) => read<{ since: number; until: number; data: OperateStep[] }>("GET", `/v1/operate/series?span=${span}&step=${step}`),
  operateErrors: <T>(span: string) => read<Page<T>>("GET", `/v1/operate/errors?span=${span}`).then((page) => page.data),
  doctor: () => read<{ status: string; checks: Finding[] }>("GET", "/v1/system/doctor").then((one) => one.checks),
  operate: <T>(span: string) => read<T>("GET", `/v1/operate?span=${span}`),
  startRuns: (request: unknown) => read<{ id: string; data: RunRow[] }>("POST", "/v1/runs", request),
  exportPage: (code: string) => send("POST", "/api/export", { code, baseUrl: null }).then((answer) => answer.blob()),
  run: <T>(id: string) => read<T>("GET", `/v1/runs/${name(id)}`),
  roundRequest: (id: string, round: number) => read<RoundRequest>("GET", `/v1/runs/${name(id)}/rounds/${round}/request`),
  cassetteAddress: (id: string) => `${base}/v1/runs/${name(id)}/cassette`,
  events: (run: string) => send("GET", `/v1/runs/${name(run)}/events`),
  eventsAddress: (run: string, after: string) =>
    `${base}/v1/runs/${name(run)}/events${after === "" ? "" : `?after=${name(after)}`}`,
  /** The id of the run: the server makes it of the name that the page has chosen, and of the owner. */
  ask: (run: string, request: unknown) =>
    send("POST", "/v1/chat/completions", request, { "x-ronda-run": run }).then(async (answer) => {
      const { id } = (await answer.json()) as { id?: string };
      return answer.headers.get("x-ronda-run")?.split(",")[0]?.trim() || (id?.startsWith("chatcmpl-") ? `run_${id.slice(9)}` : run);
    }),
  steer: (run: string, text: string) => read<unknown>("POST", `/v1/runs/${name(run)}/steer`, { text }),
  /** Of another owner, for a key that may change what the server does. */
  cancelOf: (run: string, owner: string) => read<unknown>("POST", `/v1/runs/${name(run)}/cancel?owner=${name(owner)}`, {}),
  cancel: (run: string) => read<unknown>("POST", `/v1/runs/${name(run)}/cancel`, {}),

  approvals: () => read<Page<Approval>>("GET", "/v1/agent/approvals").then((page) => page.data),
  /** Tools that are not asked about again in a session. */
  approvedIn: (session: string) => read<Page<{ tool: string }>>("GET", `/v1/sessions/${name(session)}/approvals`).then((page) => page.data),
  takeBack: (session: string, tool: string) => read<Page<{ tool: string }>>("DELETE", `/v1/sessions/${name(session)}/approvals?tool=${name(tool)}`).then((page) => page.data),
  decide: (id: string, decision: Decision) => read<unknown>("POST", `/v1/agent/approvals/${name(id)}`, decision),
  answer: (run: string, id: string, decision: "approve" | "deny", values?: unknown) =>
    read<unknown>("POST", `/v1/runs/${name(run)}/answer`, {
      id,
      decision,
      ...(values === undefined ? {} : { arguments: values }),
    }),

  /** A file of a CDN, as far as the server keeps a copy of it. */
  library: (url: string) => send("GET", `/api/library?url=${name(url)}`).then((answer) => (answer.status === 204 ? null : answer.blob())),
  /** The mark of a variant that a person has chosen. */
  keepRun: (id: string, kept: boolean) => send("PATCH", `/v1/runs/${name(id)}`, { kept }),
  fileAddress: (id: string) => `${base}/v1/files/${name(id)}/content`,
  file: (id: string) => send("GET", `/v1/files/${name(id)}/content`),
  frameAddress: (nonce: string) => `${base}/ui/frame#${nonce}`,
};

export interface Decision {
  decision: "approve" | "deny";
  arguments?: unknown;
  remember_for_session?: boolean;
  message?: string;
}

/** A file on its way to the server. `progress` hears the share that is sent, from 0 to 1. */
export function upload(file: File, progress: (share: number) => void): { done: Promise<StoredFile>; stop: () => void } {
  const request = new XMLHttpRequest();
  const done = new Promise<StoredFile>((resolve, reject) => {
    request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    request.onload = () => {
      if (request.status < 300) resolve(JSON.parse(request.responseText) as StoredFile);
      else {
        if (request.status === 401) refused();
        let message = `The server answered ${request.status}.`;
        try {
          message = (JSON.parse(request.responseText) as { error: { message: string } }).error.message;
        } catch {
          // the status says enough
        }
        reject(new Problem(request.status, message));
      }
    };
    request.onerror = () => reject(new Problem(0, "The server does not answer."));
    request.onabort = () => reject(new Problem(-1, "stopped"));
  });
  request.open("POST", `${base}/v1/files`);
  for (const [name, value] of Object.entries(wordsOfPage("POST"))) request.setRequestHeader(name, value);
  const form = new FormData();
  form.append("purpose", "user_data");
  form.append("file", file);
  request.send(form);
  return { done, stop: () => request.abort() };
}

/** A new run's name, which the page chooses, so that a reload finds the run whatever became of the request. */
export function newRunName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  // Ronda names its own runs with 24 such digits, and refuses those of a client's: the word before them sets ours apart.
  return `run_page${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

export function newSessionName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  return `chat-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** What a message has beside its text, as Chat Completions takes it. */
export function contentOf(text: string, files: { id: string; name: string }[]): string | object[] {
  if (files.length === 0) return text;
  const parts: object[] = files.map((file) => ({ type: "file", file: { file_id: file.id, filename: file.name } }));
  return text === "" ? parts : [...parts, { type: "text", text }];
}

export function sameWords(a: UserTurn | null, b: UserTurn | null): boolean {
  const words = (turn: UserTurn | null) =>
    (turn?.parts ?? []).map((part) => (part.type === "text" ? part.text.trim() : part.type)).join("\n");
  return words(a) === words(b);
}
