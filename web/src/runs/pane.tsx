// What is known of one span: figures, what was asked and said, and the events it is made of.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Problem, type RoundRequest, api } from "../api";
import { changed } from "../changes";
import type { RunEvent, Usage } from "../events.gen";
import { type Call, textOf } from "../fold/state";
import { wordsOf } from "../fold/turns";
import { cost, plural, seconds, whole } from "../format";
import { address, go, place } from "../router";
import { facts } from "../store/server";
import { lookNow } from "../stream";
import { kindOf, summaryOf, valuesOf } from "../tools";
import { shown } from "../visible";
import { codeOf } from "../views/call";
import { Copy, Highlighted } from "../views/code";
import { Files } from "../views/file";
import { Icon } from "../views/icon";
import type { RunLog } from "./log";
import { Sent } from "./sent";
import type { Scale, Span } from "./spans";
import { spokenBefore } from "./turns";
import { stamp, tone } from "./waterfall";

type Tab = "request" | "response" | "thinking" | "arguments" | "result" | "events" | "question";

interface DetailsProps {
  log: RunLog;
  span: Span;
  scale: Scale;
  /** On a phone the details lie over the page, once a row was pressed. */
  isShown: boolean;
  close: () => void;
}

export function SpanDetails({ log, span, scale, isShown, close }: DetailsProps): VNode {
  // A span of a child has its own log.
  const child = [...log.children.values()].find((one) => span.key.startsWith(`${one.id}:`));
  const own = child ?? log;
  changed(own);
  const tabs = tabsOf(span);
  const [tab, put] = useState<Tab>((place.value.query.get("tab") as Tab | null) ?? tabs[0]?.[0] ?? "events");
  const setTab = (name: Tab) => {
    put(name);
    go(address("runs", log.id, { ...Object.fromEntries(place.value.query), tab: name }), true);
  };
  const current = tabs.some(([name]) => name === tab) ? tab : (tabs[0]?.[0] ?? "events");
  return (
    <aside class={isShown ? "det shown" : "det"} aria-label="Details">
      <div class="det-head">
        <div class="row">
          {span.round >= 0 && <span class="rn">{span.round + 1}</span>}
          <span class={span.kind === "tool" || span.kind === "child" || span.kind === "wait" ? "mono-name" : "strong"}>{shown(span.name)}</span>
          {span.kind === "model" && <span class="pill accent cut">{shown(own.run.model.replace(/^[\w-]+:/, ""))}</span>}
          {span.kind === "child" && <span class="pill child">child</span>}
          {span.kind === "wait" && <span class="pill wait">wait</span>}
          <span class="end small t3 num">
            {stamp(span.from - scale.start)} → {span.to === null ? "now" : stamp(span.to - scale.start)}
          </span>
          <button type="button" class="ic sm only-phone" aria-label="Close the details" onClick={close}>
            <Icon name="x" small />
          </button>
        </div>
        <Figures span={span} />
      </div>
      <div class="tabs" role="tablist" aria-label="Details of this span">
        {tabs.map(([name, words]) => (
          <button key={name} type="button" role="tab" id={`tab-${name}`} aria-controls="span-tab" aria-selected={current === name} tabIndex={current === name ? 0 : -1} onClick={() => setTab(name)} onKeyDown={(event) => walkTabs(event, tabs, name, setTab)}>
            {words}
          </button>
        ))}
      </div>
      <div id="span-tab" class="det-body" role="tabpanel" aria-labelledby={`tab-${current}`} tabIndex={0}>
        <TabBody log={own} span={span} tab={current} />
      </div>
    </aside>
  );
}

function tabsOf(span: Span): [Tab, string][] {
  switch (span.kind) {
    case "model":
      return [["request", "Request"], ["response", "Response"], ["thinking", "Thinking"], ["events", "Events"]];
    case "tool":
    case "child":
      return [["arguments", "Arguments"], ["result", "Result"], ["events", "Events"]];
    case "wait":
      return [["question", "Question"], ["events", "Events"]];
    default:
      return [["question", "Asked"], ["response", "Answer"], ["events", "Events"]];
  }
}

function walkTabs(event: KeyboardEvent, tabs: [Tab, string][], name: Tab, set: (tab: Tab) => void): void {
  const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
  const next = tabs[(tabs.findIndex(([one]) => one === name) + by + tabs.length) % tabs.length];
  if (by === 0 || next === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  set(next[0]);
  document.getElementById(`tab-${next[0]}`)?.focus();
}

function Figures({ span }: { span: Span }): VNode | null {
  const took = span.to === null ? null : span.to - span.from;
  if (span.kind !== "model") {
    return (
      <p class={`small det-line ${tone(span)}`}>
        {took === null ? "goes on" : seconds(took)}
        {span.note === "" ? "" : ` · ${shown(span.note)}`}
      </p>
    );
  }
  const usage = span.usage;
  const first = span.firstAt === null ? "first token unknown" : `first token ${seconds(span.firstAt - span.from)}`;
  const pace = usage?.output && took !== null && took > 0 ? `${Math.round(usage.output / Math.max(0.05, took - (span.firstAt === null ? 0 : span.firstAt - span.from)))} tok/s` : "";
  return (
    <>
      {usage !== null && <TokenBar usage={usage} />}
      {span.note !== "" && <p class={`small det-line ${tone(span)}`}>{shown(span.note)}</p>}
      <div class="row small t3 num det-line">
        <span>{took === null ? "goes on" : first}</span>
        <span>{pace}</span>
        <span>{plural(span.tries, "try", "tries")}</span>
        <span class="end strong-text">{usage?.cost ? cost(usage.cost) : "cost unknown"}</span>
      </div>
    </>
  );
}

function TokenBar({ usage }: { usage: Usage }): VNode {
  const box = useRef<HTMLDivElement>(null);
  const cached = Math.min(usage.cached ?? 0, usage.input ?? 0);
  const thinking = Math.min(usage.reasoning ?? 0, usage.output ?? 0);
  const parts = [
    { name: "Input, from the cache", count: cached, look: "cached" },
    { name: "Input, new", count: (usage.input ?? 0) - cached, look: "fresh" },
    { name: "Thinking", count: thinking, look: "thinks" },
    { name: "Answer and calls", count: (usage.output ?? 0) - thinking, look: "says" },
  ].filter((part) => part.count > 0);
  useLayoutEffect(() => {
    [...(box.current?.children ?? [])].forEach((one, at) => {
      (one as HTMLElement).style.flexGrow = String(parts[at]?.count ?? 0);
    });
  });
  return (
    <>
      <div ref={box} class="tok" role="img" aria-label={parts.map((part) => `${part.name}: ${whole(part.count)} tokens`).join(", ")}>
        {parts.map((part) => (
          <i key={part.name} class={part.look} />
        ))}
      </div>
      <div class="blk small t2">
        {parts.map((part) => (
          <div key={part.name}>
            <i class={part.look} aria-hidden="true" />
            <span class="grow">{part.name}</span>
            <span class="num">{whole(part.count)}</span>
          </div>
        ))}
      </div>
    </>
  );
}

function TabBody({ log, span, tab }: { log: RunLog; span: Span; tab: Tab }): VNode {
  const { run } = log;
  const call = span.callId === "" ? undefined : run.calls.get(span.callId);
  const round = run.steps.find((step) => step.kind === "round" && step.number === span.round);
  switch (tab) {
    case "request":
      return <Request log={log} span={span} />;
    case "response": {
      if (span.kind !== "model" && run.end?.answer) return <Text text={run.end.answer} />;
      if (round?.kind !== "round") return <Empty words="Nothing was said." />;
      const calls = round.parts.filter((part) => part.kind === "call");
      const text = textOf(round);
      if (text === "" && calls.length === 0) return <Empty words={span.state === "failed" ? shown(span.note) : "Nothing has been said yet."} />;
      return (
        <>
          {text !== "" && <Text text={text} />}
          {calls.map((one) => (
            <CallBlock key={one.id} call={one} />
          ))}
        </>
      );
    }
    case "thinking": {
      const text = round?.kind === "round" ? round.parts.map((part) => (part.kind === "reasoning" ? part.text : "")).join("") : "";
      return text === "" ? <Empty words="The model has shown no thinking in this round." /> : <Text text={text} />;
    }
    case "arguments":
      return call === undefined ? <Empty words="Not known." /> : <Arguments call={call} note={call.changed === null ? "" : "A person changed these; the model had written others."} />;
    case "result":
      return call === undefined || (call.content === "" && call.phase !== "done") ? (
        <Empty words={span.to === null ? "It still runs." : "There is no result."} />
      ) : (
        <>
          <Files calls={[call]} />
          {span.child !== "" && <p class="det-note"><a class="lnk" href={address("runs", span.child)}>Open the child’s own run</a></p>}
          <Json text={call.content} note="" />
        </>
      );
    case "question":
      return span.kind === "wait" ? <Decision log={log} span={span} call={call} /> : <Text text={wordsOf(run.question) || "There was no message of a person."} />;
    case "events":
      return <Events log={log} span={span} />;
  }
}

function Text({ text }: { text: string }): VNode {
  return <div class="det-text" dir="auto">{shown(text)}</div>;
}

function Empty({ words }: { words: string }): VNode {
  return <p class="det-note t3">{words}</p>;
}

function CallBlock({ call }: { call: Call }): VNode {
  return (
    <div class="det-call">
      <div class="small">
        <span class="mono-name">{shown(call.name)}</span> <span class="t3">{shown(summaryOf(call)).slice(0, 80)}</span>
      </div>
      <Arguments call={{ ...call, changed: null }} note="" />
    </div>
  );
}

/** Code as code: in JSON it would be one long line. */
function Arguments({ call, note }: { call: Call; note: string }): VNode {
  const kind = kindOf(call.name, call.child);
  if (kind === "python" || kind === "shell") return <Listing text={codeOf(call)} language={kind === "python" ? "python" : "bash"} note={note} />;
  return <Json text={call.changed ?? call.arguments} note={note} />;
}

const LARGE = 40_000; // characters that are coloured; more is plain text

function Json({ text, note }: { text: string; note: string }): VNode {
  const values = text.length > LARGE ? null : valuesOf(text);
  return <Listing text={values === null ? text : JSON.stringify(values, null, 2)} language={values === null ? "" : "json"} note={note} />;
}

/** `language`: "" where nothing is to be coloured. */
function Listing({ text, language, note }: { text: string; language: string; note: string }): VNode {
  const isPlain = language === "" || text.length > LARGE;
  return (
    <>
      {note !== "" && <p class="det-note t2 small">{note}</p>}
      <div class="det-code">
        <span class="det-copy"><Copy text={text} label="Copy" /></span>
        <pre class="code" tabIndex={0}>{isPlain ? <code>{shown(text.slice(0, 200_000))}</code> : <Highlighted text={text} language={language} />}</pre>
      </div>
    </>
  );
}

/** Exactly what was sent, where the server can write it again; else what the events say of it. */
function Request({ log, span }: { log: RunLog; span: Span }): VNode {
  const [found, setFound] = useState<RoundRequest | "reading" | "none">("reading");
  const [problem, setProblem] = useState("");
  const isKept = facts.value?.features.round_requests === true;
  useEffect(() => {
    let isCurrent = true;
    if (!isKept) {
      setFound("none");
      return;
    }
    api.roundRequest(log.id, span.round).then(
      (request) => isCurrent && setFound(request),
      (error: unknown) => {
        if (!isCurrent) return;
        setFound("none");
        if (error instanceof Problem && error.status !== 404 && error.status !== 405) setProblem(error.message);
      },
    );
    return () => {
      isCurrent = false;
    };
  }, [log.id, span.round, isKept]);
  if (found === "reading") return <Empty words="Reading…" />;
  if (found !== "none") return <Sent request={found} />;
  const turns = spokenBefore(log.events.map((one) => one.event), span.round);
  return (
    <>
      <p class="det-note small t2">
        {problem === "" ? "The exact request is not available: this server does not keep what it sends. " : `${shown(problem)} `}
        This is the conversation that it was made from, as the events tell it.
      </p>
      <Json text={JSON.stringify({ model: log.run.model, tools: log.run.tools, messages: turns })} note="" />
    </>
  );
}

function Decision({ log, span, call }: { log: RunLog; span: Span; call: Call | undefined }): VNode {
  const question = log.run.questions.find((one) => span.key.endsWith(`w${one.id}`));
  const [problem, setProblem] = useState("");
  const [isSending, setSending] = useState(false);
  const decide = (decision: "approve" | "deny") => {
    if (question === undefined) return;
    setSending(true);
    api.decide(question.id, { decision }).then(
      () => lookNow(),
      (error: unknown) => setProblem(error instanceof Problem && error.status === 404 ? "This was answered meanwhile." : String(error instanceof Error ? error.message : error)),
    ).finally(() => setSending(false));
  };
  const isOpen = question !== undefined && question.kind === "approval";
  return (
    <>
      {question?.message ? <p class="det-note">{shown(question.message)}</p> : null}
      <Json text={question?.arguments ?? call?.changed ?? call?.arguments ?? "{}"} note={isOpen ? "It would run with these arguments." : ""} />
      {call?.answer?.message ? <p class="det-note t2">“{shown(call.answer.message)}”</p> : null}
      {problem !== "" && <p class="det-note fail" role="alert">{shown(problem)}</p>}
      {isOpen && (
        <div class="row det-note">
          <button type="button" class="btn sm ink" disabled={isSending} onClick={() => decide("approve")}>Approve</button>
          <button type="button" class="btn sm danger" disabled={isSending} onClick={() => decide("deny")}>Deny</button>
          {log.run.session !== "" && <a class="btn sm quiet" href={address("chat", log.run.session)}>Edit it in the conversation</a>}
        </div>
      )}
    </>
  );
}

const MANY = 400; // events that are listed; of more, the last

function Events({ log, span }: { log: RunLog; span: Span }): VNode {
  const [open, setOpen] = useState(-1);
  const all = span.kind === "run" ? log.events.map((_, at) => at) : span.events;
  const start = log.events[0]?.at ?? 0;
  return (
    <>
      {all.length > MANY && <p class="det-note small t3">The last {MANY} of {whole(all.length)} events.</p>}
      <ol class="ev-list">
        {all.slice(-MANY).map((index) => {
          const one = log.events[index];
          if (one === undefined) return null;
          return (
            <li key={index}>
              <button type="button" class="ev" aria-expanded={open === index} onClick={() => setOpen(open === index ? -1 : index)}>
                <span class="mono-s t3 ev-pos">{one.position}</span>
                <span class="mono-s cut">{one.event.type}</span>
                <span class="small t3 cut grow">{shown(gist(one.event))}</span>
                <span class="small t3 num">{one.isKnown ? stamp(one.at - start) : `≈ ${stamp(one.at - start)}`}</span>
              </button>
              {open === index && <pre class="code ev-json" tabIndex={0}>{shown(JSON.stringify(one.event, null, 2).slice(0, 60_000))}</pre>}
            </li>
          );
        })}
      </ol>
    </>
  );
}

function gist(event: RunEvent): string {
  if ("text" in event && typeof event.text === "string") return event.text.slice(0, 60);
  if (event.type === "call_delta") return event.arguments.slice(0, 60);
  if ("reason" in event && typeof event.reason === "string") return event.reason;
  return "";
}
