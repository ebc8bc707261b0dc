// A call: one row in each of its states, and under it what it is about: code and output, sources, arguments and result.
import type { VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { changed } from "../changes";
import { useNow } from "../clock";
import { type Call, type RunState, callsOf, roundsOf } from "../fold/state";
import { bytes, seconds } from "../format";
import { TextView } from "../markdown/view";
import { readRun } from "../store/history";
import { hostOf, iconOf, kindOf, labelOf, outputOf, partialText, sourcesOf, summaryOf, valuesOf } from "../tools";
import { shown } from "../visible";
import { api } from "../api";
import { Changes } from "./changes";
import { Copy, Highlighted } from "./code";
import { Figure } from "./file";
import { Icon, Spinner } from "./icon";
import { Output } from "./output";
import { jumpToSource } from "./sources";

const LARGE = 64 * 1024; // characters of a result: above that it is shown as a file

export function CallRow({ call, run }: { call: Call; run: RunState }): VNode {
  changed(call);
  const kind = kindOf(call.name, call.child);
  const isCode = kind === "python" || kind === "shell";
  const [isToggled, setToggled] = useState<boolean | null>(null);
  const opensItself = isCode && (call.phase === "running" || call.phase === "arriving" || call.phase === "done" || call.phase === "failed");
  const isOpen = isToggled ?? (opensItself && kind === "python");
  const sources = kind === "search" ? sourcesOf(call) : [];
  return (
    <div role="listitem" class="item">
      <button
        type="button"
        class={`call ${call.phase}`}
        aria-expanded={isOpen}
        data-rove
        tabIndex={-1}
        data-call={call.id}
        onClick={() => setToggled(!isOpen)}
      >
        <Icon name={call.phase === "queued" ? "clock" : iconOf(call)} class="k" />
        <span class={call.phase === "cancelled" ? "name t3 struck" : call.phase === "queued" ? "name t2" : "name"}>{shown(labelOf(call.name))}</span>
        {call.child !== "" && <span class="pill child tiny">child</span>}
        <Summary call={call} run={run} />
        <State call={call} />
        <span class="vh">{stateWords(call)}</span>
      </button>
      {isOpen && <Body call={call} />}
      {sources.length > 0 && <Chips call={call} />}
    </div>
  );
}

function pythonCell(call: Call, run: RunState): string {
  let cell = 0;
  for (const one of run.calls.values()) {
    if (kindOf(one.name) === "python") cell += 1;
    if (one === call) break;
  }
  return `Cell ${cell}`;
}

function Summary({ call, run }: { call: Call; run: RunState }): VNode {
  changed(call);
  const by = call.answer?.by ? ` by ${shown(call.answer.by)}` : "";
  switch (call.phase) {
    case "failed": {
      const first = problemLine(call);
      return <span class="arg cut fail">{shown(first)} · the model was told</span>;
    }
    case "denied":
      return <span class="arg cut t2">denied{by}{call.answer?.message ? `: “${shown(call.answer.message)}”` : ""}</span>;
    case "expired":
      return <span class="arg cut t2">not answered in time: taken as a no</span>;
    case "cancelled":
      return <span class="arg cut t3">{call.startedAt > 0 ? "cancelled while it ran" : "cancelled before it began"}</span>;
    case "unknown":
      return <span class="arg cut wait">the server ended meanwhile: it may have run</span>;
    case "unrun":
      return <span class="arg cut t3">{shown(call.problem) || "not run here"}</span>;
    case "arriving": {
      const words = kindOf(call.name) === "python" ? "arguments arrive" : call.arguments.slice(-120);
      return (
        <span class="arg cut">
          {shown(words)}
          <span class="caret small" />
        </span>
      );
    }
    case "running": {
      const last = call.progress.at(-1)?.text.trimEnd().split("\n").at(-1);
      if (last !== undefined && last !== "") return <span class="arg cut mono-s t2">{shown(last.slice(-200))}</span>;
      break;
    }
    default:
      break;
  }
  if (call.answer !== null && call.phase !== "waiting") return <Approved call={call} by={by} />;
  if (kindOf(call.name) === "python") return <span class="arg cut">{pythonCell(call, run)}</span>;
  return <span class="arg cut">{shown(summaryOf(call))}</span>;
}

/** After an answer: one line, never a card. What a person changed is shown beside what it was. */
function Approved({ call, by }: { call: Call; by: string }): VNode {
  const before = valuesOf(call.arguments);
  const after = call.changed === null ? null : valuesOf(call.changed);
  const words = call.answer?.remember ? `approved for this session${by}` : `approved${by}`;
  if (before === null || after === null) return <span class="arg cut">{words} · {shown(summaryOf(call))}</span>;
  const differing = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  return (
    <span class="arg cut">
      {words}
      {differing.map((name, at) => (
        <span key={name}>
          {at === 0 ? " with " : ", "}
          {shown(name)} {name in before && <s>{shown(text(before[name]))}</s>} {shown(text(after[name]))}
        </span>
      ))}
    </span>
  );
}

function text(value: unknown): string {
  return value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
}

function problemLine(call: Call): string {
  if (call.problem !== "") return call.problem;
  const { stderr } = outputOf(call);
  const lines = (stderr || call.content).trim().split("\n");
  const line = lines.at(kindOf(call.name) === "python" ? -1 : 0) ?? "failed";
  return line.replace(`Error: Tool '${call.name}' failed: `, "").slice(0, 200); // the row names the tool, and is red
}

function stateWords(call: Call): string {
  const took = call.finishedAt > 0 && call.startedAt > 0 ? ` after ${seconds(call.finishedAt - call.startedAt)}` : "";
  const words: Record<Call["phase"], string> = {
    arriving: "is being written",
    queued: "is next in line",
    running: "is running",
    waiting: "waits for your decision",
    done: `done${took}`,
    failed: `failed${took}`,
    denied: "denied",
    expired: "not answered in time",
    cancelled: "cancelled",
    unknown: "may have run",
    unrun: "not run",
  };
  return words[call.phase];
}

function Since({ at, tone, words }: { at: number; tone: string; words: string }): VNode {
  return <span class={`dur ${tone} num`}>{words}{seconds(Math.max(0, useNow() - at))}</span>;
}

function State({ call }: { call: Call }): VNode {
  changed(call);
  const took = call.finishedAt > 0 && call.startedAt > 0 ? seconds(Math.max(0, call.finishedAt - call.startedAt)) : "";
  switch (call.phase) {
    case "arriving":
      return (
        <>
          <span class="dur num">arrives · {call.arguments.length} chars</span>
          <Spinner />
        </>
      );
    case "queued":
      return (
        <>
          <span class="dur">next in line</span>
          <Icon name="list" small class="t3" />
        </>
      );
    case "running":
      return (
        <>
          <Since at={call.startedAt} tone="accent" words="" />
          <Spinner />
        </>
      );
    case "waiting":
      return (
        <>
          <Since at={call.askedAt} tone="wait" words="waits " />
          <Icon name="shield" small class="wait" />
        </>
      );
    case "failed":
      return (
        <>
          <span class="dur num">{took}</span>
          <Icon name="alert" small class="fail" />
        </>
      );
    case "denied":
    case "expired": {
      const after = call.answer === null ? "" : `after ${seconds(call.answer.at - call.answer.askedAt)}`;
      return (
        <>
          <span class="dur num">{after}</span>
          <Icon name="ban" small class="t3" />
        </>
      );
    }
    case "cancelled":
      return (
        <>
          <span class="dur">{took || "–"}</span>
          <Icon name="x" small class="t3" />
        </>
      );
    case "unknown":
      return (
        <>
          <span class="dur">?</span>
          <Icon name="alert" small class="wait" />
        </>
      );
    default:
      return (
        <>
          <span class="dur num">{call.answer !== null && call.answer.at - call.answer.askedAt > 1 ? `waited ${seconds(call.answer.at - call.answer.askedAt)}` : took}</span>
          <Icon name={call.phase === "unrun" ? "x" : "check"} small class="t3" />
        </>
      );
  }
}

function Body({ call }: { call: Call }): VNode {
  changed(call);
  const kind = kindOf(call.name, call.child);
  if (call.child !== "" && call.finishedAt > 0) return <ChildRun id={call.child} />;
  if (kind === "python" || kind === "shell") return <CodeCall call={call} language={kind === "python" ? "python" : "bash"} />;
  return <Tabs call={call} />;
}

function CodeCall({ call, language }: { call: Call; language: string }): VNode {
  changed(call);
  const isWritten = call.phase !== "arriving";
  const code = useMemo(() => codeOf(call), [call.arguments, call.changed]);
  const output = outputOf(call);
  const hasOutput = output.stdout !== "" || output.stderr !== "";
  return (
    <div class="body">
      <div class="codearea">
        <pre class="code" tabIndex={0} aria-label="Code">
          {isWritten ? <Highlighted text={code} language={language} /> : <code>{shown(code)}<span class="caret small" /></code>}
        </pre>
        {isWritten && <Copy text={code} label="Copy the code" />}
      </div>
      {(hasOutput || call.attachments.length > 0) && (
        <div class={call.attachments.length > 0 && hasOutput ? "out two" : "out"}>
          {hasOutput && <Output stdout={output.stdout} stderr={output.stderr} />}
          {call.attachments.length > 0 && (
            <div class="figures">
              {call.attachments.map((image, at) => (
                <Figure key={at} url={image.url} label={`Figure ${at + 1} of ${labelOf(call.name)}`} />
              ))}
            </div>
          )}
        </div>
      )}
    </div>
  );
}

/** The run that the call is, inside the row. */
function ChildRun({ id }: { id: string }): VNode {
  const [run, setRun] = useState<RunState | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    readRun(id).then(setRun, (error: unknown) => setProblem(error instanceof Error ? error.message : String(error)));
  }, [id]);
  const cite = useMemo(() => () => null, []);
  if (problem !== "") return <p class="body repairs small fail">{shown(problem)}</p>;
  if (run === null) return <p class="body repairs small t3">Reading the run…</p>;
  return (
    <div class="body child-run">
      {roundsOf(run).map((round, at, all) => (
        <section key={at} class={at === all.length - 1 ? "round last" : "round"} aria-label={`Round ${round.number + 1} of the child`}>
          <span class="knot" aria-hidden="true">
            {round.number + 1}
          </span>
          {round.parts.map((part, number) => (part.kind === "text" ? <TextView key={number} part={part} cite={cite} hasCaret={false} /> : null))}
          {callsOf(round).length > 0 && (
            <div class="calls" role="list" aria-label="Calls of the child">
              {callsOf(round).map((one) => (
                <CallRow key={one.index} call={one} run={run} />
              ))}
            </div>
          )}
        </section>
      ))}
    </div>
  );
}

export function codeOf(call: Call): string {
  const source = call.changed ?? call.arguments;
  const values = valuesOf(source);
  if (values === null) return partialText(source, "code") ?? source;
  if (typeof values["code"] === "string") return values["code"].replace(/\n$/, "");
  if (Array.isArray(values["commands"])) return values["commands"].map(String).join("\n");
  return JSON.stringify(values, null, 2);
}

type Tab = "arguments" | "changes" | "result";

function Tabs({ call }: { call: Call }): VNode {
  changed(call);
  const hasResult = call.content !== "";
  const [tab, setTab] = useState<Tab>("result");
  const chosen: Tab = tab === "result" && !hasResult ? "arguments" : tab;
  const source = call.changed ?? call.arguments;
  const pretty = useMemo(() => prettyJson(source), [source]);
  const result = useMemo(() => prettyJson(call.content), [call.content]);
  const body = chosen === "arguments" ? pretty : result;
  const isJson = body.trimStart().startsWith("{") || body.trimStart().startsWith("[");
  return (
    <div class="body">
      <div class="seg small" role="tablist" aria-label="What to show">
        <button type="button" role="tab" aria-selected={chosen === "arguments"} onClick={() => setTab("arguments")}>
          Arguments
        </button>
        {call.changed !== null && (
          <button type="button" role="tab" aria-selected={chosen === "changes"} onClick={() => setTab("changes")}>
            Changes
          </button>
        )}
        <button type="button" role="tab" aria-selected={chosen === "result"} disabled={!hasResult} onClick={() => setTab("result")}>
          Result
        </button>
      </div>
      {call.repairs.length > 0 && <p class="small t2 repairs">Repaired: {call.repairs.map(shown).join("; ")}</p>}
      {call.problem !== "" && <p class="small fail repairs">{shown(call.problem)}</p>}
      {chosen === "result" && call.whole !== "" && (
        <p class="small repairs">
          <a class="lnk" href={api.fileAddress(call.whole)} download>
            The whole result as a file
          </a>
        </p>
      )}
      {chosen === "result" && call.content.length > LARGE ? (
        <p class="small t2 repairs">{bytes(call.content.length)} of result: shown in part</p>
      ) : null}
      {chosen === "changes" && <Changes before={prettyJson(call.arguments)} after={pretty} />}
      <pre class="code wrap" tabIndex={0} role="tabpanel" aria-label={chosen} hidden={chosen === "changes"}>
        {isJson ? <Highlighted text={body.slice(0, LARGE)} language="json" /> : <code>{shown(body.slice(0, LARGE))}</code>}
      </pre>
      {call.attachments.length > 0 && chosen === "result" && (
        <div class="figures">
          {call.attachments.map((image, at) => (
            <Figure key={at} url={image.url} label={`Picture ${at + 1} of ${labelOf(call.name)}`} />
          ))}
        </div>
      )}
    </div>
  );
}

function prettyJson(source: string): string {
  try {
    const read: unknown = JSON.parse(source);
    return typeof read === "object" && read !== null ? JSON.stringify(read, null, 2) : source;
  } catch {
    return source;
  }
}

const CHIPS = 3;

function Chips({ call }: { call: Call }): VNode {
  const sources = sourcesOf(call);
  const [isAll, setAll] = useState(false);
  const rest = sources.length - CHIPS;
  return (
    <div class="body srcs">
      {sources.slice(0, isAll ? undefined : CHIPS).map((source) => (
        <button type="button" key={source.number} class="src" id={`chip-${source.number}`} title={shown(source.url)} onClick={() => jumpToSource(source.number)}>
          <b>{source.number}</b>
          <span class="cut">{shown(shortAddress(source.url))}</span>
        </button>
      ))}
      {rest > 0 && !isAll && (
        <button type="button" class="src" aria-label={`${rest} more sources`} onClick={() => setAll(true)}>
          +{rest}
        </button>
      )}
    </div>
  );
}

function shortAddress(url: string): string {
  try {
    const { host, pathname } = new URL(url);
    return pathname.length > 1 && pathname.length < 24 ? host + pathname : host;
  } catch {
    return hostOf(url);
  }
}
