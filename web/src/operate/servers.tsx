// MCP servers: how each is, and what to do about one that is not.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { announce } from "../announce";
import { type McpServer, api } from "../api";
import { now } from "../clock";
import { plural, whenExactly } from "../format";
import { shown } from "../visible";
import type { OperateData } from "./data";
import { Panel, Empty } from "./panel";

const SOON_MS = 1500; // a server that is tried again has usually answered, or failed, by then

export function Servers({ data }: { data: OperateData }): VNode {
  const box = data.servers.value;
  const list = box.value ?? [];
  const [problem, setProblem] = useState("");
  const tools = list.reduce((sum, one) => sum + (typeof one.tools === "number" ? one.tools : 0), 0);
  const retry = (one: McpServer) => {
    setProblem("");
    api
      .retryMcp(one.name)
      .then(() => announce(`${one.name} is tried again`), (error: unknown) => setProblem(error instanceof Error ? error.message : String(error)))
      .finally(() => {
        void data.refresh();
        setTimeout(() => void data.refresh(), SOON_MS);
      });
  };
  return (
    <Panel title="MCP servers" more={list.length === 0 ? "" : `${list.length} · ${plural(tools, "tool")}`} box={box}>
      {problem !== "" && <p class="small fail" role="alert">{shown(problem)}</p>}
      {list.length === 0 ? (
        <Empty words="None is configured." />
      ) : (
        <ul class="op-list">
          {list.map((one) => {
            const tone = TONES[one.state] ?? "wait";
            return (
              <li key={one.name}>
                <span class={`dot ${tone}`} /> <span class={tone === "off" ? "strong t2" : "strong"}>{shown(one.name)}</span> <span class="small t3">{shown(typeof one["transport"] === "string" ? one["transport"] : "")}</span>
                <span class={`small cut grow ${tone === "ok" || tone === "off" ? "t3" : tone}`}>{shown(stateWords(one))}</span>
                <span class="small t2 num">{one.tools === undefined || tone === "off" || (tone === "fail" && one.tools === 0) ? "–" : plural(one.tools, "tool")}</span>
                {data.mayChange && (tone === "wait" || tone === "fail") && (
                  <button type="button" class="btn sm" aria-label={`Retry ${shown(one.name)}`} onClick={() => retry(one)}>
                    Retry
                  </button>
                )}
              </li>
            );
          })}
        </ul>
      )}
    </Panel>
  );
}

const TONES: Record<string, "ok" | "fail" | "off"> = { connected: "ok", failed: "fail", disabled: "off" };

function stateWords(one: McpServer): string {
  const [since, error] = [one["since"], one["last_error"]];
  if (one.state === "connected") return typeof since === "number" && since > 0 ? `connected since ${whenExactly(since, now.value * 1000)}` : "connected";
  if (one.state === "disabled") return "disabled in the settings";
  return typeof error === "string" && error !== "" ? `${one.state}: ${error}` : one.state;
}
