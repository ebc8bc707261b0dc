// What the next question of this session would be sent to its provider as. Nothing is sent for it.
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { RoundRequest } from "../api";
import { draft } from "../store/composer";
import { renderNext } from "../store/session";
import { Sent } from "../runs/sent";
import { shown } from "../visible";
import { Icon } from "./icon";
import { closeLayer } from "./panes";
import "../styles/run.css";

export function WillBeSent(): VNode {
  const box = useRef<HTMLDialogElement>(null);
  const [found, setFound] = useState<RoundRequest | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    box.current?.showModal();
    renderNext(draft.value).then(setFound, (error: unknown) => setProblem(error instanceof Error ? error.message : String(error)));
  }, []);
  return (
    <dialog ref={box} class="dialog wide-dialog" aria-label="What will be sent" onClose={closeLayer} onClick={(event) => event.target === box.current && box.current?.close()}>
      <header class="dialog-head">
        <h2>What will be sent</h2>
        <span class="small t3">{draft.value.trim() === "" ? "with “…” in place of your next words" : "with what you have written"}</span>
        <button type="button" class="ic sm end" aria-label="Close" onClick={() => box.current?.close()}>
          <Icon name="x" small />
        </button>
      </header>
      <div class="sent-box">
        {problem !== "" ? <p class="det-note fail" role="alert">{shown(problem)}</p> : found === null ? <p class="det-note t3">Reading…</p> : <Sent request={found} />}
      </div>
    </dialog>
  );
}
