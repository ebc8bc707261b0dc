// Pictures of the first minute, of an approval that is edited, and of what goes wrong, in both themes: to be looked at next to those of
// the design. In web/pictures; gallery.test.ts takes those of the views that need a week of work.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { BrowserContextOptions, Page } from "playwright-core";
import { beforeAll, describe, test } from "vitest";
import { PICTURES, answered, ask, harness } from "./harness";

const { open } = harness({ pace: 0.004, code: true });
const QUESTION = "Which warehouse runs out of pallets in December? Use the stock export, check the carrier’s holiday calendar, and order what is missing.";
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true };

beforeAll(() => mkdirSync(PICTURES, { recursive: true }));

async function shoot(page: Page, name: string): Promise<void> {
  await page.waitForTimeout(400); // colours of code come when the page has time
  await page.screenshot({ path: join(PICTURES, `${name}.png`) });
}

describe.each(["light", "dark"] as const)("in the %s theme", (colorScheme) => {
  const context: BrowserContextOptions = { colorScheme, deviceScaleFactor: 2 };

  test("a new session, on a desk and on a phone", async () => {
    const page = await open("/ui", context);
    await page.waitForSelector(".ready");
    await shoot(page, `first-start-${colorScheme}`);
    await page.keyboard.press("Control+k");
    await shoot(page, `find-${colorScheme}`);
    const phone = await open("/ui", { ...context, ...PHONE });
    await phone.waitForSelector(".ready");
    await shoot(phone, `phone-first-start-${colorScheme}`);
  });

  test("a conversation with tools while an approval waits, edited, and after it", async () => {
    const page = await open("/ui", context);
    await ask(page, QUESTION);
    await page.waitForSelector("[data-ask]");
    await page.waitForSelector(".fig img");
    const phone = await open(new URL(page.url()).pathname, { ...context, ...PHONE });
    await phone.waitForSelector("[data-ask]");
    await page.click("[data-ask] >> text=Edit");
    await page.locator(".edit-row:has-text('quantity') input").fill("1200");
    await shoot(page, `approval-edit-${colorScheme}`);
    await page.keyboard.press("Control+Enter");
    await answered(page, "The order is placed");
    await shoot(page, `chat-end-${colorScheme}`);
    await phone.waitForSelector("[data-ask]", { state: "detached" });
    await answered(phone, "The order is placed");
    await shoot(phone, `phone-chat-${colorScheme}`);
  });

  test("thinking next to the settings", async () => {
    const page = await open("/ui", context);
    await page.click("role=button[name=Settings]");
    await ask(page, "think about it");
    await page.waitForSelector(".thought.live");
    await page.screenshot({ path: join(PICTURES, `thinking-${colorScheme}.png`) });
  });

  test("Markdown, a failure and a broken answer", async () => {
    const page = await open("/ui", context);
    await ask(page, "markdown please");
    await answered(page, "A quotation.");
    await shoot(page, `markdown-${colorScheme}`);
    await ask(page, "cut it off");
    await page.waitForSelector("text=Incomplete");
    await ask(page, "this will fail");
    await page.waitForSelector(".prob");
    await shoot(page, `states-${colorScheme}`);
  });

  test("build, before anything was built", async () => {
    const page = await open("/ui/build", context);
    await page.waitForSelector(".build-start");
    await shoot(page, `build-start-${colorScheme}`);
  });
});
