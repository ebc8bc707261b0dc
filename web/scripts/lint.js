// Rules that no type checker knows: what the page's policy forbids must not be written, and colours have one home.
import { readFileSync, readdirSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../src", import.meta.url));
const COLOUR = /#[0-9a-f]{3,8}\b|\b(?:rgb|rgba|hsl|hsla|oklch|oklab|lab|lch|color)\(|(?<![\w-])(?:white|black|red|green|blue|gr[ae]y|orange|purple|yellow)(?=\s*[;,}\s)])/i;

const RULES = [
  { files: /\.tsx?$/, pattern: /\b(?:innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write)\b/, says: "no HTML is made from text" },
  { files: /\.tsx?$/, pattern: /\bstyle=/, says: "the policy drops style attributes: set a class, or el.style" },
  { files: /\.tsx?$/, pattern: /\beval\(|new Function\(/, says: "no code is made from text" },
  { files: /\.tsx?$/, pattern: /\bhttps?:\/\/(?!www\.w3\.org)/, says: "the page names no other host" },
  { files: /\.tsx$/, pattern: /#[0-9a-f]{6}\b/i, says: "colours are in styles/tokens.css" },
  { files: /styles\/(?!tokens\.css).*\.css$/, pattern: COLOUR, says: "colours are in styles/tokens.css" },
];

const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
let wrong = 0;
for (const file of files) {
  const name = relative(root, file);
  if (name.endsWith(".gen.ts")) continue;
  const lines = readFileSync(file, "utf8").replace(/\/\*[\s\S]*?\*\//g, (text) => text.replace(/[^\n]/g, " ")).split("\n");
  lines.forEach((line, at) => {
    const code = line.replace(/^\s*\/\/.*$/, "");
    for (const rule of RULES) {
      if (!rule.files.test(`/${name}`) || !rule.pattern.test(code)) continue;
      console.error(`web/src/${name}:${at + 1}: ${rule.says}: ${line.trim().slice(0, 100)}`);
      wrong += 1;
    }
  });
}
if (wrong > 0) process.exit(1);
