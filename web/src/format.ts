// Numbers, times and sizes as people read them. What is not known is said so.

export function seconds(value: number): string {
  if (!Number.isFinite(value) || value < 0) return "unknown";
  if (value >= 0.0005 && value < 0.05) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(1)} s`;
  const whole = Math.round(value);
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} m`;
}

/** A time to come, as roughly as it matters. */
export function until(value: number): string {
  if (value <= 0) return "now";
  if (value < 60) return `${Math.ceil(value)} s`;
  if (value < 3600) return `${Math.ceil(value / 60)} min`;
  if (value < 86_400) return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
  return `${Math.floor(value / 86_400)} d ${Math.floor((value % 86_400) / 3600)} h`;
}

export function tokens(count: number): string {
  if (count < 1000) return String(count);
  if (count < 100_000) return `${(count / 1000).toFixed(1)}k`;
  return count < 1_000_000 ? `${Math.round(count / 1000)}k` : `${(count / 1_000_000).toFixed(1)}M`;
}

export function cost(value: number): string {
  return value < 1 && value > 0 ? `$${value.toFixed(3)}` : Number.isInteger(value) || value >= 1000 ? `$${whole(Math.round(value))}` : `$${value.toFixed(2)}`;
}

/** What a run has cost: at least that, where a price of it is not known; nothing where none is. */
export function spent(usage: { cost: number; isUnpriced: boolean }): string {
  return usage.cost > 0 ? `${usage.isUnpriced ? "≥ " : ""}${cost(usage.cost)}` : "";
}

export function bytes(count: number): string {
  if (count < 1000) return `${count} B`;
  if (count < 1_000_000) return `${Math.round(count / 1000)} kB`;
  return `${(count / 1_000_000).toFixed(1)} MB`;
}

export function whole(count: number): string {
  return count.toLocaleString("en");
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${whole(count)} ${count === 1 ? one : many}`;
}

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

function dayOf(date: Date): number {
  return Math.floor((date.getTime() - date.getTimezoneOffset() * 60_000) / 86_400_000);
}

export function clock(at: number): string {
  const date = new Date(at * 1000);
  return `${String(date.getHours()).padStart(2, "0")}:${String(date.getMinutes()).padStart(2, "0")}`;
}

/** The time of a row in a list: of today the hour, then the day, then the date. */
export function when(at: number, now: number): string {
  const date = new Date(at * 1000);
  const days = dayOf(new Date(now)) - dayOf(date);
  if (days <= 0) return clock(at);
  if (days < 7) return DAYS[date.getDay()] ?? "";
  return dateOf(at);
}

export function dateOf(at: number): string {
  const date = new Date(at * 1000);
  return `${date.getDate()} ${MONTHS[date.getMonth()] ?? ""}`;
}

/** The same with the hour of each of the last days, where there is room. */
export function whenExactly(at: number, now: number): string {
  const short = when(at, now);
  return DAYS.includes(short) ? `${short} ${clock(at)}` : short;
}

export function dayGroup(at: number, now: number): string {
  const days = dayOf(new Date(now)) - dayOf(new Date(at * 1000));
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return "Last week";
  return days < 31 ? "Last month" : "Earlier";
}

/** What a session is called until a person names it. */
export function firstWords(text: string): string {
  const line = text.split("\n").find((one) => one.trim() !== "")?.trim() ?? "";
  if (line.length <= 60) return line;
  const cut = line.slice(0, 60);
  return `${cut.slice(0, Math.max(30, cut.lastIndexOf(" ")))}…`;
}

/** What a server or a program says begins with a small letter: as a sentence of its own it does not. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1).replace(/\.$/, "");
}

/** A model as people call it: without the provider that it is asked through. */
export function bareModel(model: string): string {
  return model.replace(/^(?!local:|script:)[\w-]+:/, "");
}
