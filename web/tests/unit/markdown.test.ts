import { describe, expect, test } from "vitest";
import { Blocks, completed, lex } from "../../src/markdown/blocks";
import { piecesOf } from "../../src/markdown/ansi";
import { highlight } from "../../src/markdown/highlight";
import { shown } from "../../src/visible";
import { recording } from "./recordings";

const TEXT = recording("markdown")
  .map(([, event]) => (event.type === "text_delta" ? event.text : ""))
  .join("");

function rawOf(text: string, isDone: boolean): string[] {
  const blocks = new Blocks();
  blocks.update(text, isDone);
  return [...blocks.closed.map((block) => block.raw), ...(blocks.open === null ? [] : [blocks.open.raw])];
}

describe("blocks", () => {
  test("read piece by piece are the blocks that are read at once", () => {
    for (const size of [1, 3, 7, 50]) {
      const blocks = new Blocks();
      for (let end = 0; end < TEXT.length; end += size) blocks.update(TEXT.slice(0, end), false);
      blocks.update(TEXT, true);
      const atOnce = new Blocks();
      atOnce.update(TEXT, true);
      expect(blocks.closed.map((block) => block.raw.trim())).toEqual(atOnce.closed.map((block) => block.raw.trim()));
    }
  });

  test("that are closed never change", () => {
    const blocks = new Blocks();
    let before: string[] = [];
    for (let end = 1; end <= TEXT.length; end++) {
      blocks.update(TEXT.slice(0, end), false);
      const now = blocks.closed.map((block) => block.raw);
      expect(now.slice(0, before.length)).toEqual(before);
      before = now;
    }
  });

  test("hold every letter of the text", () => {
    for (let end = 1; end <= TEXT.length; end += 5) {
      const text = TEXT.slice(0, end);
      const letters = rawOf(text, true).join("").replace(/\s/g, "");
      expect(letters).toBe(text.replace(/\s/g, ""));
    }
  });

  test("an open fence is code until it closes, whatever is in it", () => {
    const blocks = new Blocks();
    blocks.update("```python\n# not a heading\n**not bold**\n", false);
    expect(blocks.open).toMatchObject({ tokens: null, language: "python", raw: "# not a heading\n**not bold**\n" });
    blocks.update("```python\n# not a heading\n**not bold**\n```\nafter", true);
    expect(blocks.closed.map((block) => block.tokens?.[0]?.type)).toEqual(["code", "paragraph"]);
  });
});

test.each([
  ["so **bold", "so **bold**"],
  ["so **bold** and **", "so **bold** and "],
  ["a `code", "a `code`"],
  ["see [the page](https://exam", "see the page"],
  ["see [the pa", "see the pa"],
  ["an *idea", "an *idea*"],
  ["plain", "plain"],
])("what is half written is closed for display: %s", (text, expected) => {
  expect(completed(text)).toBe(expected);
});

test("a table whose second line has not come is a table already", () => {
  expect(lex(completed("| site | pallets |"))[0]?.type).toBe("table");
});

test("colours of a terminal are shown, and nothing else acts", () => {
  const pieces = piecesOf("\u001b[31mred\u001b[0m plain \u001b]0;owned\u0007title\u001b[2J\u001b[1;32mgreen");
  expect(pieces).toEqual([
    { text: "red", look: "a-c-red" },
    { text: " plain ", look: "" },
    { text: "␛", look: "t3" },
    { text: "title", look: "" },
    { text: "␛", look: "t3" },
    { text: "green", look: "a-bold a-c-green" },
  ]);
});

test("signs that hide or turn text around are shown as marks", () => {
  expect(shown("pay\u202Eoot\u2066x\u200B\u0007")).toBe("pay⟨U+202E⟩oot⟨U+2066⟩x⟨U+200B⟩␇");
  expect(shown("plain, ünïcödé, 漢字, 👩\u200d🔬")).toBe("plain, ünïcödé, 漢字, 👩\u200d🔬");
});

test("code in a known language is coloured, and none of it is lost", async () => {
  const code = 'def f(x: int) -> str:\n    return "a" * x  # twice\n';
  const pieces = await highlight(code, "python");
  expect(pieces?.map((piece) => piece.text).join("")).toBe(code);
  expect(pieces?.some((piece) => piece.kind === "kwd")).toBe(true);
  expect(await highlight(code, "klingon")).toBeNull();
});
