// The login: over the page, which stays as it is, so that a draft is not lost when a key is revoked. Without a key there is no page.
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, type LoginLink, Problem } from "../api";
import { facts, logIn } from "../store/server";
import { refreshLists } from "../store/sessions";
import { retryNow } from "../stream";
import { shown } from "../visible";
import { Icon, Mark } from "./icon";

export function Login(): VNode {
  const box = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const [key, setKey] = useState("");
  const [isSeen, setSeen] = useState(false);
  const [problem, setProblem] = useState("");
  const [isSending, setSending] = useState(false);
  const [ways, setWays] = useState<LoginLink[]>([]);
  const wasIn = facts.value !== null;
  useEffect(() => {
    box.current?.showModal();
    field.current?.focus();
    api.ways().then(setWays, () => undefined);
  }, []);
  const send = (event: Event) => {
    event.preventDefault();
    if (key.trim() === "" || isSending) return;
    setSending(true);
    setProblem("");
    logIn(key.trim())
      .then(
        () => {
          void refreshLists();
          retryNow();
        },
        (error: unknown) => {
          setProblem(reason(error));
          field.current?.focus();
        },
      )
      .finally(() => setSending(false));
  };
  return (
    <dialog ref={box} class={wasIn ? "login" : "login alone"} aria-labelledby="login-title" onCancel={(event) => event.preventDefault()}>
      <form onSubmit={send}>
        <div class="brand login-brand">
          <Mark />
          Ronda
        </div>
        <h1 id="login-title">Log in with your key</h1>
        <p class="t2">{wasIn ? "Your key is not taken any more. What you wrote is kept." : "This server answers only clients that have one."}</p>
        <label class="strong" for="login-key">
          Key
        </label>
        <div class={problem === "" ? "field" : "field wrong"}>
          <Icon name="key" small />
          <input
            ref={field}
            id="login-key"
            class="mono"
            type={(isSeen ? "text" : "password") as "password"}
            autocomplete="current-password"
            spellcheck={false}
            value={key}
            aria-invalid={problem !== ""}
            aria-describedby={problem === "" ? undefined : "login-problem"}
            onInput={(event) => setKey(event.currentTarget.value)}
          />
          <button type="button" class="ic sm" aria-label={isSeen ? "Hide the key" : "Show the key"} aria-pressed={isSeen} onClick={() => setSeen(!isSeen)}>
            <Icon name={isSeen ? "eye-off" : "eye"} small />
          </button>
        </div>
        {problem !== "" && (
          <p id="login-problem" class="fail row login-problem" role="alert">
            <Icon name="alert" small /> <span>{shown(problem)}</span>
          </p>
        )}
        <button type="submit" class="btn ink login-send" disabled={isSending}>
          {isSending ? "Logging in…" : "Log in"} <kbd>Enter</kbd>
        </button>
        {ways.map((way) => (
          <a key={way.kind} class="btn login-send" href={way.url}>
            Sign in with {shown(way.name ?? way.kind)}
          </a>
        ))}
        <p class="small t3">
          The key is not kept in this browser: a cookie that scripts cannot read stands for it until you log out. The person who runs the server makes keys with{" "}
          <code>ronda keys create --owner NAME</code>.
        </p>
      </form>
    </dialog>
  );
}

function reason(error: unknown): string {
  if (!(error instanceof Problem)) return String(error);
  if (error.isOffline) return error.message;
  return error.status === 401 ? "This key is not known, or it was revoked. Nothing was read." : error.message;
}
