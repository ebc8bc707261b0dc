// Two runs side by side: figures, bars on one scale, steps aligned by name and arguments, and the words in which answers differ.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { changed } from "../changes";
import { now } from "../clock";
import { answerOf } from "../fold/state";
import { wordsOf } from "../fold/turns";
import { clock, plural, seconds, spent, tokens } from "../format";
import { address, place } from "../router";
import { shown } from "../visible";
import { Icon } from "../views/icon";
import { BranchDialog } from "./branch";
import { Loading } from "./list";
import { RunLog } from "./log";
import { Crumb } from "./run";
import { type CompareStep, type Pair, aligned, sameRounds, scaleOf, stepsOf } from "./spans";
import { spokenBefore } from "./turns";

type Tab = "steps" | "answer" | "requests";

interface Side {
  log: RunLog;
  steps: CompareStep[];
  time: number;
}

export function Compare(): VNode {
  const a = place.value.query.get("a") ?? "";
  const b = place.value.query.get("b") ?? "";
  const logs = useMemo(() => [new RunLog(a).open(), new RunLog(b).open()] as const, [a, b]);
  useEffect(() => () => logs.forEach((log) => log.close()), [logs]);
  for (const log of logs) changed(log);
  const missing = logs.find((log) => log.isMissing.value);
  if (missing !== undefined) {
    return (
      <div class="none big">
        <b class="strong">There is no run “{shown(missing.id)}”</b>
        <p>Choose two runs in the list, then compare them.</p>
        <a class="btn sm" href={address("runs")}>All runs</a>
      </div>
    );
  }
  if (logs.some((log) => log.events.length === 0)) return <Loading words="Reading both runs…" />;
  return <Both logs={logs} />;
}

function sideOf(log: RunLog): Side {
  const spans = log.spans();
  const end = log.run.end === null ? now.value : (log.events.at(-1)?.at ?? now.value);
  const scale = scaleOf(spans, end);
  return { log, steps: stepsOf(spans, (id) => log.run.calls.get(id)?.arguments ?? ""), time: scale.busy };
}

function Both({ logs }: { logs: readonly [RunLog, RunLog] }): VNode {
  const [tab, setTab] = useState<Tab>("steps");
  const [isShort, setShort] = useState(false);
  const [isBranching, setBranching] = useState(false);
  const sides = [sideOf(logs[0]), sideOf(logs[1])] as const;
  const pairs = aligned(sides[0].steps, sides[1].steps);
  const same = sameRounds(pairs);
  const title = wordsOf(logs[0].run.question).split("\n")[0] || "Two runs";
  const longest = Math.max(sides[0].time, sides[1].time, 0.05);
  return (
    <>
      <div class="bar run-bar">
        <Crumb />
        <div class="bar-title">
          <h1 class="cut">{shown(title)}</h1>
        </div>
        <span class="pill wide">2 runs{same > 0 ? `, the same up to round ${same}` : ""}</span>
        <span class="end row run-acts">
          <label class="row small t2 wide check-row">
            <input type="checkbox" checked={isShort} onChange={(event) => setShort(event.currentTarget.checked)} /> Differences only
          </label>
          <div class="seg" role="group" aria-label="What is compared">
            {(["steps", "answer", "requests"] as const).map((one) => (
              <button key={one} type="button" aria-pressed={tab === one} onClick={() => setTab(one)}>
                {one.charAt(0).toUpperCase() + one.slice(1)}
              </button>
            ))}
          </div>
          <button type="button" class="btn sm hide-phone" onClick={() => setBranching(true)}>
            <Icon name="branch" small /> Branch again…
          </button>
        </span>
      </div>
      <div class="cmp-box" tabIndex={0} role="region" aria-label="Both runs">
        <div class="cmp">
          {sides.map((side, at) => (
            <Head key={at} side={side} other={at === 0 ? null : sides[0]} letter={"AB"[at] ?? ""} />
          ))}
          {sides.map((side, at) => (
            <Timeline key={`t${at}`} side={side} longest={longest} />
          ))}
        </div>
        {tab === "steps" && <Steps pairs={pairs} same={same} isShort={isShort} />}
        {tab !== "requests" && <Answers a={answerOf(logs[0].run)} b={answerOf(logs[1].run)} />}
        {tab === "requests" && <Requests logs={logs} />}
      </div>
      {isBranching && <BranchDialog log={logs[0]} round={Math.min(same, Math.max(0, logs[0].run.usage.rounds - 1))} close={() => setBranching(false)} />}
    </>
  );
}

function Head({ side, other, letter }: { side: Side; other: Side | null; letter: string }): VNode {
  const { run } = side.log;
  const { usage } = run;
  const all = (one: Side) => one.log.run.usage.input + one.log.run.usage.output;
  return (
    <div class="ch">
      <div class="row">
        <span class="let disc">{letter}</span>
        <a class="strong" href={address("runs", run.id)}>{shown(run.model.replace(/^[\w-]+:/, ""))}</a>
        <span class="mono-s t3" title={shown(run.id)}>{shown(shortId(run.id))}</span>
        <span class="end small t3 num">{clock(run.startedAt)}</span>
      </div>
      <dl class="n">
        <Figure name="Time" value={seconds(side.time)} change={other && change(side.time, other.time)} />
        <Figure name="Rounds" value={String(usage.rounds)} change={other && count(usage.rounds - other.log.run.usage.rounds)} />
        <Figure name="Calls" value={String(side.steps.length)} change={other && count(side.steps.length - other.steps.length)} />
        <Figure name="Tokens" value={all(side) === 0 ? "unknown" : tokens(all(side))} change={other && change(all(side), all(other))} />
        <Figure name="Cost" value={spent(usage) || "unknown"} change={other && change(usage.cost, other.log.run.usage.cost)} />
      </dl>
    </div>
  );
}

/** Enough of an id to tell two runs apart. */
function shortId(id: string): string {
  return id.replace(/^(run_)(?:page)?/, "$1").slice(0, 12);
}

interface Change {
  words: string;
  isBetter: boolean;
}

function change(value: number, before: number): Change | null {
  if (before <= 0 || value <= 0) return null;
  const share = Math.round((100 * (value - before)) / before);
  return share === 0 ? null : { words: `${share > 0 ? "+" : "−"}${Math.abs(share)} %`, isBetter: share < 0 };
}

function count(by: number): Change | null {
  return by === 0 ? null : { words: `${by > 0 ? "+" : "−"}${Math.abs(by)}`, isBetter: false };
}

function Figure({ name, value, change: by }: { name: string; value: string; change: Change | null }): VNode {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <b class={value === "unknown" ? "t3" : ""}>{value}</b>
        {by !== null && <em class={by.isBetter ? "add-text" : "t3"}>{by.words}</em>}
      </dd>
    </div>
  );
}

function Timeline({ side, longest }: { side: Side; longest: number }): VNode {
  const box = useRef<HTMLDivElement>(null);
  const spans = side.log.spans();
  const end = side.log.run.end === null ? now.value : (side.log.events.at(-1)?.at ?? now.value);
  const scale = scaleOf(spans, end);
  const share = Math.min(1, scale.total / Math.max(longest, scale.total));
  const bars = spans.filter((one) => (one.kind === "model" || one.kind === "tool" || one.kind === "child") && one.state !== "unbegun");
  useLayoutEffect(() => {
    [...(box.current?.children ?? [])].forEach((one, at) => {
      const span = bars[at];
      if (span === undefined) return;
      const { style } = one as HTMLElement;
      style.left = `${100 * share * scale.x(span.from)}%`;
      style.width = `max(2px, ${100 * share * (scale.x(span.to ?? end) - scale.x(span.from))}%)`;
    });
  });
  return (
    <div class="bars-box">
      <div ref={box} class="tl" aria-hidden="true">
        {bars.map((span) => (
          <i key={span.key} class={`${span.kind === "model" ? "m top" : span.kind === "child" ? "c" : "t"} ${span.state === "failed" ? "f" : ""}`} />
        ))}
      </div>
    </div>
  );
}

function Steps({ pairs, same, isShort }: { pairs: Pair[]; same: number; isShort: boolean }): VNode {
  const isIn = (pair: Pair) => Math.max(pair.a?.round ?? 0, pair.b?.round ?? 0) >= same;
  const rows = pairs.filter((pair) => isIn(pair) && (!isShort || !pair.isSame));
  const words = same === 0 ? (pairs.length === 0 ? "Neither called a tool" : "Steps") : same === 1 ? "Round 1 is the same" : `Rounds 1 to ${same} are the same`;
  return (
    <div role="table" aria-label="Steps of both runs">
      <div class="cmp gh" role="row">
        <span role="columnheader">{words}<span class="vh"> in A</span></span>
        <span role="columnheader">{words}<span class="vh"> in B</span></span>
      </div>
      {rows.map((pair, at) => (
        <div key={at} class="cmp" role="row">
          <Step step={pair.a} isSame={pair.isSame} letter="A" />
          <Step step={pair.b} isSame={pair.isSame} letter="B" />
        </div>
      ))}
    </div>
  );
}

/** On a phone one side stands under the other: there, each row says whose it is. */
function Step({ step, isSame, letter }: { step: CompareStep | null; isSame: boolean; letter: string }): VNode {
  if (step === null) return <div class="rw gap" role="cell">no such step</div>;
  return (
    <div class={isSame ? "rw" : "rw d"} role="cell">
      <b class="let only-phone">{letter}</b>
      <span class="rn">{step.round + 1}</span>
      <span class="mono-name">{shown(step.name)}</span>
      <span class="t2 cut grow">{shown(step.words)}</span>
      <span class={step.isFailed ? "small fail num" : "small t3 num"}>{step.isFailed ? "failed · " : ""}{seconds(step.seconds)}</span>
    </div>
  );
}

interface WordPiece {
  value: string;
  added: boolean;
  removed: boolean;
}

/** Words with their marks: bold and code are drawn as such, across the borders of what differs. */
function drawn(pieces: WordPiece[]): VNode[] {
  let [isBold, isCode] = [false, false];
  return pieces.map((piece, at) => {
    const words = piece.value.split(/(\*\*|`)/).map((word, number) => {
      if (word === "**" && !isCode) isBold = !isBold;
      else if (word === "`") isCode = !isCode;
      else if (isCode) return <code key={number}>{shown(word)}</code>;
      else return isBold ? <b key={number}>{shown(word)}</b> : shown(word);
      return null;
    });
    return piece.removed ? <del key={at}>{words}</del> : piece.added ? <ins key={at}>{words}</ins> : <span key={at}>{words}</span>;
  });
}

function Answers({ a, b }: { a: string; b: string }): VNode {
  const [pieces, setPieces] = useState<WordPiece[] | null>(null);
  useEffect(() => {
    let isCurrent = true;
    void import("../diff").then(({ diffWords }) => isCurrent && setPieces(diffWords(a, b)));
    return () => {
      isCurrent = false;
    };
  }, [a, b]);
  const side = (isFirst: boolean, text: string) => (
    <div class="ans" dir="auto">
      {text === "" ? (
        <span class="t3">There is no answer.</span>
      ) : pieces === null ? (
        shown(text)
      ) : (
        drawn(pieces.filter((piece) => (isFirst ? !piece.added : !piece.removed)))
      )}
    </div>
  );
  return (
    <>
      <div class="cmp gh">
        <span>Answer{pieces !== null && a !== "" && a === b ? ", word for word the same" : ""}</span>
        <span>Answer</span>
      </div>
      <div class="cmp answers">
        {side(true, a)}
        {side(false, b)}
      </div>
    </>
  );
}

function Requests({ logs }: { logs: readonly [RunLog, RunLog] }): VNode {
  return (
    <>
      <div class="cmp gh">
        <span>What both were asked</span>
        <span>As their events tell it: open a model call for the exact request</span>
      </div>
      <div class="cmp">
        {logs.map((log) => {
          const said = spokenBefore(log.events.map((one) => one.event), 0);
          return (
            <div key={log.id} class="ans">
              <p class="small t3">{shown(log.run.model)} · {plural(log.run.tools.length, "tool")} · {plural(said.length, "message")}</p>
              <pre class="code" tabIndex={0}>{shown(JSON.stringify(said, null, 2).slice(0, 100_000))}</pre>
            </div>
          );
        })}
      </div>
    </>
  );
}
