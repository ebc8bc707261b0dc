// The conversation: exchanges in a virtual list. It stays at its end while the reader is there, and where the reader put it otherwise.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { wordsOf } from "../fold/turns";
import { plural } from "../format";
import type { Entry } from "../store/history";
import { entries, hasEarlier, isLoading, isReadingEarlier, live, readEarlier, sessionId, wantEvents } from "../store/session";
import { useVirtual } from "../virtual";
import { shown } from "../visible";
import { Attached, Exchange } from "./exchange";
import { Icon, Spinner } from "./icon";

const NEAR_END = 48; // px: within them a reader is at the end
const NEAR_BEGIN = 600; // px: within them of the first exchange the page before it is read
const ESTIMATE = 240; // px of an exchange that was never drawn

const heights = new Map<string, number>();
export const unseen = signal(0);

export function Talk(): VNode {
  const box = useRef<HTMLDivElement>(null);
  const list = entries.value;
  const virtual = useVirtual({
    count: list.length,
    scroll: box,
    estimate: (at) => heights.get(list[at]?.key ?? "") ?? ESTIMATE,
    key: (at) => list[at]?.key ?? at,
  });
  const stick = useRef(true);
  const [isAway, setAway] = useState(false); // farther than a screen from the end, or while words come in there
  const [stuck, setStuck] = useState<Entry | null>(null);
  const seenRounds = useRef(0);

  const toEnd = () => {
    const element = box.current;
    if (element === null) return;
    element.scrollTop = element.scrollHeight;
    stick.current = true;
    unseen.value = 0;
    setAway(false);
  };

  // A new session, and a question of one's own, begin at the end.
  useLayoutEffect(() => {
    stick.current = true;
    toEnd();
  }, [sessionId.value, list.at(-1)?.key]);

  // What comes in above moves nothing of what is read.
  const first = useRef("");
  useLayoutEffect(() => {
    const at = list.findIndex((entry) => entry.key === first.current);
    if (at > 0 && box.current !== null && !stick.current) box.current.scrollTop += virtual.measurementsCache[at]?.start ?? 0;
    first.current = list[0]?.key ?? "";
  }, [list[0]?.key]);

  useEffect(() => {
    const element = box.current;
    const inner = element?.firstElementChild;
    if (!element || !inner) return;
    const grown = new ResizeObserver(() => {
      if (stick.current) toEnd();
      else countUnseen();
    });
    grown.observe(inner);
    grown.observe(element); // what stands below may grow
    return () => grown.disconnect();
  }, []);

  const wantEarlier = () => {
    if (box.current !== null && box.current.scrollTop < NEAR_BEGIN && hasEarlier.value) void readEarlier();
  };
  useEffect(wantEarlier, [list[0]?.key, hasEarlier.value]); // few words do not fill the screen: nothing would be scrolled

  const rounds = () => entries.value.reduce((sum, entry) => sum + entry.run.usage.rounds, 0);
  const countUnseen = () => {
    unseen.value = Math.max(0, rounds() - seenRounds.current);
  };

  const onScroll = () => {
    const element = box.current;
    if (element === null) return;
    wantEarlier();
    const left = element.scrollHeight - element.scrollTop - element.clientHeight;
    stick.current = left <= NEAR_END;
    setAway(left > (live.value === null ? element.clientHeight : NEAR_END));
    if (stick.current) {
      seenRounds.current = rounds();
      unseen.value = 0;
    }
    const top = element.scrollTop;
    const items = virtual.getVirtualItems();
    const item = items.findLast((one) => one.start < top - 8);
    const entry = item === undefined ? undefined : list[item.index];
    const node = item === undefined ? null : element.querySelector(`[data-index="${item.index}"] .said`);
    const isGone = node !== null && node.getBoundingClientRect().bottom < element.getBoundingClientRect().top + 8;
    setStuck(entry !== undefined && isGone && item !== undefined && item.end > top + 60 ? entry : null);
  };

  const items = virtual.getVirtualItems();
  return (
    <div class="talkbox">
      {stuck !== null && <Stuck entry={stuck} onUp={() => virtual.scrollToIndex(list.indexOf(stuck), { align: "start" })} />}
      <div ref={box} class="scroll" role="log" aria-live="off" aria-label="Conversation" aria-busy={live.value !== null} tabIndex={0} onScroll={onScroll}>
        <div ref={virtual.sized} class="sized">
          <div ref={virtual.moved}>
            {items.map((item) => {
              const entry = list[item.index];
              return entry === undefined ? null : (
                <Measured key={entry.key} entry={entry} index={item.index} measure={virtual.measureElement} isLast={item.index === list.length - 1} />
              );
            })}
          </div>
        </div>
        {isLoading.value && list.length === 0 && <p class="col t3 loading">Reading the session…</p>}
      </div>
      {isReadingEarlier.value && (
        <p class="pill earlier" role="status">
          <Spinner /> Reading what was said before
        </p>
      )}
      {(unseen.value > 0 || isAway) && (
        <button type="button" class="btn sm newest" onClick={toEnd}>
          {unseen.value > 0 ? plural(unseen.value, "new round") : "To the end"} <Icon name="arrow-down" small />
        </button>
      )}
    </div>
  );
}

interface MeasuredProps {
  entry: Entry;
  index: number;
  measure: (node: HTMLElement | null) => void;
  isLast: boolean;
}

function Measured({ entry, index, measure, isLast }: MeasuredProps): VNode {
  const node = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    measure(node.current);
    return () => {
      if (node.current !== null && node.current.offsetHeight > 0) heights.set(entry.key, node.current.offsetHeight);
    };
  }, []);
  useEffect(() => wantEvents(entry), [entry]);
  return (
    <article ref={node} class="turn" data-index={index}>
      <div class="col">
        <Exchange entry={entry} isLast={isLast} />
      </div>
    </article>
  );
}

function Stuck({ entry, onUp }: { entry: Entry; onUp: () => void }): VNode {
  return (
    <div class="stuck">
      <div class="col row">
        <span class="cut grow">{shown(wordsOf(entry.run.question))}</span>
        <Attached run={entry.run} limit={1} />
        <button type="button" class="ic sm" aria-label="Go to the question" title="Go to the question" onClick={onUp}>
          <Icon name="arrow-up" small />
        </button>
      </div>
    </div>
  );
}
