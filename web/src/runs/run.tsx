// One run as a waterfall: what took how long, followed while it goes on, played again, and branched from.
import type { VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { announce } from "../announce";
import { api } from "../api";
import { changed } from "../changes";
import { now } from "../clock";
import { type RunState, phaseOf } from "../fold/state";
import { wordsOf } from "../fold/turns";
import { clock, plural, seconds, spent, tokens } from "../format";
import { address, go, place } from "../router";
import { placeWords, useQueuePlace } from "../store/queued";
import { sessions } from "../store/sessions";
import { shown } from "../visible";
import { Copy } from "../views/code";
import { Icon, Spinner } from "../views/icon";
import { useViewKeys } from "../views/view-keys";
import { BranchDialog } from "./branch";
import { Loading } from "./list";
import { RunLog } from "./log";
import { SpanDetails } from "./pane";
import { Player, type Replay, useReplay } from "./replay";
import { type Span, scaleOf } from "./spans";
import { Waterfall } from "./waterfall";

export function RunView({ id }: { id: string }): VNode {
  const log = useMemo(() => new RunLog(id).open(), [id]);
  useEffect(() => () => log.close(), [log]);
  changed(log);
  if (log.isMissing.value) {
    return (
      <>
        <div class="bar">
          <Crumb />
          <h1 class="cut">{shown(id)}</h1>
        </div>
        <div class="none big">
          <span class="ico">
            <Icon name="search" />
          </span>
          <b class="strong">There is no such run</b>
          <p>It is not yours, or it is not kept any more.</p>
          <a class="btn sm" href={address("runs")}>All runs</a>
        </div>
      </>
    );
  }
  if (log.events.length === 0) return <Loading words="Reading the run…" />;
  return <Opened key={id} log={log} />;
}

export function Crumb(): VNode {
  return (
    <>
      <a class="t2 crumb hide-phone" href={address("runs")}>Runs</a>
      <Icon name="chevron-right" small class="t3 hide-phone" />
      <a class="ic only-phone" href={address("runs")} aria-label="All runs">
        <Icon name="chevron-left" />
      </a>
    </>
  );
}

/** Rows that are shown: those under a folded row are not; those of a child stand under its call once it is opened. */
function rowsOf(log: RunLog, folded: ReadonlySet<string>, opened: ReadonlySet<string>): Span[] {
  const rows: Span[] = [];
  let below = Number.POSITIVE_INFINITY;
  for (const span of log.spans()) {
    if (span.level > below) continue;
    below = folded.has(span.key) ? span.level : Number.POSITIVE_INFINITY;
    rows.push(span);
    if (span.child === "" || !opened.has(span.key)) continue;
    const child = log.child(span.child);
    changed(child);
    // The child's own rounds are left out: its calls say enough under the call that made it.
    rows.push(...child.spans(`${span.child}:`, span.level).filter((one) => one.kind !== "run" && one.kind !== "round").map((one) => ({ ...one, level: span.level + 1 })));
  }
  return rows;
}

function Opened({ log }: { log: RunLog }): VNode {
  changed(log);
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const rows = rowsOf(log, folded, opened);
  const isOver = log.run.end !== null;
  const end = isOver ? (log.events.at(-1)?.at ?? now.value) : now.value;
  const scale = scaleOf(rows, end);
  const wanted = place.value.query.get("span");
  const [key, setKey] = useState<string | null>(wanted);
  const chosen = rows.find((row) => row.key === key) ?? rows.findLast((row) => row.kind === "model") ?? rows[0];
  const [isBranching, setBranching] = useState(false);
  const [isDetailed, setDetailed] = useState(false);
  const replay = useReplay(log, scale);
  const select = (span: Span) => {
    setKey(span.key);
    go(address("runs", log.id, queryOf({ span: span.key })), true);
  };
  const toggle = (span: Span) => {
    const [set, put] = span.child !== "" ? ([opened, setOpened] as const) : ([folded, setFolded] as const);
    const next = new Set(set);
    if (!next.delete(span.key)) next.add(span.key);
    put(next);
  };
  const isExpanded = (span: Span) => (span.kind === "run" || span.kind === "round" ? !folded.has(span.key) : span.child === "" ? null : opened.has(span.key));
  const round = Math.max(0, chosen?.round ?? 0);
  useViewKeys((event) => keys(event, { rows, chosen, select, toggle, isExpanded, replay, branch: () => setBranching(true), compare: () => go(address("runs", "", { with: log.id })) }));
  useTelling(log.run);
  const title = wordsOf(log.run.question).split("\n")[0] || log.id;
  return (
    <>
      <div class="bar run-bar">
        <Crumb />
        <div class="bar-title">
          <h1 class="cut" title={shown(title)}>{shown(title)}</h1>
          <span class="small t3 num only-phone cut">{phoneFacts(log)}</span>
        </div>
        <StatePill run={log.run} />
        <span class="mono-s t3 wide run-id">{shown(log.id)}</span>
        <span class="wide"><Copy text={log.id} label="Copy the name of the run" /></span>
        <span class="end row run-acts">
          <button type="button" class="ic only-phone" aria-label={replay.isPlaying ? "Pause" : "Replay"} onClick={replay.toggle}>
            <Icon name={replay.isPlaying ? "pause" : "play"} />
          </button>
          <RunActions log={log} round={round} branch={() => setBranching(true)} />
        </span>
      </div>
      <Facts log={log} busy={scale.busy} waited={scale.waited} />
      <div class="split">
        <div class="wfall">
          <Waterfall log={log} rows={rows} scale={scale} chosen={chosen?.key ?? ""} select={(span) => { select(span); setDetailed(true); }} toggle={toggle} isExpanded={isExpanded} cursor={replay.isActive ? replay.at : null} />
          <div class="phone-acts only-phone-block"><RunActions log={log} round={round} branch={() => setBranching(true)} /></div>
          <Player log={log} replay={replay} />
        </div>
        {chosen !== undefined && <SpanDetails key={chosen.key} log={log} span={chosen} scale={scale} isShown={isDetailed} close={() => setDetailed(false)} />}
      </div>
      {isBranching && <BranchDialog log={log} round={round} close={() => setBranching(false)} />}
    </>
  );
}

function queryOf(part: Record<string, string>): Record<string, string> {
  const query = Object.fromEntries(place.value.query);
  return { ...query, ...part };
}

function RunActions({ log, round, branch }: { log: RunLog; round: number; branch: () => void }): VNode {
  const isOver = log.run.end !== null;
  return (
    <>
      <button type="button" class="btn sm" onClick={branch}>
        <Icon name="branch" small /> <span class="hide-phone">Branch from round {round + 1}…</span><span class="only-phone">Branch…</span> <kbd class="wide">B</kbd>
      </button>
      <a class="btn sm" href={address("runs", "", { with: log.id })}>
        <Icon name="columns" small /> Compare… <kbd class="wide">C</kbd>
      </a>
      <a class="btn sm" href={api.cassetteAddress(log.id)} download={`${log.id}.jsonl`}>
        <Icon name="download" small /> Cassette
      </a>
      {!isOver && (
        <button type="button" class="btn sm danger" onClick={() => void api.cancel(log.id).catch(() => undefined)}>
          <Icon name="stop" small /> Stop run
        </button>
      )}
    </>
  );
}

interface KeyContext {
  rows: Span[];
  chosen: Span | undefined;
  select: (span: Span) => void;
  toggle: (span: Span) => void;
  isExpanded: (span: Span) => boolean | null;
  replay: Replay;
  branch: () => void;
  compare: () => void;
}

function keys(event: KeyboardEvent, { rows, chosen, select, toggle, isExpanded, replay, branch, compare }: KeyContext): boolean {
  const at = chosen === undefined ? -1 : rows.findIndex((row) => row.key === chosen.key);
  const isOnControl = event.target instanceof Element && event.target.closest("button, a, [role=slider], [role=tab], pre") !== null;
  switch (event.key) {
    case "j":
    case "ArrowDown":
    case "k":
    case "ArrowUp": {
      if (isOnControl) return false;
      const next = rows[at + (event.key === "j" || event.key === "ArrowDown" ? 1 : -1)];
      if (next !== undefined) select(next);
      return true;
    }
    case "ArrowRight":
    case "ArrowLeft": {
      if (isOnControl || chosen === undefined) return false;
      const state = isExpanded(chosen);
      if (state === null || state === (event.key === "ArrowRight")) return false;
      toggle(chosen);
      return true;
    }
    case " ":
      if (isOnControl) return false;
      replay.toggle();
      return true;
    case "[":
      replay.step(-1);
      return true;
    case "]":
      replay.step(1);
      return true;
    case "b":
      branch();
      return true;
    case "c":
      compare();
      return true;
    default:
      return false;
  }
}

function useTelling(run: RunState): void {
  changed(run);
  const phase = phaseOf(run);
  useEffect(() => {
    announce(phase === "waiting" ? "The run waits for a decision" : phase === "running" ? "The run goes on" : phase === "finished" ? `The run is over: ${endWord(run)}` : "The run is in the queue");
  }, [phase]);
}

export function endWord(run: RunState): string {
  const reason = run.end?.reason;
  return reason === "failed" || reason === "interrupted" ? "failed" : reason === "cancelled" ? "cancelled" : reason === "limit" ? "limit" : "finished";
}

export function StatePill({ run }: { run: RunState }): VNode {
  changed(run);
  const place = useQueuePlace(run);
  if (place !== null) return <span class="pill">Queued · {placeWords(place)}</span>;
  switch (phaseOf(run)) {
    case "queued":
      return <span class="pill">Queued</span>;
    case "running":
      return <span class="pill accent"><Spinner /> Running</span>;
    case "waiting":
      return <span class="pill wait"><span class="dot wait" /> Waiting</span>;
    case "finished": {
      const word = endWord(run);
      const name = word.charAt(0).toUpperCase() + word.slice(1);
      if (word === "failed") return <span class="pill fail"><Icon name="alert" small /> {name}</span>;
      if (word === "limit") return <span class="pill wait"><Icon name="clock" small /> {name}</span>;
      return <span class="pill"><Icon name={word === "cancelled" ? "ban" : "check"} small /> {name}</span>;
    }
  }
}

function phoneFacts({ run, agent }: RunLog): string {
  const all = run.usage.input + run.usage.output;
  return [agent.value || bare(run.model), plural(run.usage.rounds, "round"), all > 0 ? tokens(all) : "", spent(run.usage)].filter((one) => one !== "").join(" · ");
}

function bare(model: string): string {
  return model.replace(/^[\w-]+:/, "");
}

function Facts({ log, busy, waited }: { log: RunLog; busy: number; waited: number }): VNode {
  const { run } = log;
  changed(run);
  const { usage } = run;
  const all = usage.input + usage.output;
  const children = [...run.calls.values()].filter((call) => call.child !== "").length;
  const title = sessions.value.find((one) => one.id === run.session)?.title ?? run.session;
  const date = new Date(run.startedAt * 1000);
  return (
    <div class="run-facts small t2 num">
      <span>{log.agent.value !== "" && <span class="strong-text">{shown(log.agent.value)} · </span>}<span class={log.agent.value === "" ? "strong-text" : ""}>{shown(run.model)}</span></span>
      <span>{plural(usage.rounds, "round")}</span>
      {run.calls.size > 0 && <span>{plural(run.calls.size, "call")}</span>}
      {children > 0 && <span>{children === 1 ? "1 child" : `${children} children`}</span>}
      {all > 0 && <span>{tokens(all)} tokens{usage.input > 0 ? `, ${Math.round((100 * usage.cached) / usage.input)} % cached` : ""}</span>}
      <span>{spent(usage) || (run.model.startsWith("local:") ? "free" : "cost unknown")}</span>
      <span>{seconds(busy)} of work{waited >= 0.5 ? `, ${seconds(waited)} of waiting` : ""}</span>
      <span class="end t3 cut">
        started {clock(run.startedAt)}:{String(date.getSeconds()).padStart(2, "0")}
        {run.session !== "" && (
          <>
            {" · session "}
            <a class="lnk" href={address("chat", run.session)}>{shown(title === "Untitled" ? run.session : title)}</a>
          </>
        )}
      </span>
    </div>
  );
}
