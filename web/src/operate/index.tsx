// Operate: what runs now, what waits for a decision, what failed in the last hour, and how servers, keys and models fare.
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { announce } from "../announce";
import { type Approval, Problem, type ServerKey, api } from "../api";
import { now } from "../clock";
import { cost, plural, seconds, tokens, until, when } from "../format";
import { address } from "../router";
import { lineOf, wantLine } from "../runs/rows";
import { changes, isFed } from "../store/feed";
import { facts, me } from "../store/server";
import { refreshLists } from "../store/sessions";
import { labelOf } from "../tools";
import { shown } from "../visible";
import { Meter, amount, budgetName } from "../views/details";
import { Icon } from "../views/icon";
import { openLayer } from "../views/panes";
import "../styles/operate.css";
import { type Box, OperateData, type OperateFigures, type OperateKey } from "./data";

const EVERY_MS = 4000;
const HOUR = 3600;

export function OperateView(): VNode {
  const data = useMemo(() => new OperateData(), []);
  useEffect(() => {
    void data.refresh();
    // Changes are told of one's own runs alone: what other owners do has to be asked for.
    const timer = setInterval(() => !document.hidden && (!isFed.value || (data.hasFigures && facts.value?.has_keys === true)) && void data.refresh(), EVERY_MS);
    return () => clearInterval(timer);
  }, [facts.value]);
  useEffect(() => {
    if (changes.value > 0) void data.refresh();
  }, [changes.value]);
  const refused = !data.mayOperate || [data.figures.value, data.running.value].some((box) => box.problem?.status === 403);
  return (
    <>
      <div class="bar">
        <button type="button" class="ic only-phone" aria-label="Sessions and views" onClick={() => openLayer("sidebar")}>
          <Icon name="menu" />
        </button>
        <div class="bar-title">
          <h1>Operate</h1>
        </div>
        <span class="t3 small num hide-phone">{facts.value === null ? "" : `ronda ${facts.value.version}`}</span>
        <span class="end row small t2 live-word">
          <span class={data.running.value.problem === null ? "dot live" : "dot fail"} /> {data.running.value.problem === null ? "Live" : "No answer"}
        </span>
      </div>
      {refused ? <NoRight data={data} /> : <Boxes data={data} />}
    </>
  );
}

/** What waits for this key's owner is theirs to decide all the same. */
function NoRight({ data }: { data: OperateData }): VNode {
  return (
    <div class="operate" tabIndex={0} role="region" aria-label="What this key may see">
      <div class="none no-right">
        <span class="ico">
          <Icon name="lock" />
        </span>
        <b class="strong">This key may not operate the server</b>
        <p>Chat, Build and your own runs work. Ask the person who runs the server for the scope <code>operate</code>.</p>
      </div>
      {(data.decisions.value.value ?? []).length > 0 && <Decisions data={data} />}
    </div>
  );
}

function Boxes({ data }: { data: OperateData }): VNode {
  const rows = data.running.value.value ?? [];
  const figures = data.figures.value.value;
  const of = (state: string) => rows.filter((row) => row.state === state);
  const oldest = (state: string) => Math.min(...of(state).map((row) => row.created_at));
  const age = (state: string) => (of(state).length === 0 ? "" : `oldest ${until(Math.max(1, now.value - oldest(state)))}`);
  const decisions = data.decisions.value.value ?? [];
  return (
    <div class="operate" tabIndex={0} role="region" aria-label="Figures of the server">
      <div class="tiles">
        <Tile name="Running" dot="live" value={String(figures?.running ?? of("running").length)} more={figures === null ? "yours" : figures.capacity === undefined ? "of all owners" : `of ${figures.capacity}`} series={figures?.series?.["running"]} />
        <Tile name="Queued" value={String(figures?.queued ?? of("queued").length)} more={age("queued")} series={figures?.series?.["queued"]} />
        <Tile name="Wait for people" dot="wait" value={String(figures?.waiting ?? decisions.length)} more={age("waiting")} series={figures?.series?.["waiting"]} />
        <Tile name="First token, 95th" value={figures?.first_token_95 == null ? null : seconds(figures.first_token_95)} more={figures?.first_token_median == null ? "" : `median ${seconds(figures.first_token_median)}`} series={figures?.series?.["first_token"]} />
        <Tile name="Tokens a minute" value={figures?.tokens_a_minute == null ? null : tokens(figures.tokens_a_minute)} more="" series={figures?.series?.["tokens"]} />
        <Tile name="Cost today" value={figures?.cost_today == null ? null : cost(figures.cost_today)} more={figures?.cost_limit == null ? "" : `of ${cost(figures.cost_limit)}`} series={figures?.series?.["cost"]} />
      </div>
      <div class="op-grid">
        <div>
          <RunsNow data={data} />
          <RunsOfOthers figures={figures} />
          {figures?.keys === undefined ? <OwnBudgets data={data} /> : <KeyFigures keys={figures.keys} />}
          {data.mayManageKeys && <Keys data={data} />}
          <Servers data={data} />
        </div>
        <div>
          <Decisions data={data} />
          <Errors data={data} />
          {data.hasFigures && facts.value?.has_keys === true && <ErrorsOfAll data={data} />}
          <Models figures={figures} />
        </div>
      </div>
    </div>
  );
}

function Tile({ name, value, more, dot = "", series }: { name: string; value: string | null; more: string; dot?: string; series: number[] | undefined }): VNode {
  return (
    <div class="tile">
      <div class="tile-name">
        {dot !== "" && <span class={`dot ${dot}`} />} {name}
      </div>
      <div class="tile-value num">
        {value === null ? <span class="t3 tile-none">not measured yet</span> : value} <small>{value === null ? "" : more}</small>
      </div>
      {series !== undefined && series.length > 1 && <Sparkline values={series} tone={dot} />}
    </div>
  );
}

function Sparkline({ values, tone }: { values: number[]; tone: string }): VNode {
  const most = Math.max(...values, 1e-9);
  const points = values.map((value, at) => `${((100 * at) / (values.length - 1)).toFixed(2)},${(28 - (26 * value) / most).toFixed(2)}`).join(" ");
  return (
    <svg class={`spark ${tone}`} viewBox="0 0 100 30" preserveAspectRatio="none" aria-hidden="true">
      <polygon points={`0,30 ${points} 100,30`} />
      <polyline points={points} />
    </svg>
  );
}

interface PanelProps {
  title: string;
  more?: string;
  icon?: string;
  link?: { href: string; words: string };
  box?: Box<unknown>;
  children: ComponentChildren;
}

function Panel({ title, more = "", icon, link, box, children }: PanelProps): VNode {
  const problem = box?.problem ?? null;
  return (
    <section class="op-box" aria-label={title}>
      <h2>
        {icon !== undefined && <Icon name={icon} small class="wait" />} {title} <span class="t3">{more}</span>
        {link !== undefined && <a class="lnk" href={link.href}>{link.words}</a>}
      </h2>
      {problem !== null && <p class="small fail" role="alert">{shown(problem.message)}</p>}
      {box !== undefined && box.value === null && problem === null ? <div class="skeleton" aria-hidden="true" /> : children}
    </section>
  );
}

function Empty({ words }: { words: ComponentChildren }): VNode {
  return <p class="small t3 op-empty">{words}</p>;
}

function RunsNow({ data }: { data: OperateData }): VNode {
  const box = data.running.value;
  const rows = [...(box.value ?? [])].filter((row) => row.state !== "waiting").sort((a, b) => a.created_at - b.created_at).slice(0, 50);
  useEffect(() => rows.forEach(wantLine), [rows.map((row) => row.id + row.state).join()]);
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
              <th scope="col" class="hide-phone">Agent</th>
              <th scope="col" class="r hide-phone">Calls</th>
              <th scope="col" class="r">Time</th>
              <th scope="col"><span class="vh">Stop</span></th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => {
              const line = lineOf(row);
              return (
                <tr key={row.id}>
                  <td class="main-cell">
                    {row.state === "queued" ? <Icon name="list" small class="t3" /> : <span class="dot live" />} <a href={address("runs", row.id)}>{shown(line.asked)}</a>
                  </td>
                  <td class="t2 hide-phone">{shown(line.agent)}</td>
                  <td class="r hide-phone">{line.calls ?? "–"}</td>
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

const MOST_OTHERS = 50; // rows: what an operator looks over at once

/** What an operator learns of other owners' runs: figures and names, and no words. */
function RunsOfOthers({ figures }: { figures: OperateFigures | null }): VNode | null {
  const mine = me.value?.owner ?? facts.value?.owner ?? "";
  const list = (figures?.runs ?? []).filter((row) => row.owner !== mine);
  if (list.length === 0) return null;
  return (
    <Panel title="Runs of other owners" more={list.length > MOST_OTHERS ? `the newest ${MOST_OTHERS}` : String(list.length)}>
      <table>
        <thead>
          <tr>
            <th scope="col">Owner</th>
            <th scope="col">State</th>
            <th scope="col" class="hide-phone">Agent or model</th>
            <th scope="col" class="r hide-phone">Calls</th>
            <th scope="col" class="r">Time</th>
          </tr>
        </thead>
        <tbody>
          {list.slice(0, MOST_OTHERS).map((row) => (
            <tr key={row.id} title={row.id}>
              <td>{shown(row.owner)}</td>
              <td class="main-cell">
                <span class={`dot ${row.state === "waiting" ? "wait" : row.state === "running" ? "live" : ""}`} /> {shown(row.state)}
                {row.tools.length > 0 && <span class="mono-s t2"> {shown(row.tools.map(labelOf).join(", "))}</span>}
              </td>
              <td class="t2 hide-phone">{shown(row.agent ?? row.model ?? "unknown")}</td>
              <td class="r hide-phone">{row.tool_calls ?? "–"}</td>
              <td class="r">{seconds(Math.max(0, now.value - row.created_at))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

/** What this key, and its owner, may spend. */
function OwnBudgets({ data }: { data: OperateData }): VNode {
  if (!data.hasBudgets) {
    return (
      <Panel title="Budgets">
        <Empty words={facts.value?.has_keys === false ? "This server has no keys: all who reach it share one owner." : "This server does not limit what its keys spend."} />
      </Panel>
    );
  }
  const box = data.budgets.value;
  const list = box.value ?? [];
  return (
    <Panel title="Budgets" more="of this key and its owner" box={box}>
      {list.length === 0 ? (
        <Empty words="Nothing limits what you spend." />
      ) : (
        <ul class="op-list">
          {list.map((one) => {
            const words = `${amount(one, one.spent)} of ${amount(one, one.limit)}${one.unit === "usd" ? "" : ` ${one.unit.replace("_", " ")}`}`;
            return (
              <li key={`${one.scope} ${one.per} ${one.unit}`}>
                <span class="small t2 meter-name">{shown(one.scope)}{one.per === "total" ? "" : `, a ${shown(one.per)}`}</span>
                <span class="grow"><Meter share={one.limit > 0 ? (one.spent + one.reserved) / one.limit : 1} label={`${budgetName(one)}, ${one.unit}`} words={words} /></span>
                <span class="small num">{words}</span>
              </li>
            );
          })}
        </ul>
      )}
    </Panel>
  );
}

function Keys({ data }: { data: OperateData }): VNode {
  const box = data.keys.value;
  const [chosen, setChosen] = useState("");
  const [problem, setProblem] = useState("");
  const good = (key: ServerKey) => key.revoked_at === null && (key.expires_at === null || key.expires_at > now.value);
  const list = (box.value ?? []).filter(good);
  const revoke = (key: ServerKey) => {
    setChosen("");
    setProblem("");
    api
      .revokeKey(key.id)
      .then(() => announce(`The key ${key.id} is revoked`), (error: unknown) => setProblem(String(error instanceof Error ? error.message : error)))
      .finally(() => void data.refresh());
  };
  return (
    <Panel title="Keys" more={list.length === 0 ? "" : String(list.length)} box={box}>
      {problem !== "" && <p class="small fail" role="alert">{shown(problem)}</p>}
      <table>
        <thead>
          <tr>
            <th scope="col">Owner</th>
            <th scope="col">Key</th>
            <th scope="col" class="hide-phone">Scopes</th>
            <th scope="col" class="r hide-phone">Used</th>
            <th scope="col"><span class="vh">Revoke</span></th>
          </tr>
        </thead>
        <tbody>
          {list.map((key) => (
            <tr key={key.id}>
              <td>{shown(key.owner)}</td>
              <td class="mono-s t2">{shown(key.id)}</td>
              <td class="main-cell small t2 hide-phone" title={shown((key.scopes ?? []).join(" "))}>{shown((key.scopes ?? []).join(" "))}</td>
              <td class="r small t2 hide-phone">{key.last_used_at === null ? "never" : when(key.last_used_at, now.value * 1000)}</td>
              <td class="r">
                {key.id === me.value?.key_id ? (
                  <span class="small t3">this one</span>
                ) : chosen === key.id ? (
                  <button type="button" class="btn sm danger" onClick={() => revoke(key)}>Revoke for good</button>
                ) : (
                  <button type="button" class="btn sm quiet" aria-label={`Revoke ${key.id} of ${shown(key.owner)}`} onClick={() => setChosen(key.id)}>Revoke</button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

function KeyFigures({ keys }: { keys: OperateKey[] }): VNode {
  return (
    <Panel title="Keys and budgets" more="this month">
        <table>
          <thead>
            <tr>
              <th scope="col">Owner</th>
              <th scope="col" class="hide-phone">Key</th>
              <th scope="col" class="r hide-phone">Running</th>
              <th scope="col">Spent</th>
              <th scope="col" class="r"><span class="vh">Of the budget</span></th>
            </tr>
          </thead>
          <tbody>
            {keys.map((key) => (
              <tr key={key.key}>
                <td>{shown(key.owner)}</td>
                <td class="mono-s t2 hide-phone">{shown(key.key)}</td>
                <td class="r hide-phone">{key.running}{key.limit === null ? "" : ` / ${key.limit}`}</td>
                <td class="main-cell"><Meter share={key.budget === null ? 0 : (key.spent + key.reserved) / key.budget} label={`Budget of ${shown(key.owner)}`} words={key.budget === null ? cost(key.spent) : `${cost(key.spent)} of ${cost(key.budget)}`} /></td>
                <td class="r">{cost(key.spent)}{key.budget === null ? "" : ` / ${cost(key.budget)}`}</td>
              </tr>
            ))}
          </tbody>
        </table>
    </Panel>
  );
}

function Servers({ data }: { data: OperateData }): VNode {
  const box = data.servers.value;
  const list = box.value ?? [];
  const tools = list.reduce((sum, one) => sum + (typeof one.tools === "number" ? one.tools : 0), 0);
  return (
    <Panel title="MCP servers" more={list.length === 0 ? "" : `${list.length} · ${plural(tools, "tool")}`} box={box}>
      {list.length === 0 ? (
        <Empty words="None is configured." />
      ) : (
        <ul class="op-list">
          {list.map((one) => {
            const tone = one.state === "connected" ? "ok" : one.state === "failed" ? "fail" : one.state === "disabled" ? "" : "wait";
            const words = one["last_error"];
            return (
              <li key={one.name}>
                <span class={`dot ${tone}`} /> <span class="strong">{shown(one.name)}</span> <span class="small t3">{shown(typeof one["transport"] === "string" ? one["transport"] : "")}</span>
                <span class={`small cut grow ${tone === "ok" || tone === "" ? "t3" : tone}`}>{shown(one.state)}{typeof words === "string" && one.state !== "connected" ? `: ${shown(words)}` : ""}</span>
                <span class="small t2 num">{typeof one.tools === "number" ? plural(one.tools, "tool") : "–"}</span>
              </li>
            );
          })}
        </ul>
      )}
    </Panel>
  );
}

const MOST_WORDS = 240; // characters of arguments that are shown in a row

function argumentsOf(one: Approval): string {
  const { arguments: given } = one;
  if (given === undefined || given === null) return "";
  if (typeof given === "string") return given;
  if (typeof given !== "object" || Array.isArray(given)) return JSON.stringify(given);
  return Object.entries(given).map(([name, value]) => `${name} ${JSON.stringify(value)}`).join("  ");
}

function Decisions({ data }: { data: OperateData }): VNode {
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
                <span class="grow ap-words">
                  <span class="mono-name">{shown(labelOf(one.tool_name))}</span> <span class="mono-s t2">{shown(isShort ? words : `${words.slice(0, 80)}…`)}</span>
                  {one.reason !== undefined && (
                    <span class="small ap-why">
                      <Icon name="alert" small /> <span>{shown(one.reason)}</span>
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

const BARS = 30;

function Errors({ data }: { data: OperateData }): VNode {
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
    <Panel title="Errors of the last hour" more={rows.length === 0 ? "" : `in ${plural(rows.length, "run")}`} box={box}>
      {rows.length === 0 ? (
        <Empty words="No run of yours has failed." />
      ) : (
        <>
          <ErrorBars times={rows.map((row) => row.ended_at ?? row.created_at)} since={since} />
          <ul class="op-list">
            {[...groups].sort(([, a], [, b]) => b.count - a.count).slice(0, 12).map(([words, group]) => (
              <li key={words}>
                <span class="fail num strong">{group.count}×</span>
                <span class="pill">{group.kind.replace("model_failed", "model")}</span>
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

/** By code, model and agent: what an operator may know of them. */
function ErrorsOfAll({ data }: { data: OperateData }): VNode {
  const box = data.errors.value;
  const list = [...(box.value ?? [])].sort((a, b) => b.count - a.count).slice(0, 12);
  return (
    <Panel title="Errors of all owners" more="last hour" box={box}>
      {list.length === 0 ? (
        <Empty words="No run has failed." />
      ) : (
        <ul class="op-list">
          {list.map((one) => (
            <li key={`${one.code} ${one.model} ${one.agent}`}>
              <span class="fail num strong">{one.count}×</span>
              <span class="pill">{shown(one.code ?? "failed")}</span>
              <span class="cut grow t2">{shown([one.agent, one.model].filter((name) => name !== null).join(" · "))}</span>
              <span class="small t3 num">{until(Math.max(1, now.value - one.last_at))} ago</span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function ErrorBars({ times, since }: { times: number[]; since: number }): VNode {
  const box = useRef<HTMLDivElement>(null);
  const counts = Array.from({ length: BARS }, (_, at) => times.filter((time) => Math.min(BARS - 1, Math.floor(((time - since) / HOUR) * BARS)) === at).length);
  const most = Math.max(1, ...counts);
  useLayoutEffect(() => {
    [...(box.current?.children ?? [])].forEach((bar, at) => {
      (bar as HTMLElement).style.height = `${(100 * (counts[at] ?? 0)) / most}%`;
    });
  });
  return (
    <div ref={box} class="err-bars" aria-hidden="true">
      {counts.map((_, at) => (
        <i key={at} />
      ))}
    </div>
  );
}

function Models({ figures }: { figures: OperateFigures | null }): VNode {
  return (
    <>
      <Panel title="Models" more={figures?.models === undefined ? "" : "last hour"}>
        {figures?.models === undefined ? (
          <Empty words="This server does not count calls of models yet. Each run has its own figures." />
        ) : (
          <table>
            <thead>
              <tr>
                <th scope="col">Model</th>
                <th scope="col" class="r">Calls</th>
                <th scope="col" class="r">Failed</th>
                <th scope="col" class="r">First token</th>
                <th scope="col" class="r">Cost</th>
              </tr>
            </thead>
            <tbody>
              {figures.models.map((one) => (
                <tr key={one.name}>
                  <td class="main-cell">{shown(one.name)} {one.cools_down ? <span class="pill wait tiny">cools down {until(one.cools_down)}</span> : null}</td>
                  <td class="r">{one.calls}</td>
                  <td class={one.failed > 0 ? "r fail" : "r t3"}>{one.failed}</td>
                  <td class="r">{one.first_token === null ? "unknown" : seconds(one.first_token)}</td>
                  <td class="r">{one.cost === null ? "unknown" : one.cost === 0 ? "free" : cost(one.cost)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Panel>
      {figures?.meters !== undefined && (
        <Panel title="Room">
          <ul class="op-list">
            {figures.meters.map((one) => (
              <li key={one.name}>
                <span class="small t2 meter-name">{shown(one.name)}</span>
                <span class="grow"><Meter share={one.used / one.of} label={one.name} words={`${one.used} of ${one.of} ${one.unit}`} /></span>
                <span class="small num">{one.used} / {one.of} {one.unit}</span>
              </li>
            ))}
          </ul>
        </Panel>
      )}
    </>
  );
}
