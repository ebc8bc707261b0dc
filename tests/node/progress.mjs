// A tool that runs in the server, seen through the accumulator of the official client: live, and watched again.
import OpenAI from "openai";

const client = new OpenAI({ apiKey: "foobar", baseURL: process.env.RONDA_URL + "/v1/", maxRetries: 0 });

async function watch(stream) {
  const phases = [];
  for await (const event of stream) if (event.tool_name) phases.push([event.tool_name, event.phase]);
  return { phases, response: await stream.finalResponse() };
}

const live = await watch(client.responses.stream({ model: "default", input: "go" }));
const again = await watch(client.responses.stream({ response_id: live.response.id }));

console.log(JSON.stringify([live, again].map(({ phases, response }) => ({ phases, text: response.output_text }))));
