// Where the keyboard is after something has closed: what opened it has the focus again, never nothing.
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { answered, ask, harness } from "./harness";

const { server, open } = harness({ pace: 0.004 });

async function press(page: Page, name: string): Promise<void> {
  await page.focus(`role=button[name='${name}']`);
  await page.keyboard.press("Enter");
}

/** Until the focus is on what has this name, or this id. */
async function focused(page: Page, name: string): Promise<void> {
  await page.waitForFunction((wanted) => [document.activeElement?.getAttribute("aria-label"), document.activeElement?.id].includes(wanted), name);
}

test("a field that is left gives the focus back to what opened it", async () => {
  const page = await open();
  await ask(page, "hello");
  await answered(page);
  await press(page, "Rename the session");
  await focused(page, "Name of the session");
  await page.keyboard.press("Escape");
  await focused(page, "Rename the session");
  await page.keyboard.press("Enter");
  await focused(page, "Name of the session");
  await page.keyboard.type("Greetings");
  await page.keyboard.press("Enter");
  await focused(page, "Rename the session");
  await page.waitForSelector("h1:has-text('Greetings')");
  await press(page, "Edit this message");
  await focused(page, "Edit your message");
  await page.keyboard.press("Escape");
  await focused(page, "Edit this message");
  const row = page.locator(".list-item a:has-text('Greetings')");
  await row.focus();
  await page.keyboard.press("F2");
  await focused(page, "Name of the session");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.activeElement?.hasAttribute("data-row"));
});

test("the settings give the focus back, from whichever view they were opened", async () => {
  const page = await open();
  await press(page, "Settings");
  await page.waitForSelector("text=Settings of this session");
  await press(page, "Close the settings");
  await focused(page, "Settings");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("settings");
  await page.keyboard.press("Enter");
  await focused(page, "Settings of this session");
  await page.keyboard.press("Escape");
  await page.waitForSelector("text=Settings of this session", { state: "detached" });
  await page.goto(`${server.url}/ui/operate`);
  await press(page, "Settings");
  await page.waitForSelector("text=Settings of this session");
});

test("a question that is answered gives the focus to the next one, and at last to the text field", async () => {
  const page = await open();
  await ask(page, "place them together");
  await page.waitForSelector("[data-ask] >> text=1 of 2");
  await page.focus("[data-ask] >> role=button[name=/^Approve/]");
  await page.keyboard.press("Enter");
  await page.waitForSelector("[data-ask] >> text=north");
  await page.waitForFunction(() => document.activeElement?.hasAttribute("data-ask"));
  await page.keyboard.press("Enter"); // once too often: the card itself answers nothing
  await page.waitForTimeout(500);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await answered(page, "Both are placed.");
  await focused(page, "composer");
});

test("Ctrl K leads to every view, and what is chosen is in sight", async () => {
  for (let number = 0; number < 26; number++) {
    const body = { model: "default", session_id: `chat-${number}`, messages: [{ role: "user", content: `hello, for the ${number}th time` }] };
    await fetch(`${server.url}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  }
  const page = await open();
  await page.waitForSelector(".list-item >> nth=20");
  await page.keyboard.press("Control+k");
  for (let step = 0; step < 22; step++) await page.keyboard.press("ArrowDown");
  await page.waitForFunction(() => {
    const [row, box] = [document.querySelector(".list-row.on"), document.querySelector("#hits")].map((one) => one?.getBoundingClientRect());
    return row !== undefined && box !== undefined && row.top >= box.top && row.bottom <= box.bottom;
  });
  await page.keyboard.type("operate");
  await page.keyboard.press("Enter");
  await page.waitForSelector("h1:has-text('Operate')");
  expect(await page.title()).toContain("Operate · Ronda");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("all keys");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog >> text=Alt D");
});
