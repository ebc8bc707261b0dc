// A request to a provider, as it was or would be posted: an outline of its body that unfolds, with a line where the cache ends.
import type { VNode } from "preact";
import { useRef, useState } from "preact/hooks";
import type { RoundRequest } from "../api";
import { plural, whole } from "../format";
import { shown } from "../visible";
import { Highlighted } from "../views/code";
import { Icon } from "../views/icon";
import { Find, hasWords } from "./find";

const LARGE = 40_000; // characters that are coloured; more is plain text
const SHOWN = 200_000; // characters of one member
const SHORT = 160; // characters of a member that stands on lines of its own
const FEW = 3000; // characters of a conversation that is open from the start

type Json = Record<string, unknown>;

export function Sent({ request }: { request: RoundRequest }): VNode {
  const text = JSON.stringify(request.body ?? null, null, 2);
  const changes = request.changes ?? [];
  const [words, setWords] = useState<string | null>(null); // null: nothing is looked for
  const box = useRef<HTMLDivElement>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const close = () => {
    setWords(null);
    opener.current?.focus();
  };
  return (
    <>
      <div class="row sent-head">
        <span class="mono-s cut grow" title={shown(request.url ?? "")}>
          {request.url ? <><b>{shown(request.method ?? "POST")}</b> {shown(request.url.replace(/^https?:\/\//, ""))}</> : <span class="t3">not sent over HTTP</span>}
        </span>
        {request.url ? <CopyWords text={curlOf(request, text)} words="curl" /> : null}
        <CopyWords text={text} words="JSON" />
        <button ref={opener} type="button" class="ic sm" aria-label="Find in the request" title="Find" aria-expanded={words !== null} onClick={() => (words === null ? setWords("") : close())}>
          <Icon name="search" small />
        </button>
      </div>
      {words !== null && <Find box={box} words={words} set={setWords} close={close} />}
      {request.exact === false && <p class="det-note small t2">This model is not called over HTTP, or this server does not have it any more: this is the request in the words of its provider.</p>}
      {changes.length > 0 && (
        <details class="det-note small t2">
          <summary>{plural(changes.length, "change")} for this provider</summary>
          <ul>
            {changes.map((one, at) => (
              <li key={at}>{shown([one.what, one.why].filter((word) => word).join(": "))}</li>
            ))}
          </ul>
        </details>
      )}
      {request.prefix?.broken_at ? <p class="det-note small wait">The provider’s cache ends at <span class="mono-s">{shown(request.prefix.broken_at)}</span>: {shown(request.prefix.reason ?? "it differs from the round before")}.</p> : null}
      <div ref={box}>
        {isObject(request.body) ? <Outline request={request} body={request.body} words={words ?? ""} /> : <pre class="code outline" tabIndex={0}>{shown(text.slice(0, SHOWN))}</pre>}
      </div>
    </>
  );
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Where the first block stands that the round before did not have: the name of a list, and a place in it. */
function borderOf(request: RoundRequest): { list: string; index: number } | null {
  if (!request.prefix?.blocks) return null;
  const named = /^(\w+)\[(\d+)\]/.exec(request.blocks?.[request.prefix.blocks]?.at ?? "");
  return named === null || Number(named[2]) === 0 ? null : { list: named[1] ?? "", index: Number(named[2]) };
}

function tokensAt(request: RoundRequest, place: string): number {
  const blocks = (request.blocks ?? []).filter(({ at }) => at === place || at.startsWith(`${place}.`) || at.startsWith(`${place}[`));
  return blocks.reduce((sum, one) => sum + one.tokens, 0);
}

/** Lists of the conversation are open down to their messages; long members are one line until they are unfolded, or have the words. */
function Outline({ request, body, words: wanted }: { request: RoundRequest; body: Json; words: string }): VNode {
  const border = borderOf(request);
  const entries = Object.entries(body);
  const cached = request.cached_tokens ?? 0;
  const words = cached > 0 ? `cached up to here · ${whole(cached)} tokens` : `as in the round before up to here · about ${whole(request.prefix?.tokens ?? 0)} tokens`;
  const before: VNode[] = [<Line key="{" text="{" />];
  const after: VNode[] = [];
  let lines = before;
  entries.forEach(([name, value], at) => {
    const comma = at < entries.length - 1 ? "," : "";
    const key = `  ${JSON.stringify(name)}: `;
    const text = JSON.stringify(value, null, 2) ?? "null";
    if (Array.isArray(value) && value.length > 0 && value.some(isObject) && isTalk(name)) {
      lines.push(<Line key={name} text={`${key}[`} />);
      const isShort = border === null && text.length < FEW;
      value.forEach((one: unknown, index) => {
        if (border?.list === name && border.index === index) lines = after;
        const isNew = border === null ? isShort || index === value.length - 1 : lines === after;
        lines.push(<Fold key={`${name}${index}`} isOpen={isNew} words={wanted} brief={`    ${briefOf(one, tokensAt(request, `${name}[${index}]`))}`} text={indented(JSON.stringify(one, null, 2), 4)} end={index < value.length - 1 ? "," : ""} />);
      });
      lines.push(<Line key={`${name}]`} text={`  ]${comma}`} />);
    } else if (text.length <= SHORT) lines.push(<Line key={name} text={indented(`${JSON.stringify(name)}: ${text}`, 2) + comma} />);
    else {
      const tokens = tokensAt(request, name);
      const size = tokens > 0 ? `, ${whole(tokens)} tokens` : "";
      const inside = Array.isArray(value) ? `[ … ${countOf(name, value.length)}${size} ]` : isObject(value) ? `{ … ${plural(Object.keys(value).length, "member")}${size} }` : `"… ${whole(text.length)} characters${size}"`;
      lines.push(<Fold key={name} isOpen={false} words={wanted} brief={key + inside} text={indented(`${JSON.stringify(name)}: ${text}`, 2)} end={comma} />);
    }
  });
  lines.push(<Line key="}" text="}" />);
  return (
    <>
      <div class="code outline" tabIndex={0} role="group" aria-label="The request">{before}</div>
      {after.length > 0 && (
        <>
          <div class="cachemark">{words}</div>
          <div class="code outline" tabIndex={0} role="group" aria-label="The request, after the cached part">{after}</div>
        </>
      )}
    </>
  );
}

function isTalk(name: string): boolean {
  return name === "messages" || name === "contents" || name === "input";
}

function countOf(name: string, count: number): string {
  return name === "tools" ? plural(count, "tool") : plural(count, "block");
}

function indented(text: string, by: number): string {
  const space = " ".repeat(by);
  return space + text.replaceAll("\n", `\n${space}`);
}

/** One message in one line: who said it, and how much it is. */
function briefOf(one: unknown, tokens: number): string {
  if (!isObject(one)) return JSON.stringify(one).slice(0, SHORT);
  const who = one["role"] !== undefined ? `"role": ${JSON.stringify(one["role"])}` : `"type": ${JSON.stringify(one["type"] ?? "")}`;
  const calls = Array.isArray(one["tool_calls"]) ? one["tool_calls"].length : [one["content"], one["parts"]].flat().filter((part) => isObject(part) && (part["type"] === "tool_use" || part["functionCall"] !== undefined)).length;
  const much = [calls > 0 ? plural(calls, "call") : "", tokens > 0 ? plural(tokens, "token") : ""].filter((word) => word !== "").join(", ");
  return `{ ${who}, … ${much} }`;
}

function Line({ text }: { text: string }): VNode {
  return <pre><Highlighted text={text} language="json" /></pre>;
}

function Fold({ brief, text, end, isOpen, words }: { brief: string; text: string; end: string; isOpen: boolean; words: string }): VNode {
  const [isSet, setOpen] = useState(isOpen);
  const open = isSet || hasWords(text, words);
  return (
    <div class={open ? "ofold open" : "ofold"}>
      <button type="button" class="plain" aria-expanded={open} aria-label={open ? `Fold ${brief.trim()}` : `Unfold ${brief.trim()}`} onClick={() => setOpen(!open)}>
        <Icon name={open ? "chevron-down" : "chevron-right"} small />
        {!open && <pre><Highlighted text={brief + end} language="json" /></pre>}
      </button>
      {open && <pre>{text.length > LARGE ? shown(text.slice(0, SHOWN)) : <Highlighted text={text + end} language="json" />}</pre>}
    </div>
  );
}

function curlOf(request: RoundRequest, text: string): string {
  const quoted = (words: string) => `'${words.replaceAll("'", "'\\''")}'`;
  const headers = Object.entries(request.headers ?? {}).map(([name, value]) => ` \\\n  -H ${quoted(`${name}: ${value}`)}`);
  return `curl ${quoted(request.url ?? "")}${headers.join("")} \\\n  -d ${quoted(text)}`;
}

function CopyWords({ text, words }: { text: string; words: string }): VNode {
  const [isDone, setDone] = useState(false);
  const copy = () => {
    void navigator.clipboard?.writeText(text).then(() => {
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    });
  };
  return (
    <button type="button" class="btn sm" aria-label={isDone ? "Copied" : `Copy as ${words}`} onClick={copy}>
      {isDone ? "Copied" : words}
    </button>
  );
}
