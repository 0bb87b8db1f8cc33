// The report on a ranking. Without scripts it is complete but for sorting, filtering, win
// probabilities and the pages of models.

const codes = Object.keys(data.languages);
let language = codes[0];
const modelName = (entry) => data.models[entry.model];
const percent = (thousandths) =>
  thousandths === null ? "—" : thousandths === 1000 ? ">99.9" : thousandths === 0 ? "<0.1"
    : (thousandths / 10).toFixed(1);

// Win probabilities -------------------------------------------------------------------------------

const shadeOf = (thousandths) =>
  thousandths === null ? "" : `p${Math.min(Math.floor(thousandths / 100), 9)}`;

function pairsTable(code) {
  const { entries, pairs } = data.languages[code];
  const head = h("tr", {}, h("th", { scope: "col", class: "name" }, "Better than →"),
    pairs.columns.map((place) => {
      const name = modelName(entries[place]);
      return h("th", { scope: "col", class: "number", title: name }, String(entries[place].rank),
        h("span", { class: "unseen" }, `, ${name}`));
    }));
  const rows = entries.map((entry, i) => h("tr", { class: entry.new ? "new" : null },
    h("th", { scope: "row", class: "name" }, `${entry.rank} `,
      h("a", { href: `#${code}/${entry.model}` }, breakable(modelName(entry)))),
    pairs.rows[i].map((value) => h("td", { class: `number ${shadeOf(value)}` },
      value === null ? "" : String(Math.round(value / 10))))));
  const words = "How sure it is, in percent, that the model of the row is better than the model of "
    + "the column. Columns are named by rank.";
  const name = `Pairwise win probabilities, ${data.languages[code].name}`;
  const table = h("table", { class: "matrix", "aria-label": name },
    h("thead", {}, head), h("tbody", {}, rows));
  const region = h("div", { class: "scroll", role: "region", "aria-label": name, tabindex: "0" },
    table);
  watchEdges(region);
  const sideways = document.querySelector(".sideways").textContent;
  return [h("p", { class: "hint" }, words), h("p", { class: "hint sideways" }, sideways), region];
}

function fillPairs(code) {
  const place = document.querySelector(`#${code} .pairs`);
  if (place && !place.hasChildNodes()) place.append(...pairsTable(code));
}

// Pages of models ---------------------------------------------------------------------------------

function modelPage(code, entry) {
  const own = data.languages[code];
  const ranks = entry.ranks ? ` (${own.level} % interval ${entry.ranks[0]} to ${entry.ranks[1]})` : "";
  const [lower, upper] = entry.interval;
  const ends = lower === null ? ""
    : ` (${own.level} % interval ${number(lower)} to ${number(upper)})`;
  const facts = [
    ["Rank", `${entry.rank} of ${own.entries.length}${ranks}`],
    ["Logit", entry.logit === null ? "not known" : number(entry.logit) + ends],
  ];
  if (entry.answered !== null) {
    facts.push(["Responses", `${entry.answered} answered, ${entry.failed} failed`]);
  }
  if (entry.unfamiliar) facts.push(["Unlike every system of this leaderboard", entry.unfamiliar]);
  return [
    h("p", {}, h("a", { href: `#${code}-leaderboard`, class: "back" }, "← Leaderboard")),
    h("h2", { tabindex: "-1" }, breakable(modelName(entry))),
    h("p", { class: "lead" }, own.name),
    h("dl", { class: "facts" }, facts.map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)])),
    otherLanguages(code, entry),
    h("div", { class: "sides" },
      h("div", {}, findingList(code, entry)),
      h("div", {}, own.features.length ? featureTable(own, entry) : null, opponents(code, entry))),
    responses(own, code, entry),
  ];
}

function otherLanguages(code, entry) {
  if (codes.length === 1) return null;
  const links = codes.map((other) => {
    const there = data.languages[other].entries.find((one) => one.model === entry.model);
    return there && h("li", {}, h("a", {
      href: `#${other}/${entry.model}`,
      "aria-current": other === code ? "true" : null,
      "aria-label": `${data.languages[other].name}: rank ${there.rank}`,
    }, h("b", {}, other), ` ${there.rank}`));
  });
  return [h("h3", {}, "Rank by language"), h("ul", { class: "chips" }, links)];
}

function findingList(code, entry) {
  if (entry.findings === null) return null;
  const items = entry.findings.map((one) => h("li", {}, `${one.words} on `,
    h("b", {}, String(one.count)), ` of ${one.of} queries: `,
    one.queries.map(([id, n], i) => [i ? ", " : null, n === null ? h("bdi", {}, id)
      : h("a", { href: `#${code}/${entry.model}/${n}` }, h("bdi", {}, id))]),
    one.count > one.queries.length ? ` and ${one.count - one.queries.length} more` : null));
  const none = "The features of its responses show no fault.";
  return [h("h3", {}, "Findings"),
    items.length ? h("ul", { class: "findings" }, items) : h("p", { class: "hint" }, none)];
}

function strip(values, own) {
  const finite = values.filter((value) => value !== null);
  const low = Math.min(...finite), span = Math.max(...finite) - low || 1;
  const at = (value) => `${4 + 92 * (value - low) / span}%`;
  const dot = (value, mark, r) => h("svg:circle", { cx: at(value), cy: "50%", r, class: mark });
  return h("svg:svg", { class: "interval", "aria-hidden": "true", focusable: "false" },
    h("svg:line", { x1: "4%", x2: "96%", y1: "50%", y2: "50%", class: "zero" }),
    finite.map((value) => dot(value, "other", 3)),
    own === null ? null : dot(own, "dot", 5));
}

function featureTable(own, entry) {
  const rows = own.features.map((name, i) => {
    const values = own.entries.map((one) => one.features[i]);
    const higher = values.filter((value) => value !== null && value > entry.features[i]).length;
    const place = entry.features[i] === null ? "—" : `${higher + 1}`;
    return h("tr", {}, h("th", { scope: "row", class: "name" }, breakable(name)),
      h("td", { class: "number" }, number(entry.features[i], 3)),
      h("td", { class: "drawn" }, strip(values, entry.features[i])),
      h("td", { class: "number" }, place));
  });
  const head = h("tr", {}, h("th", { scope: "col", class: "name" }, "Feature"),
    h("th", { scope: "col", class: "number" }, "Mean"),
    h("th", { scope: "col", class: "drawn" }, "Among all models"),
    h("th", { scope: "col", class: "number" }, "Place from the top"));
  return [h("h3", {}, "Features"),
    h("table", { class: "plain" }, h("thead", {}, head), h("tbody", {}, rows))];
}

function opponents(code, entry) {
  const { entries, pairs } = data.languages[code];
  if (!pairs) return null;
  const row = pairs.rows[entries.indexOf(entry)];
  const rows = pairs.columns.map((place, i) => {
    const other = entries[place];
    if (other === entry) return null;
    return h("tr", {}, h("th", { scope: "row", class: "name" },
      `${other.rank} `, h("a", { href: `#${code}/${other.model}` }, breakable(modelName(other)))),
      h("td", { class: `number ${shadeOf(row[i])}` }, percent(row[i])));
  });
  const head = h("tr", {}, h("th", { scope: "col", class: "name" }, "Other model"),
    h("th", { scope: "col", class: "number" }, "This one is better, %"));
  return h("details", { class: "opponents" }, h("summary", {}, "Win probability against each model"),
    h("table", { class: "plain" }, h("thead", {}, head), h("tbody", {}, rows)));
}

// Responses ---------------------------------------------------------------------------------------

const KINDS = {
  best: "Best responses", worst: "Worst responses", failed: "Failed",
  found: "Others that findings are about",
};

function responses(own, code, entry) {
  const kinds = own.pages[entry.model];
  if (!kinds) {
    const why = entry.answered === null || !own.evidence
      ? "The responses of this model are not at hand."
      : "The responses of this model are left out, for the file would have become too large.";
    return [h("h3", {}, "Responses"), h("p", { class: "hint" }, why)];
  }
  const parts = Object.entries(KINDS).filter(([kind]) => kinds[kind]).map(([kind, name]) => [
    h("h3", {}, name),
    h("div", { class: "cards" },
      kinds[kind].map((row) => responseCard(own, code, own.queries[row.query], row))),
  ]);
  const hint = own.judged
    ? "Responses are in order of the share of judgments that each won, a tie being half."
    : "Responses are in order of their features: how far each lies above or below those "
      + "that the surrogate learnt from, weighted by how it goes with the logit.";
  return [h("p", { class: "hint" }, hint), parts];
}

// Where the reader is -----------------------------------------------------------------------------

function choose(code) {
  language = code;
  for (const other of codes) document.getElementById(other).hidden = other !== code;
  const select = document.getElementById("language");
  if (select) select.value = code;
  for (const link of document.querySelectorAll("header nav a")) {
    const part = link.hash.match(/^#\w+-(\w+)$/);
    if (part) link.hash = `#${code}-${part[1]}`;
  }
  fillPairs(code);
}

function route(moved) {
  const [, code, place, n] = location.hash.match(/^#(\w+)\/(\d+)(?:\/(\d+))?$/) || [];
  const own = Object.hasOwn(data.languages, code || "") ? data.languages[code] : null;
  const entry = own && own.entries.find((one) => one.model === Number(place));
  overview.hidden = Boolean(entry);
  page.hidden = !entry;
  if (entry) {
    choose(code);
    page.replaceChildren(...modelPage(code, entry).flat(Infinity).filter(Boolean));
    document.title = `${modelName(entry)} · ${own.name} · Mirage`;
    const card = n && document.getElementById(`query-${n}`);
    if (card) {
      for (const part of card.querySelectorAll("details.passages")) part.open = true;
      card.scrollIntoView({ behavior: "instant" });
      card.focus({ preventScroll: true });
      return;
    }
    scrollTo(0, 0);
    page.querySelector("h2").focus({ preventScroll: true });
    return;
  }
  page.replaceChildren();
  document.title = title;
  const named = location.hash.slice(1).split("-")[0];
  choose(codes.includes(named) ? named : language);
  const target = document.getElementById(location.hash.slice(1));
  if (moved && target) target.scrollIntoView();
}

const select = document.getElementById("language");
// The address says which language is shown, so that it opens again where it is opened or sent on.
if (select) select.addEventListener("change", () => {
  choose(select.value);
  history.replaceState(null, "", `#${select.value}`);
});
addEventListener("hashchange", () => route(true));
route(location.hash !== "");
