// Tokens of Markdown → nodes, by a list of what is allowed. What is not in the list is shown as the text that it was.
import { Component, type ComponentChildren, type VNode } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Token, Tokens } from "marked";
import { changed } from "../changes";
import type { TextPart } from "../fold/state";
import { CodeBlock } from "../views/code";
import { Icon } from "../views/icon";
import { shown } from "../visible";
import { type Block, Blocks } from "./blocks";

export type Cite = (number: number) => VNode | null;

/** A part of an answer, as it arrives. */
export function TextView({ part, cite, hasCaret }: { part: TextPart; cite: Cite; hasCaret: boolean }): VNode {
  changed(part);
  const blocks = useMemo(() => new Blocks(), [part]);
  blocks.update(part.text, part.isDone);
  return (
    <div class={`say${part.isRefusal ? " refusal" : ""}${hasCaret && !part.isDone ? " writing" : ""}`}>
      {blocks.closed.map((block) => (
        <ClosedBlock key={block.key} block={block} cite={cite} />
      ))}
      {blocks.open !== null && <OpenBlock key={blocks.open.key} block={blocks.open} cite={cite} />}
    </div>
  );
}

/** A text that is complete. */
export function Markdown({ text, cite = noCite }: { text: string; cite?: Cite }): VNode {
  const blocks = useMemo(() => {
    const made = new Blocks();
    made.update(text, true);
    return made.closed;
  }, [text]);
  return (
    <div class="say">
      {blocks.map((block) => (
        <ClosedBlock key={block.key} block={block} cite={cite} />
      ))}
    </div>
  );
}

const noCite: Cite = () => null;

interface BlockProps {
  block: Block;
  cite: Cite;
}

/** Drawn once: its text is its identity. */
class ClosedBlock extends Component<BlockProps> {
  override shouldComponentUpdate(next: BlockProps): boolean {
    return next.block.raw !== this.props.block.raw || next.cite !== this.props.cite;
  }

  override render({ block, cite }: BlockProps): ComponentChildren {
    return tokensView(block.tokens ?? [], cite);
  }
}

function OpenBlock({ block, cite }: BlockProps): ComponentChildren {
  if (block.tokens === null) return <OpenCode text={block.raw} language={block.language} />;
  return tokensView(block.tokens, cite);
}

/** A fence that is still open is one text node, which grows. */
function OpenCode({ text, language }: { text: string; language: string }): VNode {
  const place = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const element = place.current;
    if (element === null) return;
    const node = element.firstChild instanceof globalThis.Text ? element.firstChild : element.appendChild(new globalThis.Text(""));
    if (text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
    else node.data = text;
  }, [text]);
  return (
    <div class="codebox">
      <header>
        <span>{language === "" ? "text" : language.slice(0, 30)}</span>
      </header>
      <pre class="code" tabIndex={0}>
        <code ref={place} />
      </pre>
    </div>
  );
}

function tokensView(tokens: Token[], cite: Cite): ComponentChildren {
  return tokens.map((token, at) => blockView(token, cite, at));
}

function blockView(token: Token, cite: Cite, key: number): ComponentChildren {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "paragraph":
      return <p key={key}>{inline((token as Tokens.Paragraph).tokens, cite)}</p>;
    case "text": {
      const text = token as Tokens.Text;
      return text.tokens ? <span key={key}>{inline(text.tokens, cite)}</span> : shown(text.text);
    }
    case "heading": {
      const heading = token as Tokens.Heading;
      // The page has its own first two levels.
      const Level = `h${Math.min(6, heading.depth + 2)}` as "h3";
      return (
        <Level key={key} class={`head${heading.depth}`}>
          {inline(heading.tokens, cite)}
        </Level>
      );
    }
    case "code": {
      const code = token as Tokens.Code;
      return <CodeBlock key={key} text={code.text} language={code.lang ?? ""} />;
    }
    case "blockquote":
      return <blockquote key={key}>{tokensView((token as Tokens.Blockquote).tokens, cite)}</blockquote>;
    case "list":
      return listView(token as Tokens.List, cite, key);
    case "table":
      return tableView(token as Tokens.Table, cite, key);
    case "hr":
      return <hr key={key} />;
    default:
      return <p key={key}>{shown(token.raw)}</p>;
  }
}

function listView(list: Tokens.List, cite: Cite, key: number): VNode {
  const items = list.items.map((item, at) => (
    <li key={at} class={item.task ? "task" : undefined}>
      {item.task && (
        <span class={item.checked ? "tick on" : "tick"} role="img" aria-label={item.checked ? "done" : "open"}>
          {item.checked && <Icon name="check" small />}
        </span>
      )}
      {item.tokens.filter((token) => token.type !== "checkbox").map((token, number) => blockView(token, cite, number))}
    </li>
  ));
  if (list.ordered) {
    return (
      <ol key={key} start={typeof list.start === "number" ? list.start : 1}>
        {items}
      </ol>
    );
  }
  return <ul key={key}>{items}</ul>;
}

const MAX_ROWS = 200; // of a table in an answer; the rest is said in words

function tableView(table: Tokens.Table, cite: Cite, key: number): VNode {
  const side = (at: number) => (table.align[at] === "right" ? "r" : table.align[at] === "center" ? "c" : undefined);
  return (
    <div key={key} class="tablebox" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            {table.header.map((cell, at) => (
              <th key={at} class={side(at)} scope="col">
                {inline(cell.tokens, cite)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.slice(0, MAX_ROWS).map((row, number) => (
            <tr key={number}>
              {row.map((cell, at) => (
                <td key={at} class={side(at)}>
                  {inline(cell.tokens, cite)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {table.rows.length > MAX_ROWS && <p class="small t3">{table.rows.length - MAX_ROWS} more rows are not shown</p>}
    </div>
  );
}

function inline(tokens: Token[] | undefined, cite: Cite): ComponentChildren {
  return (tokens ?? []).map((token, at) => inlineView(token, cite, at));
}

function inlineView(token: Token, cite: Cite, key: number): ComponentChildren {
  switch (token.type) {
    case "text":
    case "escape": {
      const text = token as Tokens.Text;
      return text.tokens ? inline(text.tokens, cite) : withCitations(plain(text.text), cite);
    }
    case "strong":
      return <strong key={key}>{inline((token as Tokens.Strong).tokens, cite)}</strong>;
    case "em":
      return <em key={key}>{inline((token as Tokens.Em).tokens, cite)}</em>;
    case "del":
      return <s key={key}>{inline((token as Tokens.Del).tokens, cite)}</s>;
    case "codespan":
      return <code key={key}>{shown(plain((token as Tokens.Codespan).text))}</code>;
    case "br":
      return <br key={key} />;
    case "link": {
      const link = token as Tokens.Link;
      return <Outward key={key} address={link.href} words={inline(link.tokens, cite)} raw={link.raw} />;
    }
    case "image": {
      const image = token as Tokens.Image;
      return <Outward key={key} address={image.href} words={plain(image.text) || "picture"} raw={image.raw} isPicture />;
    }
    default:
      return shown(token.raw);
  }
}

/** marked escapes what it would put into HTML; nodes need it as it was. */
function plain(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => ({ amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" })[name] ?? "");
}

const CITATION = /\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]/g;

function withCitations(text: string, cite: Cite): ComponentChildren {
  if (!text.includes("[")) return shown(text);
  const found: ComponentChildren[] = [];
  let at = 0;
  for (const match of text.matchAll(CITATION)) {
    const links = (match[1] ?? "").split(",").map((number) => cite(Number(number.trim())));
    if (links.some((link) => link === null)) continue;
    found.push(shown(text.slice(at, match.index)), ...links);
    at = match.index + match[0].length;
  }
  return at === 0 ? shown(text) : [...found, shown(text.slice(at))];
}

const SCHEMES = new Set(["http:", "https:", "mailto:"]);

export function safeAddress(address: string): URL | null {
  try {
    const url = new URL(address);
    return SCHEMES.has(url.protocol) ? url : null;
  } catch {
    return null;
  }
}

interface OutwardProps {
  address: string;
  words: ComponentChildren;
  raw: string;
  isPicture?: boolean;
}

/** A link that leaves: what it says, and where it goes. A picture of another host is never fetched, only offered. */
function Outward({ address, words, raw, isPicture = false }: OutwardProps): ComponentChildren {
  const url = safeAddress(address);
  if (url === null) return shown(raw);
  return (
    <a class={isPicture ? "chip" : "lnk"} href={url.href} title={shown(url.href)} target="_blank" rel="noopener noreferrer nofollow">
      {isPicture && <Icon name="image" small />}
      {words}
      {isPicture && <span class="t3 cut">{shown(url.host)}</span>}
    </a>
  );
}
