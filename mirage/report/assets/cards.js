// A response, what it was made from, and what was measured of it, as a card.

let passages = 0;

const cutMark = (shown, whole) => whole
  ? h("span", { class: "hint" }, ` … cut: ${shown.toLocaleString("en")} of `
    + `${whole.toLocaleString("en")} characters`)
  : null;

// The pieces of a response: text, the places of passages that it cites, and what is wrong there.
const pieces = (row) => (row.blocks || []).flatMap((block) => block.text)
  .map((piece) => typeof piece === "string" ? [piece, [], null]
    : [piece[0], piece[1] || [], piece[2] || null]);

const contents = (block, id) => block.text.map((piece) => {
  if (typeof piece === "string") return piece;
  const [text, places, type] = piece;
  const inside = places ? citation(id, text, places) : text;
  return type ? fault(inside, type) : inside;
});

const fault = (inside, type) => h("mark", { class: `fault ${type}`, title: data.marks[type] },
  inside, h("span", { class: "unseen" }, ` (${data.marks[type]})`));

function legend(row) {
  const types = Object.keys(data.marks).filter((type) => pieces(row).some((one) => one[2] === type));
  return types.length ? h("ul", { class: "legend" }, types.map((type) => h("li", {},
    h("mark", { class: `fault ${type}` }, type), ` ${data.marks[type]}`))) : null;
}

function responseCard(own, code, query, row) {
  const given = { lang: code, dir: own.direction };
  const id = `response-${passages++}`;
  const order = row.shown || query.passages.map((_, place) => place);
  const body = row.error !== undefined
    ? h("p", { class: "error" }, h("bdi", {}, row.error || "no reason given"),
      cutMark(row.error.length, row.cut))
    : h("div", { class: "response", tabindex: "0", role: "group", "aria-label": "Response" },
      row.blocks.map((block) => block.kind === "heading"
        ? h("p", { class: block.kind, dir: own.direction }, h("bdi", {}, contents(block, id)))
        : h("p", { class: block.kind, lang: code, dir: block.dir }, contents(block, id))),
      cutMark(pieces(row).map((piece) => piece[0]).join("").length, row.cut));
  return h("article", { class: "card", id: `query-${query.n}`, tabindex: "-1" },
    h("p", { class: "hint" }, "Query ", h("code", {}, h("bdi", {}, query.id))),
    h("h4", given, query.text, cutMark(query.text.length, query.cut)),
    row.faults ? h("ul", { class: "faults", "aria-label": "Findings" },
      row.faults.map((words) => h("li", {}, words))) : null,
    body,
    legend(row),
    row.features ? featureList(own, row) : null,
    order.length ? passageList(id, query, order, row, given) : null,
    query.reference === undefined ? null : h("details", {}, h("summary", {}, "Reference"),
      h("p", { class: "reference", ...given }, query.reference,
        cutMark(query.reference.length, query.referenceCut))));
}

function citation(id, text, places) {
  if (!places.length) {
    return h("span", { class: "cite wrong" }, h("bdi", {}, text),
      h("span", { class: "unseen" }, " (names no shown passage)"));
  }
  return h("button", {
    type: "button", class: "cite",
    onclick: () => showPassage(id, places[0]),
  }, h("bdi", {}, text), h("span", { class: "unseen" },
    ` cites passage ${places.map((place) => place + 1).join(", ")}`));
}

function showPassage(id, place) {
  const passage = document.getElementById(`${id}-${place}`);
  passage.closest("details").open = true;
  passage.focus();
  passage.scrollIntoView({ block: "nearest" });
}

function featureList(own, row) {
  return h("dl", { class: "chips" }, row.features.map((value, i) => h("div", {},
    h("dt", {}, h("bdi", {}, own.scored[i])),
    h("dd", {}, value === null ? h("bdi", {}, `not computed: ${row.missing[i]}`) : number(value, 3)))));
}

function passageList(id, query, order, row, given) {
  const cited = new Set(pieces(row).flatMap(([, places]) => places));
  const relevant = new Set(row.relevant || []);
  const items = order.map((place, i) => {
    const passage = query.passages[place] || { id: place };
    const text = passage.text === undefined
      ? h("p", { class: "hint" }, typeof place === "number" ? "The text is left out here."
        : "The query does not have this passage, so its text is not at hand.")
      : h("p", given, passage.text, cutMark(passage.text.length, passage.cut));
    return h("li", { id: `${id}-${i}`, tabindex: "-1", class: cited.has(i) ? "cited" : null },
      h("p", { class: "passage" }, `[${i + 1}] `, h("code", {}, h("bdi", {}, passage.id)), " ",
        passage.title ? h("b", given, passage.title) : null,
        row.scores && row.scores[i] !== null
          ? h("span", { class: "mark" }, `score ${number(row.scores[i], 3)}`) : null,
        cited.has(i) ? h("span", { class: "mark" }, "cited") : null,
        relevant.has(i) ? h("span", { class: "mark good" }, "relevant") : null),
      text);
  });
  const words = `${order.length} passages, ${cited.size} cited, ${relevant.size} relevant`;
  return h("details", { class: "passages" }, h("summary", {}, words), h("ol", {}, items));
}

