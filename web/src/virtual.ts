// Long lists: of many rows only those near what is seen are nodes. Heights are measured, remembered, and set through the CSSOM.
import { Virtualizer, elementScroll, measureElement, observeElementOffset, observeElementRect } from "@tanstack/virtual-core";
import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useReducer } from "preact/hooks";

interface VirtualOptions {
  count: number;
  scroll: RefObject<HTMLElement | null>;
  estimate: (at: number) => number;
  key: (at: number) => string | number;
  overscan?: number;
}

type Virtual = Virtualizer<HTMLElement, HTMLElement> & {
  /** For the node that is as high as all rows together, and for the one that holds those that are drawn. */
  sized: (node: HTMLElement | null) => void;
  moved: (node: HTMLElement | null) => void;
};

export function useVirtual({ count, scroll, estimate, key, overscan = 4 }: VirtualOptions): Virtual {
  const [, draw] = useReducer((number: number) => number + 1, 0);
  const nodes = useMemo(() => ({ sized: null as HTMLElement | null, moved: null as HTMLElement | null }), []);
  const options = {
    count,
    getScrollElement: () => scroll.current,
    estimateSize: estimate,
    getItemKey: key,
    overscan,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    measureElement,
    onChange: () => draw(undefined),
  };
  const virtual = useMemo(() => {
    const made = new Virtualizer<HTMLElement, HTMLElement>(options) as Virtual;
    made.sized = (node) => {
      nodes.sized = node;
    };
    made.moved = (node) => {
      nodes.moved = node;
    };
    return made;
  }, []);
  virtual.setOptions(options);
  useLayoutEffect(() => virtual._didMount(), []);
  useLayoutEffect(() => {
    virtual._willUpdate();
    const first = virtual.getVirtualItems()[0];
    if (nodes.sized !== null) nodes.sized.style.height = `${virtual.getTotalSize()}px`;
    if (nodes.moved !== null) nodes.moved.style.transform = `translateY(${first?.start ?? 0}px)`;
  });
  return virtual;
}
