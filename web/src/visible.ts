// Text of strangers, as what it is: signs that a reader would not see, or that turn what is read around, are shown as marks.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
// Signs that join letters in scripts which need it, and emoji: they stay where they are between such letters.
const JOINER = /[\u200c\u200d]/;

export function shown(text: string): string {
  HIDDEN.lastIndex = 0;
  if (!HIDDEN.test(text)) return text;
  return text.replace(HIDDEN, (sign, at: number) => {
    if (JOINER.test(sign) && (text.codePointAt(at + 1) ?? 0) > 0x2ff && (text.codePointAt(at - 1) ?? 0) > 0x2ff) return sign;
    return markOf(sign);
  });
}

function markOf(sign: string): string {
  const code = sign.codePointAt(0) ?? 0;
  if (code === 0x1b) return "␛";
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "␡";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}
