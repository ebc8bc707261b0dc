// A page in a frame of its own. While it still arrives it is changed in place, at most four times a second, with its scripts asleep;
// when it is whole the frame is loaded once more, and they run.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api } from "../api";
import { withLibraries } from "./libraries";
import type { Picked } from "./project";

const EVERY_MS = 250;

interface PreviewProps {
  name: string;
  code: string;
  isWhole: boolean;
  isChoosing: boolean;
  /** An element of it is chosen: its outline stays while a change is asked for. */
  isTaken: boolean;
  onPicked: (picked: Picked) => void;
  onLeft: () => void;
}

interface Told {
  nonce?: unknown;
  ready?: unknown;
  picked?: { selector?: unknown; markup?: unknown };
  left?: unknown;
}

export function Preview({ name, code, isWhole, isChoosing, isTaken, onPicked, onLeft }: PreviewProps): VNode {
  const frame = useRef<HTMLIFrameElement>(null);
  const [nonce, setNonce] = useState(() => crypto.randomUUID());
  const ready = useRef(""); // the number of the frame that has said that it listens
  const latest = useRef({ code, isWhole, isChoosing, onPicked, onLeft, nonce });
  latest.current = { code, isWhole, isChoosing, onPicked, onLeft, nonce };
  const sent = useRef("");
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);

  const send = () => {
    const { code: html, isWhole: whole, isChoosing: choose, nonce: number } = latest.current;
    if (ready.current !== number || sent.current === html) return;
    sent.current = html;
    void withLibraries(html, whole).then((complete) => {
      if (sent.current === html && ready.current === number) frame.current?.contentWindow?.postMessage({ nonce: number, html: complete, part: !whole, choose }, "*");
    });
  };

  // Before the frame is there: it says once that it listens.
  useLayoutEffect(() => {
    const hear = (event: MessageEvent<Told | null>) => {
      // A frame without an origin says "null": who spoke is known by its window, and by the number.
      if (event.source !== frame.current?.contentWindow || event.data?.nonce !== latest.current.nonce) return;
      const { ready: isReady, picked, left } = event.data;
      if (isReady === true) {
        ready.current = latest.current.nonce;
        sent.current = "";
        send();
      } else if (typeof picked?.selector === "string" && typeof picked.markup === "string") {
        latest.current.onPicked({ selector: picked.selector.slice(0, 120), markup: picked.markup.slice(0, 400) });
      } else if (left === true) latest.current.onLeft();
    };
    addEventListener("message", hear);
    return () => removeEventListener("message", hear);
  }, []);

  useEffect(() => {
    if (code === "") return;
    if (isWhole) {
      // Loaded once more: what scripts of an earlier state have done is gone.
      if (sent.current === "") send();
      else setNonce(crypto.randomUUID());
      return;
    }
    timer.current ??= setTimeout(() => {
      timer.current = null;
      send();
    }, EVERY_MS);
  }, [code, isWhole]);
  useEffect(() => () => {
    if (timer.current !== null) clearTimeout(timer.current);
  }, []);

  useEffect(() => {
    if (ready.current !== nonce) return;
    frame.current?.contentWindow?.postMessage({ nonce, choose: isChoosing }, "*");
    if (isChoosing) frame.current?.focus();
  }, [isChoosing]);

  useEffect(() => {
    if (!isTaken && ready.current === nonce) frame.current?.contentWindow?.postMessage({ nonce, drop: true }, "*");
  }, [isTaken]);

  return <iframe key={nonce} ref={frame} class="built" sandbox="allow-scripts" src={api.frameAddress(nonce)} title={`Preview of ${name}`} />;
}
