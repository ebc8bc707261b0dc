// A run played again: the chat as it was shown at each event, drawn by the same fold. Waits are skipped if wanted.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { changed, touch } from "../changes";
import { PlayedAt } from "../clock";
import { fold } from "../fold/fold";
import { type RunState, lastRound, newRun } from "../fold/state";
import { RoundView } from "../views/round";
import { Icon } from "../views/icon";
import type { RunLog } from "./log";
import { type Scale, type Span, spansOf } from "./spans";
import { stamp } from "./waterfall";

export interface Replay {
  isActive: boolean;
  isPlaying: boolean;
  /** Which event was the last that is shown. */
  index: number;
  /** Its time. */
  at: number;
  start: number;
  speed: number;
  skipsWaits: boolean;
  state: RunState;
  toggle: () => void;
  step: (by: number) => void;
  seek: (index: number) => void;
  setSpeed: (speed: number) => void;
  setSkips: (skips: boolean) => void;
}

const SPEEDS = [1, 4, 16];
const SKIPPED = 0.3; // seconds that are left of a wait
const QUIET = 1; // seconds between two events, above which nothing was to be seen

/** A state that holds the events up to a place: forwards it is folded on, backwards it is made again. */
class Shown {
  run: RunState;
  index = -1;
  constructor(private readonly log: RunLog) {
    this.run = newRun(log.id);
  }

  to(index: number): void {
    if (index < this.index) {
      this.run = newRun(this.log.id);
      this.index = -1;
    }
    for (let at = this.index + 1; at <= index; at++) {
      const one = this.log.events[at];
      if (one !== undefined) fold(this.run, one.event, one.position, touch);
    }
    this.index = index;
  }
}

export function useReplay(log: RunLog, scale: Scale): Replay {
  const shown = useMemo(() => new Shown(log), [log]);
  const [index, setIndex] = useState(-1);
  const [isPlaying, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(4);
  const [skipsWaits, setSkips] = useState(true);
  const position = useRef(0); // seconds since the start, on the scale of the player
  const times = () => log.events.map((one) => one.at);
  const last = log.events.length - 1;
  const seek = (to: number) => {
    const next = Math.min(last, Math.max(0, to));
    shown.to(next);
    position.current = log.events[next]?.at ?? scale.start;
    setIndex(next);
  };
  useEffect(() => {
    if (!isPlaying) return;
    let before = performance.now();
    let frame = 0;
    const all = times();
    let at = index;
    let clock = position.current || scale.start;
    const tick = (time: number) => {
      clock += ((time - before) / 1000) * speed;
      before = time;
      const next = all[at + 1];
      // Time in which the user saw nothing new is not waited for.
      if (skipsWaits && next !== undefined && next - clock > QUIET && (all[at] ?? 0) + SKIPPED < clock) clock = next;
      let to = at;
      while (to + 1 < all.length && (all[to + 1] ?? 0) <= clock) to += 1;
      position.current = clock;
      if (to !== at) {
        at = to;
        shown.to(at);
        setIndex(at);
      }
      if (at >= all.length - 1) setPlaying(false);
      else frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(frame);
  }, [isPlaying, speed, skipsWaits, log]);
  const toggle = () => {
    if (!isPlaying && (index < 0 || index >= last)) seek(0);
    setPlaying(!isPlaying);
  };
  return {
    isActive: index >= 0,
    isPlaying,
    index,
    at: log.events[index]?.at ?? scale.start,
    start: scale.start,
    speed,
    skipsWaits,
    state: shown.run,
    toggle,
    step: (by) => {
      setPlaying(false);
      seek(index < 0 ? (by > 0 ? 0 : last) : index + by);
    },
    seek: (to) => {
      setPlaying(false);
      seek(to);
    },
    setSpeed,
    setSkips,
  };
}

export function Player({ log, replay }: { log: RunLog; replay: Replay }): VNode {
  const count = log.events.length;
  const total = (log.events.at(-1)?.at ?? replay.start) - replay.start;
  return (
    <>
      {replay.isActive && <Seen log={log} replay={replay} />}
      <div class={replay.isActive ? "player on" : "player"} role="group" aria-label="Replay">
        <button type="button" class="send" aria-label={replay.isPlaying ? "Pause" : "Replay"} title="Space" onClick={replay.toggle}>
          <Icon name={replay.isPlaying ? "pause" : "play"} small />
        </button>
        <span class="num small player-time">
          {stamp(replay.isActive ? replay.at - replay.start : 0)} <span class="t3">/ {stamp(total)}</span>
        </span>
        <Scrubber log={log} replay={replay} count={count} />
        <div class="seg hide-phone" role="group" aria-label="Speed">
          {SPEEDS.map((speed) => (
            <button key={speed} type="button" aria-pressed={replay.speed === speed} onClick={() => replay.setSpeed(speed)}>
              {speed}×
            </button>
          ))}
        </div>
        <button type="button" class="btn sm quiet hide-phone" aria-pressed={replay.skipsWaits} onClick={() => replay.setSkips(!replay.skipsWaits)}>
          {replay.skipsWaits && <Icon name="check" small />} Skip waits
        </button>
      </div>
    </>
  );
}

function Scrubber({ log, replay, count }: { log: RunLog; replay: Replay; count: number }): VNode {
  const box = useRef<HTMLDivElement>(null);
  const share = count <= 1 ? 0 : Math.max(0, replay.index) / (count - 1);
  const spans = useMemo(() => spansOf(log.events).filter((one) => one.kind === "round" || one.kind === "wait" || one.state === "failed"), [count]);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const [gone, thumb] = [element.querySelector<HTMLElement>(".gone"), element.querySelector<HTMLElement>(".th")];
    if (gone !== null) gone.style.width = `${100 * share}%`;
    if (thumb !== null) thumb.style.left = `calc(${100 * share}% - .45rem)`;
    for (const mark of element.querySelectorAll<HTMLElement>(".nt")) mark.style.left = `${100 * Number(mark.dataset["x"])}%`;
  });
  const seekTo = (event: PointerEvent) => {
    const rect = box.current?.getBoundingClientRect();
    if (rect === undefined || rect.width === 0) return;
    replay.seek(Math.round(((event.clientX - rect.left) / rect.width) * (count - 1)));
  };
  const at = log.events[Math.max(0, replay.index)];
  return (
    <div
      ref={box}
      class="scrub"
      role="slider"
      tabIndex={0}
      aria-label="Position in the run"
      aria-valuemin={0}
      aria-valuemax={count - 1}
      aria-valuenow={Math.max(0, replay.index)}
      aria-valuetext={`${stamp(replay.at - replay.start)}, event ${replay.index + 1} of ${count}, ${at?.event.type.replaceAll("_", " ") ?? ""}`}
      onPointerDown={(event) => {
        box.current?.setPointerCapture(event.pointerId);
        seekTo(event);
      }}
      onPointerMove={(event) => event.buttons === 1 && seekTo(event)}
      onKeyDown={(event) => {
        const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: 20, PageDown: -20 }[event.key];
        if (by !== undefined) replay.step(by);
        else if (event.key === "Home") replay.seek(0);
        else if (event.key === "End") replay.seek(count - 1);
        else return;
        event.preventDefault();
      }}
    >
      <span class="base" />
      <span class="gone" />
      {spans.map((one) => (
        <span key={one.key} class={`nt ${mark(one)}`} data-x={(one.events[0] ?? 0) / Math.max(1, count - 1)} />
      ))}
      <span class="th" />
    </div>
  );
}

function mark(span: Span): string {
  return span.kind === "wait" ? "w" : span.state === "failed" ? "f" : "";
}

const NOTHING = { retry: () => undefined, pickModel: () => undefined };
const UNCITED = () => null;

/** The round that was open then, as the chat has drawn it. */
function Seen({ log, replay }: { log: RunLog; replay: Replay }): VNode {
  const run = replay.state;
  changed(run);
  const round = lastRound(run);
  const event = log.events[replay.index];
  return (
    <section class="seen" aria-label="What was shown">
      <div class="row small t2 seen-head">
        <Icon name="eye" small />
        <span class="strong">What was shown at {stamp(replay.at - replay.start)}</span>
        <span class="end t3 num cut">
          event {replay.index + 1} of {log.events.length} · <span class="mono-s">{event?.event.type}</span>
          {event !== undefined && !event.isKnown ? " · time estimated" : ""}
        </span>
      </div>
      <div class="seen-body" tabIndex={0} role="region" aria-label="The round at this event">
        {round === null ? (
          <p class="t3">Nothing yet: the run had not called its model.</p>
        ) : (
          <PlayedAt.Provider value={replay.at}>
            <RoundView key={round.number} run={run} round={round} isLast isLive={run.end === null} isAlone={false} cite={UNCITED} actions={NOTHING} />
          </PlayedAt.Provider>
        )}
      </div>
    </section>
  );
}
