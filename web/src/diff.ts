// Two texts → lines that stay, go and come; in a line that was changed, the words that differ. A chunk of its own: few look.
import { diffArrays, diffWordsWithSpace } from "diff";

export interface DiffPiece {
  text: string;
  isChanged: boolean;
}

export interface DiffLine {
  kind: "same" | "gone" | "new";
  pieces: DiffPiece[];
}

export function diffLines(before: string, after: string): DiffLine[] {
  const lines: DiffLine[] = [];
  const steps = diffArrays(before.split("\n"), after.split("\n"));
  for (let at = 0; at < steps.length; at++) {
    const step = steps[at];
    if (step === undefined) continue;
    const next = steps[at + 1];
    if (step.removed && next?.added) {
      lines.push(...changedLines(step.value, next.value));
      at += 1;
    } else lines.push(...step.value.map((text) => whole(step.added ? "new" : step.removed ? "gone" : "same", text)));
  }
  return lines;
}

function whole(kind: DiffLine["kind"], text: string): DiffLine {
  return { kind, pieces: [{ text, isChanged: false }] };
}

/** Lines in the place of others: the words of each pair are compared. */
function changedLines(gone: string[], came: string[]): DiffLine[] {
  const pairs = Math.min(gone.length, came.length);
  const old: DiffLine[] = [];
  const fresh: DiffLine[] = [];
  for (let at = 0; at < pairs; at++) {
    const words = diffWordsWithSpace(gone[at] ?? "", came[at] ?? "");
    old.push({ kind: "gone", pieces: words.filter((word) => !word.added).map((word) => ({ text: word.value, isChanged: word.removed })) });
    fresh.push({ kind: "new", pieces: words.filter((word) => !word.removed).map((word) => ({ text: word.value, isChanged: word.added })) });
  }
  return [...old, ...gone.slice(pairs).map((text) => whole("gone", text)), ...fresh, ...came.slice(pairs).map((text) => whole("new", text))];
}

/** Words of two texts: those that stay, go and come. */
export function diffWords(before: string, after: string): { value: string; added: boolean; removed: boolean }[] {
  return diffWordsWithSpace(before.slice(0, MOST_WORDS), after.slice(0, MOST_WORDS)).map(({ value, added, removed }) => ({ value, added, removed }));
}

const MOST_WORDS = 60_000; // characters: the time it takes grows with how much differs
