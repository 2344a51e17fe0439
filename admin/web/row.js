// A job's row: made once, and filled at every look, so that what has the focus keeps it.

import { bodyText, complain, el, pathOf, withToken } from "./api.js";

const span = 5; // looks that the rate is of

const whole = new Intl.NumberFormat("en");

const rateText = (rate) => rate === null ? "–" : rate.toLocaleString("en", { maximumFractionDigits: rate < 10 ? 1 : 0 });

function time(seconds) {
  if (seconds === 0) return "–";
  if (seconds < 0.001) return (seconds * 1e6).toFixed(0) + " µs";
  if (seconds < 1) return (seconds * 1e3).toFixed(seconds < 0.01 ? 1 : 0) + " ms";
  return seconds.toFixed(seconds < 10 ? 1 : 0) + " s";
}

// clock is a time of today by hour, or one of another day with that.
export function clock(text) {
  const t = new Date(text);
  return t.toDateString() === new Date().toDateString() ? t.toLocaleTimeString() : t.toLocaleString();
}

// state says in words how a job stands, and how good that is.
function state(job) {
  if (!job.connected) return ["not connected", "bad"];
  if (job.paused) return ["paused", "warn"];
  if (job.breaker === "open") return ["breaker open", "bad"];
  if (job.held_until !== null) return ["held until " + clock(job.held_until), "warn"];
  if (job.breaker === "half-open") return ["breaker half-open", "warn"];
  return ["running", "good"];
}

// set changes a text only if it is another, which spares the screen and whoever has it read out.
function set(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

function fill(list, items) {
  const texts = items.map(([text]) => text);
  if (texts.join("\n") === [...list.children].map((li) => li.textContent).join("\n")) return;
  list.replaceChildren(...items.map(([text, kind]) => el("li", { className: kind || "" }, text)));
}

export class Row {
  constructor(job, showLetters) {
    this.looks = [];
    this.answers = new Map(); // beginnings of what was answered, by the failure's time, once asked for
    this.job = job;
    const label = job.name;
    const cell = (name, kind, ...children) => el("td", { role: "cell", className: kind, "data-label": name }, ...children);
    this.name = el("div", { className: "name" });
    this.from = el("div", { className: "small" });
    this.to = el("div", { className: "small" });
    this.state = el("span", { className: "state" });
    this.input = el("input", { type: "number", min: 0, max: 1000, step: 1, "aria-label": `executors of ${label}` });
    this.there = el("div", { className: "small" });
    this.flight = el("span");
    this.waiting = el("div", { className: "small" });
    this.backlog = el("span");
    this.rate = el("span");
    this.times = el("span");
    this.settled = el("ul", { className: "counts" });
    this.errors = el("ul", { className: "counts" });
    this.failures = el("ol", { className: "failures", reversed: true, "aria-label": `last failures of ${label}`, tabIndex: 0 });
    this.failures.id = "failures-" + (Row.made = (Row.made || 0) + 1);
    this.pause = this.button("Pause", `pause ${label}`, () => this.act(this.job.paused ? "resume" : "pause", {}));
    this.show = this.button("Failures", `last failures of ${label}`, () => this.toggle());
    this.show.setAttribute("aria-expanded", "false");
    this.show.setAttribute("aria-controls", this.failures.id);
    this.more = el("tr", { role: "row", className: "more", hidden: true }, el("td", { role: "cell", colSpan: 10 }, this.failures,
      this.button("Show answers", `show what the endpoint of ${label} answered`, () => this.showAnswers())));
    this.input.addEventListener("change", () => this.scale(this.input.valueAsNumber));
    this.body = el("tbody", { className: "job", role: "rowgroup" }, el("tr", { role: "row", className: "main" },
      el("td", { role: "rowheader", className: "job-name" }, this.name, this.from, this.to),
      cell("State", "", this.state),
      cell("Executors", "", el("div", {}, el("div", { className: "executors", role: "group", "aria-label": `executors of ${label}` },
        this.button("−", `one executor less for ${label}`, () => this.scale(this.wanted - 1)), this.input,
        this.button("+", `one executor more for ${label}`, () => this.scale(this.wanted + 1))), this.there)),
      cell("In flight", "number", el("div", {}, this.flight, this.waiting)),
      cell("Backlog", "number", this.backlog),
      cell("Per second", "number", this.rate),
      cell("p50 / p95 / p99", "number", this.times),
      cell("Settled", "", this.settled),
      cell("Errors", "", this.errors),
      cell("Actions", "", el("div", { className: "buttons" }, this.pause, this.show,
        this.button("Dead letters", `dead letters of ${label}`, () => showLetters(this.job)))),
    ), this.more);
    this.update(job);
  }

  button(text, label, click) {
    const b = el("button", { type: "button", "aria-label": label }, text);
    b.addEventListener("click", click);
    return b;
  }

  update(job) {
    this.job = job;
    set(this.name, job.name);
    set(this.from, `queue ${job.queue} on ${job.server}`);
    set(this.to, job.url);
    const [text, kind] = state(job);
    set(this.state, text);
    this.state.className = "state " + kind;
    if (!this.scaling) this.wanted = job.wanted;
    if (document.activeElement !== this.input) this.input.value = this.wanted;
    set(this.there, job.executors === this.wanted ? "" : `${job.executors} at work`);
    set(this.flight, whole.format(job.in_flight));
    set(this.waiting, job.waiting ? `${whole.format(job.waiting)} received` : "");
    set(this.backlog, job.backlog === null ? "?" : whole.format(job.backlog));
    set(this.rate, rateText(this.measure(job)));
    set(this.times, [job.p50_seconds, job.p95_seconds, job.p99_seconds].map(time).join(" / "));
    this.counts(job);
    set(this.pause, job.paused ? "Resume" : "Pause");
    this.pause.setAttribute("aria-label", (job.paused ? "resume " : "pause ") + job.name);
    set(this.show, `Failures (${job.failures.length})`);
    fill(this.failures, job.failures.length === 0 ? [["none yet"]] : job.failures.toReversed().map((f) =>
      [`${clock(f.at)}  ${f.class}${f.status ? " " + f.status : ""} after ${time(f.took_seconds)}: ${f.reason}${this.answers.get(f.at) ?? ""}`]));
  }

  counts(job) {
    const settled = [[`${whole.format(job.done)} done`]];
    for (const [n, word, kind] of [[job.retried, "retried", "warn"], [job.dropped, "dropped", "warn"], [job.dead, "dead", "bad"], [job.repeated, "repeated", "warn"]]) {
      if (n > 0) settled.push([`${whole.format(n)} ${word}`, kind]);
    }
    fill(this.settled, settled);
    const errors = Object.entries(job.attempts).filter(([kind, n]) => kind !== "ok" && n > 0).sort(([a], [b]) => a < b ? -1 : 1);
    fill(this.errors, errors.length === 0 ? [["none"]] : errors.map(([kind, n]) => [`${whole.format(n)} ${kind}`]));
  }

  // measure returns the jobs settled per second over the last looks, null while that is not known.
  measure(job) {
    const n = job.done + job.dropped + job.dead, now = performance.now();
    if (this.looks.length > 0 && n < this.looks.at(-1).n) this.looks = []; // shardmq has been started again
    this.looks.push({ n, now });
    if (this.looks.length > span) this.looks.shift();
    const first = this.looks[0];
    return now - first.now < 500 ? null : (n - first.n) * 1000 / (now - first.now);
  }

  toggle() {
    this.more.hidden = !this.more.hidden;
    this.show.setAttribute("aria-expanded", String(!this.more.hidden));
  }

  // showAnswers adds what the endpoint answered to the failures there are now.
  async showAnswers() {
    try {
      const found = await withToken(pathOf(this.job) + "/failures");
      this.answers = new Map(found.failures.map((f) => [f.at, "\n" + (f.answer ? bodyText(f.answer, true) : "(no body)")]));
      this.update(this.job);
      complain(null);
    } catch (e) {
      complain(e);
    }
  }

  async act(action, body) {
    try {
      this.update(await withToken(pathOf(this.job) + "/" + action, body));
      complain(null);
    } catch (e) {
      complain(e);
    }
  }

  // scale asks for so many executors. What is clicked while an answer is awaited is asked for after it.
  async scale(n) {
    if (!Number.isInteger(n) || n < 0) {
      this.input.value = this.wanted;
      return;
    }
    this.wanted = n;
    this.input.value = n;
    if (this.scaling) return;
    this.scaling = true;
    try {
      let asked;
      do {
        asked = this.wanted;
        this.job = await withToken(pathOf(this.job) + "/scale", { executors: asked });
      } while (asked !== this.wanted);
      complain(null);
    } catch (e) {
      complain(e);
    } finally {
      this.scaling = false;
      this.wanted = this.job.wanted;
      this.input.value = this.wanted;
    }
  }
}
