// Measured in the browser, and printed: how long tasks are while a long run streams, how soon a long session is there. Clocks need a
// machine that does nothing else, so `make bench-page` runs this, and `make test` does not.
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { harness } from "../browser/harness";

const { server, open, expectTrouble, longestTask } = harness({ pace: 0 });

const LONG_TASK = 50; // ms
const OPENED = 500; // ms
const GROWS = 1.1; // of memory

async function put(id: string, messages: object[]): Promise<void> {
  const answer = await fetch(`${server.url}/v1/sessions/${id}`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ messages }),
  });
  expect(answer.status).toBe(200);
}

test("a session of 1,000 messages opens within half a second", async () => {
  const messages = Array.from({ length: 500 }, (_, at) => [
    { role: "user", content: `Question ${at}: what of it?` },
    { role: "assistant", content: `Answer ${at}, with **bold** words, a list:\n\n- one\n- two\n\nand \`code\`. ${"More words follow here. ".repeat(8)}` },
  ]).flat();
  await put("thousand", messages);
  const page = await open("/ui");
  await page.waitForSelector('.sessions a[href$="/thousand"]');
  const took = await page.evaluate(async () => {
    const begun = performance.now();
    document.querySelector<HTMLElement>('.sessions a[href$="/thousand"]')?.click();
    await new Promise<void>((resolve) => {
      const look = () => (document.querySelector("[role=log]")?.textContent?.includes("Answer 499") ? resolve() : requestAnimationFrame(look));
      look();
    });
    return performance.now() - begun;
  });
  console.log(`1,000 messages: ${Math.round(took)} ms`);
  expect(took).toBeLessThan(OPENED);
  const nodes = await page.locator(".turn").count();
  expect(nodes).toBeLessThan(40);
  // Where the reader scrolls to is where they stay.
  await page.locator("[role=log]").evaluate((log) => log.scrollTo(0, log.scrollHeight / 2));
  await page.waitForTimeout(300);
  const before = await page.locator("[role=log]").evaluate((log) => log.scrollTop);
  await page.waitForTimeout(300);
  expect(Math.abs((await page.locator("[role=log]").evaluate((log) => log.scrollTop)) - before)).toBeLessThan(2);
});

test("5,000 events stream without a long task", async () => {
  expectTrouble(); // of a run that the server never had there is no session
  const run = "run_manyevents0001";
  const page = await open("/ui");
  const frames = manyEvents(run);
  console.log(`${frames.length} events, ${Math.round(gzipSync(frames.join("")).length / 1000)} kB compressed`);
  // The server's own stream would come as fast as it can; here it comes 20 events a frame, as the design has it.
  await page.route("**/v1/chat/completions", (route) => route.fulfill({ status: 202, json: {} }));
  await page.addInitScript(sourceOf, frames);
  await page.reload();
  await page.waitForSelector("#composer");
  const longest = await longestTask(page, async () => {
    await page.fill("#composer", "many");
    await page.press("#composer", "Enter");
    await page.waitForFunction(() => (window as never as { sent?: number }).sent === -1, undefined, { timeout: 50_000 });
    await page.waitForTimeout(300);
  });
  console.log(`longest task: ${longest.processor.toFixed(0)} ms of the processor, ${longest.clock.toFixed(0)} ms of the clock`);
  expect(longest.processor).toBeGreaterThan(0);
  expect(longest.processor).toBeLessThanOrEqual(LONG_TASK);
});

test("ten runs that were opened and closed leave nothing behind", async () => {
  const session = (at: number) => `heap-${at}`;
  for (let at = 0; at < 11; at++) {
    await put(session(at), Array.from({ length: 200 }, (_, n) => ({ role: n % 2 === 0 ? "user" : "assistant", content: `${at}: ${"some words ".repeat(40)}` })));
  }
  const page = await open("/ui");
  const devtools = await page.context().newCDPSession(page);
  // Locators alone: a handle of an element would keep its whole tree.
  const show = async (at: number) => {
    await page.locator(`.sessions a[href$="/${session(at)}"]`).click();
    await page.locator("[role=log]").getByText(`${at}: some words`).first().waitFor();
    await page.getByRole("button", { name: "New session" }).click();
    await page.getByText("What should it do?").waitFor();
  };
  const heap = async () => {
    await devtools.send("HeapProfiler.collectGarbage");
    return (await devtools.send("Runtime.getHeapUsage")).usedSize;
  };
  const all = async () => {
    for (let at = 1; at <= 10; at++) await show(at);
  };
  await all(); // what is loaded and compiled once
  const before = await heap();
  await all();
  const after = await heap();
  console.log(`memory: ${(before / 1e6).toFixed(1)} MB before, ${(after / 1e6).toFixed(1)} MB after ten sessions`);
  expect(after).toBeLessThan(before * GROWS);
});

/** 4,000 pieces of Markdown and 500 calls that begin and end, in rounds. */
function manyEvents(run: string): string[] {
  const events: [string, object][] = [["run_started", { type: "run_started", version: 1, run, model: "m", turns: [{ type: "user", parts: [{ type: "text", text: "many" }] }], tools: ["look"], at: 1 }]];
  const words = "Some **bold** words and `code`, a [link](https://example.org) and more of the same.\n\n- one\n- two\n\n".split(/(?<=\s)/);
  for (let round = 0; round < 10; round++) {
    events.push(["model_started", { type: "model_started", round, at: 2 + round }]);
    let text = "";
    for (let at = 0; at < 400; at++) {
      const piece = words[at % words.length] ?? "";
      text += piece;
      events.push(["text_delta", { type: "text_delta", text: piece }]);
    }
    const calls = Array.from({ length: 50 }, (_, at) => ({ type: "tool_call", id: `c${round}_${at}`, name: "look", arguments: `{"at": ${at}}` }));
    events.push(["model_finished", { type: "model_finished", turn: { type: "assistant", parts: [{ type: "text", text }, ...calls], stop: "tool_calls" }, at: 3 + round }]);
    for (const call of calls) events.push(["tool_started", { type: "tool_started", call_id: call.id, name: "look", at: 3 + round }]);
    for (const call of calls) events.push(["tool_finished", { type: "tool_finished", result: { type: "tool_result", call_id: call.id, content: "seen" }, name: "look", at: 4 + round }]);
  }
  return events.map(([kind, data], at) => JSON.stringify([kind, String(at), JSON.stringify(data)]));
}

/** Stands in for EventSource: 20 events for each frame. */
function sourceOf(frames: string[]): void {
  class Source extends EventTarget {
    onopen: (() => void) | null = null;
    constructor() {
      super();
      const kept = window as never as { sent: number };
      kept.sent = 0;
      const step = () => {
        for (const frame of frames.slice(kept.sent, kept.sent + 20)) {
          const [kind, id, data] = JSON.parse(frame) as [string, string, string];
          this.dispatchEvent(new MessageEvent(kind, { data, lastEventId: id }));
        }
        kept.sent += 20;
        if (kept.sent < frames.length) requestAnimationFrame(step);
        else kept.sent = -1;
      };
      requestAnimationFrame(step);
    }
    close(): void {}
  }
  (window as never as { EventSource: unknown }).EventSource = Source;
}
