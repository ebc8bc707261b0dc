import type { VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "./icon";
import { closeLayer } from "./panes";
import { CTRL } from "./view-keys";

const KEYS: [string[], string][] = [
  [[`${CTRL} K`], "find anything"],
  [["N"], "new session"],
  [["G", "C"], "Chat (B, R, O: Build, Runs, Operate)"],
  [["J", "K"], "next, previous"],
  [["→", "←"], "open, fold"],
  [["A", "E", "S", "D"], "approve, edit, always, deny"],
  [[`${CTRL} J`], "to the open question"],
  [[`${CTRL} .`], "stop the run"],
  [["Enter"], "send, or say into the run"],
  [["Shift Enter"], "new line"],
  [["↑"], "edit my last message (in an empty field)"],
  [["Space"], "replay a run, pause"],
  [["[", "]"], "one event back, on"],
  [["B"], "branch from a round of a run"],
  [["C"], "compare runs"],
  [["Alt 1", "Alt 2"], "one variant of Build"],
  [["Alt D"], "the next size of a preview"],
  [["F2", "Del"], "rename, delete a session of the list"],
  [["/"], "search"],
  [["Esc"], "close a menu, a pane, an edit"],
  [["?"], "these keys"],
];

export function Keys(): VNode {
  const box = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => box.current?.showModal(), []);
  return (
    <dialog ref={box} class="dialog" aria-label="All keys" onClose={closeLayer} onClick={(event) => event.target === box.current && box.current?.close()}>
      <header class="dialog-head">
        <h2 class="strong">All keys</h2>
        <button type="button" class="ic sm end" aria-label="Close" onClick={() => box.current?.close()}>
          <Icon name="x" small />
        </button>
      </header>
      <dl class="keys">
        {KEYS.map(([keys, does]) => (
          <div key={does}>
            <dt>
              {keys.map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <p class="small t3">Single letters can be switched off in the settings.</p>
    </dialog>
  );
}
