import OpenAI from "openai";

const client = new OpenAI({
  apiKey: "foobar",
  baseURL: "http://localhost:1234/v1/",
});

const completion = await client.chat.completions.create({
  model: "default",
  messages: [{ role: "user", content: "Use a tool to help me plan for Tokyo." }],
  tools: [
    {
      type: "function",
      function: {
        name: "get_weather",
        description: "Get the current weather for a city.",
        parameters: {
          type: "object",
          properties: { city: { type: "string" } },
          required: ["city"],
        },
        strict: true,
      },
    },
    {
      type: "function",
      function: {
        name: "book_flight",
        description: "Book a flight to a city.",
        parameters: {
          type: "object",
          properties: { city: { type: "string" } },
          required: ["city"],
        },
        strict: true,
      },
    },
  ],
  tool_choice: {
    type: "allowed_tools",
    mode: "required",
    tools: [{ type: "function", name: "get_weather" }],
  },
});

console.log(completion.choices[0].message.tool_calls[0].function.name);
