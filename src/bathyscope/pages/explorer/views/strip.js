// One column a block: what leaving it out costs, how it changes the output, how long its contribution is.

function stripView(data, selection) {
  const root = el("section", { class: "view", "aria-labelledby": "view-blocks" }, el("h2", { id: "view-blocks" }, "What each block is worth"));
  if (!data.blocks.length) {
    root.append(el("p", { class: "note" }, "Nothing is known of single blocks: survey with drop, skip or residual among the measures."));
    return root;
  }
  let quantity = data.blocks[0], sorted = false, under = null;
  const holder = el("div", { class: "strip", role: "slider", tabindex: "0", "aria-label": "Block", keydown: keys, click: pointed, pointermove: hovered, pointerleave: () => hover(null) });
  const band = el("div", { class: "band", hidden: true });
  const told = el("p", { class: "told", "aria-live": "polite" });
  const note = el("p", { class: "note" });
  root.append(
    el("div", { class: "controls" },
      choice("Show", data.blocks.map(one => [one.key, one.label]), quantity.key, key => { quantity = data.blocks.find(one => one.key === key); draw(); }),
      el("label", { class: "choice" }, el("input", { type: "checkbox", change: event => { sorted = event.target.checked; draw(); } }), " in order of size")),
    holder, told, note);

  const order = () => {
    const rows = quantity.places.map((place, i) => ({ place, mean: quantity.mean[i], low: quantity.low[i], high: quantity.high[i] }));
    return sorted ? rows.sort((a, b) => b.mean - a.mean) : rows;
  };
  const cheap = row => quantity.key === "drop" && row.high !== null && row.high <= data.cheap;
  let scaleX = null;

  function draw() {
    const rows = order(), width = Math.max(280, holder.clientWidth || 900), height = 190;
    const ends = rows.flatMap(row => [row.mean, row.low, row.high]).filter(value => value !== null);
    const domain = [Math.min(0, ...ends), Math.max(0, ...ends)];
    const margin = { marginLeft: 64, marginRight: 8, marginTop: 24, marginBottom: 34 };
    const range = [height - margin.marginBottom, margin.marginTop];
    const scale = barScale(rows.map(row => row.mean), domain, range);
    const step = Math.ceil(rows.length * 22 / (width - 60));
    const chosen = rows.filter(row => row.place === selection.block);
    const plot = Plot.plot({
      width, height, ...margin,
      style: { background: "transparent", color: "var(--ink)", fontSize: "11px", fontFamily: "inherit", overflow: "visible" },
      x: { type: "band", domain: rows.map(row => row.place), label: sorted ? "block, the largest first" : "block", labelAnchor: "center", labelArrow: "none", padding: 0.15, tickSize: 0,
        tickFormat: place => rows.findIndex(row => row.place === place) % step ? "" : String(place) },
      y: { ...scale, label: null, tickFormat: withUnits(scale, quantity.units), grid: true },
      marks: [
        Plot.barY(rows, { x: "place", y: "mean", fill: row => row.place === selection.block ? "var(--vermilion)" : cheap(row) ? "var(--green)" : "var(--muted)", fillOpacity: 0.85 }),
        Plot.ruleX(rows.filter(row => row.low !== null), { x: "place", y1: "low", y2: "high", stroke: "var(--ink)" }),
        Plot.ruleY([0], { stroke: "var(--ink)" }),
        // a mark as well as a colour, which not everybody sees
        Plot.dot(rows.filter(cheap), { x: "place", y: row => Math.max(0, row.high), dy: -7, symbol: "diamond", r: 3.5, fill: "var(--green)" }),
        Plot.dot(chosen, { x: "place", y: domain[1], dy: -10, symbol: "triangle", r: 4, rotate: 180, fill: "var(--vermilion)" }),
      ],
    });
    plot.setAttribute("aria-hidden", "true");
    scaleX = plot.scale("x");
    holder.replaceChildren(plot, band);
    hover(null);
    const steps = scaleInWords(scale, quantity.units);
    note.replaceChildren(`Mean over prompts, lines: 95 % interval over ${data.resampled}.${steps ? ` The axis is ${steps}.` : ""}`, rows.some(cheap) ? ` Green under a diamond: costs at most ${shown(data.cheap, 1)} nats, interval included.` : "", hint(" Choose a block with a click or the arrow keys; Escape lets it go."));
    const at = rows.findIndex(row => row.place === selection.block);
    holder.setAttribute("aria-valuemin", "0");
    holder.setAttribute("aria-valuemax", String(rows.length - 1));
    holder.setAttribute("aria-valuenow", String(Math.max(0, at)));
    const said = at < 0 ? "No block is chosen." : describe(rows[at]);
    holder.setAttribute("aria-valuetext", said);
    told.replaceChildren(at < 0 ? hint(said) : said);
  }

  /** The block under the pointer is told in the place of the chosen one, which stays chosen. */
  function hover(place) {
    band.hidden = place === null;
    if (place !== null) { band.style.left = scaleX.apply(place) + "px"; band.style.width = scaleX.bandwidth + "px"; }
    if (place === under) return;
    under = place;
    const rows = order(), row = rows.find(own => own.place === (place ?? selection.block));
    told.replaceChildren(row ? describe(row) : hint("No block is chosen."));
  }

  function describe(row) {
    const interval = row.low === null ? "" : ` (${shown(row.low)} to ${shown(row.high)})`;
    return `Block ${row.place}: ${quantity.label} ${shown(row.mean)}${interval}${quantity.units === "1" ? "" : " " + quantity.units}${cheap(row) ? ", cheap" : ""}`;
  }

  function keys(event) {
    const places = order().map(row => row.place), at = places.indexOf(selection.block);
    const to = { ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at < 0 ? places.length - 1 : at - 1, ArrowDown: at - 1, Home: 0, End: places.length - 1 }[event.key];
    if (event.key === "Escape") selection.set({ block: null });
    else if (to !== undefined) selection.set({ block: places[Math.min(places.length - 1, Math.max(0, to))] });
    else return;
    event.preventDefault();
  }

  function placeAt(event) {
    const x = event.clientX - holder.getBoundingClientRect().left;
    return scaleX?.domain.find(own => x >= scaleX.apply(own) - 1 && x <= scaleX.apply(own) + scaleX.bandwidth + 1);
  }
  function hovered(event) { if (event.pointerType === "mouse") hover(placeAt(event) ?? null); }

  function pointed(event) {
    const place = placeAt(event);
    if (place !== undefined) selection.set({ block: place === selection.block ? null : place });
  }

  selection.on(draw);
  new ResizeObserver(draw).observe(holder);
  draw();
  return root;
}
