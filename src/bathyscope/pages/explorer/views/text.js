// The chosen prompt's text, each token shaded by where it settles or by what the chosen block does to it.

function textView(data, selection) {
  const root = el("section", { class: "view", "aria-labelledby": "view-text" }, el("h2", { id: "view-text" }, "Text"));
  if (!data.tokens) {
    root.append(el("p", { class: "note" }, "This run keeps no single tokens: survey with tokens among the measures."));
    return root;
  }
  const kinds = [["settle", "settle depth"], ["prediction", "prediction depth"]];
  if (data.tokens.dropped.length) kinds.push(["added", "what the chosen block adds to the loss"]);
  let kind = kinds.length > 2 ? "added" : "settle";
  const box = el("div", { class: "text", role: "listbox", tabindex: "0", "aria-label": "Tokens", keydown: keys });
  const note = el("p", { class: "note" });
  root.append(el("div", { class: "controls" }, choice("Shade", kinds, kind, value => { kind = value; draw(); })), box, note);

  function shading(tokens) {
    const dropped = data.tokens.dropped.indexOf(selection.block);
    const own = kind === "added" && dropped < 0 ? "settle" : kind;
    const values = d3.range(tokens.length).map(token => tokens.at(own, own === "added" ? dropped : 0, token));
    const size = d3.max(values, value => Math.abs(value)) || 1;
    const top = own === "added" ? size : data.nBlocks || size;
    const paper = data.colour("--paper"), less = ramp(paper, data.colour("--blue")), more = ramp(paper, data.colour(own === "added" ? "--vermilion" : "--green"));
    note.replaceChildren(...own === "added"
      ? [`Shade: loss added to each token without block ${selection.block}; orange more, blue less, full at ${shown(size)} nats.`]
      : [`Shade: ${own === "settle" ? "settle" : "prediction"} depth, 0 to ${data.nBlocks} blocks.`, kind === "added" ? hint(" Choose a block above to see what it does to each token.") : ""]);
    return { values, colour: value => (value < 0 ? less : more)(Math.abs(value) / top) };
  }

  function draw() {
    const tokens = tokensOf(data, selection.prompt);
    if (!tokens) {
      box.replaceChildren(); box.hidden = true;
      note.textContent = `This prompt is not among the first ${data.tokens.prompts.length}, whose tokens the run keeps (--tokens.prompts).`;
      return;
    }
    box.hidden = false;
    const { values, colour: of } = shading(tokens);
    box.replaceChildren(...values.map((value, token) => {
      const on = of(value), chosen = token === selection.token;
      const made = el("span", { role: "option", id: `token-${token}`, "aria-selected": String(chosen), title: `token ${token}: ${shown(value)}`, click: () => selection.set({ token: chosen ? null : token }) }, el("bdi", {}, tokens.piece(token)));
      made.style.background = on.formatHex(); made.style.color = readable(on);
      return made;
    }));
    if (selection.token !== null && selection.token < tokens.length) box.setAttribute("aria-activedescendant", `token-${selection.token}`);
    else box.removeAttribute("aria-activedescendant");
  }

  function keys(event) {
    const tokens = tokensOf(data, selection.prompt), at = selection.token ?? -1;
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tokens ? tokens.length - 1 : 0 }[event.key];
    if (event.key === "Escape") selection.set({ token: null });
    else if (to !== undefined && tokens) selection.set({ token: Math.min(tokens.length - 1, Math.max(0, to)) });
    else return;
    event.preventDefault();
  }

  selection.on(draw);
  draw();
  return root;
}
