// The pane beside the talk: the newest run as bars, what it has used, its files and sources. And the settings of the session.
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { api } from "../api";
import { changed } from "../changes";
import { now } from "../clock";
import { type Bar, barsOf } from "../fold/bars";
import { type RunState, callsOf } from "../fold/state";
import { bytes, cost, seconds, spent, tokens } from "../format";
import { safeAddress } from "../markdown/view";
import { facts, isLocalModel } from "../store/server";
import { entries, settings } from "../store/session";
import { hostOf } from "../tools";
import { shown } from "../visible";
import { fileIcon, preview } from "./file";
import { Icon } from "./icon";
import { marked, runs, sourcesIn } from "./sources";

export function Details(): VNode {
  const run = entries.value.at(-1)?.run ?? null;
  for (const entry of entries.value) changed(entry);
  if (run !== null) changed(run);
  const sources = sourcesIn(runs.value);
  const files = runs.value.flatMap((one) => [...one.calls.values()].flatMap((call) => call.files)).filter((file) => file.id != null);
  return (
    <>
      {run !== null && run.startedAt > 0 && <ThisRun run={run} />}
      {run !== null && <Used run={run} />}
      {files.length > 0 && (
        <section>
          <h2>
            Files <span class="t3 num">{files.length}</span>
          </h2>
          {files.map((file) => (
            <div key={file.id} class="frow">
              <Icon name={fileIcon(file.name)} small class="tool" />
              <button type="button" class="cut grow plain" onClick={() => preview(file)}>
                {shown(file.name ?? "file")}
              </button>
              <a class="ic sm" href={api.fileAddress(file.id ?? "")} download={file.name ?? ""} aria-label={`Download ${shown(file.name ?? "file")}`}>
                <Icon name="download" small />
              </a>
              <span class="small t3 num">{file.size == null ? "" : bytes(file.size)}</span>
            </div>
          ))}
        </section>
      )}
      {sources.length > 0 && (
        <section>
          <h2>
            Sources <span class="t3 num">{sources.length}</span>
          </h2>
          {sources.map((source) => {
            const url = safeAddress(source.url);
            const inside = (
              <>
                <b>{source.number}</b>
                <span class="cut">{shown(source.title)}</span>
                <span class="cut t3">{shown(hostOf(source.url))}</span>
              </>
            );
            const look = marked.value === source.number ? "srow on" : "srow";
            return url === null ? (
              <div key={source.number} id={`source-${source.number}`} class={look} tabIndex={-1}>
                {inside}
              </div>
            ) : (
              <a key={source.number} id={`source-${source.number}`} class={look} href={url.href} title={shown(url.href)} target="_blank" rel="noopener noreferrer nofollow">
                {inside}
              </a>
            );
          })}
        </section>
      )}
      {run === null && <p class="pane-empty small t3">What a run does, uses and makes is listed here.</p>}
    </>
  );
}

function ThisRun({ run }: { run: RunState }): VNode {
  changed(run);
  const isOver = run.end !== null;
  const end = isOver ? (run.end?.at ?? now.value) : now.value;
  const { rounds, total, waited } = barsOf(run, end);
  const busy = Math.max(0, end - run.startedAt - waited);
  return (
    <section>
      <h2>
        This run
        <span class="t3 num">
          {seconds(busy)}
          {waited >= 1 ? ` + ${waited >= 60 ? `${Math.round(waited / 60)} min` : seconds(waited)} wait` : ""}
        </span>
      </h2>
      <div class="wf">
        {rounds.slice(-24).map(({ round, bars, length }) => {
          const waits = callsOf(round).some((call) => call.phase === "waiting");
          return (
            <div key={round.number} class="wf-row">
              <span class={waits ? "n wait" : round.failure === null ? "n" : "n fail"}>{round.number + 1}</span>
              <span class="track" aria-hidden="true">
                {bars.map((bar, at) => (
                  <BarView key={at} bar={bar} total={total} />
                ))}
              </span>
              <span class={waits ? "len wait" : "len"}>{waits ? "waits" : seconds(length)}</span>
            </div>
          );
        })}
      </div>
      <div class="legend" aria-hidden="true">
        <span><i class="m" />model</span>
        <span><i class="t" />tool</span>
        <span><i class="w" />wait</span>
        <span><i class="c" />child</span>
      </div>
    </section>
  );
}

function BarView({ bar, total }: { bar: Bar; total: number }): VNode {
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    const style = box.current?.style;
    if (style === undefined) return;
    style.left = `${Math.min(99, Math.max(0, (100 * bar.from) / total))}%`;
    style.width = `max(2px, ${Math.min(100, Math.max(0, (100 * (bar.to - bar.from)) / total))}%)`;
  });
  return <i ref={box} class={`${bar.kind} row${bar.row}`} />;
}

function Used({ run }: { run: RunState }): VNode | null {
  changed(run);
  const { usage } = run;
  const all = usage.input + usage.output;
  if (all === 0 && usage.rounds === 0) return null;
  const most = settings.value.rounds ?? facts.value?.rounds ?? 0;
  return (
    <section>
      <h2>Used</h2>
      <div class="kv">
        <span>Rounds</span>
        <Meter share={most > 0 ? usage.rounds / most : 0} label="Rounds" words={`${usage.rounds} of ${most}`} />
        <span>{most > 0 ? `${usage.rounds} / ${most}` : usage.rounds}</span>
        {all > 0 && (
          <>
            <span>Tokens</span>
            <span class="t3">{tokens(usage.input)} in, {tokens(usage.output)} out</span>
            <span>{tokens(all)}</span>
          </>
        )}
        {(usage.cost > 0 || usage.isUnpriced) && (
          <>
            <span>Cost</span>
            <span class="t3">{usage.isUnpriced && usage.cost > 0 ? "some unpriced" : ""}</span>
            <span class={usage.cost > 0 ? "" : "t3"}>{spent(usage) || (isLocalModel.value ? "free" : "unknown")}</span>
          </>
        )}
        {run.budget !== null && (
          <>
            <span>Budget</span>
            <Meter share={(run.budget.spent + run.budget.reserved) / run.budget.limit} label={budgetName(run.budget)} words={`${amount(run.budget, run.budget.spent)} of ${amount(run.budget, run.budget.limit)}`} />
            <span title={budgetName(run.budget)}>{amount(run.budget, run.budget.spent)} / {amount(run.budget, run.budget.limit)}</span>
          </>
        )}
        {usage.input > 0 && (
          <>
            <span>Cached</span>
            <Meter share={usage.cached / usage.input} label="Cached" words={`${Math.round((100 * usage.cached) / usage.input)} %`} tone="acc" />
            <span>{Math.round((100 * usage.cached) / usage.input)} %</span>
          </>
        )}
      </div>
    </section>
  );
}

export function budgetName({ scope, per }: { scope: string; per: string }): string {
  return `Budget of the ${scope}${per === "total" ? "" : `, each ${per}`}`;
}

export function amount({ unit }: { unit: string }, value: number): string {
  return unit === "usd" ? cost(value) : unit === "tokens" ? tokens(value) : unit === "seconds" ? seconds(value) : String(value);
}

/** `reserved`: of the same whole, what is set aside for calls under way. */
export function Meter({ share, label, words, tone = "", reserved = 0 }: { share: number; label: string; words: string; tone?: string; reserved?: number }): VNode {
  const bar = useRef<HTMLElement>(null);
  const aside = useRef<HTMLElement>(null);
  const value = Math.min(1, Math.max(0, share));
  const held = Math.min(1 - value, Math.max(0, reserved));
  useEffect(() => {
    if (bar.current !== null) bar.current.style.width = `${100 * value}%`;
    if (aside.current !== null) aside.current.style.width = `${100 * held}%`;
  }, [value, held]);
  const all = value + held;
  const state = tone !== "" ? tone : all >= 1 ? "fail" : all >= 0.9 ? "wait" : "";
  return (
    <span class="meter" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(100 * value)} aria-valuetext={words}>
      <i ref={bar} class={state} />
      {held > 0 && <i ref={aside} class="held" />}
    </span>
  );
}
