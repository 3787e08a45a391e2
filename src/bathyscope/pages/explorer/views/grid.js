// Word by boundary: what the model would have said in the place of each word, opened on demand. Only the visible columns are
// drawn; the chosen cell is told in words. A word's column shows the position before it, where it is predicted.

const CELL = { width: 58, height: 17, left: 26, below: 18 };

function gridView(data, selection) {
  const root = el("details", { class: "folded lens-grid", open: selection.boundary !== null, toggle: () => { draw(); tell(); } },
    el("summary", {}, el("h3", {}, "Lens grid: every word at every boundary")));
  const kinds = [["topProbability", "probability of the likeliest token"], ["next", "probability of the text’s word"], ["kl", "KL of the final prediction from the lens"], ["entropy", "entropy"]];
  let kind = "topProbability";
  const canvas = el("canvas", { role: "img", "aria-label": "Grid of words and boundaries; the chosen cell is described below." });
  const spacer = el("div", { class: "spacer" });
  const scroller = el("div", { class: "grid", tabindex: "0", role: "region", "aria-label": "Lens grid: arrow keys choose a word and a boundary", scroll: draw, keydown: keys }, spacer, canvas);
  const cell = el("div", { class: "cell", "aria-live": "polite" });
  canvas.addEventListener("click", pointed);
  root.append(el("div", { class: "controls" }, choice("Shade", kinds, kind, value => { kind = value; draw(); })),
    el("p", { class: "note" }, "Rows: boundaries, the last on top; columns: words of the text, and what the model would have said in their place. Bold: already the final prediction. Stronger colour: higher; hatched: no value."), scroller, cell);
  const rows = data.tokens.boundaries;

  function draw() {
    const tokens = tokensOf(data, selection.prompt);
    scroller.hidden = cell.hidden = !tokens;
    if (!tokens || !root.open) return;
    const width = Math.max(200, scroller.clientWidth), height = rows * CELL.height + CELL.below;
    spacer.style.width = CELL.left + tokens.length * CELL.width + "px";
    const pen = prepared(canvas, width, height), start = scroller.scrollLeft;
    const total = tokens.total, top = d3.max(d3.range(rows * tokens.length), i => valueOf(tokens, Math.floor(i / tokens.length), i % tokens.length)) || 1;
    const most = kind === "topProbability" || kind === "next" ? 1 : top;
    const tint = ramp(data.colour("--paper"), data.colour("--blue")), muted = data.colour("--muted");
    pen.textBaseline = "middle";
    const first = Math.max(0, Math.floor(start / CELL.width)), last = Math.min(tokens.length, Math.ceil((start + width) / CELL.width));
    for (let position = first; position < last; position++) {
      const x = CELL.left + position * CELL.width - start;
      for (let boundary = 0; boundary < rows; boundary++) {
        const y = (rows - 1 - boundary) * CELL.height, value = valueOf(tokens, boundary, position), on = tint(value / most);
        pen.fillStyle = on.formatHex();
        pen.fillRect(x, y, CELL.width - 1, CELL.height - 1);
        if (Number.isNaN(value)) hatch(pen, x, y);
        const word = wordAt(tokens, boundary, position), final = word === wordAt(tokens, rows - 1, position);
        write(pen, data.tokens.words[word], x + 3, y + CELL.height / 2, readable(on), final);
      }
      write(pen, wordAfter(tokens, position), x + 3, rows * CELL.height + CELL.below / 2, muted, false);
    }
    pen.fillStyle = data.colour("--paper");
    pen.fillRect(0, 0, CELL.left, height);
    pen.fillStyle = muted;
    pen.font = "10px system-ui, sans-serif";
    for (let boundary = 0; boundary < rows; boundary++) pen.fillText(String(boundary), 4, (rows - 1 - boundary) * CELL.height + CELL.height / 2);
    if (selection.token > 0 && selection.boundary !== null) {
      pen.strokeStyle = data.colour("--vermilion"); pen.lineWidth = 2;
      const x = CELL.left + (selection.token - 1) * CELL.width - start;
      if (x >= CELL.left) pen.strokeRect(x, (rows - 1 - selection.boundary) * CELL.height, CELL.width - 1, CELL.height - 1);
    }
  }

  /** The word that is predicted at a position. */
  function wordAfter(tokens, position) {
    if (position + 1 < tokens.length) return alone(tokens.piece(position + 1));
    return position + 1 < tokens.whole ? "…" : "(end)";
  }

  /** A cell without a value: no word of the text follows the last one. */
  function hatch(pen, x, y) {
    pen.save();
    pen.beginPath(); pen.rect(x, y, CELL.width - 1, CELL.height - 1); pen.clip();
    pen.strokeStyle = data.colour("--grid"); pen.lineWidth = 2; pen.beginPath();
    for (let step = 0; step < CELL.width + CELL.height; step += 6) { pen.moveTo(x + step, y); pen.lineTo(x + step - CELL.height, y + CELL.height); }
    pen.stroke();
    pen.restore();
  }

  function write(pen, text, x, y, ink, bold) {
    pen.save();
    pen.beginPath(); pen.rect(x, y - CELL.height / 2, CELL.width - 7, CELL.height); pen.clip();
    pen.fillStyle = ink; pen.direction = "ltr"; pen.font = (bold ? "bold " : "") + "10.5px ui-monospace, 'DejaVu Sans Mono', monospace";
    pen.fillText(text, x, y);
    pen.restore();
  }

  const valueOf = (tokens, boundary, token) => tokens.at(kind, boundary, token);
  const wordAt = (tokens, boundary, token) => tokens.at("topWord", boundary, token);

  function keys(event) {
    const tokens = tokensOf(data, selection.prompt);
    if (!tokens) return;
    const steps = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (event.key === "Escape") selection.set({ token: null, boundary: null });
    else if (steps) {
      const isChosen = selection.token !== null && selection.boundary !== null;
      const word = isChosen ? selection.token + steps[0] : selection.token ?? 1, boundary = isChosen ? selection.boundary + steps[1] : rows - 1;
      selection.set({ token: Math.min(tokens.length, Math.max(1, word)), boundary: Math.min(rows - 1, Math.max(0, boundary)) });
    } else return;
    event.preventDefault();
  }

  function pointed(event) {
    const tokens = tokensOf(data, selection.prompt), box = canvas.getBoundingClientRect();
    const position = Math.floor((event.clientX - box.left - CELL.left + scroller.scrollLeft) / CELL.width);
    const boundary = rows - 1 - Math.floor((event.clientY - box.top) / CELL.height);
    if (position >= 0 && position < tokens.length && boundary >= 0 && boundary < rows) selection.set({ token: position + 1, boundary });
  }

  function reveal() {
    if (!(selection.token > 0) || !root.open) return;
    const x = (selection.token - 1) * CELL.width, room = scroller.clientWidth - CELL.left - CELL.width;
    if (x < scroller.scrollLeft) scroller.scrollLeft = x;
    else if (x > scroller.scrollLeft + room) scroller.scrollLeft = x - room;
  }

  function tell() {
    const tokens = tokensOf(data, selection.prompt);
    if (!root.open) return;
    if (selection.token === 0) { cell.replaceChildren(el("p", { class: "note" }, "Nothing stands before the first word, so nothing predicts it.")); return; }
    if (!tokens || selection.token === null || selection.token > tokens.length) { cell.replaceChildren(el("p", { class: "note" }, hint("Choose a cell to see its five likeliest tokens."))); return; }
    const token = selection.token - 1, boundary = Math.min(rows - 1, selection.boundary ?? rows - 1);
    const top = data.arrays.topWord.shape[0];
    const best = d3.range(top).map(rank => [data.tokens.words[data.array("topWord")[(rank * rows + boundary) * tokens.total + tokens.first + token]], data.array("topProbability")[(rank * rows + boundary) * tokens.total + tokens.first + token]]);
    const next = tokens.at("next", boundary, token);
    cell.replaceChildren(
      el("div", { class: "about" }, el("h4", {}, "In place of ", ...quoted(wordAfter(tokens, token)), `, token ${token + 1}, at boundary ${boundary}`),
        el("table", { class: "best" }, el("tbody", {}, best.map(([word, p]) => el("tr", {}, el("th", { scope: "row" }, el("bdi", {}, word)), el("td", { class: "number" }, perCent(p)))))),
        el("p", { class: "told" }, `KL of the final prediction ${shown(tokens.at("kl", boundary, token))} nats · entropy ${shown(tokens.at("entropy", boundary, token))} bits` + (Number.isNaN(next) ? " · no word of the text follows" : ` · the text’s word ${shown(next)}`))),
      trajectory(tokens, token, boundary), ...added(tokens, token));
  }

  const looks = { background: "transparent", color: "var(--ink)", fontSize: "11px", fontFamily: "inherit" };

  function figure(title, plot, said) {
    plot.setAttribute("aria-hidden", "true");
    return el("div", { class: "small", role: "img", "aria-label": `${title}: ${said}` }, el("p", { class: "note" }, title), plot);
  }

  function trajectory(tokens, token, boundary) {
    const lines = [["topProbability", "likeliest"], ["next", "the text’s"]].map(([name, label]) => ({ label, values: d3.range(rows).map(b => ({ b, p: tokens.at(name, b, token), label })) }));
    const width = Math.min(360, Math.max(260, root.clientWidth - 20));
    const plot = Plot.plot({
      width, height: 150, marginLeft: 40, marginRight: 64, marginTop: 12, marginBottom: 30, style: looks,
      x: { label: "boundary", labelAnchor: "center", labelArrow: "none", ticks: d3.ticks(0, rows - 1, Math.min(6, rows)).filter(Number.isInteger), tickFormat: String, domain: [0, Math.max(1, rows - 1)] }, y: { domain: [0, 1], ticks: [0, 0.5, 1], grid: true, label: null },
      marks: [
        Plot.line(lines[0].values, { x: "b", y: "p", stroke: "var(--muted)", strokeDasharray: "4 3" }),
        Plot.line(lines[1].values, { x: "b", y: "p", stroke: "var(--blue)" }),
        Plot.dot(lines[1].values, { x: "b", y: "p", r: 2, fill: "var(--blue)" }),
        Plot.ruleX([boundary], { stroke: "var(--vermilion)" }),
      ],
    });
    return figure("Probability: likeliest (broken), the text’s word (line)", plot, `the text’s word ${d3.range(rows).map(b => shown(tokens.at("next", b, token), 2)).join(", ")} at boundaries 0 to ${rows - 1}`);
  }

  function added(tokens, token) {
    const { dropped } = data.tokens;
    if (!dropped.length || Number.isNaN(tokens.at("added", 0, token))) return [];
    const bars = dropped.map((block, i) => ({ block, loss: tokens.at("added", i, token) }));
    const width = Math.min(460, Math.max(260, root.clientWidth - 20)), step = Math.ceil(bars.length * 20 / (width - 60));
    const losses = bars.map(bar => bar.loss), scale = barScale(losses, [Math.min(0, ...losses), Math.max(0, ...losses)], [120, 12]);
    const plot = Plot.plot({
      width, height: 150, marginLeft: 46, marginTop: 12, marginBottom: 30, style: looks,
      x: { type: "band", label: "block left out", labelAnchor: "center", labelArrow: "none", tickSize: 0, tickFormat: block => dropped.indexOf(block) % step ? "" : String(block) },
      y: { ...scale, tickFormat: value => shown(value, 2), grid: true, label: null },
      marks: [Plot.barY(bars, { x: "block", y: "loss", fill: bar => bar.block === selection.block ? "var(--vermilion)" : "var(--muted)" }), Plot.ruleY([0])],
    });
    return [figure(`Loss added to ${wordAfter(tokens, token)} (nats${scale.type === "symlog" ? ", " + scaleInWords(scale, "nats") : ""})`, plot, bars.map(bar => `block ${bar.block} ${signed(bar.loss)}`).join(", "))];
  }

  selection.on(() => { reveal(); draw(); tell(); });
  let toldAt = 0;
  new ResizeObserver(() => { draw(); if (root.clientWidth !== toldAt) { toldAt = root.clientWidth; tell(); } }).observe(scroller);
  draw(); tell();
  return root;
}
