// px of our styles → rem, so that the font size of the browser counts. Hairlines and what a media query asks stay px.
export function rem() {
  return {
    name: "rem",
    enforce: "pre",
    transform(code, id) {
      if (!/\/src\/styles\/.*\.css$/.test(id)) return undefined;
      const out = code.split("\n").map((line) => (line.includes("@media") ? mediaLine(line) : toRem(line)));
      return { code: out.join("\n"), map: null };
    },
  };
}

function mediaLine(line) {
  const at = line.indexOf("{");
  return at === -1 ? line : line.slice(0, at) + toRem(line.slice(at));
}

function toRem(text) {
  return text.replace(/(?<![\w.-])(-?\d*\.?\d+)px/g, (whole, number) => {
    const value = Number(number);
    return Math.abs(value) <= 2 ? whole : `${+(value / 16).toFixed(5)}rem`;
  });
}
