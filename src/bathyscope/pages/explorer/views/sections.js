// The static sections: pictures to take away, the contents without losing the selection.

function sections() {
  for (const panel of document.querySelectorAll(".panel")) {
    const svg = panel.querySelector("svg");
    if (!svg) continue;
    // one thing in the grid of pictures, so that its button stands under it and the next picture beside it
    const frame = el("div", { class: panel.classList.contains("wide") ? "frame across" : "frame" });
    panel.replaceWith(frame);
    frame.append(panel, el("p", { class: "take" }, el("button", { type: "button", click: () => save(svg, panel.getAttribute("aria-label")) }, "Save as SVG")));
  }
  for (const link of document.querySelectorAll('nav a[href^="#"], a.skip')) link.addEventListener("click", event => {
    const to = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (!to) return;
    event.preventDefault();
    for (let place = to; place; place = place.parentElement) if (place.tagName === "DETAILS") place.open = true;
    if (to.tagName !== "A") to.setAttribute("tabindex", "-1");
    to.focus({ preventScroll: true }); to.scrollIntoView();
  });
}

function save(svg, name) {
  const copy = svg.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  // what the page's style sheet says of its pictures, of which a file of its own has nothing
  copy.setAttribute("style", "font-family: system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; image-rendering: pixelated; stroke-linejoin: round");
  const text = new XMLSerializer().serializeToString(copy).replace(/var\((--[\w-]+)(?:, ?([^)]*))?\)/g, (_, own, fallback) => fallback || colourOf(document.documentElement, own));
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "image/svg+xml" })), download: (name || "figure").toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 60) + ".svg" });
  link.click();
  URL.revokeObjectURL(link.href);
}
