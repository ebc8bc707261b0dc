// What runs now: one's own runs with their words, those of other owners without.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api";
import { now } from "../clock";
import { bareModel, cost, seconds } from "../format";
import { address } from "../router";
import { lineOf, wantLine } from "../runs/rows";
import { facts, me } from "../store/server";
import { labelOf } from "../tools";
import { shown } from "../visible";
import { Icon } from "../views/icon";
import type { OperateData, OperateRun } from "./data";
import { Panel, Empty } from "./panel";

export function RunsNow({ data }: { data: OperateData }): VNode {
  const box = data.running.value;
  const rows = [...(box.value ?? [])].filter((row) => row.state !== "waiting").sort((a, b) => a.created_at - b.created_at).slice(0, 50);
  useEffect(() => rows.forEach(wantLine), [rows.map((row) => row.id + row.state).join()]);
  const told = new Map((data.figures.value.value?.runs ?? []).map((row) => [row.id, row]));
  const hasOwners = data.hasFigures && facts.value?.has_keys === true;
  const count = (state: string) => (box.value ?? []).filter((row) => row.state === state).length;
  return (
    <Panel title="Runs now" more={`${count("running")} running, ${count("queued")} queued`} link={{ href: address("runs"), words: "All runs" }} box={box}>
      {rows.length === 0 ? (
        <Empty words="Nothing runs." />
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">Asked</th>
              {hasOwners && <th scope="col" class="hide-phone">Owner</th>}
              <th scope="col" class="hide-phone">{data.hasFigures ? "Doing" : "Agent or model"}</th>
              <th scope="col" class="r hide-phone">Rounds</th>
              <th scope="col" class="r hide-phone">Cost</th>
              <th scope="col" class="r">Time</th>
              <th scope="col"><span class="vh">Stop</span></th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => {
              const line = lineOf(row);
              return (
                <tr key={row.id} title={shown(line.agent || bareModel(line.model ?? ""))}>
                  <td class="main-cell">
                    {row.state === "queued" ? <Icon name="list" small class="t3" /> : <span class="dot live" />} <a href={address("runs", row.id)}>{shown(line.asked)}</a>
                  </td>
                  {hasOwners && <td class="t2 hide-phone">{shown(told.get(row.id)?.owner ?? "–")}</td>}
                  <td class="t2 hide-phone">{data.hasFigures ? <Doing run={told.get(row.id)} /> : shown(line.agent || bareModel(line.model ?? ""))}</td>
                  <td class="r hide-phone">{line.rounds ?? "–"}</td>
                  <td class="r hide-phone">{line.cost === null || line.cost === 0 ? <span class="t3">–</span> : cost(line.cost)}</td>
                  <td class="r">{seconds(Math.max(0, now.value - row.created_at))}</td>
                  <td class="r">
                    <button type="button" class="ic sm" aria-label={`Stop ${shown(line.asked)}`} title="Stop" onClick={() => void api.cancel(row.id).then(() => data.refresh(), () => data.refresh())}>
                      <Icon name="stop" small />
                    </button>
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
    </Panel>
  );
}

const WORDS = { next: "next", model: "model writes", waits: "waits" };

/** Of a run that another process drives nothing is known. */
function Doing({ run }: { run: OperateRun | undefined }): VNode {
  const doing = run?.doing ?? null;
  if (doing === null) return <span class="t3">–</span>;
  return doing === "tools" ? <span class="mono-s">{shown((run?.calls ?? []).map(labelOf).join(", "))}</span> : <span class="small">{WORDS[doing]}</span>;
}

const MOST_OTHERS = 50; // rows: what an operator looks over at once

/** What an operator learns of other owners' runs: figures and names, and no words. */
export function RunsOfOthers({ data }: { data: OperateData }): VNode | null {
  const [problem, setProblem] = useState("");
  const figures = data.figures.value.value;
  const mine = me.value?.owner ?? facts.value?.owner ?? "";
  const list = (figures?.runs ?? []).filter((row) => row.owner !== mine);
  if (list.length === 0) return null;
  return (
    <Panel title="Runs of other owners" more={list.length > MOST_OTHERS ? `the newest ${MOST_OTHERS}` : String(list.length)}>
      {problem !== "" && <p class="small fail" role="alert">{shown(problem)}</p>}
      <table>
        <thead>
          <tr>
            <th scope="col">Owner</th>
            <th scope="col">State</th>
            <th scope="col" class="hide-phone">Agent or model</th>
            <th scope="col" class="r hide-phone">Rounds</th>
            <th scope="col" class="r hide-phone">Cost</th>
            <th scope="col" class="r">Time</th>
            {data.mayManageKeys && <th scope="col"><span class="vh">Stop</span></th>}
          </tr>
        </thead>
        <tbody>
          {list.slice(0, MOST_OTHERS).map((row) => (
            <tr key={row.id} title={row.id}>
              <td>{shown(row.owner)}</td>
              <td class="main-cell">
                <span class={`dot ${row.state === "waiting" ? "wait" : row.state === "running" ? "live" : ""}`} /> {shown(row.state)}
                {(row.doing === "model" || row.doing === "tools") && <span class="t2"> <Doing run={row} /></span>}
                {row.tools.length > 0 && <span class="mono-s t2"> {shown(row.tools.map(labelOf).join(", "))}</span>}
              </td>
              <td class="t2 hide-phone">{shown(row.agent ?? bareModel(row.model ?? "unknown"))}</td>
              <td class="r hide-phone">{row.rounds ?? "–"}</td>
              <td class="r hide-phone">{row.cost === null || row.cost === 0 ? <span class="t3">–</span> : cost(row.cost)}</td>
              <td class="r">{seconds(Math.max(0, now.value - row.created_at))}</td>
              {data.mayManageKeys && (
                <td class="r">
                  <button
                    type="button"
                    class="ic sm"
                    aria-label={`Stop a run of ${shown(row.owner)}`}
                    title="Stop"
                    onClick={() => {
                      setProblem("");
                      void api
                        .cancelOf(row.id, row.owner)
                        .catch((error: unknown) => setProblem(error instanceof Error ? error.message : String(error)))
                        .then(() => data.refresh());
                    }}
                  >
                    <Icon name="stop" small />
                  </button>
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}
