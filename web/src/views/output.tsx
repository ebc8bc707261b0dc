// What a program wrote: colours as they were meant, nothing else acted on; a long output folded in the middle.
import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import { piecesOf } from "../markdown/ansi";
import { whole } from "../format";
import { VirtualLines } from "./lines";

const LONG = 200; // lines
const EDGE = 40;

export function Output({ stdout, stderr }: { stdout: string; stderr: string }): VNode {
  return (
    <div class="terminal">
      {stdout !== "" && <Stream text={stdout} label="Output" />}
      {stderr !== "" && <Stream text={stderr} label="Errors" isError />}
    </div>
  );
}

function Stream({ text, label, isError = false }: { text: string; label: string; isError?: boolean }): VNode {
  const lines = useMemo(() => text.replace(/\n$/, "").split("\n"), [text]);
  const [isAll, setAll] = useState(false);
  const tone = isError ? "tbl fail" : "tbl";
  if (lines.length <= LONG) {
    return (
      <pre class={tone} tabIndex={0} aria-label={label}>
        <Coloured text={lines.join("\n")} />
      </pre>
    );
  }
  if (isAll) return <VirtualLines lines={lines} label={label} class={tone} />;
  return (
    <div>
      <pre class={tone} tabIndex={0} aria-label={`${label}, its first lines`}>
        <Coloured text={lines.slice(0, EDGE).join("\n")} />
      </pre>
      <button type="button" class="btn sm quiet more" onClick={() => setAll(true)}>
        {whole(lines.length - 2 * EDGE)} more lines: show all
      </button>
      <pre class={tone} tabIndex={0} aria-label={`${label}, its last lines`}>
        <Coloured text={lines.slice(-EDGE).join("\n")} />
      </pre>
    </div>
  );
}

export function Coloured({ text }: { text: string }): VNode {
  const pieces = useMemo(() => piecesOf(text), [text]);
  return (
    <code>
      {pieces.map((piece, at) => (piece.look === "" ? piece.text : <span key={at} class={piece.look}>{piece.text}</span>))}
    </code>
  );
}
