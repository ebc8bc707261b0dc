// The rows of a waterfall: names and figures at the left, bars on one scale at the right. On a phone each bar stands under its row.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { now } from "../clock";
import { bareModel, seconds, tokens } from "../format";
import { iconFor } from "../tools";
import { shown } from "../visible";
import { useVirtual } from "../virtual";
import { isPhone } from "../views/chat";
import { Icon } from "../views/icon";
import type { RunLog } from "./log";
import { type Scale, type Span, tickLabel, ticksOf } from "./spans";

const ROW = 29;
const PHONE_ROW = 52;
const PHONE_ROUND = 36;
const LABEL = 300; // px of the names

interface WaterfallProps {
  log: RunLog;
  rows: Span[];
  scale: Scale;
  chosen: string;
  select: (span: Span) => void;
  toggle: (span: Span) => void;
  isExpanded: (span: Span) => boolean | null;
  /** The time that the replay is at. */
  cursor: number | null;
}

export function Waterfall({ log, rows: all, scale, chosen, select, toggle, isExpanded, cursor }: WaterfallProps): VNode {
  const box = useRef<HTMLDivElement>(null);
  const rows = isPhone.value ? all.filter((row) => row.kind !== "run") : all; // the bar of the page says it there
  const height = (at: number) => (!isPhone.value ? ROW : rows[at]?.kind === "round" ? PHONE_ROUND : PHONE_ROW);
  const virtual = useVirtual({ count: rows.length, scroll: box, estimate: height, key: (at) => rows[at]?.key ?? at, overscan: 10 });
  const place = rows.findIndex((row) => row.key === chosen);
  const [, second = scale.total] = ticksOf(scale.total);
  useLayoutEffect(() => box.current?.style.setProperty("--step", `${(100 * second) / scale.total}%`));
  const seen = useRef(chosen);
  useEffect(() => {
    if (seen.current === chosen) return;
    seen.current = chosen;
    virtual.scrollToIndex(place, { align: "auto" });
    // A row that was reached by keys has the focus; the pointer leaves it where it is.
    if (box.current?.contains(document.activeElement)) requestAnimationFrame(() => box.current?.querySelector<HTMLElement>("[aria-selected=true]")?.focus());
  }, [chosen]);
  const facts = log.events.filter((one) => !one.position.includes(".")).length;
  return (
    <>
      <div class="ruler hide-phone" aria-hidden="true">
        <span class="ruler-words t3">{rows.length} spans of {facts} facts, {log.events.length - facts} previews</span>
        <Ticks scale={scale} cursor={cursor} />
      </div>
      <div ref={box} class="spans" role="treegrid" aria-label="What took how long" aria-rowcount={rows.length}>
        <Cursor scale={scale} at={cursor} />
        <div ref={virtual.sized} class="sized" role="presentation">
          <div ref={virtual.moved} role="presentation">
            {virtual.getVirtualItems().map((item) => {
              const span = rows[item.index];
              return span === undefined ? null : (
                <Row key={span.key} span={span} name={span.kind === "run" ? log.agent.value || bareModel(span.name) : span.name} index={item.index} scale={scale} isChosen={span.key === chosen} select={select} toggle={toggle} expanded={isExpanded(span)} />
              );
            })}
          </div>
        </div>
      </div>
    </>
  );
}

function Ticks({ scale, cursor }: { scale: Scale; cursor: number | null }): VNode {
  const box = useRef<HTMLSpanElement>(null);
  const ticks = ticksOf(scale.total);
  // Where a tick would lie in a wait that was cut, the wait is named instead.
  const cuts = scale.cuts.map((cut) => ({ x: Math.min(0.97, scale.x(cut.to)), words: `+${cut.to - cut.from >= 90 ? `${Math.round((cut.to - cut.from) / 60)} min` : `${Math.round(cut.to - cut.from)} s`}` }));
  const shownTicks = ticks.filter((tick) => cuts.every((cut) => Math.abs(cut.x - tick / scale.total) > 0.07));
  useLayoutEffect(() => {
    for (const label of box.current?.querySelectorAll<HTMLElement>("[data-x]") ?? []) label.style.left = `${100 * Number(label.dataset["x"])}%`;
  });
  return (
    <span ref={box} class="ticks">
      {shownTicks.map((tick) => (
        <span key={tick} data-x={tick / scale.total}>{tickLabel(tick)}</span>
      ))}
      {cuts.map((cut) => (
        <span key={cut.words + cut.x} class="wait" data-x={Math.min(0.97, cut.x)}>{cut.words}</span>
      ))}
      {cursor !== null && <b data-x={Math.min(0.98, scale.x(cursor))}>{stamp(cursor - scale.start)}</b>}
    </span>
  );
}

function Cursor({ scale, at }: { scale: Scale; at: number | null }): VNode | null {
  const line = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    if (line.current !== null && at !== null) line.current.style.left = `calc(${LABEL / 16}rem + (100% - ${LABEL / 16}rem) * ${scale.x(at)})`;
  });
  return at === null ? null : <span ref={line} class="nowline hide-phone" aria-hidden="true" />;
}

/** As a player shows it. */
export function stamp(value: number): string {
  const whole = Math.max(0, value);
  const minutes = Math.floor(whole / 60);
  return `${minutes}:${(whole - minutes * 60).toFixed(1).padStart(4, "0")}`;
}

interface RowProps {
  span: Span;
  name: string;
  index: number;
  scale: Scale;
  isChosen: boolean;
  select: (span: Span) => void;
  toggle: (span: Span) => void;
  expanded: boolean | null;
}

function Row({ span, name, index, scale, isChosen, select, toggle, expanded }: RowProps): VNode {
  const label = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    if (label.current !== null) label.current.style.paddingLeft = isPhone.value ? "" : `${(12 + (span.level - 1) * 18) / 16}rem`;
  });
  const isTool = span.kind === "tool" || span.kind === "child" || span.kind === "wait";
  return (
    <div
      role="row"
      class={`span s-${span.kind} ${isChosen ? "on" : ""}`}
      aria-level={span.level}
      aria-rowindex={index + 1}
      aria-selected={isChosen}
      aria-expanded={expanded ?? undefined}
      tabIndex={isChosen ? 0 : -1}
      onClick={() => select(span)}
      onDblClick={() => expanded !== null && toggle(span)}
    >
      <span ref={label} class="lab" role="gridcell">
        {expanded !== null && span.kind !== "round" && (
          <button type="button" class="twist" tabIndex={-1} aria-label={expanded ? "Fold" : "Open"} onClick={(event) => { event.stopPropagation(); toggle(span); }}>
            <Icon name={expanded ? "chevron-down" : "chevron-right"} small />
          </button>
        )}
        {span.kind !== "child" && <SpanIcon span={span} />}
        <span class={`cut ${isTool ? "mono-s tool-name" : ""} ${span.kind === "run" || span.kind === "round" ? "strong" : ""} ${span.state === "unbegun" ? "t3" : ""}`}>{shown(name)}</span>
        {span.kind === "child" && <span class="pill child tiny">child</span>}
        {span.note !== "" && <span class={`small only-phone-inline cut ${tone(span)}`}>{shown(span.note)}</span>}
      </span>
      <span role="gridcell" class="len">
        <Length span={span} busy={scale.busy} />
      </span>
      <span class="trk" aria-hidden="true">
        <Bars span={span} scale={scale} />
      </span>
    </div>
  );
}

function SpanIcon({ span }: { span: Span }): VNode | null {
  if (span.kind === "run") return null;
  if (span.kind === "round") return <span class={`rn ${span.state === "waits" ? "wait" : span.state === "failed" ? "fail" : span.to === null ? "live" : ""}`}>{span.round + 1}</span>;
  if (span.kind === "model") return <Icon name={span.state === "failed" ? "retry" : "cpu"} small class="k" />;
  if (span.kind === "wait") return <Icon name="shield" small class={span.state === "waits" ? "wait" : "k"} />;
  return <Icon name={iconFor(span.name, span.child)} small class="k" />;
}

export function tone(span: Span): string {
  return span.state === "failed" ? "fail" : span.state === "waits" ? "wait" : "t2";
}

/** The figure of a row: it ticks while the row goes on. */
function Length({ span, busy }: { span: Span; busy: number }): VNode {
  if (span.state === "unbegun") return <span class="t3">{span.note}</span>;
  // Of a whole run, what it worked: how long people took is in the rows of the waits.
  const took = span.kind === "run" ? busy : (span.to ?? now.value) - span.from;
  const count = span.usage === null || span.kind !== "model" ? 0 : (span.usage.input ?? 0) + (span.usage.output ?? 0);
  const words = `${seconds(Math.max(0, took))}${count > 0 ? ` · ${tokens(count)}` : ""}`;
  return <span class={span.state === "failed" || span.state === "waits" ? tone(span) : ""}>{words}{span.state === "failed" ? <span class="vh"> failed</span> : null}</span>;
}

function Bars({ span, scale }: { span: Span; scale: Scale }): VNode | null {
  const box = useRef<HTMLSpanElement>(null);
  const end = span.to ?? now.value;
  const from = scale.x(span.from);
  const to = scale.x(end);
  const first = span.firstAt === null ? null : scale.x(span.firstAt);
  useLayoutEffect(() => {
    const [bar, pale] = [...(box.current?.querySelectorAll<HTMLElement>("i") ?? [])];
    if (bar !== undefined) {
      bar.style.left = `${100 * from}%`;
      bar.style.width = `max(2px, ${100 * (to - from)}%)`;
    }
    if (pale !== undefined && first !== null) {
      pale.style.left = `${100 * from}%`;
      pale.style.width = `${100 * (first - from)}%`;
    }
    const note = box.current?.querySelector<HTMLElement>("em");
    if (note === null || note === undefined) return;
    // Beside the bar; before it where there is no room behind it.
    const isRight = to < 0.72;
    note.style.left = isRight ? `${100 * to}%` : "auto";
    note.style.right = isRight ? "auto" : `${100 * (1 - from)}%`;
  });
  if (span.state === "unbegun") return null;
  const kind = span.kind === "run" || span.kind === "round" ? "rb" : span.state === "failed" || span.state === "denied" ? "f" : span.kind === "model" ? "m" : span.kind === "wait" ? "w" : span.kind === "child" ? "c" : "t";
  return (
    <span ref={box} class="bars">
      <i class={kind} />
      {first !== null && first > from && span.state !== "failed" && <i class="ttf" />}
      {span.note !== "" && <em class={`hide-phone ${tone(span)}`}>{shown(span.note.slice(0, 80))}</em>}
    </span>
  );
}
