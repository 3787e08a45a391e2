// The profile of a run, which a notebook gives as HTML; a page has it above the views already.

/** HTML that was written with all text escaped, as an element; nothing where there is none. */
function profileView(run) {
  if (!run.profile) return [];
  const place = el("div", { class: "view" });
  place.innerHTML = run.profile;
  return [place];
}
