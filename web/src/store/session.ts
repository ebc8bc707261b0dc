// The open session: its document, the runs behind it, and the run under way.
//
//     pages of the conversation → exchanges as far as they tell → what the events of each run say, where they are kept
//
// The newest page comes first; those before it come when a person scrolls to them.
// One run is followed at a time. What is shown of it is the fold of its events, so a second tab and a reload show the same.
import { computed, effect, signal, untracked } from "@preact/signals";
import { type Branch, Problem, type RoundRequest, type RunRow, type SessionPage, api, contentOf, newRunName, newSessionName, sameWords } from "../api";
import { touch } from "../changes";
import { fold } from "../fold/fold";
import { type RunState, isWaiting, newRun, phaseOf } from "../fold/state";
import { type Message, type PlacedTurn, exchangesOf, wholeRuns, wordsOf } from "../fold/turns";
import { bareModel, firstWords } from "../format";
import { address, go } from "../router";
import { Follower, checkServer } from "../stream";
import { type Entry, History, readRun } from "./history";
import { facts, models } from "./server";
import { mayBeStored, refreshLists, tellTabs } from "./sessions";
import { type SessionSettings, keepSettings, recall, remember, settingsOf } from "./settings";

export interface Attachment {
  id: string;
  name: string;
}

export const sessionId = signal("");
export const title = signal("");
export const entries = signal<Entry[]>([]);
export const branches = signal<Branch[]>([]);
export const branch = signal<string | null>(null);
export const live = signal<RunState | null>(null);
export const isLoading = signal(false);
export const loadProblem = signal<Problem | null>(null);
export const settings = signal<SessionSettings>(settingsOf(""));
/** Said while the run waited for a decision: goes out after it. */
export const held = signal("");

/** Whether there is a page of the conversation before those that are shown, and whether it is on its way. */
export const hasEarlier = signal(false);
export const isReadingEarlier = signal(false);

export const isRunning = computed(() => live.value !== null);

let follower: Follower | null = null;
let turns: PlacedTurn[] = [];
let before: string | null = null; // which page comes before them
let rows: RunRow[] = [];
let loads = 0;
let isHeldOut = false;
let adoptsIn = "";
const history = new History();

const PAGE = 60; // turns
const LONGEST_PAGE = 200; // as the server has it
const NEWEST = 20; // runs: more are not under way in one session

export async function openSession(id: string, wanted: string | null = null): Promise<void> {
  if (id === sessionId.value && id !== "" && wanted === branch.value && entries.value.length > 0) return;
  leave();
  sessionId.value = id;
  branch.value = wanted;
  settings.value = settingsOf(id);
  title.value = recall(`title.${id}`, "");
  if (id === "") return;
  await load(id);
}

function leave(): void {
  follower?.close();
  follower = null;
  live.value = null;
  entries.value = [];
  branches.value = [];
  turns = [];
  before = null;
  hasEarlier.value = false;
  isReadingEarlier.value = false;
  rows = [];
  history.forget();
  held.value = "";
  loadProblem.value = null;
  isLoading.value = false;
  loads += 1;
}

async function load(id: string): Promise<void> {
  const turn = ++loads;
  isLoading.value = entries.value.length === 0;
  try {
    const [page] = await Promise.all([api.runs(`session=${encodeURIComponent(id)}&limit=${NEWEST}`), refreshLists()]);
    // A session is written down when its first run has said something.
    const found = page.data.length > 0 && !mayBeStored(id) ? null : await readPages(id, page.data.length > 0);
    if (turn !== loads) return;
    rows = page.data;
    loadProblem.value = null;
    if (found !== null) take(found);
    await join();
    // The page that asked may have been closed before there was something to name.
    const first = entries.value[0];
    if (found !== null && found.title === null && before === null && id.startsWith("chat-") && live.value === null && first !== undefined) {
      await keepTitle(id, first.run);
      void refreshLists();
    }
  } catch (error) {
    if (turn !== loads) return;
    if (error instanceof Problem) loadProblem.value = error;
    else throw error;
  } finally {
    if (turn === loads) isLoading.value = false;
  }
}

/** The newest pages: as much as is shown already, and at least one exchange. */
async function readPages(id: string, hasRuns: boolean): Promise<SessionPage | null> {
  try {
    const wanted = turns.length;
    const found = await api.sessionPage(id, branch.value, Math.min(LONGEST_PAGE, Math.max(PAGE, wanted + 2)));
    while (found.next !== null && (found.data.length < wanted || wholeRuns(found.data).length === 0)) {
      const earlier = await api.sessionPage(id, branch.value, LONGEST_PAGE, found.next);
      found.data.unshift(...earlier.data);
      found.next = earlier.next;
    }
    return found;
  } catch (error) {
    if (hasRuns && error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}

function take(page: SessionPage): void {
  branches.value = page.branches;
  title.value = page.title ?? title.value;
  if (Object.keys(page.metadata).length > 0) settings.value = settingsOf(page.id, page.metadata);
  adoptsIn = page.metadata["page"] === undefined ? page.id : "";
  adopt();
  show(page.data, page.next);
}

/** Exchanges that are shown already stay the objects that they are. */
function show(data: PlacedTurn[], next: string | null): void {
  turns = data;
  before = next;
  hasEarlier.value = next !== null;
  const known = new Map(entries.value.map((entry) => [entry.start, entry]));
  const shown = exchangesOf(wholeRuns(turns)).map((exchange): Entry => {
    const entry = known.get(exchange.start);
    if (entry !== undefined && sameWords(entry.run.question, exchange.run.question)) return entry;
    const { start, run, runId } = exchange;
    return { key: `${branch.value ?? ""}:${start}`, start, run, runId, events: runId === null ? "none" : "unread" };
  });
  const end = (turns.at(-1)?.index ?? -1) + 1;
  const beyond = entries.value.filter((entry) => entry.run.end === null || (entry.start >= end && entry.events === "read"));
  entries.value = [...shown, ...beyond.filter((entry) => !shown.includes(entry))];
}

/** The page of the conversation before those that are shown. */
export async function readEarlier(): Promise<void> {
  const [id, turn, shown, from] = [sessionId.value, loads, turns, before];
  if (from === null || isReadingEarlier.value || isLoading.value) return;
  isReadingEarlier.value = true;
  try {
    const page = await api.sessionPage(id, branch.value, PAGE, from);
    if (turn === loads && shown === turns) show([...page.data, ...turns], page.next);
  } catch (error) {
    if (!(error instanceof Problem)) throw error; // it is asked for again when a person scrolls
  } finally {
    if (turn === loads) isReadingEarlier.value = false;
  }
}

/** A session that another program began is continued with the model or agent that answered in it last. */
function adopt(): void {
  const id = sessionId.value;
  const last = rows.find((row) => row.parent?.call == null); // a sub-agent answers its caller, not the session
  if (id === "" || adoptsIn !== id || last === undefined || recall(`settings.${id}`, null) !== null) return;
  const names = [last.agent ?? "", last.model ?? "", bareModel(last.model ?? "")];
  const found = names.find((name) => name !== "" && name !== facts.value?.model && models.value.some((model) => model.id === name));
  if (found !== undefined && found !== bareModel(facts.value?.model ?? "")) settings.value = { ...settings.value, model: found };
}

// The names of models may come after the session.
effect(() => {
  if (facts.value !== null && models.value.length > 0) untracked(adopt);
});

/** Follow the run that is under way, if there is one; show the last one if it left nothing in the conversation. */
async function join(): Promise<void> {
  const active = rows.filter((row) => row.ended_at === null);
  const next = active.findLast((row) => row.state !== "waiting") ?? active[0];
  if (next !== undefined) {
    follow(next.id);
    return;
  }
  const last = rows[0];
  const newest = entries.value.at(-1);
  if (last === undefined || branch.value !== null || newest?.run.id === last.id) return;
  if (last.state === "finished" && newest !== undefined) return;
  const run = await readRun(last.id).catch(() => null);
  if (run === null || entries.value.some((entry) => entry.run.id === run.id || entry.start === run.turnsBefore - 1)) return;
  entries.value = [...entries.value, { key: run.id, start: run.turnsBefore - 1, run, runId: run.id, events: "read" }];
}

function follow(id: string): void {
  if (live.value?.id === id && follower !== null) return;
  follower?.close();
  const known = entries.value.find((entry) => entry.run.id === id);
  const run = known?.run ?? newRun(id);
  live.value = run;
  if (known === undefined) {
    entries.value = [...entries.value, { key: id, start: Number.MAX_SAFE_INTEGER, run, runId: id, events: "read" }];
  }
  follower = new Follower(id, {
    take: (event, position) => {
      fold(run, event, position, touch);
      if (event.type === "run_started") settle(run);
      if (event.type === "answered") void sendHeld();
      if (event.type === "asked" || event.type === "answered") void refreshLists();
    },
    ended: () => void finish(run),
    isResting: () => isWaiting(run),
  }, run.position);
}

/** Where a run's exchange stands is known when it begins. */
function settle(run: RunState): void {
  const entry = entries.value.find((one) => one.run === run);
  if (entry !== undefined) entry.start = run.turnsBefore - 1;
}

async function finish(run: RunState): Promise<void> {
  if (live.value !== run) return;
  live.value = null;
  follower = null;
  const id = sessionId.value;
  await load(id);
  void refreshLists();
  tellTabs(id);
  if (held.value !== "" && live.value === null) await sendHeld();
}

/** A session is called by the first words of its first question until a person says otherwise. */
async function keepTitle(id: string, run: RunState): Promise<void> {
  if (id !== sessionId.value || entries.value.length === 0 || !mayBeStored(id)) return;
  const words = firstWords(wordsOf(entries.value[0]?.run.question ?? run.question));
  const page = { ...settings.value };
  const isNew = title.value === "" || recall(`title.${id}`, "") === title.value;
  if (!isNew || words === "") return;
  try {
    const row = await api.changeSession(id, { title: title.value || words, metadata: { page } });
    title.value = row.title ?? "";
    remember(`title.${id}`, null);
  } catch {
    title.value = words; // the next answer of this session names it
  }
}

/** Have the events of an exchange read. */
export function wantEvents(entry: Entry): void {
  history.want(entry);
}

/** Say something: a question, or words into the run under way. Throws a `Problem`; then nothing was said. */
export async function say(text: string, files: Attachment[]): Promise<void> {
  const run = live.value;
  if (run !== null && files.length === 0) {
    if (isWaiting(run)) {
      hold(text);
      return;
    }
    try {
      if (await steer(run, text)) return;
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== "run_is_waiting") throw error;
      hold(text);
      return;
    }
  }
  await ask([{ role: "user", content: contentOf(text, files) }], "append", text, files);
}

/** Whether the run takes the words: it may have ended while they were on their way. */
async function steer(run: RunState, text: string): Promise<boolean> {
  try {
    await api.steer(run.id, text);
    return true;
  } catch (error) {
    if (error instanceof Problem && error.code === "run_is_over") return false;
    throw error;
  }
}

function hold(text: string): void {
  held.value = held.value === "" ? text : `${held.value}\n${text}`;
}

async function sendHeld(): Promise<void> {
  const [id, text, run] = [sessionId.value, held.value, live.value];
  // The decision and the end of the run may come in while the words are on their way: they go out once.
  if (text === "" || isHeldOut) return;
  isHeldOut = true;
  try {
    const isTaken = run !== null && phaseOf(run) !== "finished" && (await steer(run, text));
    if (id !== sessionId.value) return;
    if (!isTaken) await ask([{ role: "user", content: text }], "append", text, []);
    if (id === sessionId.value) held.value = held.value.slice(text.length).trimStart(); // what was added meanwhile
  } catch {
    // it is still shown, and goes out with the next chance
  } finally {
    isHeldOut = false;
  }
}

/** Ask again from an earlier place: the conversation up to the exchange, with other words or the same. */
export async function branchAt(entry: Entry, text: string): Promise<void> {
  const said = entry.start === 0 ? [] : messagesBefore(entry.start, await api.conversation(sessionId.value, branch.value));
  const files = (entry.run.question?.parts ?? []).flatMap((part) =>
    part.type === "file" && part.id != null ? [{ id: part.id, name: part.name ?? "" }] : [],
  );
  entries.value = entries.value.filter((one) => one.start < entry.start);
  branch.value = null;
  // The server finds the place where they part: so what came before keeps its runs, with their figures, files and times.
  const mode = said.length === 0 ? "replace" : "auto";
  await ask([...said, { role: "user", content: contentOf(text, files) }], mode, text, files);
}

function messagesBefore(start: number, messages: Message[]): Message[] {
  // Messages and turns differ in results alone: each is a message of its own.
  let turn = -1;
  const found: Message[] = [];
  let last = "";
  for (const message of messages) {
    if (message.role !== "tool" || last !== "tool") turn += 1;
    last = message.role;
    if (turn >= start) break;
    found.push(message);
  }
  return found;
}

async function ask(said: object[], mode: "append" | "auto" | "replace", text: string, files: Attachment[]): Promise<void> {
  const isNew = sessionId.value === "";
  const id = isNew ? newSessionName() : sessionId.value;
  const chosen = settings.value;
  const run = await api.ask(newRunName(), requestOf(id, said, mode, chosen));
  if (isNew) {
    loads += 1;
    sessionId.value = id;
    keepSettings(id, chosen);
    title.value = firstWords(text);
    remember(`title.${id}`, title.value);
    go(address("chat", id), true);
  } else go(address("chat", id), true);
  const state = newRun(run);
  state.question = {
    type: "user",
    parts: [
      ...files.map((file) => ({ type: "file" as const, id: file.id, name: file.name })),
      ...(text === "" ? [] : [{ type: "text" as const, text }]),
    ],
  };
  const start = mode !== "append" ? (entries.value.at(-1)?.start ?? -1) + 1 : Number.MAX_SAFE_INTEGER;
  entries.value = [...entries.value, { key: run, start, run: state, runId: run, events: "read" }];
  rows = [{ id: run, state: "queued", agent: null, session: id, created_at: Date.now() / 1000, ended_at: null }, ...rows];
  if (live.value === null) follow(run);
  void refreshLists();
  tellTabs(id);
}

function requestOf(id: string, said: object[], mode: string, chosen: SessionSettings): object {
  return { ...wishesOf(said, chosen), background: true, session_id: id, session_mode: mode };
}

/** What a request says that is of no session yet. */
function wishesOf(said: object[], chosen: SessionSettings): object {
  const features = facts.value?.features;
  const system = chosen.instructions.trim() === "" ? [] : [{ role: "system", content: chosen.instructions }];
  return {
    model: chosen.model || "default",
    messages: [...system, ...said],
    ...(Object.keys(chosen.inputs).length === 0 ? {} : { inputs: chosen.inputs }),
    ...(chosen.off.length === 0 ? {} : { disabled_tools: chosen.off }),
    ...(features?.python && chosen.python ? { enable_code_execution: true } : {}),
    ...(features?.shell && chosen.shell ? { enable_shell: true } : {}),
    ...(features?.search && !features.search_always && chosen.search ? { web_search_options: {} } : {}),
    ...(chosen.askFirst ? { agent_permission: "ask" } : {}),
    ...(chosen.rounds === null ? {} : { max_tool_rounds: chosen.rounds }),
    ...(chosen.temperature === null ? {} : { temperature: chosen.temperature }),
    ...(chosen.maxTokens === null ? {} : { max_tokens: chosen.maxTokens }),
  };
}

/** What these words would be sent as, after all that was said here: the request of the first model call. */
export async function renderNext(text: string): Promise<RoundRequest> {
  const id = sessionId.value;
  const said = id === "" ? [] : await api.conversation(id, null).catch(() => []);
  const spoken = said.filter((message) => message.role !== "system");
  return api.render(wishesOf([...spoken, { role: "user", content: text === "" ? "…" : text }], settings.value));
}

export async function stopRun(): Promise<void> {
  const run = live.value;
  if (run === null) return;
  try {
    await api.cancel(run.id);
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 409) throw error;
  }
}

export async function rename(text: string): Promise<void> {
  const before = title.value;
  title.value = text;
  try {
    await api.changeSession(sessionId.value, { title: text });
    remember(`title.${sessionId.value}`, null);
    void refreshLists();
  } catch {
    // A session that is not written down yet is renamed when it is.
    if (live.value !== null) remember(`title.${sessionId.value}`, text);
    else title.value = before;
  }
}

export function change(part: Partial<SessionSettings>): void {
  settings.value = { ...settings.value, ...part };
  keepSettings(sessionId.value, settings.value);
}

/** Another tab has done something in this session, or the page was away. */
export async function lookAgain(id: string): Promise<void> {
  if (id === "" || id !== sessionId.value || live.value !== null || isLoading.value) return;
  if (await checkServer()) await load(id);
}

export async function showBranch(id: string): Promise<void> {
  const session = sessionId.value;
  await api.changeSession(session, { branch: id }).catch(() => undefined);
  leave();
  sessionId.value = session;
  settings.value = settingsOf(session);
  await load(session);
}
