// Output of a terminal → pieces with a colour. Colours and weights are all that is acted on; every other escape is shown as a mark.
import { shown } from "../visible";

export interface Piece {
  text: string;
  /** Class names; empty is plain. */
  look: string;
}

const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const SEQUENCE = /\u001b\[([\d;]*)m|\u001b\[[\d;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b/g;

export function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [];
  let look = "";
  let at = 0;
  const push = (piece: string) => {
    if (piece !== "") pieces.push({ text: shown(overwritten(piece)), look });
  };
  for (const match of text.matchAll(SEQUENCE)) {
    push(text.slice(at, match.index));
    at = match.index + match[0].length;
    if (match[1] !== undefined) look = lookAfter(look, match[1]);
    else pieces.push({ text: "␛", look: "t3" });
  }
  push(text.slice(at));
  return pieces;
}

/** A line that was written over (a progress bar) is shown as it was at its end. */
function overwritten(text: string): string {
  if (!text.includes("\r")) return text;
  return text.replace(/\r\n/g, "\n").split("\n").map((line) => line.split("\r").findLast((piece) => piece !== "") ?? "").join("\n");
}

function lookAfter(look: string, codes: string): string {
  const on = new Set(look.split(" ").filter((name) => name !== ""));
  const numbers = codes === "" ? [0] : codes.split(";").map(Number);
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at] ?? 0;
    if (code === 0) on.clear();
    else if (code === 1) on.add("a-bold");
    else if (code === 22) on.delete("a-bold");
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) {
      for (const name of [...on]) if (name.startsWith("a-c-")) on.delete(name);
      on.add(`a-c-${COLOURS[code % 10] ?? "white"}`);
    } else if (code === 39) for (const name of [...on]) on.delete(name.startsWith("a-c-") ? name : "");
    else if (code === 38 || code === 48) at += numbers[at + 1] === 5 ? 2 : 4; // of 256 or of millions: shown plain
  }
  return [...on].join(" ");
}
