// Branch from a round: the conversation up to it, answered by another model or after other words. A new session, a new run.
import type { VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Problem, api, newRunName, newSessionName } from "../api";
import { wordsOf } from "../fold/turns";
import { address, go } from "../router";
import { facts, models } from "../store/server";
import { shown } from "../visible";
import { Icon } from "../views/icon";
import type { RunLog } from "./log";
import { type SpokenMessage, spokenBefore } from "./turns";

interface BranchProps {
  log: RunLog;
  /** From 0. */
  round: number;
  close: () => void;
}

export function BranchDialog({ log, round, close }: BranchProps): VNode {
  const box = useRef<HTMLDialogElement>(null);
  const [from, setFrom] = useState(round);
  const [model, setModel] = useState("default");
  const [words, setWords] = useState(round === 0 ? wordsOf(log.run.question) : "");
  const [instructions, setInstructions] = useState("");
  const [problem, setProblem] = useState("");
  const [isSending, setSending] = useState(false);
  useLayoutEffect(() => box.current?.showModal(), []);
  const rounds = log.run.usage.rounds;
  const start = async () => {
    setSending(true);
    setProblem("");
    try {
      const run = await startBranch(log, from, model, words, instructions);
      box.current?.close();
      go(address("runs", run));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      setSending(false);
    }
  };
  return (
    <dialog ref={box} class="dialog branch" aria-label="Branch from a round" onClose={close} onClick={(event) => event.target === box.current && box.current?.close()}>
      <header class="dialog-head">
        <h2>Branch from a round</h2>
        <button type="button" class="ic sm end" aria-label="Close" onClick={() => box.current?.close()}>
          <Icon name="x" small />
        </button>
      </header>
      <form
        class="branch-form"
        onSubmit={(event) => {
          event.preventDefault();
          void start();
        }}
      >
        <label>
          <span class="small t2">Answer again from</span>
          <span class="field">
            <select value={from} onChange={(event) => {
              const next = Number(event.currentTarget.value);
              setFrom(next);
              setWords(next === 0 ? wordsOf(log.run.question) : "");
            }}>
              {Array.from({ length: Math.max(1, rounds) }, (_, at) => (
                <option key={at} value={at}>round {at + 1}</option>
              ))}
            </select>
          </span>
        </label>
        <label>
          <span class="small t2">Model or agent</span>
          <span class="field">
            <select value={model} onChange={(event) => setModel(event.currentTarget.value)}>
              <option value="default">{shown(facts.value?.model ?? "the server’s model")}</option>
              {models.value.filter((one) => one.id !== "default" && one.status !== "broken").map((one) => (
                <option key={one.id} value={one.id}>{shown(one.id)}</option>
              ))}
            </select>
          </span>
        </label>
        <label>
          <span class="small t2">{from === 0 ? "What is asked" : "Say first (may be empty)"}</span>
          <textarea class="field area" rows={3} value={words} onInput={(event) => setWords(event.currentTarget.value)} />
        </label>
        <label>
          <span class="small t2">Instructions (may be empty)</span>
          <textarea class="field area" rows={2} value={instructions} onInput={(event) => setInstructions(event.currentTarget.value)} />
        </label>
        {problem !== "" && <p class="fail small" role="alert">{shown(problem)}</p>}
        <div class="row">
          <span class="small t3 grow">The first run stays as it is.</span>
          <button type="submit" class="btn ink" disabled={isSending || (from === 0 && words.trim() === "")}>
            <Icon name="branch" small /> Branch
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** The new run's name. A session's files go along where it has any; a run without a session gets one. */
async function startBranch(log: RunLog, round: number, model: string, words: string, instructions: string): Promise<string> {
  const said = spokenBefore(log.events.map((one) => one.event), round);
  const messages: SpokenMessage[] = round === 0 ? said.slice(0, said.findLastIndex((one) => one.role === "user")) : said;
  if (words.trim() !== "") messages.push(round === 0 ? asked(said, words.trim()) : { role: "user", content: words.trim() });
  const session = await copyOf(log);
  const system = instructions.trim() === "" ? [] : [{ role: "system", content: instructions.trim() }];
  return api.ask(newRunName(), { model, background: true, session_id: session, session_mode: "replace", messages: [...system, ...messages] });
}

/** The question with other words: what was attached to it stays. */
function asked(said: SpokenMessage[], words: string): SpokenMessage {
  const before = said.findLast((one) => one.role === "user")?.content;
  const attached = Array.isArray(before) ? before.filter((part) => (part as { type?: string }).type !== "text") : [];
  return { role: "user", content: attached.length === 0 ? words : [...attached, { type: "text", text: words }] };
}

async function copyOf(log: RunLog): Promise<string> {
  if (log.run.session === "" || log.run.end === null) return newSessionName();
  try {
    return (await api.fork(log.run.session, log.run.id, 0)).id;
  } catch (error) {
    if (error instanceof Problem && !error.isOffline) return newSessionName(); // a run that left nothing in its session
    throw error;
  }
}
