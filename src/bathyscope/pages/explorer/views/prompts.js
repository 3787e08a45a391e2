// All prompts: searched, sorted by any number, sifted by label.

const PROMPTS_LISTED = 300;

function promptsView(data, selection) {
  const { ids, labels, numbers } = data.prompts;
  const root = el("section", { class: "view", "aria-labelledby": "view-prompts" }, el("h2", { id: "view-prompts" }, `Prompts (${ids.length})`));
  let wanted = "", sortBy = -1, falling = true;
  const facets = {};
  const rows = el("tbody"), count = el("p", { class: "note", "aria-live": "polite" });
  const heads = numbers.map((number, i) => el("th", { scope: "col", "aria-sort": "none" },
    el("button", { type: "button", click: () => { falling = sortBy === i ? !falling : true; sortBy = i; draw(); } }, number.label)));
  const few = Object.entries(labels).filter(([, values]) => new Set(values).size <= 40);
  root.append(
    el("div", { class: "controls" },
      el("label", { class: "choice" }, "Search ", el("input", { type: "search", input: event => { wanted = event.target.value.toLowerCase(); draw(); } })),
      few.map(([name, values]) => choice(name, [["", "any"], ...[...new Set(values)].sort().map(value => ["=" + value, value || "none"])], "", value => { facets[name] = value; draw(); }))),
    el("div", { class: "scroll prompts", tabindex: "0", role: "region", "aria-label": "List of prompts" },
      el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Prompt"), heads, Object.keys(labels).map(name => el("th", { scope: "col" }, name)))), rows)),
    count);

  const text = n => ids[n] + " " + (data.pieces && data.pieces[n] ? data.pieces[n].join("") : "") + " " + Object.values(labels).map(values => values[n]).join(" ");

  function draw() {
    const found = d3.range(ids.length).filter(n =>
      Object.entries(facets).every(([name, value]) => !value || "=" + labels[name][n] === value) && (!wanted || text(n).toLowerCase().includes(wanted)));
    if (sortBy >= 0) found.sort((a, b) => (falling ? -1 : 1) * ((numbers[sortBy].values[a] ?? -Infinity) - (numbers[sortBy].values[b] ?? -Infinity)));
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === sortBy ? (falling ? "descending" : "ascending") : "none"));
    rows.replaceChildren(...found.slice(0, PROMPTS_LISTED).map(row));
    const more = found.length - PROMPTS_LISTED;
    count.textContent = `${found.length} of ${ids.length} prompts${more > 0 ? `; ${more} more are not listed: search for them` : ""}.`;
  }

  function row(n) {
    const chosen = n === selection.prompt, tokens = tokensOf(data, n);
    const words = data.pieces && data.pieces[n] ? ": " + data.pieces[n].join("").slice(0, 60) : "";
    return el("tr", { class: chosen ? "chosen" : "", "data-prompt": n },
      el("th", { scope: "row" }, el("button", { type: "button", "aria-pressed": String(chosen), click: () => selection.set({ prompt: n, token: null }) }, el("bdi", {}, ids[n]), el("bdi", { class: "words" }, words)),
        tokens ? null : el("span", { class: "note" }, data.tokens ? " without tokens" : "")),
      numbers.map(number => el("td", { class: "number" }, number.digits ? shown(number.values[n]) : String(number.values[n]))),
      Object.values(labels).map(values => el("td", {}, el("bdi", {}, values[n]))));
  }

  selection.on(changes => {
    for (const line of rows.children) {
      const chosen = Number(line.dataset.prompt) === selection.prompt;
      line.className = chosen ? "chosen" : "";
      line.querySelector("button").setAttribute("aria-pressed", String(chosen));
    }
  });
  draw();
  return root;
}
