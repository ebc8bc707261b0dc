// What a page loads from CDNs → the same page with copies of it inside, so that a preview without a network looks right.
//
// Only scripts and style sheets with an address are looked at; a frame is told them as `data:` addresses, which its policy allows.
import { api } from "../api";

const TAG = /<(script|link)\b[^>]*?\s(?:src|href)\s*=\s*(["'])(https:\/\/[^"'\s<>]+)\2[^>]*>/gi;
const MOST = 24; // addresses of one page

const copies = new Map<string, Promise<string | null>>();

/** `isWhole`: scripts too; those of a page that still arrives are asleep. */
export async function withLibraries(html: string, isWhole: boolean): Promise<string> {
  const wanted = new Set<string>();
  for (const [, tag = "", , address = ""] of html.matchAll(TAG)) if (isWhole || tag.toLowerCase() === "link") wanted.add(address);
  if (wanted.size === 0) return html;
  const found = new Map<string, string>();
  await Promise.all([...wanted].slice(0, MOST).map(async (address) => {
    const copy = await copyOf(address);
    if (copy !== null) found.set(address, copy);
  }));
  return html.replace(TAG, (tag: string, _name: string, _quote: string, address: string) => {
    if (!wanted.has(address)) return tag;
    // Of what is not here nothing is asked for: the frame's policy would only refuse it, aloud.
    // A hash is of the file that the CDN has, which may be another version.
    return tag.replace(address, found.get(address) ?? "data:,").replace(/\s(?:integrity|crossorigin)(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]+))?/gi, "");
  });
}

/** Null where the server keeps none: the page is shown without it. */
function copyOf(address: string): Promise<string | null> {
  let known = copies.get(address);
  if (known === undefined) {
    known = api.library(address.replaceAll("&amp;", "&")).then((copy) => (copy === null ? null : dataAddress(copy)), () => null);
    copies.set(address, known);
  }
  return known;
}

function dataAddress(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error ?? new Error("unreadable"));
    reader.readAsDataURL(blob);
  });
}
