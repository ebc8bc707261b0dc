"use strict";
const operations = [...document.querySelectorAll("details")];
const search = document.getElementById("search");
const found = document.getElementById("found");
const texts = new Map(operations.map((one) => [one, one.querySelector("summary").innerText.toLowerCase()]));

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const one of operations) {
    one.hidden = !words.every((word) => texts.get(one).includes(word));
    count += one.hidden ? 0 : 1;
  }
  for (const section of document.querySelectorAll("section")) {
    section.hidden = !section.querySelector("details:not([hidden])");
  }
  found.textContent = words.length ? `${count} of ${operations.length} addresses` : "";
}

function open() {
  const one = document.getElementById(location.hash.slice(1));
  if (one instanceof HTMLDetailsElement) {
    one.open = true;
    one.scrollIntoView();
  }
}

search.addEventListener("input", filter);
addEventListener("hashchange", open);
addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== search) {
    event.preventDefault();
    search.focus();
  }
});
for (const one of operations) {
  one.addEventListener("toggle", () => {
    if (one.open && location.hash !== `#${one.id}`) history.replaceState(null, "", `#${one.id}`);
  });
}
open();
filter();
