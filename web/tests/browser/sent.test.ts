// What a run's page shows as its request is what its provider has received.
import { type IncomingMessage, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { afterAll, expect, test } from "vitest";
import { harness } from "./harness";

interface Received {
  path: string;
  key: string;
  body: string;
}

const KEY = "sk-canary-0123456789abcdef";
const received: Received[] = [];
const provider = createServer((request, response) => {
  void bodyOf(request).then((body) => {
    received.push({ path: request.url ?? "", key: request.headers.authorization ?? "", body });
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const frame of [...answerTo(body), "[DONE]"]) response.write(`data: ${frame}\n\n`);
    response.end();
  });
});
await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
afterAll(() => void provider.close());

const { server, open } = harness({ provider: { url: `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`, key: KEY } });

async function bodyOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  return Buffer.concat(pieces).toString();
}

/** A call of a tool, and when that has answered, words. */
function answerTo(body: string): string[] {
  const isAnswered = body.includes('"role":"tool"');
  const call = { index: 0, id: "call_1", type: "function", function: { name: "calculate", arguments: '{"expression":"17 * 23"}' } };
  const choice = { index: 0, delta: isAnswered ? { content: "It is 391." } : { tool_calls: [call] }, finish_reason: isAnswered ? "stop" : "tool_calls" };
  return [JSON.stringify({ id: "up", object: "chat.completion.chunk", choices: [choice] })];
}

async function shownRequest(page: Page): Promise<string> {
  for (let folded = page.locator(".outline button[aria-expanded=false]"); (await folded.count()) > 0; ) await folded.first().click();
  return (await page.locator(".outline pre").allTextContents()).join("\n");
}

test("the request of each round is shown as the provider has received it, byte for byte, without the key", async () => {
  const question = "What is 17 * 23? “Tell” me\n\tin words: äöü 漢字 🙂 </script> \\ 0.5";
  const asked = await fetch(`${server.url}/v1/responses`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "elsewhere", input: question, instructions: "Be brief.", temperature: 0.25, max_output_tokens: 900 }),
  });
  const answer = (await asked.json()) as { id: string; status: string };
  expect(answer.status).toBe("completed");
  expect(received.map((one) => one.key)).toEqual([`Bearer ${KEY}`, `Bearer ${KEY}`]);
  expect(received[0]?.body).toContain("漢字");

  const page = await open(`/ui/runs/${answer.id.replace("resp_", "run_")}`);
  for (const [round, one] of received.entries()) {
    await page.click(`.s-model >> nth=${round}`);
    await page.click("role=tab[name=Request]");
    await page.waitForSelector(`.sent-head:has-text('POST 127.0.0.1'):has-text('${one.path}')`);
    await page.waitForFunction((isSecond) => (document.querySelector(".cachemark") !== null) === isSecond, round > 0);
    const shown = await shownRequest(page);
    expect(JSON.stringify(JSON.parse(shown))).toBe(one.body);
  }
  await page.click(".s-model >> nth=0");
  expect(await page.content()).not.toContain(KEY);
});
