// Browsers start no worker for pages that are opened from a folder. The search of these pages runs in a hidden frame there.
// The site's theme would load such a script from another host; nothing here is fetched from elsewhere.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    onmessage = null;
    #frame = document.createElement("iframe");
    #ready;

    constructor(address) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.importScripts = async (...scripts) => {
        for (const script of scripts) await this.#load(script);
      };
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      this.#ready = this.#load(address);
    }

    postMessage(data) {
      const inside = this.#frame.contentWindow;
      this.#ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.#frame.remove();
    }

    #load(address) {
      const { document: page } = this.#frame.contentWindow;
      const script = page.createElement("script");
      script.src = String(address);
      return new Promise((done, failed) => {
        script.onload = done;
        script.onerror = failed;
        page.head.append(script);
      });
    }
  };
  window.Worker = window.IFrameWorker;
}
