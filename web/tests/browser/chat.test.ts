import { describe, expect, test } from "vitest";
import { answered, ask, harness, talkText } from "./harness";

const { server, open, expectTrouble } = harness({ pace: 0.008 });

describe("the first minute", () => {
  test("the root leads a browser to the page, which names the model and what is missing", async () => {
    const page = await open("/");
    expect(new URL(page.url()).pathname).toBe("/ui");
    await page.waitForSelector("text=Actor · ready");
    const words = await page.locator(".hello").innerText();
    expect(words).toContain("What should it do?");
    expect(words).toContain("ronda keys create");
    expect(await page.title()).toBe("New session · Ronda");
  });

  test("a question is answered, the session gets an address and a name", async () => {
    const page = await open();
    await ask(page, "Tell me something, in plain words");
    await answered(page, "an answer to that");
    expect(new URL(page.url()).pathname).toMatch(/^\/ui\/chat\/chat-\w+$/);
    await page.waitForSelector('.sessions a:has-text("Tell me something, in plain words")');
    expect(await page.title()).toBe("Tell me something, in plain words · Ronda");
    await page.reload();
    await answered(page, "an answer to that");
  });

  test("the caret stands behind the last word, and nothing moves aside when an answer is complete", async () => {
    const page = await open();
    await ask(page, "markdown please");
    await page.waitForSelector(".say.writing p");
    const left = await page.locator(".say").evaluate((say) => say.getBoundingClientRect().left);
    const carets = await page.locator(".say.writing").evaluate((say) => {
      const found = [...say.querySelectorAll("*")].filter((one) => getComputedStyle(one, "::after").display === "inline-block");
      return found.map((one) => say.textContent?.endsWith(one.textContent ?? ""));
    });
    expect(carets).toEqual([true]);
    await answered(page, "A quotation.");
    expect(await page.locator(".say").evaluate((say) => say.getBoundingClientRect().left)).toBe(left);
    expect(await page.locator(".say.writing").count()).toBe(0);
  });

  test("a suggestion is asked with one click", async () => {
    const page = await open();
    await page.click("text=Why is the sky blue?");
    await answered(page, "an answer to that");
  });
});

test("the settings say of each tool what it does, and whether it asks", async () => {
  const page = await open();
  await page.click("role=button[name=Settings]");
  const order = page.locator(".set:has([aria-label=place_order])");
  await order.locator("[title='Place an order.']").waitFor();
  expect(await order.innerText()).toContain("asks"); // the server's own rule, which no session can loosen
  expect(await page.locator(".set:has([aria-label=calculate])").innerText()).toMatch(/calculate\s+runs/);
  await page.click("role=switch[name='Ask me before any tool runs']");
  await page.waitForSelector(".set:has([aria-label=calculate]) >> text=asks");
});

test("an agent is asked with what its form says", async () => {
  const page = await open();
  await page.click("role=button[name=/^Model:/]");
  expect(await page.isDisabled("role=button[name=/billing/]")).toBe(true); // its file cannot be read
  await page.click("role=button[name=weather]");
  await page.waitForSelector(".agent-form >> text=Tells the weather in one sentence.");
  await page.click("text=Ask with these"); // a field that is required is asked for
  expect(await page.evaluate(() => (document.activeElement as HTMLInputElement).ariaLabel)).toBe("city");
  await page.keyboard.type("Lisbon");
  await page.click("role=button[name=fahrenheit]");
  await page.keyboard.press("Escape");
  const [request] = await Promise.all([page.waitForRequest(/\/v1\/chat\/completions$/), ask(page, "And now?")]);
  expect(request.postDataJSON()).toMatchObject({ model: "weather", inputs: { city: "Lisbon", preferred_unit: "fahrenheit" } });
  await answered(page, "It is 21 degrees");
});

describe("a round of tools", () => {
  test("its row is written, runs and is done, and opens with arguments and result", async () => {
    const page = await open();
    await page.evaluate(() => {
      const seen: string[] = ((window as never as { seen: string[] }).seen = []);
      new MutationObserver(() => {
        const label = document.querySelector(".call .vh")?.textContent ?? "";
        if (label !== "" && seen.at(-1) !== label) seen.push(label);
      }).observe(document.body, { subtree: true, childList: true, characterData: true });
    });
    await ask(page, "please steer");
    await page.waitForSelector(".call.running");
    await answered(page, "I have read");
    const seen = await page.evaluate(() => (window as never as { seen: string[] }).seen);
    expect(seen[0]).toBe("is being written");
    expect(seen).toContain("is running");
    expect(seen.at(-1)).toMatch(/^done after 2\.\d s$/);
    await page.click(".call");
    await page.waitForSelector("text=waited 2 s");
    await page.click("role=tab[name=Arguments]");
    await page.waitForSelector('pre:has-text("seconds")');
  });

  test("thinking is open while it comes, and folds to nothing", async () => {
    const page = await open();
    await ask(page, "think about it");
    await page.waitForSelector(".thought.live");
    expect(await page.locator(".sum >> text=Thinking").count()).toBe(1);
    await answered(page, "I have thought about it.");
    expect(await page.locator(".thought").count()).toBe(0);
    await page.click(".sum .fold");
    expect(await page.locator(".thought").innerText()).toContain("Two facts are needed");
  });

  test("a tool that fails is told where it failed", async () => {
    const page = await open();
    await ask(page, "use the broken one");
    await answered(page, "The tool failed");
    expect(await page.locator(".call .arg").innerText()).toBe("RuntimeError: timed out after 30 s · the model was told");
  });

  test("a model that fails offers what to do, and its question can be asked again", async () => {
    const page = await open();
    await ask(page, "this will fail");
    await page.waitForSelector(".prob >> text=the model is overloaded");
    expect(await page.locator(".knot.fail").count()).toBe(1);
    await page.reload();
    await page.waitForSelector(".prob >> text=the model is overloaded");
    await page.click("text=Try again");
    await page.waitForSelector('[role=log][aria-busy="false"] .prob');
  });

  test("a model call that is tried again says when, and why", async () => {
    const page = await open();
    await ask(page, "have patience");
    await page.waitForSelector("text=/Again in [0-9]+ s, try 2 of 3/");
    await page.waitForSelector(".sum.wait >> text=the model has too much to do");
    await answered(page, "It was worth the wait.");
    expect(await page.locator(".sum.wait").count()).toBe(0);
    await page.click("role=link[name='Open the run']");
    await page.waitForSelector("text=Model call, try 1");
  });

  test("a run that reached its limit of rounds has an answer all the same, and goes on from there", async () => {
    const page = await open();
    await page.click("role=button[name=Settings]");
    await page.fill("role=slider[name=Rounds]", "1");
    await ask(page, "calculate it");
    await answered(page, "391");
    await page.waitForSelector(".pill.wait >> text=1 of 1 rounds");
    await page.waitForSelector("text=The last answer was made without tools.");
    await page.reload();
    await page.waitForSelector(".pill.wait >> text=1 of 1 rounds");
    await page.click("role=button[name='Change the limit…']");
    await page.waitForSelector("role=slider[name=Rounds]");
    expect(await page.inputValue("role=slider[name=Rounds]")).toBe("2");
    await page.click("role=button[name='Continue with 1 more']");
    await page.waitForSelector(".said >> text=Continue.");
    await answered(page, "an answer to that");
  });

  test("an answer that broke off stays readable, marked as incomplete", async () => {
    const page = await open();
    await ask(page, "this will be cut");
    await page.waitForSelector("text=Incomplete");
    expect(await talkText(page)).toContain("its own weight of 41 kN/m, and traffic of");
  });
});

describe("words of a model", () => {
  test("Markdown becomes headings, lists, tables, links and coloured code", async () => {
    const page = await open();
    await ask(page, "markdown please");
    await answered(page, "A quotation.");
    const say = page.locator(".say");
    for (const part of ["h3", "strong", "em", "code", "ul li ul li", "table td.r", "blockquote", "ol li", ".tick.on", ".codebox .k-k"]) {
      await say.locator(part).first().waitFor();
    }
    const link = say.locator("a.lnk").first();
    expect(await link.getAttribute("href")).toBe("https://example.org/a?b=c");
    expect(await link.getAttribute("rel")).toBe("noopener noreferrer nofollow");
    expect(await say.locator(".cite").count()).toBe(0); // there are no sources
  });

  test("what is hostile stays words", async () => {
    const page = await open();
    await ask(page, "hostile please");
    await answered(page, "onerror");
    expect(await page.evaluate(() => (window as never as { owned?: number }).owned)).toBeUndefined();
    const talk = page.locator(".say");
    expect(await talk.locator("script, img, iframe, svg:not(.i)").count()).toBe(0);
    expect(await talk.locator("a").evaluateAll((links) => links.map((link) => link.getAttribute("href")))).toEqual([
      "https://evil.example/pixel.png",
      "https://example.org/",
    ]);
    expect(await talk.innerText()).toContain("<script>window.owned = 1</script>");
  });
});

test("the policy forbids what the page never does", async () => {
  expectTrouble(); // the browser says in its console what it has blocked
  const answer = await fetch(`${server.url}/ui`);
  expect((answer.headers.get("content-security-policy") ?? "").split("; ")).toEqual([
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' blob: data:", "font-src 'self'", "connect-src 'self'", "frame-src 'self'",
    "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
  ]);
  const others = ["x-content-type-options", "referrer-policy", "cross-origin-opener-policy"].map((name) => answer.headers.get(name));
  expect(others).toEqual(["nosniff", "no-referrer", "same-origin"]);
  const page = await open();
  const thrown = await page.evaluate(() => {
    try {
      document.body.innerHTML = "<b>x</b>";
      return "nothing";
    } catch (error) {
      return (error as Error).name;
    }
  });
  expect(thrown).toBe("TypeError");
});
