// On a phone everything can be done that can be done on a desk.
import { expect, test } from "vitest";
import { answered, ask, harness } from "./harness";

const { open } = harness({ pace: 0.004 });
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

test("a message is edited, and a session renamed and deleted, with a finger", async () => {
  const page = await open("/ui", PHONE);
  await ask(page, "tell me of lakes");
  await answered(page, "an answer to that");
  await page.tap("role=button[name='Edit this message']");
  await page.fill("[aria-label='Edit your message']", "calculate it");
  await page.tap(".said.editing >> text=Ask");
  await answered(page, "391");
  await page.tap("role=button[name='Sessions and views']");
  await page.tap("dialog >> role=button[name=/^Rename /]");
  await page.fill("[aria-label='Name of the session']", "Sums");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog .list-item a:has-text('Sums')");
  await page.tap("dialog >> role=button[name='Delete Sums']");
  await page.waitForSelector("dialog .list-item a:has-text('Sums')", { state: "detached" });
});

test("the line under an answer is one line of figures, however many branches there are", async () => {
  const page = await open("/ui", { ...PHONE, viewport: { width: 320, height: 640 } });
  await ask(page, "tell me of lakes");
  await answered(page, "an answer to that");
  await page.tap("role=button[name='Ask again']");
  await page.waitForSelector(".walk >> text=2 of 2");
  const heights = await page.locator(".acts-of.answer .num").evaluateAll((all) => all.map((one) => one.getBoundingClientRect().height));
  expect(Math.max(...heights)).toBeLessThan(24);
  const [row, walk] = await Promise.all([page.locator(".acts-of.answer").boundingBox(), page.locator(".walk").boundingBox()]);
  expect((walk?.x ?? 0) + (walk?.width ?? 0)).toBeLessThanOrEqual((row?.x ?? 0) + (row?.width ?? 0) + 1);
  await page.tap("role=link[name='Open run']"); // in the bar: also while the run is under way
  await page.waitForSelector("text=Model call");
});

test("what a failure offers is within its card", async () => {
  const page = await open("/ui", PHONE);
  await ask(page, "this will fail");
  await page.waitForSelector(".prob");
  const [card, last] = await Promise.all([page.locator(".prob").boundingBox(), page.locator(".prob .do > :last-child").boundingBox()]);
  expect((last?.x ?? 0) + (last?.width ?? 0)).toBeLessThanOrEqual((card?.x ?? 0) + (card?.width ?? 0));
});
