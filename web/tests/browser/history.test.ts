// Conversations that are longer than a screen: they come page by page from their end, and are the same after a reload.
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { answered, ask, harness, talkText } from "./harness";

const { server, open } = harness({ pace: 0.004 });

async function say(session: string, words: string): Promise<void> {
  const body = { model: "default", session_id: session, messages: [{ role: "user", content: words }] };
  const answer = await fetch(`${server.url}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  expect(answer.status).toBe(200);
}

const questions = (page: Page) => page.locator(".said p").allInnerTexts();

test("words said into a run stay in its exchange when it is over, and after a reload", async () => {
  const page = await open();
  await ask(page, "please steer");
  await page.waitForSelector(".call.running");
  await page.fill("#composer", "and hurry");
  await page.press("#composer", "Enter");
  await answered(page, "I have read: and hurry");
  expect(await questions(page)).toEqual(["please steer", "and hurry"]);
  await page.reload();
  await page.waitForSelector(".knot >> text=2");
  await page.waitForSelector("role=link[name='Open the run']");
  expect(await questions(page)).toEqual(["please steer", "and hurry"]);
  expect((await talkText(page)).match(/I have read: and hurry/g)?.length).toBe(1);
});

test("a long conversation comes from its end; what was said before comes where it is looked for, and nothing moves", async () => {
  for (let number = 1; number <= 80; number++) await say("long-one", `question number ${number}.`);
  const page = await open("/ui/chat/long-one");
  await page.waitForSelector(".said >> text=question number 80.");
  const asked: string[] = [];
  page.on("request", (request) => {
    if (request.url().includes("before=")) asked.push(request.url());
  });
  const log = page.locator("[role=log]");
  // Up, until the first question is there: what is in sight while a page comes in stays where it is.
  const moved: number[] = [];
  for (let step = 0; step < 200 && (await page.locator(".said >> text=question number 1.").count()) === 0; step++) {
    await log.evaluate((element) => element.scrollBy(0, -400));
    const place = (words: string | null) =>
      page.evaluate((wanted) => {
        const edge = document.querySelector("[role=log]")?.getBoundingClientRect().top ?? 0;
        const seen = [...document.querySelectorAll<HTMLElement>(".said p")].map((one) => [one.innerText, one.getBoundingClientRect().top] as const);
        return seen.find(([text, top]) => (wanted === null ? top >= edge : text === wanted)) ?? null;
      }, words);
    const drawn = () => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    await drawn();
    const before = await place(null);
    await page.waitForSelector(".earlier", { state: "detached" });
    await drawn();
    const after = before === null ? null : await place(before[0]);
    if (before !== null && after !== null) moved.push(Math.abs(after[1] - before[1]));
  }
  expect(Math.max(...moved)).toBeLessThan(2);
  await page.waitForSelector(".said >> text=question number 1.");
  expect(asked.length).toBeGreaterThanOrEqual(2);
  // Every exchange knows its run, however old it is.
  await page.waitForSelector(".turn[data-index='0'] >> role=link[name='Open the run']");
  // And a new question keeps what was read.
  await ask(page, "one more");
  await page.waitForSelector(".said >> text=one more");
  await answered(page, "an answer to that");
  await log.evaluate((element) => element.scrollTo(0, 0));
  await page.waitForSelector(".said >> text=question number 1.");
});

test("an early question of a long conversation can be edited, though the page has only its end", async () => {
  for (let number = 1; number <= 40; number++) await say("long-two", `question number ${number}.`);
  const page = await open("/ui/chat/long-two");
  await page.waitForSelector(".said >> text=question number 40.");
  await page.press("#composer", "ArrowUp");
  await page.fill("[aria-label='Edit your message']", "the last one, otherwise");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".said >> text=the last one, otherwise");
  await page.waitForSelector(".walk >> text=2 of 2");
  const told = (await (await fetch(`${server.url}/v1/sessions/long-two`)).json()) as { messages: { content: string }[] };
  expect([told.messages.length, told.messages[0]?.content, told.messages[78]?.content]).toEqual([80, "question number 1.", "the last one, otherwise"]);
});

test("a branch has what came before it with its runs: sources, child runs and times, also after a reload", async () => {
  const page = await open();
  await ask(page, "search for it");
  await answered(page, "The last delivery");
  await ask(page, "the desk, please");
  await answered(page, "The desk says");
  await ask(page, "and then?");
  await answered(page, "an answer to that");
  await page.press("#composer", "ArrowUp");
  await page.fill("[aria-label='Edit your message']", "and what else?");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".walk >> text=2 of 2");
  const known = async () => {
    await page.waitForFunction(() => document.querySelectorAll("[aria-label='Open the run']").length === 3);
    await page.waitForSelector(".pill.child");
    return page.locator(".say .cite").allInnerTexts();
  };
  expect(await known()).toEqual(["1", "2"]);
  await page.reload();
  await page.waitForSelector(".said >> text=and what else?");
  expect(await known()).toEqual(["1", "2"]);
  // And asked once more: the same question, another answer.
  await page.click("role=button[name='Ask again'] >> nth=-1");
  await page.waitForSelector(".walk >> text=3 of 3");
  await page.reload();
  await page.waitForSelector(".walk >> text=3 of 3");
  expect(await known()).toEqual(["1", "2"]);
  expect(await questions(page)).toEqual(["search for it", "the desk, please", "and what else?"]);
});
