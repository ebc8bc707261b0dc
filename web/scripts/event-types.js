// `ronda schema events` → src/events.gen.ts. With --check: fails where the file is not what the schema says.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";

const place = fileURLToPath(new URL("../src/events.gen.ts", import.meta.url));
const ronda = process.env.RONDA ?? fileURLToPath(new URL("../../.venv/bin/ronda", import.meta.url));
const schema = JSON.parse(execFileSync(ronda, ["schema", "events"], { encoding: "utf8" }));
const banner = "// Made by `npm run types` from `ronda schema events`.";
const text = await compile({ ...schema, title: "RunEvent" }, "RunEvent", {
  additionalProperties: false,
  bannerComment: banner,
  format: false,
});
if (!process.argv.includes("--check")) writeFileSync(place, text);
else if (readFileSync(place, "utf8") !== text) {
  console.error("web/src/events.gen.ts is not what `ronda schema events` says: run `npm run types` in web/");
  process.exit(1);
}
