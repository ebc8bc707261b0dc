// How the connection fares, where that matters: a line above the talk, which goes when it is well again.
import type { VNode } from "preact";
import { now } from "../clock";
import { plural } from "../format";
import { connection, retryNow } from "../stream";
import { Icon, Spinner } from "./icon";

export function Banner(): VNode | null {
  const state = connection.value;
  switch (state.kind) {
    case "open":
      return null;
    case "reconnecting": {
      const left = Math.max(0, Math.ceil(state.at / 1000 - now.value));
      return (
        <div class="banner wait" role="status">
          <Spinner tone="wait" />
          <span>
            No connection. Again {left > 0 ? <>in <span class="num">{left} s</span></> : "now"}
            {state.position !== "" && <>, from event <span class="mono-s">{state.position}</span></>}
            <span class="t2 wide"> · The run goes on without this page.</span>
          </span>
          <button type="button" class="btn sm end" onClick={retryNow}>
            Now
          </button>
        </div>
      );
    }
    case "back":
      return (
        <div class="banner" role="status">
          <Icon name="check" small class="tool" />
          <span>Connected.{state.count > 0 ? ` ${plural(state.count, "event")} came in meanwhile.` : ""}</span>
        </div>
      );
    case "gone":
      return (
        <div class="banner fail" role="alert">
          <Icon name="plug" small class="fail" />
          <span>
            The server does not answer. What is on this page was true at{" "}
            <b class="strong num">{new Date(state.since).toTimeString().slice(0, 8)}</b>. Sending is off; your draft is kept.
          </span>
          <button type="button" class="btn sm end" onClick={retryNow}>
            Try now
          </button>
        </div>
      );
  }
}
