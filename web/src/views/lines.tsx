// Many lines of text in a box of their own: only those in sight are nodes.
import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import { useVirtual } from "../virtual";
import { Coloured } from "./output";

const HEIGHT = 20; // px of a line, as the code's type has it

export function VirtualLines({ lines, label, class: tone }: { lines: string[]; label: string; class: string }): VNode {
  const box = useRef<HTMLPreElement>(null);
  const virtual = useVirtual({ count: lines.length, scroll: box, estimate: () => HEIGHT, key: (at) => at, overscan: 20 });
  const items = virtual.getVirtualItems();
  const first = items[0];
  return (
    <pre ref={box} class={`${tone} lines`} tabIndex={0} aria-label={label}>
      <div ref={virtual.sized}>
        {first !== undefined && (
          <div ref={virtual.moved}>
            <Coloured text={items.map((item) => lines[item.index] ?? "").join("\n")} />
          </div>
        )}
      </div>
    </pre>
  );
}
