// What a model, a tool or a page of the web may write, and must not be able to do: run, load, lead astray, or take the page with it.
import { expect, test } from "vitest";
import { harness } from "./harness";

const { server, open } = harness({ pace: 0 });

const EVIL = "https://evil.example";
const SCRIPT = "window.owned=1";

const CASES: string[] = [
  `<script>${SCRIPT}</script>`, `<SCRIPT SRC=${EVIL}/x.js></SCRIPT>`, `<img src=x onerror="${SCRIPT}">`, `<img src="${EVIL}/p.png">`,
  `<svg onload="${SCRIPT}"></svg>`, `<svg><script>${SCRIPT}</script></svg>`, `<iframe src="${EVIL}"></iframe>`, `<iframe srcdoc="<script>parent.owned=1</script>">`,
  `<object data="${EVIL}/x.swf"></object>`, `<embed src="${EVIL}/x">`, `<link rel=stylesheet href="${EVIL}/x.css">`, `<style>@import "${EVIL}/x.css";</style>`,
  `<base href="${EVIL}/">`, `<meta http-equiv="refresh" content="0;url=${EVIL}">`, `<form action="${EVIL}"><input name=a><button>go</button></form>`,
  `<a href="javascript:${SCRIPT}">x</a>`, `<body onload="${SCRIPT}">`, `<video src="${EVIL}/v.mp4" autoplay>`, `<audio src="${EVIL}/a.mp3" autoplay>`, `<details open ontoggle="${SCRIPT}">x</details>`,
  `<math><mi xlink:href="javascript:${SCRIPT}">x</mi></math>`, `<template><script>${SCRIPT}</script></template>`, `<input autofocus onfocus="${SCRIPT}">`, `<div style="background:url(${EVIL}/b.png)">x</div>`,
  `[a](javascript:${SCRIPT})`, `[a](JaVaScRiPt:${SCRIPT})`, `[a](java\tscript:${SCRIPT})`, `[a](vbscript:x)`, `[a](data:text/html,<script>${SCRIPT}</script>)`,
  `[a](blob:${EVIL}/x)`, `[a](file:///etc/passwd)`, `[a](about:blank)`, `[a](//evil.example/x)`, `[a](/v1/sessions)`, `[a](#main)`, `[a](ftp://evil.example)`,
  `![x](${EVIL}/pixel.png)`, `![x](javascript:${SCRIPT})`, `![x](data:image/svg+xml,<svg onload=${SCRIPT}>)`, `[![x](${EVIL}/p.png)](${EVIL})`, `![x][r]\n\n[r]: ${EVIL}/ref.png`,
  `<${EVIL}/auto>`, `${EVIL}/bare`, `<javascript:${SCRIPT}>`, `[a](${EVIL} "title \\" onmouseover=${SCRIPT}")`, `[${"a".repeat(5000)}](${EVIL})`,
  `[paypal.com](${EVIL}/login)`, `[\u202Emoc.lapyap](${EVIL})`, `safe\u202Egnp.exe`, `zero\u200Bwidth\u2066iso\u2069`, `\u0007\u001b]0;owned\u0007 bell`, `\u001b[2J\u001b[31mred`,
  "`".repeat(2000), "*".repeat(3000), "[".repeat(2000), "> ".repeat(500) + "deep", "- ".repeat(300) + "nested", "#".repeat(500),
  `|${"a|".repeat(300)}\n|${"-|".repeat(300)}\n|${"b|".repeat(300)}`, `| a |\n|---|\n${"| x |\n".repeat(1500)}`, `${"word ".repeat(20_000)}`, "x".repeat(50_000),
  `\`\`\`html\n<script>${SCRIPT}</script>\n\`\`\``, `\`\`\`"><script>${SCRIPT}</script>\ncode\n\`\`\``, "```\nnever closed", `&lt;script&gt;${SCRIPT}&lt;/script&gt;`, `&#60;script&#62;`, `[1]: javascript:${SCRIPT}\n[x][1]`,
  `<a href="&#106;avascript:${SCRIPT}">x</a>`, `<!--><script>${SCRIPT}</script>-->`, `<![CDATA[<script>${SCRIPT}</script>]]>`, `{{constructor.constructor('${SCRIPT}')()}}`, `\${${SCRIPT}}`, `<noscript><p title="</noscript><script>${SCRIPT}</script>">`,
];

test(`${CASES.length} hostile texts do nothing, as answers, questions and results`, async () => {
  expect(CASES.length).toBeGreaterThanOrEqual(60);
  const messages = CASES.flatMap((text, at) => [
    { role: "user", content: `${at}: ${text.slice(0, 2000)}` },
    { role: "assistant", content: null, tool_calls: [{ id: `c${at}`, type: "function", function: { name: "look", arguments: JSON.stringify({ text: text.slice(0, 2000) }) } }] },
    { role: "tool", tool_call_id: `c${at}`, content: text.slice(0, 2000) },
    { role: "assistant", content: text },
  ]);
  const put = await fetch(`${server.url}/v1/sessions/hostile`, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify({ messages, title: `<img src=x onerror="${SCRIPT}">\u202Eevil` }) });
  expect(put.status).toBe(200);
  const page = await open("/ui/chat/hostile");
  await page.waitForSelector(".turn");
  const log = page.locator("[role=log]");
  const links = new Set<string>();
  const strange = new Set<string>();
  const seen = new Set<number>();
  // It comes in pages from its end: up, until the first question is there.
  for (let step = 0; step < 100 && (await page.locator(".said p", { hasText: /^0: / }).count()) === 0; step++) {
    await log.evaluate((element) => element.scrollTo(0, 0));
    await page.waitForTimeout(50);
  }
  await page.waitForSelector(".turn[data-index='0']");
  for (let step = 0; step < 400 && seen.size < CASES.length; step++) {
    const found = await page.evaluate(() => {
      for (const fold of document.querySelectorAll<HTMLElement>(".call[aria-expanded=false]")) fold.click();
      return {
        links: [...document.querySelectorAll(".say a")].map((link) => new URL(link.getAttribute("href") ?? "", "x:y").protocol),
        strange: [...document.querySelectorAll("[role=log] :is(script, iframe, object, embed, form, video, audio, style, link, base, meta, math, template, img)")].map((one) => one.outerHTML.slice(0, 80)),
        turns: [...document.querySelectorAll<HTMLElement>(".turn")].map((turn) => Number(turn.dataset["index"])),
        end: ((element) => element.scrollTop + element.clientHeight >= element.scrollHeight - 2)(document.querySelector("[role=log]") as HTMLElement),
      };
    });
    for (const one of found.links) links.add(one);
    for (const one of found.strange) strange.add(one);
    for (const one of found.turns) seen.add(one);
    if (found.end) break;
    await log.evaluate((element) => element.scrollBy(0, element.clientHeight));
    await page.waitForTimeout(20);
  }
  expect(seen.size).toBe(CASES.length);
  expect([...strange]).toEqual([]);
  expect([...links].every((protocol) => ["https:", "http:", "mailto:"].includes(protocol))).toBe(true);
  expect(await page.evaluate(() => (window as never as { owned?: number }).owned)).toBeUndefined();
  expect(new URL(page.url()).pathname).toBe("/ui/chat/hostile");
  expect(await page.title()).toContain("⟨U+202E⟩");
  expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBe(0);
});
