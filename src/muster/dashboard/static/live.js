// Keeps the page up to date: when the cluster has changed, asks for this address again and replaces what
// differs. Without it the page reloads itself, by a <meta> in <noscript>.
"use strict";

const status = document.getElementById("live");
let tag = "", busy = false, again = false, lost = false;

async function refresh() {
  if (document.querySelector("main[data-still]")) return; // the answer to a form
  if (busy) { again = true; return; }
  busy = true;
  try {
    do {
      again = false;
      const headers = { Accept: "text/vnd.muster.main" };
      if (tag) headers["If-None-Match"] = tag;
      const answer = await fetch(location.pathname + location.search, { headers, cache: "no-store" });
      const loads = answer.status === 503; // a page that says how far the first load is
      status.textContent = answer.status >= 500 && !loads ? "this page could not be shown as it is now" : "";
      if (answer.status === 304 || (answer.status >= 500 && !loads)) continue;
      const text = await answer.text();
      if (!text.startsWith("<main")) { denied(); continue; }
      tag = answer.headers.get("ETag") || "";
      Idiomorph.morph(document.querySelector("main"), text, {
        ignoreActiveValue: true,
        callbacks: {
          beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
        },
      });
    } while (again);
  } catch { /* the next event, or the next connection, tries again */ } finally { busy = false; }
}

function ages() {
  for (const each of document.querySelectorAll("main time[datetime]")) {
    const s = Math.max(0, Math.floor((Date.now() - Date.parse(each.dateTime)) / 1000));
    const two = (n) => String(n).padStart(2, "0");
    const said = s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)} min`
      : s < 172800 ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)} h` : `${Math.floor(s / 86400)} d`;
    if (each.textContent !== said) each.textContent = said;
  }
}

function denied() { status.textContent = status.dataset.denied; }

// A browser tries again itself if a connection is cut, but not if it is refused: by a server that starts, has
// too many viewers, or has been started again and does not know this browser yet.
function follow() {
  const events = new EventSource("/events");
  events.addEventListener("changed", () => { if (!document.hidden) refresh(); else again = true; });
  events.addEventListener("open", () => {
    if (lost) { lost = false; tag = ""; status.textContent = ""; refresh(); }
  });
  events.addEventListener("error", async () => {
    lost = true;
    status.textContent = status.dataset.lost;
    if (events.readyState !== EventSource.CLOSED) return;
    setTimeout(follow, 3000);
    try {
      const answer = await fetch("/events", { method: "HEAD", cache: "no-store" });
      if (answer.status === 401 || answer.status === 403) denied();
    } catch { /* it is lost, as is said */ }
  });
}
follow();
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
document.addEventListener("change", (event) => {
  const form = event.target.closest("form#filter");
  if (form) form.requestSubmit();
});
setInterval(ages, 1000);
// what pods print, and how far a computation is, changes no object, so nothing tells of it
let ticks = 0;
setInterval(() => {
  const follows = document.querySelector("main [data-follows]");
  if (follows && !document.hidden && ++ticks % Number(follows.dataset.follows || 5) === 0) refresh();
}, 1000);
