import { expect, test } from "vitest";
import { type DiffLine, diffLines, diffWords } from "../../src/diff";

function textOf(lines: DiffLine[], side: "gone" | "new"): string {
  return lines.filter((line) => line.kind === "same" || line.kind === side).map((line) => line.pieces.map((piece) => piece.text).join("")).join("\n");
}

test.each([
  ["a\nb\nc", "a\nB\nc"],
  ["", "one\ntwo"],
  ["one\ntwo\nthree", "three"],
  ["same", "same"],
  ["x = 1\ny = 2", "x = 10\ny = 2\nz = 3"],
])("both sides of a diff can be read from it", (before, after) => {
  const lines = diffLines(before, after);
  expect(textOf(lines, "gone")).toBe(before);
  expect(textOf(lines, "new")).toBe(after);
});

test("in a changed line the words that differ are marked", () => {
  const lines = diffLines('{\n  "quantity": 1450\n}', '{\n  "quantity": 1200\n}');
  const marked = lines.flatMap((line) => line.pieces.filter((piece) => piece.isChanged).map((piece) => [line.kind, piece.text]));
  expect(marked).toEqual([["gone", "1450"], ["new", "1200"]]);
});

test("what is short between two changes is marked with them", () => {
  const words = diffWords("Repack the table, then build it", "Drop it before the import and build it");
  expect(words.filter((word) => word.removed).map((word) => word.value)).toEqual(["Repack the table, then"]);
  expect(words.filter((word) => word.added).map((word) => word.value)).toEqual(["Drop it before the import and"]);
  const whole = (side: "removed" | "added") => words.filter((word) => !word[side]).map((word) => word.value).join("");
  expect([whole("added"), whole("removed")]).toEqual(["Repack the table, then build it", "Drop it before the import and build it"]);
});
