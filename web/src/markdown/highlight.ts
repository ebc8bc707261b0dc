// Code → pieces with a kind, in the languages that the page knows. Read when the first piece of code is shown; never guesses.
export interface CodePiece {
  text: string;
  kind: string;
}

const NAMES: Record<string, string> = {
  python: "py", py: "py", javascript: "js", js: "js", jsx: "js", typescript: "ts", ts: "ts", tsx: "ts", json: "json", bash: "bash",
  sh: "bash", shell: "bash", zsh: "bash", html: "html", xml: "xml", css: "css", sql: "sql", yaml: "yaml", yml: "yaml", diff: "diff",
  rust: "rs", rs: "rs", go: "go", toml: "toml",
};
const MAX = 20_000; // characters: above that, code is plain

export function languageOf(name: string): string | null {
  return NAMES[name.toLowerCase().split(/[\s:{]/)[0] ?? ""] ?? null;
}

export async function highlight(text: string, language: string): Promise<CodePiece[] | null> {
  const known = languageOf(language);
  if (known === null || text.length > MAX) return null;
  const { tokenizeWith, languages } = await import("./languages");
  const pieces: CodePiece[] = [];
  tokenizeWith(text, known, (piece, kind) => pieces.push({ text: piece, kind: kind ?? "" }), { languages });
  return pieces;
}
