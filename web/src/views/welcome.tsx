// The first minute: a place to write, three things to try, and what this server has and lacks, each with its way out.
import type { VNode } from "preact";
import { facts, isLocalModel } from "../store/server";
import { send, write } from "../store/composer";
import { Composer } from "./composer";
import { Icon } from "./icon";

interface Suggestion {
  icon: string;
  title: string;
  words: string;
  prompt: string;
}

function suggestions(): Suggestion[] {
  const found = facts.value;
  const list: Suggestion[] = [
    { icon: "message", title: "Why is the sky blue?", words: "One question, one answer: it comes as it is written", prompt: "Why is the sky blue?" },
  ];
  if (found === null || found.tools.length > 0) {
    list.push({ icon: "wrench", title: "What is 17 × 23?", words: "The model calls a tool, and you see the round", prompt: "What is 17 × 23? Calculate it." });
  } else list.push({ icon: "edit", title: "What is a rainbow?", words: "In two sentences, for a child", prompt: "What is a rainbow? Explain it to a child in two sentences." });
  if (found?.features.python) {
    list.push({ icon: "prompt", title: "Plot a week of temperatures", words: "Code in a sandbox, with a figure and a file", prompt: "Plot a week of temperatures in Python, and save the figures as a CSV file." });
  } else list.push({ icon: "list", title: "How do bees make honey?", words: "As a list of steps", prompt: "How do bees make honey? Answer as a short list of steps." });
  return list;
}

export function Welcome(): VNode {
  return (
    <div class="hello">
      <div class="hello-in">
        <h2>What should it do?</h2>
        <Composer isFirst />
        <div class="sugs">
          {suggestions().map((one) => (
            <button
              key={one.title}
              type="button"
              class="sug"
              onClick={() => {
                write(one.prompt);
                void send();
              }}
            >
              <Icon name={one.icon} />
              <b>{one.title}</b>
              <span>{one.words}</span>
            </button>
          ))}
        </div>
        <Ready />
      </div>
    </div>
  );
}

function Ready(): VNode | null {
  const found = facts.value;
  if (found === null) return null;
  const { python, shell, search } = found.features;
  const code = python && shell ? "Python and shell run in a sandbox," : python ? "Python runs in a sandbox," : "The shell runs in a sandbox,";
  return (
    <div class="ready">
      {isLocalModel.value ? (
        <Line icon="alert" tone="wait" title="The small model is wrong about most things.">
          It shows that all works offline. For real answers set a key and start with <code>MODEL=openai:…</code>
        </Line>
      ) : (
        <Line icon="check" title={`${found.model} answers.`}>
          Its provider reads what you write here.
        </Line>
      )}
      {python || shell ? (
        <Line icon="check" title={code}>
          without a network
        </Line>
      ) : (
        <Line icon="ban" title="No code runs here.">
          Start with <code>--agent</code> for Python and a shell in a sandbox
        </Line>
      )}
      {search ? (
        <Line icon="check" title="Web search is on.">
          Answers name their sources
        </Line>
      ) : (
        <Line icon="ban" title="Web search is off.">
          Start with <code>--enable-search</code>
        </Line>
      )}
      {found.has_keys ? (
        <Line icon="check" title="Keys are asked for.">
          Sessions belong to the owner of their key
        </Line>
      ) : (
        <Line icon="lock" title="No keys:">
          only this machine gets in. <code>ronda keys create</code> opens it for others
        </Line>
      )}
    </div>
  );
}

function Line({ icon, tone = "", title, children }: { icon: string; tone?: string; title: string; children: preact.ComponentChildren }): VNode {
  return (
    <div>
      <Icon name={icon} small class={tone} />
      <span>
        <b>{title}</b> {children}
      </span>
    </div>
  );
}
