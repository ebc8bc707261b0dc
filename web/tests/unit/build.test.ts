// Two builds of the same files are the same, byte for byte.
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));

async function built(): Promise<Record<string, string>> {
  const folder = mkdtempSync(join(tmpdir(), "ronda-build-"));
  try {
    await build({ root, mode: "production", logLevel: "silent", build: { outDir: folder, emptyOutDir: true } });
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
    return Object.fromEntries(files.map((file) => [file.slice(folder.length), createHash("sha256").update(readFileSync(file)).digest("hex")]));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("two builds are the same, byte for byte", { timeout: 60_000 }, async () => {
  const first = await built();
  expect(Object.keys(first)).toContain("/index.html");
  expect(await built()).toEqual(first);
});
