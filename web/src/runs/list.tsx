// All runs of this owner: by state, agent and words; two of them can be chosen and compared.
import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RunRow, RunSummary } from "../api";
import { api } from "../api";
import { announce } from "../announce";
import { now } from "../clock";
import { cost, plural, seconds, tokens, when, whenExactly, whole, dateOf } from "../format";
import { address, go, place } from "../router";
import { changes, isFed } from "../store/feed";
import { facts, models } from "../store/server";
import { shown } from "../visible";
import { useVirtual } from "../virtual";
import { Icon, Spinner } from "../views/icon";
import { openLayer } from "../views/panes";
import { useViewKeys } from "../views/view-keys";
import { type RunLine, RunList, lineOf, stateWord, wantLine } from "./rows";

const EVERY_MS = 4000; // where no changes are told
const ROW = 40;
const PHONE_ROW = 64;
const STATES = [
  { state: "", name: "All" },
  { state: "running", name: "Running" },
  { state: "waiting", name: "Waiting" },
  { state: "failed", name: "Failed" },
] as const;

const SPANS = [
  { hours: 1, name: "Last hour" },
  { hours: 24, name: "Last 24 hours" },
  { hours: 168, name: "Last 7 days" },
  { hours: 720, name: "Last 30 days" },
  { hours: 0, name: "All time" },
] as const;
const USUAL_HOURS = 168;
const TYPING_MS = 250; // between the last letter and the question to the server

export function Runs(): VNode {
  const { query } = place.value;
  const state = query.get("state") ?? "";
  const agent = query.get("agent") ?? "";
  const model = query.get("model") ?? "";
  const session = query.get("session") ?? "";
  const words = query.get("q") ?? "";
  const children = query.get("children") ?? "";
  const span = query.get("hours") ?? "";
  const hours = SPANS.find((one) => String(one.hours) === span)?.hours ?? USUAL_HOURS;
  const [typed, setTyped] = useState(words);
  const asked = useRef(words);
  const list = useMemo(() => new RunList({ state, agent, model, session, words, hours, children: children !== "false" }), [state, agent, model, session, words, hours, children]);
  const [chosen, setChosen] = useState<string[]>(() => (query.get("with") === null ? [] : [query.get("with") ?? ""]));
  const search = useRef<HTMLInputElement>(null);
  useEffect(() => {
    void list.refresh();
    const timer = setInterval(() => !document.hidden && !isFed.value && void list.refresh(), EVERY_MS);
    return () => clearInterval(timer);
  }, [list]);
  useEffect(() => {
    if (changes.value > 0) void list.refresh();
  }, [changes.value]);
  useEffect(() => {
    if (typed === words) return;
    const timer = setTimeout(() => {
      asked.current = typed;
      change({ q: typed });
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  useEffect(() => {
    if (words !== asked.current) setTyped(words); // the address was changed by other means: back, or a link
    asked.current = words;
  }, [words]);
  const change = (part: Record<string, string>) => {
    const next = { state, agent, model, session, children, hours: span, q: words, ...part };
    go(address("runs", "", Object.fromEntries(Object.entries(next).filter(([, value]) => value !== ""))), "q" in part);
  };
  const lines = list.rows.value.map((row) => ({ row, line: lineOf(row) }));
  const choose = (id: string) => {
    const next = chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen.slice(-1), id];
    setChosen(next);
    announce(next.length === 0 ? "No run is chosen" : `${plural(next.length, "run")} chosen`);
  };
  const compare = () => {
    const [a, b] = chosen;
    if (a !== undefined && b !== undefined) go(address("runs", "compare", { a, b }));
  };
  useViewKeys((event) => {
    if (event.key === "/") search.current?.focus();
    else if (event.key === "c" && chosen.length === 2) compare();
    else return false;
    return true;
  });
  const summary = list.summary.value;
  const sums = summary === null ? null : sumsOf(lines.map(({ line }) => line), list.rows.value, summary);
  const total = summary === null ? 0 : Object.values(summary.states).reduce((sum, count) => sum + count, 0);
  const isFiltered = state !== "" || agent !== "" || model !== "" || session !== "" || words !== "" || children !== "";
  return (
    <>
      <div class="bar">
        <button type="button" class="ic only-phone" aria-label="Sessions and views" onClick={() => openLayer("sidebar")}>
          <Icon name="menu" />
        </button>
        <div class="bar-title">
          <h1>Runs</h1>
        </div>
        <span class="t3 small num hide-phone">{summary === null ? "" : hours === 0 ? plural(total, "run") : `${whole(total)} in the ${SPANS.find((one) => one.hours === hours)?.name.toLowerCase() ?? ""}`}</span>
        <label class="end btn sm choice">
          <Icon name="clock" small />
          <select aria-label="How far back" value={String(hours)} onChange={(event) => change({ hours: event.currentTarget.value === String(USUAL_HOURS) ? "" : event.currentTarget.value })}>
            {SPANS.map((one) => (
              <option key={one.hours} value={String(one.hours)}>{one.name}</option>
            ))}
          </select>
          <Icon name="chevron-down" small />
        </label>
        <span class="row small t2 live-word">
          <span class={list.problem.value === null ? "dot live" : "dot fail"} /> {list.problem.value === null ? "Live" : "No answer"}
        </span>
      </div>
      {list.problem.value !== null && (
        <div class="banner fail" role="alert">
          <span class="grow">{shown(list.problem.value.message)}</span>
          <button type="button" class="btn sm" onClick={() => void list.refresh()}>
            Try now
          </button>
        </div>
      )}
      {sums !== null && total > 0 && <Strip sums={sums} />}
      <div class="fbar">
        <div class="seg" role="group" aria-label="State">
          {STATES.map((one) => (
            <button key={one.state} type="button" aria-pressed={state === one.state} onClick={() => change({ state: one.state })}>
              {one.name} {one.state !== "" && <span class="t3 num">{summary?.states[one.state] ?? ""}</span>}
            </button>
          ))}
        </div>
        {agent !== "" && <FilterChip words="Agent is" value={agent} drop={() => change({ agent: "" })} />}
        {model !== "" && <FilterChip words="Model is" value={model} drop={() => change({ model: "" })} />}
        {children === "false" && <FilterChip words="No" value="children" drop={() => change({ children: "" })} />}
        {session !== "" && <FilterChip words="Session is" value={session} drop={() => change({ session: "" })} />}
        <AddFilter lines={lines.map(({ line }) => line)} agent={agent} model={model} children={children} change={change} />
        <label class="field search-field end">
          <Icon name="search" small />
          <input ref={search} type="search" aria-label="Words, id, session" placeholder="Words, id, session" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
          <kbd class="hide-phone">/</kbd>
        </label>
      </div>
      {list.isRead.value && lines.length === 0 ? (
        <Nothing isFiltered={isFiltered || hours !== 0} clear={() => go(address("runs", "", { hours: "0" }))} />
      ) : (
        <Table list={list} lines={lines} chosen={chosen} choose={choose} byAgent={(name) => change({ agent: name })} />
      )}
      {chosen.length > 0 && (
        <div class="selbar" role="group" aria-label="Chosen runs">
          <span class="small strong">{chosen.length === 1 ? "1 chosen: choose another to compare" : `${chosen.length} chosen`}</span>
          <button type="button" class="btn sm ink" disabled={chosen.length < 2} onClick={compare}>
            <Icon name="columns" small /> Compare <kbd>C</kbd>
          </button>
          {chosen.map((id, at) => (
            <a key={id} class="btn sm" href={api.cassetteAddress(id)} download={`${id}.jsonl`} aria-label={`Cassette of ${shown(id)}`}>
              <Icon name="download" small /> Cassette{chosen.length > 1 ? ` ${"AB"[at] ?? ""}` : ""}
            </a>
          ))}
          <button type="button" class="ic sm" aria-label="Choose none" onClick={() => setChosen([])}>
            <Icon name="x" small />
          </button>
        </div>
      )}
    </>
  );
}

function FilterChip({ words, value, drop }: { words: string; value: string; drop: () => void }): VNode {
  return (
    <span class="fchip">
      {words} <b class="cut">{shown(value)}</b>
      <button type="button" class="chip-x" aria-label={`Not only ${words.toLowerCase()} ${shown(value)}`} onClick={drop}>
        <Icon name="x" small />
      </button>
    </span>
  );
}

function Nothing({ isFiltered, clear }: { isFiltered: boolean; clear: () => void }): VNode {
  return (
    <div class="none big">
      <span class="ico">
        <Icon name={isFiltered ? "search" : "runs"} />
      </span>
      <b class="strong">{isFiltered ? "No run fits these filters" : "There is no run yet"}</b>
      <p>{isFiltered ? "Words are looked for in what was asked, models, agents and ids." : "Ask something in Chat, or send a request to this server: each is a run, and is kept here."}</p>
      {isFiltered ? (
        <button type="button" class="btn sm" onClick={clear}>
          Show all runs
        </button>
      ) : (
        <a class="btn sm" href={address("chat")}>
          Open Chat
        </a>
      )}
    </div>
  );
}

/** One more thing to choose by: what the rows that are listed have, and what the server has. */
function AddFilter({ lines, agent, model, children, change }: { lines: RunLine[]; agent: string; model: string; children: string; change: (part: Record<string, string>) => void }): VNode {
  const agents = [...new Set([...lines.map((line) => line.agent), ...models.value.map((one) => one.id)])].filter((name) => name !== "" && name !== "default" && !(facts.value?.model ?? "").endsWith(name));
  const names = [...new Set(lines.map((line) => line.model ?? ""))].filter((name) => name !== "");
  const add = (value: string) => {
    const [kind, ...rest] = value.split(" ");
    const name = rest.join(" ");
    if (kind === "agent") change({ agent: agent === "" ? name : `${agent},${name}` });
    else if (kind === "model") change({ model: model === "" ? name : `${model},${name}` });
    else change({ children: "false" });
  };
  const chosen = new Set([...agent.split(","), ...model.split(",")]);
  return (
    <label class="fchip add choice">
      <Icon name="plus" small /> Filter
      <select aria-label="Add a filter" value="" onChange={(event) => { if (event.currentTarget.value !== "") add(event.currentTarget.value); event.currentTarget.value = ""; }}>
        <option value="">Filter</option>
        {children === "" && <option value="children">No children</option>}
        {agents.some((name) => !chosen.has(name)) && (
          <optgroup label="Agent">
            {agents.filter((name) => !chosen.has(name)).map((name) => <option key={name} value={`agent ${name}`}>{shown(name)}</option>)}
          </optgroup>
        )}
        {names.some((name) => !chosen.has(name)) && (
          <optgroup label="Model">
            {names.filter((name) => !chosen.has(name)).map((name) => <option key={name} value={`model ${name}`}>{shown(name)}</option>)}
          </optgroup>
        )}
      </select>
    </label>
  );
}

interface TableProps {
  list: RunList;
  lines: { row: RunRow; line: RunLine }[];
  chosen: string[];
  choose: (id: string) => void;
  byAgent: (name: string) => void;
}

function Table({ list, lines, chosen, choose, byAgent }: TableProps): VNode {
  const box = useRef<HTMLDivElement>(null);
  const isPhone = matchMedia("(max-width: 599px)").matches;
  const height = isPhone ? PHONE_ROW : ROW;
  const virtual = useVirtual({ count: lines.length, scroll: box, estimate: () => height, key: (at) => lines[at]?.row.id ?? at, overscan: 8 });
  const items = virtual.getVirtualItems();
  const isNear = items.at(-1)?.index === lines.length - 1;
  useEffect(() => {
    if (isNear && list.hasMore) void list.more();
  }, [isNear, lines.length]);
  return (
    <div ref={box} class="runs-box" tabIndex={0} aria-label="List of runs" role="region">
      <div class="runs-table" role="table" aria-label="Runs" aria-rowcount={lines.length + 1}>
        <div role="row" class="run-row head">
          <span role="columnheader" class="pick-cell"><span class="vh">Chosen</span></span>
          <span role="columnheader">State</span>
          <span role="columnheader">Asked</span>
          <span role="columnheader" class="c-agent">Agent</span>
          <span role="columnheader" class="c-model">Model</span>
          <span role="columnheader" class="r c-rounds">Rounds</span>
          <span role="columnheader" class="r c-calls">Calls</span>
          <span role="columnheader" class="r c-tokens">Tokens</span>
          <span role="columnheader" class="r c-cost">Cost</span>
          <span role="columnheader" class="r c-time">Time</span>
          <span role="columnheader" class="r c-when">Started</span>
        </div>
        <div ref={virtual.sized} class="sized" role="rowgroup">
          <div ref={virtual.moved} role="presentation">
            {items.map((item) => {
              const found = lines[item.index];
              return found === undefined ? null : (
                <Row key={found.row.id} row={found.row} line={found.line} index={item.index} isChosen={chosen.includes(found.row.id)} choose={choose} byAgent={byAgent} />
              );
            })}
          </div>
        </div>
      </div>
    </div>
  );
}

interface RowProps {
  row: RunRow;
  line: RunLine;
  index: number;
  isChosen: boolean;
  choose: (id: string) => void;
  byAgent: (name: string) => void;
}

function Row({ row, line, index, isChosen, choose, byAgent }: RowProps): VNode {
  useEffect(() => wantLine(row), [row.id, row.state]);
  const isOpen = line.endedAt === null;
  const took = (line.endedAt ?? now.value) - line.createdAt;
  const model = line.model?.replace(/^[\w-]+:/, "") ?? "";
  return (
    <div role="row" class={isChosen ? "run-row on" : "run-row"} aria-rowindex={index + 2} onClick={(event) => open(event, line.id)}>
      <span role="cell" class="pick-cell">
        <button type="button" class={isChosen ? "cb on" : "cb"} role="checkbox" aria-checked={isChosen} aria-label={`Choose ${shown(line.asked)}`} onClick={() => choose(line.id)}>
          {isChosen && <Icon name="check" small />}
        </button>
      </span>
      <span role="cell" class="st">
        <StateIcon line={line} /> {stateWord(line)}
      </span>
      <span role="cell" class="what cut">
        <a class="strong" href={address("runs", line.id)}>{shown(line.asked)}</a>
        <Aside line={line} />
      </span>
      <span role="cell" class="cut c-agent">
        {line.agent === "" ? "" : (
          <button type="button" class="plain" title="Only runs of this agent" onClick={() => byAgent(line.agent)}>
            {shown(line.agent)}
          </button>
        )}
      </span>
      <span role="cell" class="cut t2 c-model" title={line.model ?? ""}>{shown(model)}</span>
      <span role="cell" class="r c-rounds">{line.rounds ?? ""}</span>
      <span role="cell" class="r c-calls">{line.calls ?? ""}</span>
      <span role="cell" class="r c-tokens">{line.tokens === null ? "" : tokens(line.tokens)}</span>
      <span role="cell" class={line.cost === null ? "r c-cost t3" : "r c-cost"}>{line.model === null ? "" : line.model.startsWith("local:") ? "free" : line.cost === null ? "unknown" : cost(line.cost)}</span>
      <span role="cell" class="r c-time">{line.state === "queued" ? "" : seconds(Math.max(0, took))}</span>
      <span role="cell" class="r t2 c-when">{isOpen && took < 60 ? "now" : whenExactly(line.createdAt, now.value * 1000)}</span>
    </div>
  );
}

/** A click anywhere in a row opens it; what can be pressed inside it does its own. */
function open(event: MouseEvent, id: string): void {
  const target = event.target instanceof Element ? event.target : null;
  if (target === null || target.closest("a, button") !== null || event.ctrlKey || event.metaKey || getSelection()?.isCollapsed === false) return;
  go(address("runs", id));
}

function Aside({ line }: { line: RunLine }): VNode | null {
  if (line.state === "waiting" && line.waitsFor !== "") return <span class="wait small">· {shown(line.waitsFor)} waits for you</span>;
  const end = line.end;
  if (end === null) return null;
  if (line.state === "failed") return <span class="fail small">· {shown([end.code, end.message].filter((one) => one).join(": ").slice(0, 160))}</span>;
  if (end.limit) return <span class="t3 small">· {end.limit}</span>;
  return null;
}

export function StateIcon({ line }: { line: { state: string; end: { reason: string } | null } }): VNode {
  switch (line.state) {
    case "running":
      return <span class="dot live" />;
    case "waiting":
      return <span class="dot wait" />;
    case "queued":
      return <Icon name="list" small class="t3" />;
    case "failed":
      return <Icon name="alert" small class="fail" />;
    case "cancelled":
      return <Icon name="ban" small class="t3" />;
    default:
      return <Icon name={line.end?.reason === "limit" ? "clock" : "check"} small class="t3" />;
  }
}

interface Sums {
  bars: { all: number; failed: number; isLive: boolean }[];
  from: number;
  finished: number;
  ended: number;
  median: number | null;
  slow: number | null;
  tokens: number;
  cost: number;
  unpriced: number;
  counted: number;
  /** Per cent of what the models have read. */
  cached: number | null;
}

/** States and times of beginning are counted by the server; durations, tokens and cost are of the rows that are listed. */
function sumsOf(lines: RunLine[], rows: RunRow[], summary: RunSummary): Sums {
  const times = lines.filter((line) => line.endedAt !== null).map((line) => (line.endedAt ?? 0) - line.createdAt).sort((a, b) => a - b);
  const bars = summary.histogram.map(({ states }, at) => ({
    all: Object.values(states).reduce((sum, count) => sum + count, 0),
    failed: (states["failed"] ?? 0) + (states["interrupted"] ?? 0),
    isLive: at === summary.histogram.length - 1,
  }));
  const states = summary.states;
  const finished = states["finished"] ?? 0;
  const counted = lines.filter((line) => line.tokens !== null);
  return {
    bars,
    from: summary.since,
    finished,
    ended: finished + (states["failed"] ?? 0) + (states["cancelled"] ?? 0) + (states["interrupted"] ?? 0),
    median: times.length === 0 ? null : (times[Math.floor(times.length / 2)] ?? null),
    slow: times.length === 0 ? null : (times[Math.min(times.length - 1, Math.floor(times.length * 0.95))] ?? null),
    tokens: counted.reduce((sum, line) => sum + (line.tokens ?? 0), 0),
    cost: lines.reduce((sum, line) => sum + (line.cost ?? 0), 0),
    unpriced: lines.filter((line) => line.cost === null && !(line.model ?? "").startsWith("local:")).length,
    counted: counted.length,
    cached: cachedShare(rows),
  };
}

function cachedShare(rows: RunRow[]): number | null {
  const sum = (name: "input_tokens" | "cached_tokens") => rows.reduce((total, row) => total + (row.usage?.[name] ?? 0), 0);
  return sum("cached_tokens") === 0 ? null : Math.round((100 * sum("cached_tokens")) / sum("input_tokens"));
}

function Strip({ sums }: { sums: Sums }): VNode {
  const isFree = (facts.value?.model ?? "").startsWith("local:") && sums.cost === 0;
  return (
    <div class="strip">
      <div>
        <Histogram bars={sums.bars} />
        <div class="hist-foot small t3 num">
          <span>{day(sums.from)}</span>
          <span>{day((2 * sums.from + Date.now() / 1000) / 3)}</span>
          <span>{day((sums.from + Date.now() / 500) / 3)}</span>
          <span>now</span>
        </div>
      </div>
      <div>
        <div class="small t3">Finished</div>
        <div class="figure num">{sums.ended === 0 ? "–" : `${Number(((100 * sums.finished) / sums.ended).toFixed(1))} %`}</div>
        <div class="small t3 num">{whole(sums.finished)} of {whole(sums.ended)}</div>
      </div>
      <div>
        <div class="small t3">Time, median</div>
        <div class="figure num">{sums.median === null ? "–" : seconds(sums.median)}</div>
        <div class="small t3 num">{sums.slow === null ? "" : `95th ${seconds(sums.slow)}`}</div>
      </div>
      <div>
        <div class="small t3">Tokens</div>
        <div class="figure num">{tokens(sums.tokens)}</div>
        <div class="small t3 num">{sums.cached === null ? `of ${plural(sums.counted, "run")}` : `${sums.cached} % cached`}</div>
      </div>
      <div>
        <div class="small t3">Cost</div>
        <div class={sums.cost > 0 || isFree ? "figure num" : "figure num t3"}>{sums.cost > 0 ? cost(sums.cost) : isFree ? "free" : "unknown"}</div>
        <div class="small t3 num">{sums.unpriced > 0 && !isFree ? `${plural(sums.unpriced, "run")} unpriced` : ""}</div>
      </div>
    </div>
  );
}

/** A place on the axis: an hour of today, a date else. */
function day(at: number): string {
  return Date.now() / 1000 - at < 86_400 ? when(at, Date.now()) : dateOf(at);
}

function Histogram({ bars }: { bars: Sums["bars"] }): VNode {
  const box = useRef<HTMLDivElement>(null);
  const most = Math.max(1, ...bars.map((bar) => bar.all));
  useEffect(() => {
    [...(box.current?.children ?? [])].forEach((column, at) => {
      const bar = bars[at];
      const [failed, rest] = column.children as never as [HTMLElement, HTMLElement];
      if (bar === undefined) return;
      failed.style.height = `${(100 * bar.failed) / most}%`;
      rest.style.height = `${(100 * (bar.all - bar.failed)) / most}%`;
    });
  });
  return (
    <div ref={box} class="hist" aria-hidden="true">
      {bars.map((bar, at) => (
        <i key={at}>
          <b class="f" />
          <b class={bar.isLive ? "a" : ""} />
        </i>
      ))}
    </div>
  );
}

export function Loading({ words }: { words: string }): VNode {
  return (
    <div class="none">
      <Spinner />
      <p>{words}</p>
    </div>
  );
}
