// What is being written: a draft for each session, kept in this browser, and files on their way to the server.
import { computed, signal } from "@preact/signals";
import { Problem, upload } from "../api";
import { touch } from "../changes";
import { bytes } from "../format";
import { say, sessionId } from "./session";
import { recall, remember } from "./settings";
import { facts } from "./server";

export interface Sending {
  key: number;
  name: string;
  state: "sending" | "done" | "refused";
  share: number;
  id: string;
  problem: string;
  stop: () => void;
}

export const draft = signal("");
export const files = signal<Sending[]>([]);
export const problem = signal("");
export const isSending = signal(false);
export const canSend = computed(
  () => !isSending.value && (draft.value.trim() !== "" || files.value.length > 0) && files.value.every((file) => file.state === "done"),
);

let count = 0;

export function openDraft(session: string): void {
  draft.value = recall(`draft.${session}`, "");
  files.value = [];
  problem.value = "";
}

export function write(text: string): void {
  draft.value = text;
  remember(`draft.${sessionId.value}`, text);
}

export async function send(): Promise<void> {
  if (!canSend.value) return;
  const text = draft.value.trim();
  const sent = files.value;
  const session = sessionId.value;
  isSending.value = true;
  problem.value = "";
  try {
    await say(text, sent.map(({ id, name }) => ({ id, name })));
    if (draft.value.trim() === text) draft.value = "";
    files.value = files.value.filter((file) => !sent.includes(file));
    remember(`draft.${session}`, null);
  } catch (error) {
    problem.value = error instanceof Problem ? reason(error) : String(error);
  } finally {
    isSending.value = false;
  }
}

function reason(error: Problem): string {
  if (error.isOffline) return "The server does not answer. Your words are kept.";
  if (error.status === 429) return `The server is full: ${error.message}`;
  return error.message;
}

export function attach(list: Iterable<File>): void {
  const most = facts.value?.max_upload ?? Number.POSITIVE_INFINITY;
  for (const file of list) {
    count += 1;
    const sending: Sending = { key: count, name: file.name || "picture.png", state: "sending", share: 0, id: "", problem: "", stop: () => undefined };
    files.value = [...files.value, sending];
    if (file.size > most) {
      sending.state = "refused";
      sending.problem = `${bytes(file.size)}; the server takes ${bytes(most)}`;
      continue;
    }
    start(sending, file);
  }
}

function start(sending: Sending, file: File): void {
  const { done, stop } = upload(file, (share) => {
    sending.share = share;
    touch(sending);
  });
  sending.stop = stop;
  const show = () => {
    files.value = [...files.value];
    touch(sending);
  };
  done.then(
    (stored) => {
      sending.state = "done";
      sending.id = stored.id;
      show();
    },
    (error: unknown) => {
      sending.state = "refused";
      sending.problem = error instanceof Error ? error.message : String(error);
      show();
    },
  );
}

export function detach(sending: Sending): void {
  if (sending.state === "sending") sending.stop();
  files.value = files.value.filter((file) => file !== sending);
}
