import { describe, expect, test } from "vitest";
import { answered, ask, harness, talkText } from "./harness";

const { server, open, tab, expectTrouble } = harness({ pace: 0.02 });

const WORDS = Array.from({ length: 400 }, (_, at) => `word${at + 1}`).join(" ");

describe("a run under way", () => {
  test("goes on after a reload, with no word twice", async () => {
    const page = await open();
    await ask(page, "a long one");
    await page.waitForSelector('.say:has-text("word60")');
    await page.reload();
    await page.waitForSelector('.say:has-text("word61")');
    await answered(page, "word400");
    expect((await page.locator(".say").innerText()).trim()).toBe(WORDS);
  });

  test("is the same in a second tab", async () => {
    const page = await open();
    await ask(page, "a long one");
    await page.waitForSelector('.say:has-text("word40")');
    const other = await tab(page, new URL(page.url()).pathname);
    await answered(other, "word400");
    await answered(page, "word400");
    expect(await talkText(other)).toBe(await talkText(page));
  });

  test("survives a killed server: a banner, then it goes on; the draft is still there", async () => {
    expectTrouble();
    const page = await open();
    await ask(page, "a long one");
    await page.waitForSelector('.say:has-text("word30")');
    await page.fill("#composer", "a draft");
    await server.kill();
    await page.waitForSelector(".banner.wait, .banner.fail", { timeout: 10_000 });
    await server.start();
    await page.waitForSelector(".banner >> text=Connected", { timeout: 30_000 });
    await answered(page, "word400");
    expect(await page.inputValue("#composer")).toBe("a draft");
    await page.waitForSelector("text=The server had ended. The run goes on");
  });

  test("is stopped within a second, and what there is of it stays", async () => {
    const page = await open();
    await ask(page, "a long one");
    await page.waitForSelector('.say:has-text("word20")');
    const begun = Date.now();
    await page.keyboard.press("Control+.");
    await page.waitForSelector("text=Stopped");
    expect(Date.now() - begun).toBeLessThan(1000);
    expect(await talkText(page)).toContain("word20");
    await page.reload();
    await page.waitForSelector("text=Stopped");
    expect(await talkText(page)).toContain("word20");
  });

  test("hears what is said into it: a bubble in its place, and the next round has read it", async () => {
    const page = await open();
    await ask(page, "please steer");
    await page.waitForSelector(".call.running");
    await ask(page, "Only the harbour, please.");
    await answered(page, "I have read: Only the harbour, please.");
    const words = await talkText(page);
    expect(words.indexOf("Only the harbour")).toBeLessThan(words.indexOf("I have read"));
    expect(await page.locator(".said.steered").count()).toBe(1);
  });

  test("does not stall others: two run, three tabs are open", async () => {
    const first = await open();
    await ask(first, "a long one");
    const second = await tab(first, "/ui");
    await ask(second, "a long one");
    const third = await tab(first, "/ui");
    await ask(third, "something short");
    await answered(third, "an answer to that");
    await Promise.all([answered(first, "word400"), answered(second, "word400")]);
  });
});

test("a server that goes while nothing runs is missed, and is back when it answers", async () => {
  expectTrouble();
  const page = await open();
  await page.waitForSelector("text=Actor · ready");
  await server.kill();
  await page.waitForSelector(".banner.fail >> text=The server does not answer", { timeout: 30_000 });
  await page.fill("#composer", "kept");
  expect(await page.locator(".send").isDisabled()).toBe(true);
  await server.start();
  await page.waitForSelector(".banner >> text=Connected", { timeout: 30_000 });
  expect(await page.inputValue("#composer")).toBe("kept");
  await page.press("#composer", "Enter");
  await answered(page, "an answer to that");
});

test("what is read stays where it is while an answer comes, and a button leads to the new rounds", async () => {
  const page = await open("/ui", { viewport: { width: 1280, height: 420 } });
  await ask(page, "a long story");
  await page.waitForSelector("text=word120");
  const log = page.locator("[role=log]");
  await log.evaluate((element) => element.scrollTo(0, 0));
  await page.waitForSelector("role=button[name='To the end']");
  await page.waitForSelector("text=word300");
  expect(await log.evaluate((element) => element.scrollTop)).toBe(0);
  await page.click("role=button[name='To the end']");
  await page.waitForFunction(() => ((element) => element.scrollHeight - element.scrollTop - element.clientHeight < 2)(document.querySelector("[role=log]") as HTMLElement));
  await answered(page, "word400");
  await ask(page, "please steer"); // two rounds, the second after two seconds
  await page.waitForSelector(".call.running");
  await log.evaluate((element) => element.scrollTo(0, 0));
  await page.click("role=button[name='1 new round']");
  await page.waitForSelector("text=I have read");
});

describe("branches", () => {
  test("an earlier message that is edited makes a second branch, and both can be read and gone on with", async () => {
    const page = await open();
    await ask(page, "the first question");
    await answered(page, "an answer to that");
    await ask(page, "calculate it");
    await answered(page, "391");
    await page.hover(".turn >> nth=0");
    await page.locator("[data-edit]").first().click();
    await page.fill(".said.editing textarea", "think about it");
    await page.keyboard.press("Enter");
    await answered(page, "I have thought about it.");
    await page.waitForSelector("text=Branch 2 of 2");
    expect(await talkText(page)).not.toContain("391");
    await page.click("role=button[name='The branch before']");
    await answered(page, "391");
    await page.waitForSelector("text=Branch 1 of 2");
    expect(await talkText(page)).toContain("the first question");
    await ask(page, "and one more");
    await page.waitForSelector('.said p:has-text("and one more")');
    await page.waitForFunction(() => document.querySelectorAll(".ending").length === 3);
    await page.waitForSelector("text=of 2");
  });

  test("an answer is asked for again, as a branch", async () => {
    const page = await open();
    await ask(page, "tell me");
    await answered(page, "an answer to that");
    await page.click("role=button[name='Ask again']");
    await page.waitForSelector("text=Branch 2 of 2");
    expect(await page.locator(".turn").count()).toBe(1);
  });

  test("arrow up in an empty field edits the last message", async () => {
    const page = await open();
    await ask(page, "tell me");
    await answered(page);
    await page.press("#composer", "ArrowUp");
    expect(await page.inputValue(".said.editing textarea")).toBe("tell me");
    await page.waitForSelector(".said.editing textarea:focus");
    await page.keyboard.press("Escape");
    await page.waitForSelector(".said.editing", { state: "detached" });
  });
});

describe("sessions", () => {
  test("are renamed, found, deleted, and brought back", async () => {
    const page = await open();
    await ask(page, "tell me of rivers");
    await answered(page);
    await page.click("role=button[name='Rename the session']");
    await page.fill(".bar .rename", "Rivers of Europe");
    await page.keyboard.press("Enter");
    await page.waitForSelector('.sessions a:has-text("Rivers of Europe")');
    await page.keyboard.press("Control+k");
    await page.fill("dialog input", "rivers of");
    await page.keyboard.press("Enter");
    await page.waitForSelector("h1:has-text('Rivers of Europe')");
    await page.hover('.sessions .list-item:has-text("Rivers of Europe")');
    await page.click("role=button[name='Delete Rivers of Europe']");
    await page.waitForSelector('.sessions a:has-text("Rivers of Europe")', { state: "detached" });
    await page.click("text=Undo");
    await page.waitForSelector('.sessions a:has-text("Rivers of Europe")');
  });

  test("are found by what was asked in them, though they are called otherwise", async () => {
    const page = await open();
    await ask(page, "tell me of the heron in the reeds");
    await answered(page);
    await page.click("role=button[name='Rename the session']");
    await page.fill(".bar .rename", "Grey birds");
    await page.keyboard.press("Enter");
    await page.waitForSelector('.sessions a:has-text("Grey birds")');
    const other = await open();
    await other.waitForSelector('.sessions a:has-text("Grey birds")');
    await other.keyboard.press("Control+k");
    await other.fill("dialog input", "heron in the");
    await other.click('#hits [role=option]:has-text("Grey birds")');
    await other.waitForSelector("h1:has-text('Grey birds')");
    await other.keyboard.press("Control+k");
    await other.fill("dialog input", "a bird that was never asked about");
    await other.waitForSelector("text=No session has “a bird that was never asked about”");
  });

  test("that no page has named are called by what was asked in them first", async () => {
    for (const content of ["Which owl hunts by day?\nSay it briefly.", "And by night?"]) {
      const answer = await fetch(`${server.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "default", session_id: "chat-owls", session_mode: "append", messages: [{ role: "user", content }] }),
      });
      expect(answer.status).toBe(200);
      await answer.text();
    }
    const page = await open();
    await page.waitForSelector('.sessions a[href$="/chat-owls"]:has-text("Which owl hunts by day?")');
  });

  test("keep what is written in each", async () => {
    const page = await open();
    await page.fill("#composer", "for the new one");
    await page.reload();
    await page.waitForSelector("#composer");
    expect(await page.inputValue("#composer")).toBe("for the new one");
  });
});

test("files are attached by choosing, shown with their names, and sent with the question", async () => {
  const page = await open();
  await page.setInputFiles("input[type=file]", { name: "stock.csv", mimeType: "text/csv", buffer: Buffer.from("a,b\n1,2\n") });
  await page.waitForSelector(".chip >> text=stock.csv");
  await page.waitForFunction(() => !document.querySelector(".chip .accent"));
  await ask(page, "read the files");
  await answered(page, "I have read the file.");
  await page.waitForSelector(".said .chip >> text=stock.csv");
  await page.reload();
  await page.waitForSelector(".said .chip >> text=stock.csv");
});

test("files are attached by drop and by paste", async () => {
  const page = await open();
  await page.evaluate(() => {
    const data = () => {
      const found = new DataTransfer();
      found.items.add(new File(["site,pallets\nnorth,4310\n"], "stock.csv", { type: "text/csv" }));
      return found;
    };
    const chat = document.querySelector(".chat") as HTMLElement;
    chat.dispatchEvent(new DragEvent("dragover", { dataTransfer: data(), bubbles: true, cancelable: true }));
    chat.dispatchEvent(new DragEvent("drop", { dataTransfer: data(), bubbles: true, cancelable: true }));
    document.getElementById("composer")?.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data(), bubbles: true, cancelable: true }));
  });
  await page.waitForSelector(".atts .chip >> nth=1");
  expect(await page.locator(".atts .chip b").allInnerTexts()).toEqual(["stock.csv", "stock.csv"]);
  await page.click("role=button[name='Remove stock.csv'] >> nth=0");
  await ask(page, "read the files");
  await answered(page, "I have read the file.");
  expect(await page.locator(".said .chip").count()).toBe(1);
});
