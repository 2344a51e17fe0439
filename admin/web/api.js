// What is asked of shardmq. Actions ask for the token when there is none, or a wrong one.

const key = "shardmq-admin-token";

// el makes an element. Text stays text, whatever is in it.
export function el(tag, properties = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in e) e[name] = value;
    else e.setAttribute(name, value);
  }
  e.append(...children);
  return e;
}

export const byId = (id) => document.getElementById(id);

// choose shows a dialog and resolves to whether it was agreed to.
function choose(dialog) {
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok"), { once: true });
  });
}

// sure asks before something that cannot be undone.
export function sure(what, yes) {
  byId("sure-what").textContent = what;
  byId("sure-yes").textContent = yes;
  return choose(byId("sure"));
}

// askToken resolves to whether there is a token now.
async function askToken(wrong) {
  byId("token-title").textContent = wrong ? "That was not the token" : "Token";
  const input = byId("token-value");
  input.value = "";
  if (!await choose(byId("token"))) return false;
  sessionStorage.setItem(key, input.value);
  input.value = "";
  return true;
}

let asking = null; // one dialog, however many wait for it

// Cancelled is thrown when no token was given.
export class Cancelled extends Error {}

async function send(path, options) {
  let answer;
  try {
    answer = await fetch("api/v1/" + path, { cache: "no-store", signal: AbortSignal.timeout(40000), ...options });
  } catch (e) {
    throw new Error("no answer from shardmq", { cause: e });
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(body.detail || `shardmq answered ${answer.status}`), { status: answer.status });
  return body;
}

// get reads what everybody may see.
export const get = (path) => send(path, { signal: AbortSignal.timeout(10000) });

// withToken does what takes the token. A body is posted; without one it is a look.
export async function withToken(path, body) {
  let wrong = false;
  for (;;) {
    const token = sessionStorage.getItem(key);
    if (token === null) {
      asking ??= askToken(wrong).finally(() => { asking = null; });
      if (!await asking) throw new Cancelled("no token was given");
      continue;
    }
    const headers = { Authorization: "Bearer " + token };
    const options = body === undefined ? { headers } : {
      method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body),
    };
    try {
      return await send(path, options);
    } catch (e) {
      if (e.status !== 401) throw e;
      if (sessionStorage.getItem(key) === token) sessionStorage.removeItem(key);
      wrong = true;
    }
  }
}

// pathOf is where a job is.
export const pathOf = (job) => "jobs/" + encodeURIComponent(job.server + "/" + job.name);

// bodyText is a body in base64 as text, or as it is if it is none. The last character of one that was cut may be left out.
export function bodyText(base64, cut = false) {
  const octets = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(octets, { stream: cut });
  } catch {
    return "(no UTF-8 text; in base64)\n" + base64;
  }
}

// complain shows why something did not work, until something does.
export function complain(e) {
  const message = byId("message");
  message.hidden = e === null || e instanceof Cancelled;
  message.textContent = message.hidden ? "" : e.message;
}
