// Words that are looked for in a text that is shown: marked where they stand, counted, and walked with Enter. Nothing of the text is
// drawn again for it: the browser colours ranges.
import type { RefObject, VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { whole } from "../format";
import { Icon } from "../views/icon";

const MOST = 500; // places that are marked

interface FindProps {
  /** What is searched: all `pre` in it. */
  box: RefObject<HTMLElement | null>;
  words: string;
  set: (words: string) => void;
  close: () => void;
}

export function Find({ box, words, set, close }: FindProps): VNode {
  const field = useRef<HTMLInputElement>(null);
  const [count, setCount] = useState(0);
  const [at, setAt] = useState(0);
  useLayoutEffect(() => field.current?.focus(), []);
  useLayoutEffect(() => setAt(0), [words]);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null || words.trim() === "") return setCount(0);
    const mark = () => {
      const ranges = rangesOf(element, words);
      setCount(ranges.length);
      const now = ranges[at];
      if (typeof CSS.highlights === "undefined") return now;
      CSS.highlights.set("found", new Highlight(...ranges));
      CSS.highlights.set("found-now", now === undefined ? new Highlight() : new Highlight(now));
      return now;
    };
    mark()?.startContainer.parentElement?.scrollIntoView({ block: "center" });
    const later = new MutationObserver(() => void mark()); // colours of code come when the page has time
    later.observe(element, { childList: true, subtree: true });
    return () => {
      later.disconnect();
      CSS.highlights?.delete("found");
      CSS.highlights?.delete("found-now");
    };
  }, [words, at]);
  const step = (by: number) => count > 0 && setAt((at + by + count) % count);
  return (
    <div class="row find-row" role="search">
      <label class="field grow">
        <Icon name="search" small />
        <input
          ref={field}
          aria-label="Find in the request"
          placeholder="Find in the request"
          value={words}
          onInput={(event) => set(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
            else if (event.key === "Escape") close();
            else return;
            event.preventDefault();
            event.stopPropagation();
          }}
        />
      </label>
      <span class="small t3 num" role="status">{words.trim() === "" ? "" : count === 0 ? "not found" : `${at + 1} of ${count === MOST ? `${whole(MOST)} or more` : whole(count)}`}</span>
      <button type="button" class="ic sm" aria-label="Close the search" onClick={close}>
        <Icon name="x" small />
      </button>
    </div>
  );
}

/** Whether a text has the words, as they are looked for. */
export function hasWords(text: string, words: string): boolean {
  return words.trim() !== "" && patternOf(words).test(text);
}

function patternOf(words: string): RegExp {
  return new RegExp(words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu");
}

function rangesOf(box: HTMLElement, words: string): Range[] {
  const found: Range[] = [];
  for (const pre of box.querySelectorAll("pre")) {
    const nodes: Text[] = [];
    const walker = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
    while (walker.nextNode() !== null) nodes.push(walker.currentNode as Text);
    const text = nodes.map((node) => node.data).join("");
    for (const match of text.matchAll(patternOf(words))) {
      const range = document.createRange();
      const [from, to] = [placeOf(nodes, match.index), placeOf(nodes, match.index + match[0].length)];
      range.setStart(from.node, from.offset);
      range.setEnd(to.node, to.offset);
      found.push(range);
      if (found.length === MOST) return found;
    }
  }
  return found;
}

/** A place in the joined text of the nodes → the node that has it, and where. */
function placeOf(nodes: readonly Text[], at: number): { node: Text; offset: number } {
  let left = at;
  for (const node of nodes) {
    if (left <= node.data.length) return { node, offset: left };
    left -= node.data.length;
  }
  throw new RangeError("the text ends before that place");
}
