// What needs a person: a card above the composer (on a phone a sheet), with what will run, why it asks, and the answers.
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { alarm } from "../announce";
import { now } from "../clock";
import type { Question } from "../fold/state";
import { until } from "../format";
import { cardProblem, decide, mode, open, sending, shownAt } from "../store/approval";
import { live } from "../store/session";
import { approvals, refreshLists } from "../store/sessions";
import { labelOf, valuesOf } from "../tools";
import { shown } from "../visible";
import { DenyForm, EditForm, InputForm } from "./approval-forms";
import { Icon } from "./icon";

export function ApprovalCard({ isSheet }: { isSheet: boolean }): VNode | null {
  const question = open.value;
  const id = question?.id ?? "";
  const card = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (question === null) return;
    mode.value = "decide";
    cardProblem.value = "";
    shownAt.value = performance.now();
    alarm(`${labelOf(question.tool)} waits for your decision`);
    void refreshLists();
    if (isSheet) card.current?.focus();
  }, [id]);
  // The next question takes the place of the one before: a key that is pressed once more must not answer it.
  useLayoutEffect(() => {
    if (isFocusInside(card.current)) card.current?.focus();
  }, [id]);
  useLayoutEffect(
    () => () => {
      if (isFocusInside(card.current) && !isSheet) document.getElementById("composer")?.focus();
    },
    [],
  );
  if (question === null) return null;
  const count = live.value?.questions.length ?? 1;
  const place = count > 1 ? `1 of ${count} · ` : "";
  const closes = question.expiresAt > 0 ? `${place}closes in ${until(question.expiresAt - now.value)}` : place.replace(" · ", "");
  const reason = approvals.value.find((one) => one.approval_id === question.id)?.reason ?? "";
  const roles = isSheet ? { role: "dialog" as const, "aria-modal": true } : { role: "group" as const };
  return (
    <div ref={card} class={isSheet ? "ask sheet" : "ask"} aria-labelledby="ask-title" tabIndex={-1} data-ask {...roles}>
      {isSheet ? (
        <>
          <div class="grab" />
          <div class="row">
            <span class="pill wait">
              <Icon name="shield" small /> Needs your yes
            </span>
            <span class="end small t3 num">{closes}</span>
          </div>
          <h2 id="ask-title">
            <Title question={question} />
          </h2>
        </>
      ) : (
        <header>
          <Icon name="shield" class="wait" />
          <span class="strong" id="ask-title">
            <Title question={question} />
          </span>
          <span class="end small t2 num">{mode.value === "edit" ? "the model’s turn stays as it was" : closes}</span>
        </header>
      )}
      {question.kind === "input" ? (
        <InputForm key={id} question={question} />
      ) : mode.value === "edit" ? (
        <EditForm key={id} question={question} isSheet={isSheet} />
      ) : (
        <Decide question={question} reason={reason} isSheet={isSheet} />
      )}
    </div>
  );
}

function isFocusInside(card: HTMLElement | null): boolean {
  return card?.contains(document.activeElement) ?? false;
}

function Title({ question }: { question: Question }): VNode {
  const name = <span class="mono-name">{shown(labelOf(question.tool))}</span>;
  if (question.kind === "input") return <>{name} asks</>;
  return mode.value === "edit" ? <>Run {name} with other arguments</> : <>Allow {name}?</>;
}

function Decide({ question, reason, isSheet }: { question: Question; reason: string; isSheet: boolean }): VNode {
  const values = valuesOf(question.arguments);
  const pairs = values === null ? null : Object.entries(values);
  const isShort = pairs !== null && pairs.length > 0 && pairs.length < 5 && pairs.every(([, value]) => JSON.stringify(value).length < 40);
  return (
    <>
      {pairs === null ? (
        <pre class="code wrap ask-code" tabIndex={0}>
          {shown(question.arguments)}
        </pre>
      ) : (
        <dl class={isShort && !isSheet ? "args inline" : "args"}>
          {pairs.map(([name, value]) => (
            <div key={name}>
              <dt>{shown(name)}</dt>
              <dd>{shown(typeof value === "string" && value.includes("\n") ? value : JSON.stringify(value))}</dd>
            </div>
          ))}
        </dl>
      )}
      {reason !== "" && (
        <div class="why small">
          <Icon name="alert" small class="wait" />
          <span>{sentence(shown(reason))}</span>
        </div>
      )}
      {cardProblem.value !== "" && (
        <p class="small fail reason" role="alert">
          {shown(cardProblem.value)}
        </p>
      )}
      {mode.value === "deny" ? <DenyForm question={question} /> : <Buttons question={question} isSheet={isSheet} />}
    </>
  );
}

function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

function Buttons({ question, isSheet }: { question: Question; isSheet: boolean }): VNode {
  const off = sending.value;
  const key = (letter: string) => (isSheet ? null : <kbd>{letter}</kbd>);
  const approve = (
    <button type="button" class={isSheet ? "btn ink tall" : "btn ink sm"} aria-disabled={off} onClick={() => void decide(question, { decision: "approve" })}>
      Approve {key("A")}
    </button>
  );
  const edit = (
    <button type="button" class={isSheet ? "btn" : "btn sm"} aria-disabled={off} onClick={() => (mode.value = "edit")}>
      {isSheet && <Icon name="edit" small />} Edit {key("E")}
    </button>
  );
  const always = (
    <button type="button" class={isSheet ? "btn quiet" : "btn sm"} aria-disabled={off} onClick={() => void decide(question, { decision: "approve", remember_for_session: true })}>
      Always in this session {key("S")}
    </button>
  );
  const deny = (
    <button type="button" class={isSheet ? "btn danger" : "btn sm danger end"} aria-disabled={off} onClick={() => (mode.value = "deny")}>
      {isSheet ? "Deny…" : "Deny with a reason"} {key("D")}
    </button>
  );
  if (!isSheet) {
    return (
      <div class="acts">
        {approve}
        {edit}
        {always}
        {deny}
      </div>
    );
  }
  return (
    <div class="sheet-acts">
      {approve}
      <div class="pair">
        {edit}
        {deny}
      </div>
      {always}
    </div>
  );
}
