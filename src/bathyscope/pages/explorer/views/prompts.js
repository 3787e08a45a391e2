// All prompts: searched, sorted by any number, sifted by label; one stop of the Tab key, arrow keys between them.

const PROMPTS_LISTED = 300;

function promptsView(data, selection) {
  const { ids, labels, numbers, excerpts } = data.prompts;
  const root = el("section", { class: "view", "aria-labelledby": "view-prompts" }, el("h2", { id: "view-prompts" }, `Prompts (${ids.length})`));
  let wanted = "", sortBy = -1, falling = true;
  const facets = {};
  const rows = el("tbody", { keydown: keys }), mean = el("tfoot"), count = el("p", { class: "note", "aria-live": "polite" });
  const heads = numbers.map((number, i) => el("th", { scope: "col", "aria-sort": "none" },
    el("button", { type: "button", click: () => { falling = sortBy === i ? !falling : true; sortBy = i; draw(); } }, number.label)));
  const few = Object.entries(labels).filter(([, values]) => new Set(values).size <= 40);
  root.append(
    el("div", { class: "controls" },
      el("label", { class: "choice" }, "Search ", el("input", { type: "search", input: event => { wanted = event.target.value.toLowerCase(); draw(); } })),
      few.map(([name, values]) => choice(name, [["", "any"], ...[...new Set(values)].sort().map(value => ["=" + value, value || "none"])], "", value => { facets[name] = value; draw(); }))),
    el("div", { class: "scroll prompts", tabindex: "0", role: "region", "aria-label": "List of prompts" },
      el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Prompt"), heads, Object.keys(labels).map(name => el("th", { scope: "col" }, name)))), rows, mean)),
    count, el("p", { class: "note" }, numbers.map(number => `${number.label}: ${number.about}`).join("; ") + "."));
  const most = numbers.map(number => d3.max(number.values.filter(value => value !== null), Math.abs) || 1);

  const text = n => ids[n] + " " + (excerpts?.[n] ?? "") + " " + (data.pieces && data.pieces[n] ? data.pieces[n].join("") : "") + " " + Object.values(labels).map(values => values[n]).join(" ");

  function draw() {
    const found = d3.range(ids.length).filter(n =>
      Object.entries(facets).every(([name, value]) => !value || "=" + labels[name][n] === value) && (!wanted || text(n).toLowerCase().includes(wanted)));
    if (sortBy >= 0) found.sort((a, b) => (falling ? -1 : 1) * ((numbers[sortBy].values[a] ?? -Infinity) - (numbers[sortBy].values[b] ?? -Infinity)));
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === sortBy ? (falling ? "descending" : "ascending") : "none"));
    rows.replaceChildren(...found.slice(0, PROMPTS_LISTED).map(row));
    mean.replaceChildren(...(found.length > 1 ? [meanOf(found)] : []));
    rove();
    const more = found.length - PROMPTS_LISTED;
    count.textContent = `${found.length} of ${ids.length} prompts${more > 0 ? `; ${more} more are not listed: search for them` : ""}.`;
  }

  function row(n) {
    const chosen = n === selection.prompt, tokens = tokensOf(data, n);
    const words = excerpts?.[n] ? ": " + excerpts[n] : "";
    return el("tr", { class: chosen ? "chosen" : "", "data-prompt": n },
      el("th", { scope: "row" }, el("button", { type: "button", tabindex: "-1", "aria-pressed": String(chosen), click: () => selection.set({ prompt: n, token: null }) }, el("bdi", {}, ids[n]), el("bdi", { class: "words" }, words)),
        tokens ? null : el("span", { class: "note" }, data.tokens ? " without tokens" : "")),
      numbers.map((number, i) => numberCell(number.digits ? shown(number.values[n]) : String(number.values[n]), number.values[n], most[i])),
      Object.values(labels).map(values => el("td", {}, el("bdi", {}, values[n]))));
  }

  /** A number with a bar of its share of the column's largest. */
  function numberCell(written, value, largest) {
    const cell = el("td", { class: "number" }, el("span", {}, written));
    cell.style.setProperty("--share", `${value === null ? 0 : 100 * Math.abs(value) / largest}%`);
    return cell;
  }

  function meanOf(listed) {
    return el("tr", {}, el("th", { scope: "row" }, `mean of ${listed.length}`),
      numbers.map((number, i) => {
        const value = d3.mean(listed, n => number.values[n] ?? undefined) ?? null;
        return numberCell(shown(value), value, most[i]);
      }), Object.keys(labels).map(() => el("td")));
  }

  const buttons = () => [...rows.querySelectorAll("button")];

  /** The chosen prompt is where the Tab key stops, or the first of the list. */
  function rove() {
    const all = buttons(), stop = all.find(button => Number(button.closest("tr").dataset.prompt) === selection.prompt) ?? all[0];
    for (const button of all) button.setAttribute("tabindex", button === stop ? "0" : "-1");
  }

  function keys(event) {
    const all = buttons(), at = all.indexOf(event.target);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const next = all[Math.min(all.length - 1, Math.max(0, to))];
    for (const button of all) button.setAttribute("tabindex", button === next ? "0" : "-1");
    next.focus();
  }

  selection.on(changes => {
    rove();
    for (const line of rows.children) {
      const chosen = Number(line.dataset.prompt) === selection.prompt;
      line.className = chosen ? "chosen" : "";
      line.querySelector("button").setAttribute("aria-pressed", String(chosen));
    }
  });
  draw();
  return root;
}
