// Labels, one item at a time. A label counts once it is stored: on the server, or in the browser's
// database, which writes it to disk before it answers.

const byId = (id) => document.getElementById(id);
const given = new Map(Object.entries(data.given));
const items = data.items;
const pair = items.length > 0 && items[0].texts.length > 1;
let at = 0;
let busy = false;

// Where labels are kept ---------------------------------------------------------------------------

const serverStore = {
  read: async () => [],
  write: async (item, label) => {
    const answer = await fetch("label", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ item, label }),
    });
    if (!answer.ok) throw new Error(await answer.text());
  },
};

function browserStore() {
  const settled = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const open = () => {
    const request = indexedDB.open(`mirage-label-${data.task}`, 1);
    request.onupgradeneeded = () => request.result.createObjectStore("labels");
    return settled(request);
  };
  return {
    read: async () => {
      const labels = (await open()).transaction("labels").objectStore("labels");
      const [keys, values] = [settled(labels.getAllKeys()), settled(labels.getAll())];
      return (await Promise.all([keys, values]).then(([k, v]) => k.map((key, i) => [key, v[i]])));
    },
    write: async (item, label) => {
      const change = (await open()).transaction("labels", "readwrite", { durability: "strict" });
      change.objectStore("labels").put(label, item);
      await new Promise((resolve, reject) => {
        change.oncomplete = resolve;
        change.onabort = () => reject(change.error);
      });
    },
  };
}

const store = data.offline ? browserStore() : serverStore;

// The item ----------------------------------------------------------------------------------------

function show() {
  const item = items[at];
  const writing = { lang: item.language, dir: data.directions[item.language] };
  const answers = item.texts.map((text, i) => h("section", { class: "card answer" },
    h("h3", {}, pair ? `Response ${"AB"[i]}` : "Answer"),
    h("div", { class: "response", tabindex: "0", role: "group",
      "aria-label": pair ? `Response ${"AB"[i]}` : "Answer" }, h("p", writing, text))));
  const passages = item.passages.map(([id, heading, text], i) => h("li", {},
    h("p", { class: "passage" }, `[${i + 1}] `, h("code", {}, h("bdi", {}, id)), " ",
      heading ? h("b", writing, heading) : null),
    h("p", writing, text)));
  const earlier = item.earlier.length
    ? h("p", { class: "notice" }, "Labels so far: ", h("bdi", {}, item.earlier.join(", "))) : null;
  byId("item").replaceChildren(...[
    h("h2", { id: "question", ...writing }, item.question),
    earlier,
    h("div", { class: pair ? "cards" : null }, answers),
    passages.length ? h("details", { class: "passages", open: true },
      h("summary", {}, `${passages.length} passages`), h("ol", {}, passages)) : null,
  ].filter(Boolean));
  for (const button of byId("labels").children) {
    button.setAttribute("aria-pressed", given.get(item.id) === button.dataset.label);
  }
  byId("count").textContent = `Item ${at + 1} of ${items.length}, ${given.size} labelled`;
  byId("progress").value = given.size;
  byId("back").disabled = at === 0;
  byId("next").disabled = at === items.length - 1;
  byId("open").disabled = given.size === items.length;
}

function go(place) {
  if (place < 0 || place >= items.length) return;
  at = place;
  byId("problem").textContent = "";
  show();
  byId("item").focus({ preventScroll: true });
  scrollTo(0, 0);
}

const firstOpen = (from = 0) => {
  const places = items.map((_, i) => (from + i) % items.length);
  return places.find((place) => !given.has(items[place].id));
};

async function label(name) {
  if (busy) return;
  busy = true;
  const item = items[at];
  try {
    await store.write(item.id, name);
    given.set(item.id, name);
    const next = firstOpen(at + 1);
    if (next === undefined) {
      go(at);
      byId("count").textContent = `All ${items.length} items are labelled. You can close the page.`;
      say(byId("count").textContent);
    } else {
      go(next);
      say(`Stored. Item ${at + 1} of ${items.length}, ${given.size} labelled`);
    }
  } catch (error) {
    const why = error instanceof TypeError ? "the server does not answer" : error.message;
    byId("problem").textContent = `This label is not stored: ${why}. Start the command again, and `
      + "open the address that it prints; all other labels are kept.";
  } finally {
    busy = false;
  }
}

function saveFile() {
  const rows = [...given].map(([item, name]) => JSON.stringify({ item, label: name, rater: data.rater }));
  const file = new Blob([`${rows.join("\n")}\n`], { type: "application/jsonl" });
  const link = h("a", { href: URL.createObjectURL(file), download: `${data.rater}.labels.jsonl` });
  document.body.append(link);
  link.click();
  link.remove();
}

data.labels.forEach(([name, text], i) => {
  byId("labels").append(h("button", {
    type: "button", "data-label": name, "aria-pressed": "false", onclick: () => label(name),
  }, h("kbd", { "aria-hidden": "true" }, `${i + 1}`), " ", h("bdi", {}, text)));
});
byId("back").addEventListener("click", () => go(at - 1));
byId("next").addEventListener("click", () => go(at + 1));
byId("open").addEventListener("click", () => go(firstOpen()));
byId("save").addEventListener("click", saveFile);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const button = byId("labels").children[Number(event.key) - 1];
  if (button) label(button.dataset.label);
  else if (event.key === "ArrowLeft") go(at - 1);
  else if (event.key === "ArrowRight") go(at + 1);
  else return;
  event.preventDefault();
});

store.read().catch(() => []).then((labels) => {
  const ids = new Set(items.map((item) => item.id));
  for (const [item, name] of labels) if (ids.has(item)) given.set(item, name);
  at = firstOpen() ?? 0;
  show();
  root.dataset.ready = "";
});
