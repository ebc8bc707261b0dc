// Files that tools made, and figures. A file's bytes come from the server alone; what is in it is shown as text, a picture, or in
// a frame without an origin.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api";
import type { File } from "../events.gen";
import type { Call } from "../fold/state";
import { bytes } from "../format";
import { shown } from "../visible";
import { Icon } from "./icon";
import { closeLayer, openLayer } from "./panes";

const PICTURES = new Set(["png", "jpg", "jpeg", "gif", "webp", "svg", "bmp"]);
const TABLES = new Set(["csv", "tsv", "xlsx", "xls"]);
const TEXTS = new Set(["txt", "md", "csv", "tsv", "json", "jsonl", "py", "js", "ts", "css", "html", "htm", "xml", "yaml", "yml", "toml", "log", "sql", "sh", "rs", "go", "c", "h"]);
const MAX_PREVIEW = 2_000_000; // bytes that are read to be looked at
const MAX_ROWS = 1000;

export const previewed = signal<File | null>(null);

export function endingOf(name: string | null | undefined): string {
  return /\.([a-z0-9]+)$/i.exec(name ?? "")?.[1]?.toLowerCase() ?? "";
}

export function fileIcon(name: string | null | undefined): string {
  const ending = endingOf(name);
  return PICTURES.has(ending) ? "image" : TABLES.has(ending) ? "table" : "file";
}

export function Files({ calls }: { calls: Call[] }): VNode | null {
  const files = calls.flatMap((call) => call.files);
  if (files.length === 0) return null;
  return (
    <div class="files">
      {files.map((file, at) => (
        <FileCard key={file.id ?? at} file={file} />
      ))}
    </div>
  );
}

export function FileCard({ file }: { file: File }): VNode {
  const name = shown(file.name ?? "file");
  const canPreview = file.id != null && !file.problem && (PICTURES.has(endingOf(file.name)) || TEXTS.has(endingOf(file.name)));
  const facts = [file.format ?? "", file.size == null ? "" : bytes(file.size)].filter((one) => one !== "" && one !== endingOf(file.name));
  return (
    <div class="file">
      <span class="thumb">
        <Icon name={fileIcon(file.name)} />
      </span>
      <span class="grow row">
        <span class="strong cut">{name}</span>
        <span class="small t3 num">{file.problem ? shown(file.problem) : facts.join(" · ")}</span>
      </span>
      {canPreview && (
        <button type="button" class="btn sm" onClick={() => preview(file)} aria-label={`Preview ${name}`}>
          <Icon name="eye" small /> <span class="wide">Preview</span>
        </button>
      )}
      {file.id != null && !file.problem && (
        <a class="btn sm" href={api.fileAddress(file.id)} download={file.name ?? ""} aria-label={`Download ${name}`}>
          <Icon name="download" small /> <span class="wide">Download</span>
        </a>
      )}
    </div>
  );
}

export function preview(file: File): void {
  previewed.value = file;
  openLayer("preview");
}

/** A picture that code drew: on white, as it was drawn for paper. */
export function Figure({ url, label }: { url: string; label: string }): VNode {
  const isOurs = url.startsWith("data:image/");
  if (!isOurs) return <p class="small t3">{shown(url.slice(0, 200))}</p>;
  const size = pngSize(url);
  return (
    <div class="fig">
      <img src={url} alt={label} decoding="async" width={size?.width} height={size?.height} />
    </div>
  );
}

/** A PNG's size stands in its first bytes: the room for it is there before it is decoded. */
export function pngSize(url: string): { width: number; height: number } | null {
  const start = "data:image/png;base64,";
  if (!url.startsWith(start)) return null;
  try {
    const head = atob(url.slice(start.length, start.length + 32));
    const number = (at: number) => [0, 1, 2, 3].reduce((sum, byte) => sum * 256 + head.charCodeAt(at + byte), 0);
    return { width: number(16), height: number(20) };
  } catch {
    return null;
  }
}

export function PreviewDialog(): VNode | null {
  const file = previewed.value;
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    box.current?.showModal();
  }, []);
  if (file === null) return null;
  return (
    <dialog ref={box} class="dialog wide-dialog" aria-label={`Preview of ${shown(file.name ?? "file")}`} onClose={closeLayer}>
      <header class="dialog-head">
        <span class="strong cut">{shown(file.name ?? "file")}</span>
        <button type="button" class="ic sm end" aria-label="Close" onClick={() => box.current?.close()}>
          <Icon name="x" small />
        </button>
      </header>
      <PreviewBody file={file} />
    </dialog>
  );
}

function PreviewBody({ file }: { file: File }): VNode {
  const id = file.id ?? "";
  const ending = endingOf(file.name);
  const [text, setText] = useState<string | null>(null);
  const [problem, setProblem] = useState("");
  const isPicture = PICTURES.has(ending);
  useEffect(() => {
    if (isPicture) return;
    api
      .file(id)
      .then(async (answer) => {
        const size = Number(answer.headers.get("content-length") ?? "0");
        if (size > MAX_PREVIEW) throw new Error(`${bytes(size)}: too large to look at here. Download it instead.`);
        setText(await answer.text());
      })
      .catch((error: unknown) => setProblem(error instanceof Error ? error.message : String(error)));
  }, [id]);
  if (isPicture) {
    return (
      <div class="preview fig">
        <img src={api.fileAddress(id)} alt={shown(file.name ?? "picture")} />
      </div>
    );
  }
  if (problem !== "") return <p class="preview t2" role="alert">{problem}</p>;
  if (text === null) return <p class="preview t3">Reading…</p>;
  if (ending === "html" || ending === "htm") return <HtmlFrame html={text} />;
  if (ending === "csv" || ending === "tsv") return <CsvTable text={text} sign={ending === "csv" ? "," : "\t"} />;
  return (
    <pre class="preview code" tabIndex={0}>
      {shown(text)}
    </pre>
  );
}

/** A page of its own, without an origin or a network: it is told its content, with a number that only both of us know. */
function HtmlFrame({ html }: { html: string }): VNode {
  const frame = useRef<HTMLIFrameElement>(null);
  const [nonce] = useState(() => crypto.randomUUID());
  useEffect(() => {
    const hear = (event: MessageEvent<{ nonce?: string; ready?: boolean } | null>) => {
      const inside = frame.current?.contentWindow;
      if (!inside || event.source !== inside || event.data?.nonce !== nonce || event.data.ready !== true) return;
      inside.postMessage({ nonce, html }, "*");
    };
    addEventListener("message", hear);
    return () => removeEventListener("message", hear);
  }, [html]);
  return <iframe ref={frame} class="preview" sandbox="allow-scripts" src={api.frameAddress(nonce)} title="Preview of a page" />;
}

function CsvTable({ text, sign }: { text: string; sign: string }): VNode {
  const rows = readRows(text, sign);
  const [head, ...rest] = rows;
  return (
    <div class="preview tablebox" tabIndex={0}>
      <table>
        <thead>
          <tr>{head?.map((cell, at) => <th key={at} scope="col">{shown(cell)}</th>)}</tr>
        </thead>
        <tbody>
          {rest.slice(0, MAX_ROWS).map((row, at) => (
            <tr key={at}>{row.map((cell, number) => <td key={number}>{shown(cell)}</td>)}</tr>
          ))}
        </tbody>
      </table>
      {rest.length > MAX_ROWS && <p class="small t3">{rest.length - MAX_ROWS} more rows are in the file</p>}
    </div>
  );
}

/** Rows of a table as RFC 4180 has them, quotes included. */
export function readRows(text: string, sign: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let isQuoted = false;
  for (let at = 0; at < text.length && rows.length <= MAX_ROWS + 1; at++) {
    const letter = text[at] ?? "";
    if (isQuoted) {
      if (letter !== '"') cell += letter;
      else if (text[at + 1] === '"') {
        cell += '"';
        at += 1;
      } else isQuoted = false;
    } else if (letter === '"' && cell === "") isQuoted = true;
    else if (letter === sign) {
      row.push(cell);
      cell = "";
    } else if (letter === "\n") {
      rows.push([...row, cell.replace(/\r$/, "")]);
      row = [];
      cell = "";
    } else cell += letter;
  }
  if (cell !== "" || row.length > 0) rows.push([...row, cell]);
  return rows;
}
