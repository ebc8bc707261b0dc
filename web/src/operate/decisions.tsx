// What waits for a decision.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { announce } from "../announce";
import { type Approval, Problem, api } from "../api";
import { now } from "../clock";
import { until } from "../format";
import { address } from "../router";
import { refreshLists } from "../store/sessions";
import { labelOf } from "../tools";
import { shown } from "../visible";
import { Icon } from "../views/icon";
import type { OperateData } from "./data";
import { Panel, Empty } from "./panel";

const MOST_WORDS = 240; // characters of arguments that are shown in a row

function argumentsOf(one: Approval): string {
  const { arguments: given } = one;
  if (given === undefined || given === null) return "";
  if (typeof given === "string") return given;
  if (typeof given !== "object" || Array.isArray(given)) return JSON.stringify(given);
  return Object.entries(given).map(([name, value]) => `${name} ${JSON.stringify(value)}`).join("  ");
}

/** Every value, with its name where a person asks for it: what is approved here must be readable here. */
function Arguments({ given }: { given: unknown }): VNode {
  if (typeof given !== "object" || given === null || Array.isArray(given)) return <>{shown(typeof given === "string" ? given : JSON.stringify(given ?? ""))}</>;
  return (
    <>
      {Object.entries(given).map(([name, value], at) => (
        <span key={name}>
          {at > 0 && " · "}
          <span class="t3">{shown(name)}</span> {shown(typeof value === "string" ? value : JSON.stringify(value))}
        </span>
      ))}
    </>
  );
}

function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`;
}

export function Decisions({ data }: { data: OperateData }): VNode {
  const box = data.decisions.value;
  const list = box.value ?? [];
  const [problem, setProblem] = useState("");
  const [sending, setSending] = useState("");
  const decide = (one: Approval, decision: "approve" | "deny") => {
    setSending(one.approval_id);
    setProblem("");
    api
      .decide(one.approval_id, { decision })
      .then(
        () => announce(`${labelOf(one.tool_name)}: ${decision === "approve" ? "approved" : "denied"}`),
        (error: unknown) => setProblem(error instanceof Problem && error.status === 404 ? "This was answered meanwhile." : String(error instanceof Error ? error.message : error)),
      )
      .finally(() => {
        setSending("");
        void data.refresh();
        void refreshLists();
      });
  };
  return (
    <Panel title="Wait for a decision" icon="shield" more={list.length === 0 ? "" : String(list.length)} box={box}>
      {problem !== "" && <p class="small fail" role="alert">{shown(problem)}</p>}
      {list.length === 0 ? (
        <Empty words="Nothing waits for you." />
      ) : (
        <ul class="op-list">
          {list.map((one) => {
            const words = argumentsOf(one);
            // Nothing is approved that cannot be read here whole.
            const isShort = one.question !== "input" && words.length <= MOST_WORDS;
            return (
              <li key={one.approval_id} class="ap">
                <span class="pill wait">{until(Math.max(1, now.value - one.created_at))}</span>
                <span class="ap-words">
                  <span class="mono-name">{shown(labelOf(one.tool_name))}</span> <span class="t2">{isShort ? <Arguments given={one.arguments} /> : `${shown(words.slice(0, 80))}…`}</span>
                  {one.reason !== undefined && (
                    <span class="small ap-why">
                      <Icon name="alert" small /> <span>{shown(sentence(one.reason))}</span>
                    </span>
                  )}
                </span>
                <span class="ap-acts">
                  {isShort && (
                    <>
                      <button type="button" class="btn sm" disabled={sending !== ""} aria-label={`Approve ${shown(one.tool_name)}`} onClick={() => decide(one, "approve")}>Approve</button>
                      <button type="button" class="btn sm" disabled={sending !== ""} aria-label={`Deny ${shown(one.tool_name)}`} onClick={() => decide(one, "deny")}>Deny</button>
                    </>
                  )}
                  <a class={isShort ? "ic sm" : "btn sm"} href={address("runs", one.run_id)} aria-label={`Open the run of ${shown(one.tool_name)}`}>
                    {isShort ? <Icon name="chevron-right" small /> : "Look at it"}
                  </a>
                </span>
              </li>
            );
          })}
        </ul>
      )}
    </Panel>
  );
}
