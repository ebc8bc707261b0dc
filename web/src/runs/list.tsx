// All runs of this owner: by state, agent and words; two of them can be chosen and compared.
import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RunRow } from "../api";
import { api } from "../api";
import { announce } from "../announce";
import { now } from "../clock";
import { cost, plural, seconds, tokens, when } from "../format";
import { address, go, place } from "../router";
import { facts } from "../store/server";
import { shown } from "../visible";
import { useVirtual } from "../virtual";
import { Icon, Spinner } from "../views/icon";
import { openLayer } from "../views/panes";
import { useViewKeys } from "../views/view-keys";
import { type RunLine, RunList, fits, lineOf, stateWord, wantLine } from "./rows";

const EVERY_MS = 4000; // the server tells of changes in one run at a time: lists are asked for
const ROW = 40;
const PHONE_ROW = 64;
const STATES = [
  { state: "", name: "All" },
  { state: "running", name: "Running" },
  { state: "waiting", name: "Waiting" },
  { state: "failed", name: "Failed" },
] as const;

export function Runs(): VNode {
  const { query } = place.value;
  const state = query.get("state") ?? "";
  const agent = query.get("agent") ?? "";
  const session = query.get("session") ?? "";
  const words = query.get("q") ?? "";
  const list = useMemo(() => new RunList({ state, agent, session, words: "" }), [state, agent, session]);
  const [chosen, setChosen] = useState<string[]>(() => (query.get("with") === null ? [] : [query.get("with") ?? ""]));
  const search = useRef<HTMLInputElement>(null);
  useEffect(() => {
    void list.refresh();
    const timer = setInterval(() => !document.hidden && void list.refresh(), EVERY_MS);
    return () => clearInterval(timer);
  }, [list]);
  useEffect(() => {
    // Words can only be looked for in what is known: rows that are not drawn are read, too.
    if (words.trim() !== "") for (const row of list.rows.value) wantLine(row);
  }, [words, list.rows.value]);
  const change = (part: Record<string, string>) => {
    const next = { state, agent, session, q: words, ...part };
    go(address("runs", "", Object.fromEntries(Object.entries(next).filter(([, value]) => value !== ""))), "q" in part);
  };
  const lines = list.rows.value.map((row) => ({ row, line: lineOf(row) })).filter(({ line }) => words.trim() === "" || fits(line, words.trim()));
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
  const sums = useMemo(() => sumsOf(lines.map(({ line }) => line)), [lines]);
  return (
    <>
      <div class="bar">
        <button type="button" class="ic only-phone" aria-label="Sessions and views" onClick={() => openLayer("sidebar")}>
          <Icon name="menu" />
        </button>
        <div class="bar-title">
          <h1>Runs</h1>
        </div>
        <span class="t3 small num hide-phone">{list.isRead.value ? `${plural(list.rows.value.length, "run")}${list.hasMore ? ", and older ones" : ""}` : ""}</span>
        <span class="end row small t2 live-word">
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
      {lines.length > 1 && <Strip sums={sums} />}
      <div class="fbar">
        <div class="seg" role="group" aria-label="State">
          {STATES.map((one) => (
            <button key={one.state} type="button" aria-pressed={state === one.state} onClick={() => change({ state: one.state })}>
              {one.name} {one.state !== "" && <span class="t3 num">{list.counts.value[one.state] ?? ""}</span>}
            </button>
          ))}
        </div>
        {agent !== "" && <FilterChip words="Agent is" value={agent} drop={() => change({ agent: "" })} />}
        {session !== "" && <FilterChip words="Session is" value={session} drop={() => change({ session: "" })} />}
        <label class="field search-field end">
          <Icon name="search" small />
          <input ref={search} type="search" aria-label="Words, id, session" placeholder="Words, id, session" value={words} onInput={(event) => change({ q: event.currentTarget.value })} />
          <kbd class="hide-phone">/</kbd>
        </label>
      </div>
      {list.isRead.value && lines.length === 0 ? (
        <Nothing isFiltered={state !== "" || agent !== "" || session !== "" || words !== ""} clear={() => go(address("runs"))} />
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
      <p>{isFiltered ? "Words are looked for in the runs that are loaded." : "Ask something in Chat, or send a request to this server: each is a run, and is kept here."}</p>
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
          <button type="button" class="plain" title="Runs of this agent alone" onClick={() => byAgent(line.agent)}>
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
      <span role="cell" class="r t2 c-when">{isOpen && took < 60 ? "now" : when(line.createdAt, now.value * 1000)}</span>
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
  if (line.state === "waiting" && line.waitsFor !== "") return <span class="wait small"> · {shown(line.waitsFor)} waits for you</span>;
  const end = line.end;
  if (end === null) return null;
  if (line.state === "failed") return <span class="fail small"> · {shown([end.code, end.message].filter((one) => one).join(": ").slice(0, 160))}</span>;
  if (end.limit) return <span class="t3 small"> · {end.limit}</span>;
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
}

const BARS = 48;

/** Of the runs that are loaded: the server counts nothing over all of them yet. */
function sumsOf(lines: RunLine[]): Sums {
  const ended = lines.filter((line) => line.endedAt !== null);
  const times = ended.map((line) => (line.endedAt ?? 0) - line.createdAt).sort((a, b) => a - b);
  const from = Math.min(...lines.map((line) => line.createdAt), Date.now() / 1000);
  const step = Math.max(1, (Date.now() / 1000 - from) / BARS);
  const bars = Array.from({ length: BARS }, () => ({ all: 0, failed: 0, isLive: false }));
  for (const line of lines) {
    const bar = bars[Math.min(BARS - 1, Math.floor((line.createdAt - from) / step))];
    if (bar === undefined) continue;
    bar.all += 1;
    if (line.state === "failed") bar.failed += 1;
    if (line.endedAt === null) bar.isLive = true;
  }
  const counted = lines.filter((line) => line.tokens !== null);
  return {
    bars,
    from,
    finished: ended.filter((line) => line.state === "finished").length,
    ended: ended.length,
    median: times.length === 0 ? null : (times[Math.floor(times.length / 2)] ?? null),
    slow: times.length === 0 ? null : (times[Math.min(times.length - 1, Math.floor(times.length * 0.95))] ?? null),
    tokens: counted.reduce((sum, line) => sum + (line.tokens ?? 0), 0),
    cost: lines.reduce((sum, line) => sum + (line.cost ?? 0), 0),
    unpriced: lines.filter((line) => line.cost === null && !(line.model ?? "").startsWith("local:")).length,
    counted: counted.length,
  };
}

function Strip({ sums }: { sums: Sums }): VNode {
  const isFree = (facts.value?.model ?? "").startsWith("local:") && sums.cost === 0;
  return (
    <div class="strip">
      <div>
        <Histogram bars={sums.bars} />
        <div class="hist-foot small t3 num">
          <span>{when(sums.from, Date.now())}</span>
          <span>now</span>
        </div>
      </div>
      <div>
        <div class="small t3">Finished</div>
        <div class="figure num">{sums.ended === 0 ? "–" : `${Number(((100 * sums.finished) / sums.ended).toFixed(1))} %`}</div>
        <div class="small t3 num">{sums.finished} of {sums.ended}</div>
      </div>
      <div>
        <div class="small t3">Time, median</div>
        <div class="figure num">{sums.median === null ? "–" : seconds(sums.median)}</div>
        <div class="small t3 num">{sums.slow === null ? "" : `95th ${seconds(sums.slow)}`}</div>
      </div>
      <div>
        <div class="small t3">Tokens</div>
        <div class="figure num">{tokens(sums.tokens)}</div>
        <div class="small t3 num">in {plural(sums.counted, "run")}</div>
      </div>
      <div>
        <div class="small t3">Cost</div>
        <div class={sums.cost > 0 || isFree ? "figure num" : "figure num t3"}>{sums.cost > 0 ? cost(sums.cost) : isFree ? "free" : "unknown"}</div>
        <div class="small t3 num">{sums.unpriced > 0 && !isFree ? `${plural(sums.unpriced, "run")} unpriced` : ""}</div>
      </div>
    </div>
  );
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
