// What axe-core finds in a page that is serious or worse, to be compared with nothing.
import AxeBuilder from "@axe-core/playwright";
import type { Page } from "playwright-core";

/** The policy of the page forbids what axe would add to frames: those are left out, each is a page of its own. */
export async function findings(page: Page): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).exclude("iframe").analyze();
  return violations
    .filter((one) => one.impact === "serious" || one.impact === "critical")
    .map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
}
