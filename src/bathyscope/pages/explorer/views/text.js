// The chosen prompt's text, each token shaded by how its own prediction, made one token before, settles or is changed.

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
    const quantity = kind === "added" && dropped < 0 ? "settle" : kind, added = quantity === "added";
    const values = d3.range(tokens.length).map(token => ofItself(tokens, quantity, added ? dropped : 0, token));
    const size = d3.max(values, value => Math.abs(value)) || 1;
    const top = added ? size : data.nBlocks || size;
    const paper = data.colour("--paper"), less = ramp(paper, data.colour("--blue")), more = ramp(paper, data.colour(added ? "--vermilion" : "--green"));
    const what = added
      ? `Shade: loss added to the prediction of each token without block ${selection.block}; orange more, blue less, full at ${shown(size)} nats.`
      : `Shade: ${quantity} depth of the prediction of each token, 0 to ${data.nBlocks} blocks.`;
    note.replaceChildren(what, values.some(Number.isNaN) ? " Hatched: no value; nothing predicts the first token." : "",
      kind === "added" && !added ? hint(" Choose a block above to see what it does to each token.") : "");
    return { values, units: added ? " nats" : " blocks", colour: value => (value < 0 ? less : more)(Math.abs(value) / top) };
  }

  /** What is known of the prediction of a token, which is made at the token before it. */
  function ofItself(tokens, quantity, row, token) {
    return token === 0 ? NaN : tokens.at(quantity, row, token - 1);
  }

  function tooltip(tokens, token, value, units) {
    const name = `Token ${token} (${tokens.piece(token)})`;
    if (token === 0) return `${name}: no value, since no token stands before it to predict it`;
    return `${name}, predicted at token ${token - 1}: ${Number.isNaN(value) ? "no value" : shown(value) + units}`;
  }

  function draw() {
    const tokens = tokensOf(data, selection.prompt);
    if (!tokens) {
      box.replaceChildren(); box.hidden = true;
      note.textContent = `This prompt is not among the first ${data.tokens.prompts.length}, whose tokens the run keeps (--tokens.prompts).`;
      return;
    }
    box.hidden = false;
    const { values, units, colour } = shading(tokens);
    box.replaceChildren(...values.map((value, token) => {
      const chosen = token === selection.token, missing = Number.isNaN(value);
      const word = el("span", {
        role: "option", id: `token-${token}`, class: missing ? "no-value" : null, "aria-selected": String(chosen),
        title: tooltip(tokens, token, value, units), click: () => selection.set({ token: chosen ? null : token }),
      }, el("bdi", {}, tokens.piece(token)));
      if (!missing) { const on = colour(value); word.style.background = on.formatHex(); word.style.color = readable(on); }
      return word;
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
