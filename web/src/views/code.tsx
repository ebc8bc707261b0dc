// Code: a text with its language, coloured when the page has time, and copied with one button.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type CodePiece, highlight } from "../markdown/highlight";
import { shown } from "../visible";
import { Icon } from "./icon";

const KINDS: Record<string, string> = {
  kwd: "k-k", str: "k-s", num: "k-n", bool: "k-n", cmnt: "k-c", func: "k-f", class: "k-f", type: "k-f", section: "k-f", insert: "k-add",
  deleted: "k-del", esc: "k-n",
};

const idle = (work: () => void) =>
  typeof requestIdleCallback === "function" ? requestIdleCallback(work, { timeout: 500 }) : setTimeout(work, 50);

export function Highlighted({ text, language }: { text: string; language: string }): VNode {
  const [pieces, setPieces] = useState<CodePiece[] | null>(null);
  useEffect(() => {
    let isCurrent = true;
    idle(() => {
      void highlight(text, language).then((found) => isCurrent && setPieces(found));
    });
    return () => {
      isCurrent = false;
    };
  }, [text, language]);
  const isFresh = pieces !== null && pieces.reduce((sum, piece) => sum + piece.text.length, 0) === text.length;
  if (pieces === null || !isFresh) return <code>{shown(text)}</code>;
  return (
    <code>
      {pieces.map((piece, at) =>
        piece.kind === "" ? shown(piece.text) : <span key={at} class={KINDS[piece.kind]}>{shown(piece.text)}</span>,
      )}
    </code>
  );
}

export function CodeBlock({ text, language }: { text: string; language: string }): VNode {
  return (
    <div class="codebox">
      <header>
        <span>{language === "" ? "text" : shown(language.slice(0, 30))}</span>
        <Copy text={text} label="Copy the code" />
      </header>
      <pre class="code" tabIndex={0}>
        <Highlighted text={text} language={language} />
      </pre>
    </div>
  );
}

export function Copy({ text, label }: { text: string; label: string }): VNode {
  const [isDone, setDone] = useState(false);
  const copy = () => {
    void navigator.clipboard?.writeText(text).then(() => {
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    });
  };
  return (
    <button type="button" class="ic sm" aria-label={isDone ? "Copied" : label} title={label} onClick={copy}>
      <Icon name={isDone ? "check" : "copy"} small />
    </button>
  );
}
