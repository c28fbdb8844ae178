// Returns what is wrong with a page for people who cannot see it well, use no mouse or
// hold a phone: one line for each fault.
(() => {
  const faults = [];
  const shown = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !e.closest("[aria-hidden=true]");
  const told = (e) => `<${e.tagName.toLowerCase()}${e.id ? " id=" + e.id : ""}> ${(e.textContent || "").trim().slice(0, 40)}`;
  const named = (e) => (e.getAttribute("aria-label") || e.textContent || "").trim() || e.labels?.[0]?.textContent.trim() ||
    document.getElementById(e.getAttribute("aria-labelledby"))?.textContent.trim();

  if (document.documentElement.scrollWidth > innerWidth) {
    const wide = [...document.querySelectorAll("body *")].find((e) => shown(e) && e.getBoundingClientRect().right > innerWidth + 1 && !e.parentElement.closest(".wide"));
    faults.push(`the page is ${document.documentElement.scrollWidth} pixels wide: ${wide ? told(wide) : ""}`);
  }
  if (!document.documentElement.lang) faults.push("no language");
  if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1");
  if (document.querySelectorAll("main").length !== 1) faults.push("not one main");
  let level = 0;
  for (const h of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    if (+h.tagName[1] > level + 1) faults.push(`heading skips a level: ${told(h)}`);
    level = +h.tagName[1];
  }
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) faults.push(`two elements have the id ${id}`);
  for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]"))
    if (shown(e) && !named(e)) faults.push(`no name: ${e.outerHTML.slice(0, 80)}`);
  for (const e of document.querySelectorAll("img, svg"))
    if (shown(e) && !(e.getAttribute("alt") || e.getAttribute("aria-label"))) faults.push(`picture without words: ${e.outerHTML.slice(0, 80)}`);
  for (const e of document.querySelectorAll("button, summary, nav a, .buttons a"))
    if (shown(e) && e.getBoundingClientRect().height < 24) faults.push(`less than 24 pixels high: ${told(e)}`);

  const colour = (s) => { const [r, g, b, a = 1] = s.match(/[\d.]+/g).map(Number); return { r, g, b, a }; };
  const light = ({ r, g, b }) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = colour(getComputedStyle(e).backgroundColor);
      if (c.a === 1) return c;
    }
    return colour(matchMedia("(prefers-color-scheme: dark)").matches ? "rgb(0,0,0)" : "rgb(255,255,255)");
  };
  for (const e of document.querySelectorAll("body *")) {
    if (!shown(e) || e.closest("svg") || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(colour(getComputedStyle(e).color)), light(behind(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faults.push(`contrast ${contrast.toFixed(1)}: ${told(e)}`);
  }
  return faults;
})()
