// A server with keys: the login, a wrong key, a key that is revoked while the page is used, and the way out.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { findings } from "./axe";
import { PICTURES, answered, ask, harness } from "./harness";

const { server, open, tab, expectTrouble } = harness({ keys: true });

beforeAll(() => mkdirSync(PICTURES, { recursive: true }));
beforeEach(() => expectTrouble()); // a browser says in its console that an answer was 401

async function logIn(page: Page, name: string): Promise<void> {
  await page.fill("#login-key", server.keys[name] ?? "");
  await page.press("#login-key", "Enter");
  await page.waitForSelector(".login", { state: "detached" });
}

test("a wrong key is refused where it was typed; the right one opens the page, which asks, attaches and keeps it over a reload", async () => {
  const page = await open();
  await page.waitForSelector(".login.alone");
  await page.fill("#login-key", "rk_wrong");
  await page.press("#login-key", "Enter");
  await page.waitForSelector("role=alert >> text=This key is not known, or it was revoked");
  expect(await page.evaluate(() => document.activeElement?.id)).toBe("login-key");
  await page.keyboard.press("Escape"); // does not open it
  expect(await page.locator(".login").count()).toBe(1);
  await logIn(page, "ops");
  await page.waitForSelector(".foot >> text=key ops");
  expect(await page.evaluate((key) => JSON.stringify({ ...localStorage, ...sessionStorage }).includes(key) || document.cookie !== "", server.keys["ops"] ?? "")).toBe(false);
  await page.setInputFiles("input[type=file]", { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("three pallets") });
  await page.waitForSelector(".chip:has-text('notes.txt'):not(:has-text('%'))");
  await ask(page, "read the files");
  await answered(page, "I have read the file.");
  await page.reload();
  await answered(page, "I have read the file.");
  expect(await page.locator(".login").count()).toBe(0);
});

test("a key that is revoked in use: the login lies over the page, and the draft is kept", async () => {
  const page = await open();
  await logIn(page, "ops");
  await ask(page, "calculate it");
  await answered(page, "391");
  await page.fill("#composer", "half a thought");
  server.revoke("ops");
  await page.waitForSelector(".login:not(.alone) >> text=What you wrote is kept");
  await logIn(page, "second");
  expect(await page.inputValue("#composer")).toBe("half a thought");
  await page.press("#composer", "Enter");
  await answered(page, "an answer to that");
});

test("who logs out leaves nothing; another owner sees none of it", async () => {
  const page = await open();
  await logIn(page, "second");
  await page.fill("#composer", "not for others");
  await page.waitForSelector(".list a");
  await page.click("role=button[name='Log out']");
  await page.waitForSelector(".login.alone");
  expect(await page.evaluate(() => Object.keys(localStorage).filter((name) => name.includes("draft")))).toEqual([]);
  await logIn(page, "guest");
  await page.waitForSelector("text=What you ask is kept here");
  expect(await page.locator(".list a").count()).toBe(0);
  expect(await page.inputValue("#composer")).toBe("");
  await page.click("role=link[name=Operate]");
  await page.waitForSelector("text=This key may not operate the server");
  await page.waitForSelector("code:has-text('operate')");
  const other = await tab(page, "/ui"); // signed in by the same cookie
  await other.waitForSelector(".foot >> text=key guest");
});

test("Operate shows what was spent of a budget; who may manage keys sees them, and revokes one", async () => {
  const page = await open();
  await logIn(page, "spender");
  await ask(page, "calculate it");
  await answered(page, "391");
  await page.click("role=link[name=Operate]");
  const meter = page.locator("role=meter[name='Budget of the owner, each day, rounds']");
  await meter.waitFor();
  await page.waitForSelector(".op-box:has-text('Keys and budgets') >> text=2 of 500 rounds");
  expect(await page.locator(".op-box:has-text('Revoke')").count()).toBe(0); // the scope 'operate' does not manage keys
  const other = await open("/ui/operate");
  await logIn(other, "admin");
  const row = other.locator("tr:has-text('intern')");
  await row.locator("text=Revoke").click();
  await row.locator("text=Revoke for good").click();
  await row.waitFor({ state: "detached" });
  const answer = await fetch(`${server.url}/v1/models`, { headers: { authorization: `Bearer ${server.keys["old"]}` } });
  expect(answer.status).toBe(401);
  await other.waitForSelector("tr:has-text('admin') >> text=in use here");
  expect(await findings(other)).toEqual([]);
});

test("an operator sees the runs and errors of all owners, and none of their words", async () => {
  for (const content of ["order it", "this will fail"]) {
    const answer = await fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${server.keys["guest"]}` },
      body: JSON.stringify({ model: "default", background: true, messages: [{ role: "user", content }] }),
    });
    expect(answer.status).toBe(202);
  }
  const page = await open("/ui/operate");
  await logIn(page, "admin");
  await page.waitForSelector(".op-box:has-text('Runs of other owners') tr:has-text('guest'):has-text('waiting'):has-text('place_order')");
  await page.waitForSelector(".op-box[aria-label='Errors of the last hour'] li:has-text('1×')");
  expect(await page.locator(".operate").innerText()).not.toContain("order it");
  await page.waitForSelector(".tile:has-text('Running') >> text=of all owners");
  // A key that may change what the server does stops them.
  await page.click("role=button[name='Stop a run of guest']");
  await page.waitForSelector(".op-box:has-text('Runs of other owners') tr:has-text('guest')", { state: "detached" });
});

test("where there are keys, an operator sees whose each run is, and what it does now", async () => {
  for (const owner of ["admin", "guest"]) {
    const answer = await fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${server.keys[owner]}` },
      body: JSON.stringify({ model: "default", background: true, messages: [{ role: "user", content: "slow please" }] }),
    });
    expect(answer.status).toBe(202);
  }
  const page = await open("/ui/operate");
  await logIn(page, "admin");
  await page.waitForSelector(".op-box[aria-label='Runs now'] tr:has-text('slow please'):has(td:text-is('admin')) .mono-s:text-is('wait')");
  await page.waitForSelector(".op-box[aria-label='Runs of other owners'] tr:has-text('guest') .mono-s:text-is('wait')");
  await page.click("role=button[name='Stop slow please']");
  await page.click("role=button[name='Stop a run of guest']");
  await page.waitForSelector("text=Nothing runs.");
});

describe.each(["light", "dark"] as const)("in the %s theme", (colorScheme) => {
  test("axe finds nothing serious in the login, refused or not", async () => {
    const page = await open("/ui", { colorScheme, deviceScaleFactor: 2 });
    await page.fill("#login-key", "rk_0d4e7a15");
    await page.click("text=Log in >> nth=-1");
    await page.waitForSelector("#login-problem");
    expect(await findings(page)).toEqual([]);
    await page.screenshot({ path: join(PICTURES, `login-${colorScheme}.png`) });
  });
});

test("on a phone it fits", async () => {
  const page = await open("/ui", { viewport: { width: 320, height: 640 } });
  await page.waitForSelector(".login.alone");
  expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBe(0);
});
