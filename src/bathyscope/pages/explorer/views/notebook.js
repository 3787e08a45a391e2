// The views in a notebook, which gives a model of synchronised values and an element; nothing outside of that is touched.

/** Whether what surrounds an element is dark: notebooks have themes of their own. */
function darkAround(place) {
  for (let at = place; at; at = at.parentElement) {
    const ground = d3.rgb(getComputedStyle(at).backgroundColor);
    if (ground.opacity > 0.5) return readable(ground) === "#fff";
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

async function render({ model, el: place }) {
  // a notebook's own commands must not take the arrow keys; its styles and ids and those of the views do not meet
  const host = el("div", { "data-lm-suppress-shortcuts": "true" }), inside = host.attachShadow({ mode: "open" }), root = el("div", { id: "explorer" });
  inside.append(el("style", {}, model.get("style")), root);
  place.append(host);
  const chosen = { read: () => model.get("selection"), write: own => { model.set("selection", own); model.save_changes(); }, changed: listener => model.on("change:selection", listener) };
  const selection = new Selection(chosen);
  const themed = () => { host.className = darkAround(place) ? "dark" : "light"; };
  const again = () => { const before = host.className; themed(); if (host.className !== before) selection.tell({}); };
  themed();
  const watched = new MutationObserver(again);
  for (const at of [document.documentElement, document.body]) watched.observe(at, { attributes: true });
  // JupyterLab puts the element into its page after it is drawn: until then nothing is around it
  const placed = new ResizeObserver(again);
  placed.observe(host);
  await explore(root, host, model.get("runs"), selection);
  root.dataset.ready = "true";
  return () => { watched.disconnect(); placed.disconnect(); };
}
