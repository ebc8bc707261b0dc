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

interface Word {
  value: string;
  added: boolean;
  removed: boolean;
}

/** Words of two texts: those that stay, go and come. */
export function diffWords(before: string, after: string): Word[] {
  return joined(diffWordsWithSpace(before.slice(0, MOST_WORDS), after.slice(0, MOST_WORDS)).map(({ value, added, removed }) => ({ value, added, removed })));
}

const SHORT = 4; // letters: an article or a sign between two changes says nothing about what stayed

/** What is short between two changes is taken as changed, too: one mark instead of three. */
function joined(words: Word[]): Word[] {
  const found: Word[] = [];
  let gone = "";
  let came = "";
  const close = () => {
    if (gone !== "") found.push({ value: gone, added: false, removed: true });
    if (came !== "") found.push({ value: came, added: true, removed: false });
    gone = came = "";
  };
  words.forEach((word, at) => {
    const isBetween = (gone !== "" || came !== "") && at + 1 < words.length && word.value.trim().length <= SHORT && !word.value.includes("\n");
    if (word.removed) gone += word.value;
    else if (word.added) came += word.value;
    else if (isBetween) {
      gone += word.value;
      came += word.value;
    } else {
      close();
      found.push(word);
    }
  });
  close();
  return found;
}

const MOST_WORDS = 60_000; // characters: the time it takes grows with how much differs
