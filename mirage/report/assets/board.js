// A board: views with columns of numbers, shown a part at a time, and a page behind each row.
// The address has the state: #view=sw&q=words&from=50&row=id.

const ROWS = 50, RESPONSES = 20;
const of = data.submissions;
const index = new Map(of.id.map((id, i) => [id, i]));
const haystack = of.id.map((id, i) => `${id} ${of.model[i]} ${of.submitter[i]}`.toLowerCase());
const shownIn = (i) => of.sets[of.shown[i]]; // the languages whose responses may be shown
const $ = (id) => document.getElementById(id);
const viewName = (view) => data.names[view] || "All languages";

// Data --------------------------------------------------------------------------------------------

const loading = new Map();

function load(path) {
  if (!loading.has(path)) {
    const answer = fetch(path).then((reply) => {
      if (!reply.ok) throw new Error(`${path}: ${reply.status}`);
      return reply.json();
    });
    answer.catch(() => loading.delete(path));
    loading.set(path, answer);
  }
  return loading.get(path);
}

const viewOf = (name) => data.views[name] || load(`data/${name}.json`);
const NOT_LOADED = "This part is loaded over HTTP, and cannot be loaded now. To look at a copy of "
  + "the site, run python -m http.server in its folder.";

// The address -------------------------------------------------------------------------------------

function state() {
  const given = new URLSearchParams(location.hash.slice(1));
  const view = given.get("view");
  return {
    view: data.order.includes(view) ? view : data.order[0],
    q: given.get("q") || "",
    from: Math.max(0, parseInt(given.get("from"), 10) || 0),
    row: index.has(given.get("row")) ? given.get("row") : null,
  };
}

function addressOf(changes) {
  const { view, q, from, row } = { ...state(), ...changes };
  const parts = new URLSearchParams({ view });
  if (q) parts.set("q", q);
  if (from) parts.set("from", from);
  if (row) parts.set("row", row);
  return `#${parts}`;
}

// The table ---------------------------------------------------------------------------------------

const rankWords = (view, at) =>
  view.best[at] === null ? "—" : view.best[at] === view.worst[at] ? `${view.best[at]}`
    : `${view.best[at]}–${view.worst[at]}`;
const ends = (view, at) =>
  view.low[at] === null ? "not known" : `${number(view.low[at])} to ${number(view.high[at])}`;

function scaleOf(view) {
  const values = [...view.low, ...view.high, ...view.logit].filter((value) => value !== null);
  const low = values.reduce((a, b) => Math.min(a, b), Infinity);
  const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  return (value) => `${(4 + 92 * (high > low ? (value - low) / (high - low) : 0.5)).toFixed(1)}%`;
}

function drawn(view, at, x) {
  const parts = view.low[at] === null ? []
    : [h("svg:line", { class: "whisker", x1: x(view.low[at]), x2: x(view.high[at]), y1: "50%", y2: "50%" })];
  if (view.logit[at] !== null) {
    parts.push(h("svg:circle", { class: "dot", r: "4", cx: x(view.logit[at]), cy: "50%" }));
  }
  return [h("svg:svg", { class: "interval", "aria-hidden": "true" }, parts),
    h("span", { class: "hint" }, ends(view, at))];
}

// The means over all languages have the versions of each of them.
const allVersions = (name) => data.versions[name] + (data.names[name] ? "" : " ("
  + Object.keys(data.names).map((code) => `${code}: ${data.versions[code]}`).join("; ") + ")");

function rowOf(name, view, at, x) {
  const i = view.row[at];
  const remarks = (view.remarks[at] || []).length + (view.failed[at] ? 1 : 0);
  return h("tr", {},
    h("td", { class: "number" }, rankWords(view, at)),
    h("td", { class: "drawn" }, drawn(view, at, x)),
    h("td", { class: "number wide" }, number(view.logit[at])),
    h("th", { scope: "row", class: "name" },
      h("a", { href: addressOf({ row: of.id[i] }) }, breakable(of.model[i])),
      remarks ? h("span", { class: "mark warn" }, `${remarks} remark${remarks > 1 ? "s" : ""}`) : null,
      of.total[i] > 1 ? h("span", { class: "mark narrow" }, `${of.number[i]} of ${of.total[i]}`) : null),
    h("td", { class: "wide" }, h("bdi", {}, of.submitter[i])),
    h("td", { class: "number wide" }, of.date[i]),
    h("td", { class: "number wide" }, `${of.number[i]} of ${of.total[i]}`),
    h("td", { class: "words wide" }, data.versions[name]));
}

function showTable(name, view, { q, from }) {
  const words = q.trim().toLowerCase();
  const order = view.row.map((_, at) => at).filter((at) => haystack[view.row[at]].includes(words));
  const start = Math.min(from, Math.max(0, order.length - 1));
  const first = start - start % ROWS, x = scaleOf(view);
  $("rows").tBodies[0].replaceChildren(
    ...order.slice(first, first + ROWS).map((at) => rowOf(name, view, at, x)));
  const all = view.row.length.toLocaleString("en"), some = order.length.toLocaleString("en");
  $("count").textContent = words ? `${some} of ${all} submissions` : `${all} submissions`;
  $("version").textContent = `${viewName(name)}: ${allVersions(name)}`;
  const turn = (to, text) => to >= 0 && to < order.length && to !== first
    ? h("a", { href: addressOf({ from: to }) }, text) : h("span", { class: "hint" }, text);
  $("turn").hidden = order.length <= ROWS;
  $("turn").replaceChildren(turn(first - ROWS, "← better"), " ",
    `${first + 1} to ${Math.min(first + ROWS, order.length)} of ${some}`, " ",
    turn(first + ROWS, "worse →"));
}

// The page of a submission ------------------------------------------------------------------------

// The rank of a row among the submissions up to each day on which it changed, by today's scores.
function rankSteps(view, at) {
  const days = [...new Set(view.row.map((i) => of.date[i]))].sort();
  const own = view.logit[at], since = of.date[view.row[at]];
  const steps = [];
  for (const day of days.filter((day) => day >= since)) {
    const there = view.row.map((i, other) => [of.date[i], view.logit[other]])
      .filter(([date]) => date <= day);
    const rank = 1 + there.filter(([, logit]) => logit > own).length;
    if (!steps.length || steps.at(-1).rank !== rank) steps.push({ day, rank, count: there.length });
  }
  return steps;
}

function factsOf(name, view, at, i) {
  const facts = [["Submitter", of.submitter[i]], ["Date", of.date[i]],
    ["Submission", `${of.number[i]} of ${of.total[i]} of this submitter`]];
  if (at < 0) return [...facts, [viewName(name), "no rank"]];
  return [["Ranks", `${rankWords(view, at)} of ${view.row.length}`],
    [`${data.level} % interval`, ends(view, at)], ["Logit", number(view.logit[at])],
    ["Queries, judge", allVersions(name)], ...facts];
}

function submissionPage(name, view, id) {
  const i = index.get(id), at = view.row.indexOf(i);
  const own = of.id.filter((_, other) => of.submitter[other] === of.submitter[i]);
  const remarks = at < 0 ? [] : [...(view.remarks[at] || []),
    ...(view.failed[at] ? [`failed on ${view.failed[at]} queries, which count as the worst result`] : [])];
  const chips = (items, current) => h("ul", { class: "chips" }, items.map(([href, words, key]) =>
    h("li", {}, h("a", { href, "aria-current": key === current ? "true" : null }, words))));
  return [
    h("p", {}, h("a", { href: addressOf({ row: null }) }, "← Board")),
    h("h2", { tabindex: "-1" }, breakable(of.model[i])),
    h("p", { class: "hint" }, h("code", {}, id), of.link[i] ? [" ", h("a", { href: of.link[i], rel: "nofollow noopener" }, h("bdi", {}, of.link[i]))] : null),
    h("dl", { class: "chips facts" }, factsOf(name, view, at, i).map(([term, words]) =>
      h("div", {}, h("dt", {}, term), h("dd", {}, h("bdi", {}, words))))),
    chips(data.order.map((view) => [addressOf({ view }), viewName(view), view]), name),
    remarks.length ? h("ul", { class: "faults" }, remarks.map((words) => h("li", {}, h("bdi", {}, words)))) : null,
    at < 0 ? null : [h("h3", {}, "Rank over time"), h("p", { class: "hint" },
      "Among the submissions up to each day, by today's scores."),
    h("ul", {}, rankSteps(view, at).map(({ day, rank, count }) => h("li", {}, `${day}: ${rank} of ${count}`)))],
    own.length > 1 ? [h("h3", {}, "All submissions of this submitter"),
      chips(own.map((other) => [addressOf({ row: other }), other, other]), id)] : null,
    h("h3", {}, "Responses"),
    h("div", { id: "responses" }, h("p", { class: "hint" }, responsesHint(name, i))),
  ].flat().filter(Boolean);
}

const responsesHint = (name, i) => !shownIn(i).length ? "The submitter does not show the responses."
  : shownIn(i).includes(name) ? "Loading …"
    : `Choose a language: ${shownIn(i).map(viewName).join(", ")}.`;

async function showResponses(code, id) {
  const box = $("responses");
  try {
    const [rows, questions] = await Promise.all(
      [load(`data/responses/${id}/${code}.json`), load(`data/queries/${code}.json`)]);
    if (box !== $("responses")) return; // the reader went on meanwhile
    const given = { lang: code, dir: data.directions[code] };
    const more = (from) => {
      const cards = rows.slice(from, from + RESPONSES).map((row) => h("article", { class: "card" },
        h("p", { class: "hint" }, "Query ", h("code", {}, h("bdi", {}, row.query))),
        h("h4", given, questions[row.query] || ""),
        row.text === undefined ? h("p", { class: "error" }, h("bdi", {}, row.error))
          : h("div", { class: "response", tabindex: "0", role: "group", "aria-label": "Response" },
            h("p", given, row.text))));
      const left = rows.length - from - RESPONSES;
      box.append(...cards);
      if (left > 0) {
        const button = h("button", { type: "button", class: "next",
          onclick: () => { button.remove(); more(from + RESPONSES); } }, `Show ${Math.min(left, RESPONSES)} more`);
        box.append(button);
      }
    };
    box.replaceChildren();
    more(0);
  } catch {
    box.replaceChildren(h("p", { class: "error" }, NOT_LOADED));
  }
}

// What the address asks for -----------------------------------------------------------------------

let asked = 0;

async function route() {
  const now = state(), turn = ++asked;
  // An address such as #rules leads to a part of the board.
  const part = location.hash.includes("=") ? null : $(location.hash.slice(1) || "board");
  if ($("view").value !== now.view) $("view").value = now.view;
  if ($("search") !== document.activeElement) $("search").value = now.q;
  let view;
  try {
    view = await viewOf(now.view);
  } catch {
    $("version").textContent = NOT_LOADED;
    return;
  }
  if (turn !== asked) return; // a later change of the address overtook this one
  overview.hidden = now.row !== null;
  page.hidden = now.row === null;
  if (now.row === null) {
    document.title = title;
    showTable(now.view, view, now);
    page.replaceChildren();
    if (part && location.hash.length > 1) part.scrollIntoView();
  } else {
    page.replaceChildren(...submissionPage(now.view, view, now.row));
    document.title = `${of.model[index.get(now.row)]} · ${title}`;
    scrollTo(0, 0);
    page.querySelector("h2").focus({ preventScroll: true });
    if (shownIn(index.get(now.row)).includes(now.view)) showResponses(now.view, now.row);
  }
}

$("view").addEventListener("change", () => { location.hash = addressOf({ view: $("view").value, from: 0 }); });
$("search").addEventListener("input", () => {
  history.replaceState(null, "", addressOf({ q: $("search").value, from: 0 }));
  route();
});
addEventListener("hashchange", route);
if (data.order.length) route();
else $("count").textContent = "no submission yet";
