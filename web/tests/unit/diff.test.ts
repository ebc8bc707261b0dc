import { expect, test } from "vitest";
import { type DiffLine, diffLines } from "../../src/diff";

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
