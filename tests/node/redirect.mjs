// Loaded before an example: what it sends to the address in its text goes to the server under test.
const address = "http://localhost:1234";
const send = globalThis.fetch;

globalThis.fetch = (to, ...rest) => {
  const url = to instanceof Request ? to.url : String(to);
  if (!url.startsWith(address)) throw new Error(`not for us: ${url}`);
  const there = process.env.RONDA_URL + url.slice(address.length);
  return send(to instanceof Request ? new Request(there, to) : there, ...rest);
};
