// Text that arrives → blocks of Markdown: those that are closed never change again, and the open one is read from its own start.
//
// Raw text goes in, tokens of marked's lexer come out; no HTML is made or read on the way.
import { Lexer, type Token } from "marked";

export interface Block {
  key: number;
  raw: string;
  /** null: a code fence that is still open, whose text is `raw` without its first line. */
  tokens: Token[] | null;
  language: string;
  isOpen: boolean;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})([^\n`]*)\n?/;
const OPTIONS = { gfm: true } as const;

export class Blocks {
  readonly closed: Block[] = [];
  open: Block | null = null;
  private start = 0;
  private text = "";
  private fence: { close: RegExp; body: number } | null = null;

  /** Take all of the text so far. What came before must be a beginning of it; else everything is read again. */
  update(text: string, isDone: boolean): void {
    if (text.includes("\r")) text = text.replace(/\r\n?/g, "\n");
    if (!text.startsWith(this.text.slice(0, this.start)) || text.length < this.start) this.reset();
    this.text = text;
    for (;;) if (!this.step(isDone)) return;
  }

  private reset(): void {
    this.closed.length = 0;
    this.open = null;
    this.start = 0;
    this.fence = null;
  }

  /** Whether a block was closed, so that there may be another. */
  private step(isDone: boolean): boolean {
    const rest = this.text.slice(this.start);
    if (this.fence === null && !isDone) this.fence = openFence(rest);
    if (this.fence !== null) return this.readFence(rest, isDone);
    const tokens = lex(rest);
    const last = isDone ? tokens.length : lastBlock(tokens);
    let length = 0;
    for (const token of tokens.slice(0, last)) {
      length += token.raw.length;
      if (token.type !== "space") this.close(token.raw, [token]);
    }
    this.start += length;
    const tail = this.text.slice(this.start);
    if (isDone || tail.trim() === "") {
      this.open = null;
      return false;
    }
    this.fence = openFence(tail);
    if (this.fence !== null) return true;
    this.open = { key: this.closed.length, raw: tail, tokens: lex(completed(tail)), language: "", isOpen: true };
    return false;
  }

  private readFence(rest: string, isDone: boolean): boolean {
    const fence = this.fence;
    if (fence === null) return false;
    const found = fence.close.exec(rest.slice(fence.body));
    if (found === null && !isDone) {
      const language = FENCE.exec(rest)?.[2]?.trim() ?? "";
      this.open = { key: this.closed.length, raw: rest.slice(fence.body), tokens: null, language, isOpen: true };
      return false;
    }
    this.fence = null;
    this.open = null;
    if (found === null) return this.step(isDone);
    const end = fence.body + found.index + found[0].length;
    const raw = rest.slice(0, end);
    this.close(raw, lex(raw).filter((token) => token.type !== "space"));
    this.start += end;
    return this.start < this.text.length;
  }

  private close(raw: string, tokens: Token[]): void {
    this.closed.push({ key: this.closed.length, raw, tokens, language: "", isOpen: false });
    this.open = null;
  }
}

export function lex(text: string): Token[] {
  return new Lexer(OPTIONS).lex(text);
}

function openFence(rest: string): { close: RegExp; body: number } | null {
  const head = FENCE.exec(rest);
  const mark = head?.[1];
  if (head === null || mark === undefined || !rest.slice(0, head[0].length).endsWith("\n")) return null;
  const sign = mark[0] === "`" ? "`" : "~";
  return { close: new RegExp(`^ {0,3}${sign}{${mark.length},}[ \\t]*(?:\\n|$)`, "m"), body: head[0].length };
}

function lastBlock(tokens: Token[]): number {
  for (let at = tokens.length - 1; at >= 0; at--) if (tokens[at]?.type !== "space") return at;
  return 0;
}

/** What is half written at the end, closed for display: a reader sees bold text, not two stars. */
export function completed(text: string): string {
  const start = text.lastIndexOf("\n\n") + 1;
  let tail = text.slice(start);
  if (/^\s*\|/.test(tail) && !/\n\s*\|?[\s:]*-/.test(tail)) {
    const head = tail.trimEnd().split("\n")[0] ?? "";
    const cells = head.split("|").length - (head.trimEnd().endsWith("|") ? 2 : 1);
    return cells > 0 ? `${text.slice(0, start)}${head}${head.trimEnd().endsWith("|") ? "" : " |"}\n|${"---|".repeat(cells)}` : text;
  }
  tail = tail.replace(/!?\[([^\][\n]*)\]\([^)\n]*$/, "$1").replace(/!?\[([^\][\n]{0,200})$/, "$1");
  const ticks = tail.match(/`+/g)?.length ?? 0;
  if (ticks % 2 === 1) return `${text.slice(0, start)}${tail.replace(/`+$/, "")}${/`+$/.test(tail) ? "" : "`"}`;
  const plain = tail.replace(/`[^`]*`/g, (code) => "x".repeat(code.length));
  for (const mark of ["**", "~~", "__"]) {
    const count = plain.split(mark).length - 1;
    if (count % 2 === 0) continue;
    if (plain.trimEnd().endsWith(mark)) return text.slice(0, start) + tail.trimEnd().slice(0, -mark.length);
    return text.slice(0, start) + tail.trimEnd() + mark;
  }
  const single = plain.replace(/\*\*/g, "xx").replace(/^\s*\*\s/gm, "  ");
  if ((single.match(/\*/g)?.length ?? 0) % 2 === 1) {
    return text.slice(0, start) + (single.trimEnd().endsWith("*") ? tail.trimEnd().slice(0, -1) : `${tail.trimEnd()}*`);
  }
  return text.slice(0, start) + tail;
}
