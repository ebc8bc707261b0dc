// What failed in the last hour.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { now } from "../clock";
import { bareModel, clock, dateOf, plural, until } from "../format";
import { address } from "../router";
import { lineOf, wantLine } from "../runs/rows";
import { shown } from "../visible";
import { type OperateData, SPANS } from "./data";
import { Panel, Empty } from "./panel";

const HOUR = 3600;
const DAY = 24 * HOUR;

const BARS = 30;

export function Errors({ data }: { data: OperateData }): VNode {
  const box = data.failed.value;
  const since = now.value - HOUR;
  const rows = (box.value ?? []).filter((row) => (row.ended_at ?? row.created_at) > since);
  useEffect(() => rows.forEach(wantLine), [rows.map((row) => row.id).join()]);
  const groups = new Map<string, { count: number; kind: string; at: number; run: string }>();
  for (const row of rows) {
    const end = lineOf(row).end;
    const words = end?.message ?? end?.code ?? "failed";
    const known = groups.get(words);
    groups.set(words, { count: (known?.count ?? 0) + 1, kind: known?.kind ?? end?.code ?? "run", at: Math.max(known?.at ?? 0, row.ended_at ?? row.created_at), run: row.id });
  }
  return (
    <Panel title="Errors of the last hour" more={rows.length === 0 ? "" : plural(rows.length, "run")} box={box}>
      {rows.length === 0 ? (
        <Empty words="No run of yours has failed." />
      ) : (
        <>
          <ErrorBars counts={countsOf(rows.map((row) => row.ended_at ?? row.created_at), since)} since={since} length={HOUR} />
          <ul class="op-list">
            {[...groups].sort(([, a], [, b]) => b.count - a.count).slice(0, 12).map(([words, group]) => (
              <li key={words}>
                <span class="fail num strong times">{group.count}×</span>
                <span class="pill kind">{shown(kindWord(group.kind))}</span>
                <a class="cut grow" href={address("runs", group.run)}>{shown(words)}</a>
                <span class="small t3 num">{until(Math.max(1, now.value - group.at))} ago</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </Panel>
  );
}

/** What failed, in one word: "model_failed" and "tool_failed" are a model and a tool. */
function kindWord(code: string): string {
  return code.replace(/_(failed|interrupted|exceeded|error)$/, "").replaceAll("_", " ");
}

/** By code, model and agent: what an operator may know of them. */
export function ErrorsOfAll({ data }: { data: OperateData }): VNode {
  const box = data.errors.value;
  const steps = data.steps.value.value ?? [];
  const total = (box.value ?? []).reduce((sum, one) => sum + one.count, 0);
  const list = [...(box.value ?? [])].sort((a, b) => b.count - a.count).slice(0, 12);
  const since = steps[0]?.at ?? now.value - HOUR;
  return (
    <Panel title={`Errors of the last ${SPANS[data.span.value].words}`} more={total === 0 ? "" : plural(total, "run")} box={box}>
      {list.length === 0 ? (
        <Empty words="No run has failed." />
      ) : (
        <>
        <ErrorBars counts={steps.map((one) => one.failed)} since={since} length={steps.length * SPANS[data.span.value].step || HOUR} />
        <ul class="op-list">
          {list.map((one) => (
            <li key={`${one.code} ${one.model} ${one.agent}`}>
              <span class="fail num strong times">{one.count}×</span>
              <span class="pill kind">{shown(kindWord(one.code ?? "run"))}</span>
              <span class="cut grow">{shown([one.model === null ? null : bareModel(one.model), one.agent].filter((name) => name !== null).join(" · "))}</span>
              <span class="small t3 num">{until(Math.max(1, now.value - one.last_at))} ago</span>
            </li>
          ))}
        </ul>
        </>
      )}
    </Panel>
  );
}

function countsOf(times: number[], since: number): number[] {
  return Array.from({ length: BARS }, (_, at) => times.filter((time) => Math.min(BARS - 1, Math.floor(((time - since) / HOUR) * BARS)) === at).length);
}

function ErrorBars({ counts, since, length }: { counts: number[]; since: number; length: number }): VNode {
  const at = (time: number) => (length <= 2 * DAY ? clock(time) : dateOf(time));
  const box = useRef<HTMLDivElement>(null);
  const most = Math.max(1, ...counts);
  useLayoutEffect(() => {
    [...(box.current?.children ?? [])].forEach((bar, at) => {
      (bar as HTMLElement).style.height = `${(100 * (counts[at] ?? 0)) / most}%`;
    });
  });
  return (
    <>
      <div ref={box} class="err-bars" aria-hidden="true">
        {counts.map((_, at) => (
          <i key={at} />
        ))}
      </div>
      <div class="hist-foot t3 num" aria-hidden="true">
        <span>{at(since)}</span>
        <span>{at(since + length / 2)}</span>
        <span>{length <= 2 * DAY ? at(since + length) : "now"}</span>
      </div>
    </>
  );
}
