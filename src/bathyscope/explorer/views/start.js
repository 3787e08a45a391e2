// Draws the views into a page, or into an element that a notebook gives.

async function explore(root, texts, selection) {
  selection.listeners.length = 0;
  const at = Math.min(texts.length - 1, selection.run ?? 0);
  const data = await unpack(texts[at]);
  const within = (value, size) => value !== null && value < size ? value : null;
  selection.prompt = within(selection.prompt, data.prompts.ids.length) ?? (data.tokens ? data.tokens.prompts[0] : 0);
  selection.block = within(selection.block, data.nBlocks);
  selection.boundary = within(selection.boundary, data.nBlocks + 1);
  const tokens = tokensOf(data, selection.prompt);
  selection.token = tokens ? within(selection.token, tokens.length) : null;
  root.replaceChildren(...[stripView, promptsView, textView, gridView, mapsView].map(view => view(data, selection)));
  return data;
}

async function start() {
  sections();
  const root = document.getElementById("explorer");
  if (!root) return;
  const held = [...document.querySelectorAll('script[type="application/x-bathyscope"]')], texts = held.map(one => one.textContent);
  if (typeof DecompressionStream === "undefined") { root.textContent = "This browser is too old for the views of single blocks and tokens; all sections below work."; return; }
  const selection = new Selection(), views = el("div");
  const names = held.map((one, i) => [String(i), one.dataset.name]);
  root.replaceChildren(...(names.length > 1 ? [choice("Run", names, String(selection.run ?? 0), value => { selection.set({ run: Number(value), block: null, boundary: null, prompt: null, token: null }); explore(views, texts, selection); })] : []), views);
  await explore(views, texts, selection);
  root.dataset.ready = "true";
}

if (document.readyState === "loading") addEventListener("DOMContentLoaded", start);
else start();
