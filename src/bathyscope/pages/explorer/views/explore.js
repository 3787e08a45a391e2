// The views of one of several runs, drawn into an element that somebody gives: a page, or a notebook.

/** `held` are the runs' names and packed texts; `at` is the element whose style has the colours. */
async function explore(root, at, held, selection) {
  const views = el("div"), within = (value, size) => value !== null && value < size ? value : null;
  const another = value => selection.set({ run: Number(value), block: null, boundary: null, prompt: null, token: null });
  const choices = choice("Run", held.map((one, i) => [String(i), one.name]), "0", another);
  root.replaceChildren(...(held.length > 1 ? [choices] : []), views);
  await redraw();

  async function redraw() {
    const run = within(selection.run, held.length) ?? 0;
    choices.querySelector("select").value = String(run);
    selection.listeners.length = 0;
    const data = await unpack(held[run].text);
    data.colour = name => colourOf(at, name);
    selection.prompt = within(selection.prompt, data.prompts.ids.length) ?? (data.tokens ? data.tokens.prompts[0] : 0);
    selection.block = within(selection.block, data.nBlocks);
    selection.boundary = within(selection.boundary, data.nBlocks + 1);
    const tokens = tokensOf(data, selection.prompt);
    selection.token = tokens ? within(selection.token, tokens.length + 1) : null;
    views.replaceChildren(...profileView(held[run]), ...[stripView, promptsView, skylineView, mapsView].map(view => view(data, selection)));
    selection.on(() => (within(selection.run, held.length) ?? 0) === run ? undefined : redraw());
  }
}
