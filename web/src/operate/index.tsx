// Operate: what runs now, what waits for a decision, what failed in the last hour, and how servers, keys and models fare.
import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Finding } from "../api";
import { now } from "../clock";
import { cost, plural, seconds, tokens, until } from "../format";
import { changes, isFed } from "../store/feed";
import { facts } from "../store/server";
import { shown } from "../visible";
import { Icon } from "../views/icon";
import { useLeaving } from "../views/leave";
import { openLayer } from "../views/panes";
import { OperateData, SPANS, type Span } from "./data";
import "../styles/operate.css";
import { Tile } from "./panel";
import { RunsNow, RunsOfOthers } from "./runs-now";
import { OwnBudgets, Keys } from "./keys";
import { Servers } from "./servers";
import { Decisions } from "./decisions";
import { Errors, ErrorsOfAll } from "./errors";
import { Models } from "./models";

const EVERY_MS = 4000;

export function OperateView(): VNode {
  const data = useMemo(() => new OperateData(), []);
  useEffect(() => {
    void data.refresh();
    // Changes are told about one's own runs alone, and not of each call: what other owners do, and what a run does, has to be asked for.
    const isTold = () => isFed.value && !(data.hasFigures && (facts.value?.has_keys === true || (data.running.value.value ?? []).length > 0));
    const timer = setInterval(() => !document.hidden && !isTold() && void data.refresh(), EVERY_MS);
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
        <span class="t3 small num hide-phone">{aboutServer(data)}</span>
        <span class="end" />
        <Doctor findings={data.doctor.value.value ?? []} />
        {data.running.value.problem !== null && (
          <span class="row small t2 live-word">
            <span class="dot fail" /> No answer
          </span>
        )}
        {data.hasFigures && !refused && (
          <span class="seg" role="group" aria-label="How far back">
            {(Object.keys(SPANS) as Span[]).map((span) => (
              <button key={span} type="button" aria-pressed={data.span.value === span} aria-label={`${shortSpan(span)}: the last ${SPANS[span].words}`} onClick={() => data.look(span)}>
                {shortSpan(span)}
              </button>
            ))}
          </span>
        )}
      </div>
      {refused ? <NoRight data={data} /> : <Boxes data={data} />}
    </>
  );
}

function shortSpan(span: Span): string {
  return span.replace(/(\d+)/, "$1 ");
}

function aboutServer(data: OperateData): string {
  const figures = data.figures.value.value;
  const words = facts.value === null ? [] : [`ronda ${facts.value.version}`];
  if (figures?.processes !== undefined) words.push(plural(figures.processes, "process", "processes"));
  if (figures?.uptime !== undefined) words.push(`up ${until(figures.uptime)}`);
  return words.join(" · ");
}

/** What `ronda doctor` says of this server, where something is not as the settings want it. */
function Doctor({ findings }: { findings: Finding[] }): VNode | null {
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLSpanElement>(null);
  useLeaving(box, isOpen, () => setOpen(false));
  const wrong = findings.filter((one) => one.state === "fails" || one.state === "partly");
  if (wrong.length === 0) return null;
  return (
    <span ref={box} class="doctor">
      <button type="button" class="pill wait" aria-label={`Doctor: ${plural(wrong.length, "finding")}`} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name="alert" small /> <span class="hide-phone">Doctor:</span> {wrong.length} <span class="words">{wrong.length === 1 ? "finding" : "findings"}</span>
      </button>
      {isOpen && (
        <ul class="doctor-list" aria-label="Findings of the doctor">
          {wrong.map((one) => (
            <li key={one.name}>
              <span class={one.state === "fails" ? "strong fail" : "strong wait"}>{shown(one.name)}</span> {shown(one.text)}
              {one.help !== null && <span class="t3 mono-s"> {shown(one.help)}</span>}
            </li>
          ))}
        </ul>
      )}
    </span>
  );
}

/** What waits for this key's owner is theirs to decide anyway. */
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
  const oldest = (state: string) => (of(state).length === 0 ? null : now.value - Math.min(...of(state).map((row) => row.created_at)));
  const age = (seconds: number | null) => (seconds === null ? "" : `oldest ${until(Math.max(1, seconds))}`);
  const decisions = data.decisions.value.value ?? [];
  return (
    <div class="operate" tabIndex={0} role="region" aria-label="Figures of the server">
      <div class="tiles">
        <Tile name="Running" dot="live" value={String(figures?.running ?? of("running").length)} more={figures === null ? "yours" : "of all owners"} series={figures?.series?.["open"]} />
        <Tile name="Queued" value={String(figures?.queued ?? of("queued").length)} more={age(figures === null ? oldest("queued") : figures.oldest_queued ?? null)} series={figures?.series?.["queued"]} />
        <Tile name="Wait for people" dot="wait" value={String(figures?.waiting ?? decisions.length)} more={age(figures === null ? oldest("waiting") : figures.oldest_waiting ?? null)} series={figures?.series?.["waiting"]} />
        <Tile name="First token, 95th" value={figures?.first_token_95 == null ? null : seconds(figures.first_token_95)} more={figures?.first_token_median == null ? "" : `median ${seconds(figures.first_token_median)}`} series={figures?.series?.["first_token"]} />
        <Tile name="Tokens a minute" value={figures?.tokens_a_minute == null ? null : tokens(figures.tokens_a_minute)} more={figures?.cached_share == null ? "" : `${Math.round(100 * figures.cached_share)} % cached`} series={figures?.series?.["tokens"]} />
        <Tile name="Cost today" value={figures?.cost_today == null ? null : cost(figures.cost_today)} more="" series={figures?.series?.["cost"]} />
      </div>
      <div class="op-grid">
        <div>
          <RunsNow data={data} />
          <RunsOfOthers data={data} />
          {(figures?.owners ?? []).length > 0 || data.mayManageKeys ? <Keys data={data} /> : <OwnBudgets data={data} />}
          <Servers data={data} />
        </div>
        <div>
          <Decisions data={data} />
          {data.hasFigures && facts.value?.has_keys === true ? <ErrorsOfAll data={data} /> : <Errors data={data} />}
          <Models data={data} />
        </div>
      </div>
    </div>
  );
}
