// The page of jobs: it looks every two seconds while it is seen.

import { byId, get } from "./api.js";
import { showLetters } from "./letters.js";
import { Row } from "./row.js";

const every = 2000; // milliseconds

const rows = new Map(); // by server and name

function show(jobs) {
  const table = byId("jobs");
  const there = new Set();
  let last = table.tHead;
  for (const job of jobs) {
    const key = JSON.stringify([job.server, job.name]);
    there.add(key);
    let row = rows.get(key);
    if (row === undefined) rows.set(key, row = new Row(job, showLetters));
    else row.update(job);
    if (last.nextElementSibling !== row.body) last.after(row.body);
    last = row.body;
  }
  for (const [key, row] of rows) {
    if (there.has(key)) continue;
    row.body.remove();
    rows.delete(key);
  }
  table.hidden = jobs.length === 0;
  byId("none").hidden = jobs.length !== 0;
}

// live says whether what is shown is current; only a change of that is read out.
let lost = null;
function live(e) {
  if ((e === null) === (lost === false)) return;
  lost = e !== null;
  byId("live").className = lost ? "lost" : "";
  byId("live").textContent = lost ? `${e.message}, since ${new Date().toLocaleTimeString()}; what is shown is older` : `Live, every ${every / 1000} s`;
}

let timer = 0;
async function look() {
  clearTimeout(timer);
  timer = setTimeout(look, 60000); // if this look hangs
  try {
    show((await get("jobs")).jobs);
    live(null);
  } catch (e) {
    live(e);
  }
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(look, every);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) look();
});
look();
