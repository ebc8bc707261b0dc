// What a reader types into the search is text. The theme's search would take signs in it for orders: "--tls-cert" would ask for
// pages without this flag, and "pass^k" would be a mistake. A flag finds the pages that have all of its words.
const QUERY = 2; // what the theme's message to its search is, by its number

function asText(query) {
  return query.replace(/[\^~*:\\]+/g, " ").replace(/(^|[\s"])-+([^\s"]*)/g, (_, before, flag) => {
    const words = flag.split("-").filter(Boolean);
    return before + words.map((word) => `+${word}`).join(" ") + (words.length ? "*" : "");
  });
}

for (const kind of new Set([window.Worker, window.IFrameWorker].filter(Boolean))) {
  const post = kind.prototype.postMessage;
  kind.prototype.postMessage = function (message, ...rest) {
    return post.call(this, message?.type === QUERY ? { ...message, data: asText(message.data) } : message, ...rest);
  };
}
