"use strict";
// Pages opened from a folder, where a browser starts no worker, fetches no index and shows a folder's list, not its page:
// the search's worker runs in a frame, its index is a script (tools/site.py), links lead to files.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      this.frame.addEventListener("load", () => this.start(new URL(address, document.baseURI)), { once: true });
      document.body.append(this.frame);
    }

    start(address) {
      const inside = this.frame.contentWindow, script = inside.document.createElement("script");
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      script.src = address;
      script.addEventListener("load", () => {
        this.postMessage = (data) => inside.dispatchEvent(new inside.MessageEvent("message", { data }));
        this.waiting.forEach(this.postMessage);
      });
      inside.document.body.append(script);
    }

    postMessage(data) {
      this.waiting.push(data);
    }

    terminate() {
      this.frame.remove();
    }
  };

  const toFile = (event) => {
    const link = event.target.closest("a[href]");
    if (link && link.protocol === "file:" && link.pathname.endsWith("/")) link.pathname += "index.html";
  };
  for (const kind of ["click", "auxclick"]) document.addEventListener(kind, toFile, true);
}
