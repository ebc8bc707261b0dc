// Inside a preview: a page without an origin, a network or a way out. It shows what the page around it sends, and says which element a
// person has chosen. The number that both know comes with the address, so that no other page can say what to show.
//
//     { html, part: true }   a page that still arrives: what is shown is changed to it, scripts stay asleep
//     { html }               a page that is whole: it is written, and its scripts run
//     { choose: true|false } an element is being chosen, or no more
//     { drop: true }         the element that was chosen is not asked about any more
(() => {
  const nonce = location.hash.slice(1);
  const MOST = 400; // characters of an element's markup that are told
  let outline = null;
  let chosen = null;
  let isChoosing = false;

  const tell = (told) => parent.postMessage({ nonce, ...told }, "*");

  function show(html, isPart) {
    const wasChoosing = isChoosing;
    choose(false);
    if (!isPart) {
      document.open(); // which takes every listener away
      document.write(html);
      document.close();
      listen();
    } else {
      const next = new DOMParser().parseFromString(html.replace(/<[^<>]*$/, ""), "text/html"); // a tag that is half there is left out
      for (const script of next.querySelectorAll("script")) script.remove();
      Idiomorph.morph(document.documentElement, next.documentElement, { head: { style: "morph" } });
    }
    if (wasChoosing) choose(true);
  }

  function hear(event) {
    const told = event.data;
    if (event.source !== parent || !told || told.nonce !== nonce) return;
    if (typeof told.html === "string") show(told.html, told.part === true);
    if (typeof told.choose === "boolean" && told.choose !== isChoosing) choose(told.choose);
    if (told.drop === true && !isChoosing) choose(false);
  }

  function choose(isOn) {
    isChoosing = isOn;
    if (isOn && outline === null) {
      outline = document.createElement("div");
      Object.assign(outline.style, { position: "fixed", zIndex: "2147483647", pointerEvents: "none", border: "2px solid #1785ab", background: "rgb(23 133 171 / .08)", borderRadius: "3px", boxSizing: "border-box", display: "none" });
      const label = document.createElement("b");
      Object.assign(label.style, { position: "absolute", left: "-2px", bottom: "100%", padding: "2px 8px", borderRadius: "3px 3px 0 0", background: "#0b6483", color: "#fff", font: "500 11px/16px ui-monospace, monospace", whiteSpace: "nowrap" });
      outline.append(label);
      document.documentElement.append(outline);
    }
    if (!isOn) {
      outline?.remove();
      outline = null;
      chosen = null;
    }
  }

  function point(element) {
    if (!isChoosing || !(element instanceof Element) || element === outline || outline.contains(element)) return;
    chosen = element;
    const box = element.getBoundingClientRect();
    Object.assign(outline.style, { display: "block", left: `${box.left}px`, top: `${box.top}px`, width: `${box.width}px`, height: `${box.height}px` });
    outline.firstElementChild.textContent = selectorOf(element).replace(/:nth-child.*/, "");
  }

  function selectorOf(element) {
    const names = [...element.classList].slice(0, 2).map((name) => `.${CSS.escape(name)}`).join("");
    const self = element.id ? `${element.localName}#${CSS.escape(element.id)}` : element.localName + names;
    const around = element.parentElement;
    const alike = around === null ? [] : [...around.children].filter((one) => one.localName === element.localName);
    return alike.length > 1 ? `${self}:nth-child(${[...around.children].indexOf(element) + 1})` : self;
  }

  function take() {
    if (chosen === null) return;
    const told = { selector: selectorOf(chosen).slice(0, 120), markup: chosen.outerHTML.slice(0, MOST) };
    isChoosing = false; // the outline stays, until the page says that nothing is asked about it
    tell({ picked: told });
  }

  function onKey(event) {
    if (!isChoosing) return;
    const from = chosen ?? document.body;
    const next = { ArrowUp: from.parentElement, ArrowDown: from.firstElementChild, ArrowLeft: from.previousElementSibling, ArrowRight: from.nextElementSibling }[event.key];
    if (event.key === "Enter") take();
    else if (event.key === "Escape") {
      choose(false);
      tell({ left: true });
    } else if (next instanceof Element && document.body.contains(next)) point(next);
    else if (!(event.key in { ArrowUp: 1, ArrowDown: 1, ArrowLeft: 1, ArrowRight: 1 })) return;
    event.preventDefault();
    event.stopPropagation();
  }

  function listen() {
    addEventListener("message", hear);
    addEventListener("mousemove", (event) => point(event.target), true);
    addEventListener("keydown", onKey, true);
    for (const kind of ["pointerdown", "mousedown", "click", "submit"]) {
      addEventListener(kind, (event) => {
        if (!isChoosing) return;
        event.preventDefault();
        event.stopPropagation();
        point(event.target);
        if (kind === "click") take();
      }, true);
    }
  }

  listen();
  tell({ ready: true });
})();
