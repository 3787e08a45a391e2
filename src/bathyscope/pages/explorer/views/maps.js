// Maps of blocks by blocks and of depth by tokens, of one prompt or of all; those of one quantity share their scale.

function mapsView(data, selection) {
  const root = el("section", { class: "view", "aria-labelledby": "view-maps" }, el("h2", { id: "view-maps" }, "Maps"));
  if (!data.maps.length) {
    root.append(el("p", { class: "note" }, "No maps: survey with skip, direct, erasure or integrated_gradients among the measures."));
    return root;
  }
  let reduction = 0, scaling = "linear", whose = "mean";
  const reductions = d3.max(data.maps, map => map.reductions.length) > 1 ? data.maps.find(map => map.reductions.length > 1).reductions : null;
  const panels = el("div", { class: "maps" }), note = el("p", { class: "note" });
  root.append(el("div", { class: "controls" },
    choice("Of", [["mean", "all prompts (mean)"], ["each", "the chosen prompt"]], whose, value => { whose = value; draw(); }),
    reductions ? choice("Over tokens", reductions.map((name, i) => [String(i), name]), "0", value => { reduction = Number(value); draw(); }) : null,
    choice("Scale", [["linear", "linear"], ["log", "logarithmic"], ["clipped", "clipped at the 99th percentile"]], scaling, value => { scaling = value; draw(); })), panels, note);

  /** The cells that are to be drawn, or in words why there are none. */
  function values(map) {
    const mean = data.arrays[`${map.key}-mean`], each = data.arrays[`${map.key}-each`];
    const at = Math.min(reduction, map.reductions.length - 1);
    if (whose === "mean") {
      if (!mean) return { why: "each prompt has its own tokens, so there is no mean over prompts; choose the map of the chosen prompt above." };
      const [, height, width] = mean.shape, size = height * width;
      return { height, width, cells: data.array(`${map.key}-mean`).subarray(at * size, (at + 1) * size) };
    }
    const place = map.prompts.indexOf(selection.prompt);
    if (place < 0) return { why: `not there for this prompt: ${map.others}. There: ${placesOf(map.prompts)}.` };
    const [, prompts, height, width] = each.shape, size = height * width, start = (at * prompts + place) * size;
    const cells = data.array(`${map.key}-each`).subarray(start, start + size);
    return cells.every(Number.isNaN) ? { why: "no value for this prompt, which is too short." } : { height, width, cells };
  }

  /** Prompts by name; many of them by their number. */
  function placesOf(prompts) {
    const names = prompts.slice(0, 4).map(place => data.prompts.ids[place] ?? String(place));
    return prompts.length ? names.join(", ") + (prompts.length > 4 ? ` and ${prompts.length - 4} more` : "") : "none";
  }

  function draw() {
    const listed = data.maps.map(map => ({ map, ...values(map) })), drawn = listed.filter(one => one.cells);
    const kinds = d3.group(drawn, one => one.map.quantity);
    panels.replaceChildren(...listed.map(one => one.cells ? panel(one, kinds.get(one.map.quantity)) : missing(one)));
    note.replaceChildren(...drawn.length
      ? ["Maps of one quantity share their colours. Cells beyond the scale carry a mark. Bars at the side and above: sums of the sizes in rows and columns, whatever their signs.", hint(" Click a cell to choose its block.")]
      : []);
  }

  function missing({ map, why }) {
    return el("div", { class: "map" }, el("h3", {}, map.label), el("p", { class: "note" }, `No map: ${why}`));
  }

  function scaleOf(kin) {
    const all = kin.flatMap(one => [...one.cells]).filter(Number.isFinite), negative = all.some(value => value < 0);
    const sizes = all.map(Math.abs).sort(d3.ascending), positive = sizes.filter(size => size > 0);
    const most = (scaling === "clipped" ? d3.quantileSorted(sizes, 0.99) : sizes[sizes.length - 1]) || 1;
    const least = Math.max(positive[0] || most / 1000, most / 1e4);
    const share = value => scaling === "log" ? Math.max(0, Math.log(Math.max(Math.abs(value), least) / least) / Math.log(most / least || 2)) : Math.abs(value) / most;
    const [paper, blue, vermilion] = ["--paper", "--blue", "--vermilion"].map(data.colour), less = ramp(paper, blue), more = ramp(paper, vermilion);
    const tint = value => negative ? (value < 0 ? less : more)(share(value)) : d3.rgb(d3.interpolateViridis(Math.min(1, share(value))));
    return { most, tint, clipped: value => Math.abs(value) > most * (1 + 1e-6), negative };
  }

  function panel(one, kin) {
    const { map, height, width, cells } = one, scale = scaleOf(kin), side = 44;
    const across = Math.max(3, Math.min(14, Math.floor((Math.min(420, root.clientWidth - 40) - side - 30) / width)));
    const down = map.columns === "token" ? Math.max(4, Math.min(12, Math.floor(260 / height))) : across;
    const canvas = el("canvas", { role: "img", "aria-label": label(one) }), left = 28, bottom = 18;
    const pen = prepared(canvas, left + width * across + side, side + height * down + bottom);
    const tokens = map.columns === "token";
    const y = row => side + (map.rows === "boundary" || map.rows === "block" ? height - 1 - row : row) * down;
    for (let row = 0; row < height; row++) for (let column = 0; column < width; column++) {
      const value = cells[row * width + column], x = left + column * across;
      if (Number.isNaN(value)) { pen.fillStyle = data.colour("--void"); pen.fillRect(x, y(row), across, down); continue; }
      pen.fillStyle = scale.tint(value).formatHex(); pen.fillRect(x, y(row), across, down);
      if (scale.clipped(value)) { pen.fillStyle = "#e4007c"; pen.fillRect(x + across / 2 - 1, y(row) + down / 2 - 1, 2, 2); }
    }
    const sum = picked => d3.sum(picked, value => Math.abs(value) || 0);
    const rows = d3.range(height).map(row => sum(cells.subarray(row * width, (row + 1) * width)));
    const columns = d3.range(width).map(column => sum(d3.range(height).map(row => cells[row * width + column])));
    pen.fillStyle = data.colour("--muted");
    rows.forEach((value, row) => pen.fillRect(left + width * across + 4, y(row), (side - 6) * value / (d3.max(rows) || 1), Math.max(1, down - 1)));
    columns.forEach((value, column) => { const size = (side - 6) * value / (d3.max(columns) || 1); pen.fillRect(left + column * across, side - 4 - size, Math.max(1, across - 1), size); });
    pen.font = "10px system-ui, sans-serif"; pen.textBaseline = "middle";
    const each = Math.ceil(height * 12 / (height * down)), every = Math.ceil(18 / across);
    for (let row = 0; row < height; row += each) pen.fillText(String(row), 4, y(row) + down / 2);
    for (let column = 0; column < width; column += every) pen.fillText(String(column), left + column * across, side + height * down + 9);
    const chosen = tokens ? selection.token : selection.block;
    pen.strokeStyle = data.colour("--vermilion"); pen.lineWidth = 1.5;
    if (!tokens && chosen !== null && chosen < height) pen.strokeRect(left, y(chosen), width * across, down);
    if (tokens && chosen !== null && chosen < width) pen.strokeRect(left + chosen * across, side, across, height * down);
    const over = whose === "mean" ? `, mean over ${map.measured} ${map.measured === 1 ? "prompt" : "prompts"}` : "";
    const told = el("p", { class: "told" }, `${map.quantity}, ${map.rows} by ${map.columns}, to ${shown(scale.most)}${map.units === "1" ? "" : " " + map.units}${over}`);
    canvas.addEventListener("click", event => {
      const box = canvas.getBoundingClientRect(), column = Math.floor((event.clientX - box.left - left) / across);
      const row = d3.range(height).find(own => event.clientY - box.top >= y(own) && event.clientY - box.top < y(own) + down);
      if (row === undefined || column < 0 || column >= width) return;
      if (tokens) selection.set({ token: column }); else selection.set({ block: row });
    });
    canvas.addEventListener("mousemove", event => {
      const box = canvas.getBoundingClientRect(), column = Math.floor((event.clientX - box.left - left) / across);
      const row = d3.range(height).find(own => event.clientY - box.top >= y(own) && event.clientY - box.top < y(own) + down);
      if (row !== undefined && column >= 0 && column < width) told.textContent = `${map.rows} ${row}, ${map.columns} ${column}${tokens && data.places?.[selection.prompt]?.[column] ? " " + data.places[selection.prompt][column] : ""}: ${shown(cells[row * width + column])}`;
    });
    return el("div", { class: "map" }, el("h3", {}, map.label), el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Map, ${map.label}` }, canvas), told);
  }

  function label({ map, height, width, cells }) {
    const most = d3.greatestIndex(cells, Math.abs);
    return `${map.label}: ${height} by ${width} cells; largest ${shown(cells[most])} at ${map.rows} ${Math.floor(most / width)}, ${map.columns} ${most % width}.`;
  }

  let drawnAt = 0;
  new ResizeObserver(() => { if (root.clientWidth !== drawnAt) { drawnAt = root.clientWidth; draw(); } }).observe(root);
  selection.on(draw);
  draw();
  return root;
}
