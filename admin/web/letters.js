// The dialog with a job's dead letters. Bodies are fetched one by one, when asked for.

import { bodyText, byId, Cancelled, el, pathOf, sure, withToken } from "./api.js";
import { clock } from "./row.js";

let job = null; // whose letters are shown

const count = (n) => n === 1 ? "1 dead letter" : `${n} dead letters`;

function say(e) {
  byId("letters-message").textContent = e instanceof Error ? (e instanceof Cancelled ? "" : "That did not work: " + e.message) : e;
}

function shownBody(letter) {
  const text = letter.body ? bodyText(letter.body, letter.body_cut) : "(empty)";
  return letter.body_cut ? text + `\n(the beginning of ${letter.octets} octets)` : text;
}

function button(text, label, kind, click) {
  const b = el("button", { type: "button", "aria-label": label, className: kind }, text);
  b.addEventListener("click", async () => {
    b.disabled = true;
    try {
      await click();
    } catch (e) {
      say(e);
    } finally {
      b.disabled = false;
    }
  });
  return b;
}

function item(letter) {
  const body = el("pre", { hidden: true, tabIndex: 0 });
  const line = (text) => el("div", { className: "small" }, text);
  return el("li", {},
    el("div", { className: "name" }, letter.reason || letter.class),
    line(`${clock(letter.failed)} · after ${letter.attempts} ${letter.attempts === 1 ? "attempt" : "attempts"}${letter.status ? " · status " + letter.status : ""}`),
    line(`published to ${letter.exchange ? "exchange " + letter.exchange : "the queue"}, key "${letter.routing_key}" · ${letter.octets} octets${letter.content_type ? " of " + letter.content_type : ""}`),
    line("id " + letter.id),
    el("p", { className: "buttons" },
      button("Replay", `replay ${letter.id}`, "", () => settle("replay", letter.id)),
      button("Drop", `drop ${letter.id}`, "danger", async () => {
        if (await sure("The job is then gone for good.", "Drop")) await settle("drop", letter.id);
      }),
      button("Show body", `show the body of ${letter.id}`, "", async () => {
        const found = await withToken(`${pathOf(job)}/dead?bodies=true&limit=1&id=${encodeURIComponent(letter.id)}`);
        body.textContent = found.letters.length === 0 ? "(it is gone)" : shownBody(found.letters[0]);
        body.hidden = false;
      })),
    body);
}

async function load(text = "") {
  const asked = job;
  const found = await withToken(pathOf(job) + "/dead");
  if (asked !== job) return;
  byId("letters-list").replaceChildren(...found.letters.map(item));
  const there = found.letters.length === 0 ? "There are none." : found.more ? `The oldest ${found.letters.length} are shown.` : `${count(found.letters.length)}.`;
  say(text + there);
  for (const id of ["replay-all", "drop-all"]) byId(id).disabled = found.letters.length === 0;
}

// settle replays or drops the letter with an id, or all.
async function settle(how, id) {
  let n = 0;
  for (let more = true; more;) {
    const done = await withToken(`${pathOf(job)}/dead/${how}`, id === undefined ? { all: true } : { id });
    n += done.letters;
    more = done.more;
  }
  await load(`${count(n)} ${how === "drop" ? "dropped" : "replayed"}. `);
  byId("letters-title").focus(); // the button that had the focus may be gone
}

// showLetters opens the dialog.
export async function showLetters(of) {
  job = of;
  byId("letters-title").textContent = `Dead letters of ${of.name}`;
  byId("letters-list").replaceChildren();
  say("Loading…");
  byId("letters").showModal();
  try {
    await load();
  } catch (e) {
    if (e instanceof Cancelled) byId("letters").close();
    say(e);
  }
}

function whenClicked(id, work) {
  byId(id).addEventListener("click", () => work().catch(say));
}

whenClicked("letters-again", () => load());
whenClicked("letters-close", async () => byId("letters").close());
whenClicked("replay-all", () => settle("replay"));
whenClicked("drop-all", async () => {
  if (await sure(`All dead letters of ${job.name} are then gone for good.`, "Drop all")) await settle("drop");
});
