// The views in a page: its own data, the selection in the address.

/** The part of the address behind #, where that is a selection and no place of the page. */
const address = {
  read: () => location.hash && !location.hash.includes("=") ? null : Object.fromEntries(new URLSearchParams(location.hash.slice(1))),
  write: chosen => history.replaceState(null, "", Object.keys(chosen).length ? "#" + new URLSearchParams(chosen) : location.pathname + location.search),
  changed: listener => addEventListener("hashchange", listener),
};

/** The libraries, which a page holds compressed; its policy knows what they are when unpacked, and lets nothing else run. */
async function libraries() {
  const made = el("script");
  made.held = {};
  made.textContent = await inflated(document.querySelector('script[type="application/x-bathyscope-libraries"]').textContent).text();
  document.head.append(made);
  ({ d3, Plot } = made.held);
  made.remove();
}

async function page() {
  sections();
  const root = document.getElementById("explorer");
  if (!root) return;
  if (typeof DecompressionStream === "undefined") { root.textContent = "This browser is too old for the views of single blocks and tokens; all sections below work."; return; }
  await libraries();
  const held = [...document.querySelectorAll('script[type="application/x-bathyscope"]')].map(one => ({ name: one.dataset.name, text: one.textContent }));
  const selection = new Selection(address);
  // canvases hold the colours that they were drawn with, and paper is light
  for (const what of ["(prefers-color-scheme: dark)", "print"]) matchMedia(what).addEventListener("change", () => selection.tell({}));
  await explore(root, document.documentElement, held, selection);
  root.dataset.ready = "true";
}
