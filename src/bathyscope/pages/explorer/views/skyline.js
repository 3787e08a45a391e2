// A text with its depth: above every word what the model would have said in its place, block by block from the bottom up.
// The lens at a position speaks of the word that follows it, so the guesses of a word stand at the position before it.

const COSTS_NAMED = 3, COST_WORTH_NAMING = 0.05;

/** What the model would have said in the place of a word at every boundary; null where nothing stands before the word. */
function guessesOf(data, tokens, word, jacobian = false) {
  if (word < 1 || word > tokens.length) return null;
  const last = data.tokens.boundaries - 1, position = word - 1, final = tokens.at("topWord", last, position);
  const [names, chances] = jacobian ? ["jacobianWord", "jacobianProbability"] : ["topWord", "topProbability"];
  const steps = d3.range(last + 1).map(boundary => {
    const guess = tokens.at(names, boundary, position), chance = tokens.at(chances, boundary, position);
    return { boundary, guess, chance, isFinal: !Number.isNaN(chance) && guess === final };
  });
  let from = last;
  while (from > 0 && steps[from - 1].isFinal) from--;
  // where the last boundary has no value nothing was decided
  return { steps, final, from: steps[last].isFinal ? from : null, isText: tokens.at("hit", 0, position) === 1, textChance: tokens.at("next", last, position) };
}

/** A word as a reader can see it where it stands alone. */
const alone = piece => piece.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ | $/g, "␣") || "∅";
const quoted = word => ["“", el("bdi", {}, word), "”"];
const wholePerCent = chance => Number.isNaN(chance) ? "–" : (chance > 0 && chance < 0.005 ? "< 1" : Math.round(100 * chance)) + "\u00a0%";
const costOf = nats => (nats < 0 ? "−" : "+") + Math.abs(nats).toFixed(Math.abs(nats) < 1 ? 2 : 1);

function skylineView(data, selection) {
  const root = el("section", { class: "view skyline", "aria-labelledby": "view-text" }, el("h2", { id: "view-text" }, "When does the model see each word coming?"));
  if (!data.tokens) {
    root.append(el("p", { class: "note" }, "This run keeps no single words: survey with lens and tokens among the measures."));
    return root;
  }
  const blocks = data.tokens.boundaries - 1, cell = Math.max(1, Math.min(12, Math.round(60 / Math.max(1, blocks))));
  let jacobian = false, pointed = null, current = null, options = new Map();
  const box = el("div", { class: "text", role: "listbox", "aria-label": "Words of the text", keydown: keys, click: chosen, pointerover: over, pointerleave: () => point(null), focusin: event => point(wordOf(event)), focusout: () => point(null) });
  // What stays while a word is pointed at and left: a button that is exchanged between press and release is never clicked.
  const heading = el("h3"), details = el("div"), previous = stepper("Previous word", "‹", -1), next = stepper("Next word", "›", 1);
  const about = el("div", { class: "about-word" }, el("div", { class: "heading" }, heading, el("span", { class: "steps" }, previous, next)), details), summary = el("span"), shade = el("span", { class: "note" });
  const prompts = choice("Prompt", data.tokens.prompts.map(prompt => [String(prompt), data.prompts.ids[prompt] ?? String(prompt)]), "", value => selection.set({ prompt: Number(value), token: null }));
  const switched = el("label", { class: "choice" }, el("input", { type: "checkbox", change: event => { jacobian = event.target.checked; draw(); } }), " Jacobian lens");
  const two = el("div", { class: "two" }, box, about);
  root.append(
    el("p", { class: "note lead" }, "Above a word: what the model would have said in its place, block by block from the bottom up. Blue down to the ground: seen coming early. Blue at the top alone: decided at the last moment."),
    el("div", { class: "controls" }, data.tokens.prompts.length > 1 ? prompts : null, data.tokens.jacobian ? switched : null, key()),
    el("p", { class: "told" }, summary, " ", shade), two, gridView(data, selection));

  function key() {
    return el("p", { class: "key" }, [["final", "final guess; the surer, the stronger"], ["another", "another word"], ["not-text", "final guess is not the text"]].map(([look, meaning]) =>
      el("span", {}, el("i", { class: look, "aria-hidden": "true" }), meaning)));
  }

  /** The words of a text: without special tokens, line by line. */
  function linesOf(tokens) {
    const specials = new Set(data.specials[selection.prompt] ?? []), lines = [[]];
    for (let word = 0; word < tokens.length; word++) {
      if (specials.has(word)) continue;
      lines[lines.length - 1].push(word);
      if (tokens.piece(word).includes("\n")) lines.push([]);
    }
    return lines.filter(line => line.length);
  }

  function draw() {
    const tokens = tokensOf(data, selection.prompt);
    prompts.querySelector("select").value = String(selection.prompt);
    two.hidden = !tokens;
    options = new Map();
    if (!tokens) {
      summary.textContent = `The run keeps the words of its first ${data.tokens.prompts.length} prompts, and this one is not among them (--tokens.prompts).`;
      shade.textContent = "";
      return;
    }
    const colours = { final: data.colour("--blue"), another: data.colour("--void") };
    const count = { words: 0, text: 0, late: 0 };
    box.replaceChildren(...linesOf(tokens).map(line => el("div", { class: line.length === 1 && tokens.piece(line[0]).trim() === "" ? "line empty" : "line", role: "presentation", dir: "auto" }, line.map(word => {
      const guesses = guessesOf(data, tokens, word, jacobian);
      if (guesses && guesses.from !== null) {
        count.words++; count.text += guesses.isText; count.late += guesses.from === blocks;
      }
      const column = el("canvas", { "aria-hidden": "true" });
      paint(column, guesses, colours);
      const option = el("span", { role: "option", id: `token-${word}`, "data-word": word, tabindex: "-1", "aria-selected": "false", "aria-label": nameOf(tokens, word, guesses), class: guesses && !guesses.isText ? "not-text" : null },
        column, el("span", { class: "word" }, tokens.piece(word).replace(/\n/g, "⏎") || "∅"), tokens.named(word) ? el("span", { class: "named" }, tokens.named(word)) : null);
      options.set(word, option);
      return option;
    }))));
    const cut = data.tokens.whole[data.tokens.prompts.indexOf(selection.prompt)] - tokens.length;
    summary.textContent = `${count.text} of ${count.words} words are the final guess; ${count.late} ${count.late === 1 ? "is" : "are"} decided in the last block.` + (cut > 0 ? ` The run keeps no more than the first ${tokens.length} tokens of this prompt (--tokens.length).` : "");
    mark();
  }

  /** One pixel wide, as the style sheet draws it as wide as its word; block 0 at the bottom. */
  function paint(canvas, guesses, colours) {
    const ratio = Math.max(1, Math.round(devicePixelRatio || 1)), gap = cell > 3 ? 1 : 0;
    canvas.width = 1; canvas.height = Math.max(1, blocks * cell * ratio);
    canvas.style.height = blocks * cell + "px";
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    if (!guesses) return;
    for (const { boundary, chance, isFinal } of guesses.steps) {
      if (boundary === 0 || Number.isNaN(chance)) continue;
      pen.globalAlpha = isFinal ? 0.3 + 0.7 * Math.min(1, chance) : 1;
      pen.fillStyle = isFinal ? colours.final : colours.another;
      pen.fillRect(0, (blocks - boundary) * cell * ratio, 1, (cell - gap) * ratio);
    }
  }

  function nameOf(tokens, word, guesses) {
    const name = alone(tokens.piece(word)) + (tokens.named(word) && ` ${tokens.named(word)}`);
    if (!guesses || guesses.from === null) return `${name}: no guess`;
    return `${name}: ${guesses.isText ? "final guess" : `final guess is ${data.tokens.words[guesses.final]},`} after ${guesses.from} of ${blocks} blocks`;
  }

  /** What the chosen block adds to the loss of each word, as the shade of the word; and which word is chosen. */
  function mark() {
    const tokens = tokensOf(data, selection.prompt);
    if (!tokens) return;
    const row = selection.block === null ? -1 : data.tokens.dropped.indexOf(selection.block);
    const costs = new Map([...options.keys()].map(word => [word, row < 0 || word === 0 ? NaN : tokens.at("added", row, word - 1)]));
    const most = d3.max(costs.values(), Math.abs), paper = data.colour("--paper"), more = ramp(paper, data.colour("--vermilion")), less = ramp(paper, data.colour("--green"));
    const rove = options.has(selection.token) ? selection.token : options.keys().next().value;
    for (const [word, option] of options) {
      const cost = costs.get(word), text = option.querySelector(".word"), on = most && !Number.isNaN(cost) ? (cost < 0 ? less : more)(Math.abs(cost) / most) : null;
      text.style.background = on ? on.formatHex() : "";
      text.style.color = on ? readable(on) : "";
      option.setAttribute("aria-selected", String(word === selection.token));
      option.setAttribute("tabindex", word === rove ? "0" : "-1");
    }
    shade.replaceChildren(
      data.tokens.dropped.length === 0 ? "" : row < 0 ? hint("Choose a block above to shade the words that need it.")
        : most === undefined ? `What block ${selection.block} does to these words was not read.`
        : `Shade of a word: loss added without block ${selection.block}; orange more, green less, full at ${shown(most)} nats.`);
    tell();
  }

  /** The panel: the word that is pointed at, or chosen, or the last one of the text. */
  function tell() {
    const tokens = tokensOf(data, selection.prompt), words = [...options.keys()];
    about.hidden = !tokens || !words.length;
    if (about.hidden) return;
    const word = pointed ?? selection.token ?? words[words.length - 1];
    for (const [own, option] of options) option.classList.toggle("shown", own === word);
    const guesses = guessesOf(data, tokens, word, jacobian), name = alone(tokens.piece(word) ?? "…");
    const at = words.indexOf(word);
    current = word;
    previous.setAttribute("aria-disabled", String(at === 0));
    next.setAttribute("aria-disabled", String(at < 0 || at === words.length - 1));
    heading.replaceChildren(...(word < tokens.length ? ["In place of ", ...quoted(name), tokens.named(word) && ` ${tokens.named(word)}`] : ["After the text"]));
    details.replaceChildren(
      ...(guesses && guesses.from !== null ? [el("p", {}, ...sentence(word < tokens.length, guesses)), el("p", { class: "note" }, needs(tokens, word)), table(guesses)]
        : [el("p", { class: "note" }, guesses ? "The lens has no value here." : "Nothing stands before the first word, so nothing predicts it.")]));
  }

  function stepper(label, sign, by) {
    return el("button", { type: "button", "aria-label": label, click: () => {
      const words = [...options.keys()], at = words.indexOf(current), to = at < 0 ? words.length - 1 : at + by;
      if (to in words) selection.set({ token: words[to] });
    } }, sign);
  }

  function sentence(inText, { final, from, isText, textChance }) {
    const when = from === 0 ? " before any block, and at every boundary after" : from === blocks ? ` only after the last of ${blocks} blocks` : ` after ${from} of ${blocks} blocks and from there on`;
    const end = !inText || Number.isNaN(textChance) ? "." : isText ? `, as in the text (${wholePerCent(textChance)}).` : `; the text’s word gets ${wholePerCent(textChance)}.`;
    return ["Final guess ", ...quoted(data.tokens.words[final]), when + end];
  }

  function table({ steps }) {
    const head = ["Blocks", "Word", "Probability"].map(name => el("th", { scope: "col" }, name));
    return el("table", { class: "guesses" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, [...steps].reverse().map(({ boundary, guess, chance, isFinal }) => {
      const bar = el("span", { class: "bar" });
      bar.style.width = `${100 * (Number.isNaN(chance) ? 0 : chance)}%`;
      return el("tr", { class: isFinal ? "final" : null }, el("th", { scope: "row" }, String(boundary)), el("td", { class: "guess" }, el("bdi", {}, Number.isNaN(chance) ? "not read" : data.tokens.words[guess])),
        el("td", { class: "chance" }, el("span", { class: "track", "aria-hidden": "true" }, bar), el("span", {}, perCent(chance))));
    })));
  }

  /** The blocks without which this word is predicted worse. */
  function needs(tokens, word) {
    const { dropped } = data.tokens;
    if (!dropped.length) return "Which blocks it needs was not measured: survey with drop.";
    const costs = dropped.map((block, row) => ({ block, cost: tokens.at("added", row, word - 1) })).filter(({ cost }) => !Number.isNaN(cost));
    if (!costs.length) return "Which blocks it needs was not read of this word.";
    const most = costs.filter(({ cost }) => cost >= COST_WORTH_NAMING).sort((a, b) => b.cost - a.cost).slice(0, COSTS_NAMED);
    const own = costs.find(({ block }) => block === selection.block), ofOwn = own && !most.includes(own) ? ` Block ${own.block}: ${costOf(own.cost)}.` : "";
    return (most.length ? `Needs most: ${most.map(({ block, cost }) => `block ${block} (${costOf(cost)})`).join(", ")} nats.` : `No block adds ${COST_WORTH_NAMING} nats or more when it is left out.`) + ofOwn;
  }

  function point(word) { if (word !== pointed) { pointed = word; tell(); } }
  function wordOf(event) {
    const option = event.target.closest("[role=option]");
    return option ? Number(option.dataset.word) : null;
  }
  // a finger chooses and does not point
  function over(event) { if (event.pointerType === "mouse") point(wordOf(event)); }
  function chosen(event) {
    const word = wordOf(event);
    if (word === null) return;
    selection.set({ token: word === selection.token ? null : word });
    options.get(word).focus({ preventScroll: true });
  }

  function keys(event) {
    const words = [...options.keys()], at = wordOf(event), place = words.indexOf(at);
    if (place < 0) return;
    const onward = getComputedStyle(options.get(at).parentElement).direction === "rtl" ? -1 : 1;
    const to = { ArrowRight: () => place + onward, ArrowLeft: () => place - onward, Home: () => 0, End: () => words.length - 1, ArrowDown: () => words.indexOf(across(at, 1)), ArrowUp: () => words.indexOf(across(at, -1)) }[event.key];
    if (event.key === "Escape") selection.set({ token: null });
    else if (event.key === "Enter" || event.key === " ") selection.set({ token: at === selection.token ? null : at });
    else if (to) {
      const word = words[Math.min(words.length - 1, Math.max(0, to()))];
      selection.set({ token: word });
      options.get(word).focus();
    } else return;
    event.preventDefault();
  }

  /** The nearest word of the next line on the screen, or the word itself. */
  function across(at, down) {
    const own = options.get(at).getBoundingClientRect(), middle = box => (box.left + box.right) / 2;
    const beyond = [...options].map(([word, option]) => ({ word, box: option.getBoundingClientRect() })).filter(({ box }) => down * (box.top - own.top) > 2);
    const line = d3.min(beyond, ({ box }) => down * box.top);
    return d3.least(beyond.filter(({ box }) => Math.abs(down * box.top - line) < 2), ({ box }) => Math.abs(middle(box) - middle(own)))?.word ?? at;
  }

  // a new block or word changes marks alone; a new prompt, or colours, everything
  selection.on(changes => "prompt" in changes || !Object.keys(changes).length ? draw() : mark());
  draw();
  return root;
}
