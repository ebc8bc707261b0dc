// Every form of tool_choice, through the official client: on Chat Completions and on Responses, plain and streamed.
// Reads the forms from its input, as JSON; writes one line for each, with what was called.
import { text } from "node:stream/consumers";
import OpenAI from "openai";

const client = new OpenAI({ apiKey: "foobar", baseURL: process.env.RONDA_URL + "/v1/", maxRetries: 0 });
const { forms, tools } = JSON.parse(await text(process.stdin));
const nested = tools.map(({ type, ...tool }) => ({ type, function: tool }));

for (const [name, tool_choice] of Object.entries(forms)) {
  const chat = { model: "default", messages: [{ role: "user", content: name }], tools: nested, tool_choice };
  const plain = await client.chat.completions.create(chat);
  const streamed = await client.chat.completions.stream(chat).finalChatCompletion();
  const asked = { model: "default", input: name, tools, tool_choice };
  const response = await client.responses.create(asked);
  const watched = await client.responses.stream(asked).finalResponse();
  const calls = [plain, streamed].map((one) => (one.choices[0].message.tool_calls ?? []).map((call) => call.function.name));
  const items = [response, watched].map((one) =>
    one.output.filter((item) => item.type === "function_call").map((item) => item.name),
  );
  console.log(JSON.stringify({ name, calls: [...calls, ...items] }));
}
