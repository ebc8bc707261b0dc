// The licences of what the built page has in it → licenses.txt beside it.
import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../", import.meta.url));
const TOOLS = new Set(["vite"]); // build the page, and are not in it

export function licenses() {
  return {
    name: "licenses",
    apply: "build",
    generateBundle() {
      const names = Object.keys(JSON.parse(readFileSync(`${root}package.json`, "utf8")).dependencies).filter((name) => !TOOLS.has(name));
      const texts = [...names, "@preact/signals-core"].sort().map((name) => {
        const folder = `${root}node_modules/${name}/`;
        const { version, license } = JSON.parse(readFileSync(`${folder}package.json`, "utf8"));
        const file = readdirSync(folder).find((one) => /^licen[sc]e/i.test(one));
        const text = file === undefined ? "" : readFileSync(folder + file, "utf8").trim();
        return `${name} ${version} (${license})\n\n${text}\n`;
      });
      this.emitFile({ type: "asset", fileName: "licenses.txt", source: texts.join(`\n${"-".repeat(72)}\n\n`) });
    },
  };
}
