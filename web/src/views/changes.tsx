// What a person changed in the arguments of a call.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { DiffLine } from "../diff";
import { shown } from "../visible";

const SIGNS = { same: " ", gone: "−", new: "+" };

export function Changes({ before, after }: { before: string; after: string }): VNode {
  const [lines, setLines] = useState<DiffLine[] | null>(null);
  useEffect(() => {
    void import("../diff").then(({ diffLines }) => setLines(diffLines(before, after)));
  }, [before, after]);
  return (
    <pre class="code wrap diff" tabIndex={0} role="tabpanel" aria-label="changes">
      {lines?.map((line, at) => (
        <div key={at} class={line.kind}>
          <span aria-hidden="true">{SIGNS[line.kind]} </span>
          {line.kind !== "same" && <span class="vh">{line.kind === "gone" ? "removed: " : "added: "}</span>}
          {line.pieces.map((piece, number) => (piece.isChanged ? <b key={number}>{shown(piece.text)}</b> : shown(piece.text)))}
        </div>
      ))}
    </pre>
  );
}
