(() => {
  const page = document.documentElement, seen = `W/"${page.dataset.tag}"`, loaded = Date.now(), memory = "open " + location.pathname;
  const show = (id, yes) => { document.getElementById(id).hidden = !yes; };
  const here = new URL(location.href);
  if (here.searchParams.has("said")) {
    here.searchParams.delete("said");
    history.replaceState(null, "", here);
  }
  const folds = () => [...document.querySelectorAll("main details[id]")];
  try {
    const was = JSON.parse(sessionStorage.getItem(memory) || "{}");
    sessionStorage.removeItem(memory);
    for (const d of folds()) if (d.id in was) d.open = was[d.id];
  } catch { /* nothing is remembered */ }
  const bar = document.getElementById("bar"), asks = (bar && bar.dataset.ask) || "", read = "read " + location.pathname;
  try {
    const was = sessionStorage.getItem(read);
    if (asks && was && was !== asks) { // a click that was meant for the question before must not answer this one
      bar.classList.add("another");
      bar.querySelector(".there:last-child").addEventListener("click", () => {
        bar.classList.remove("another");
        try { sessionStorage.setItem(read, asks); } catch { /* nothing is remembered */ }
      });
    } else if (asks) sessionStorage.setItem(read, asks); // between two questions there may be none
  } catch { /* nothing is remembered */ }
  const again = () => {
    try { sessionStorage.setItem(memory, JSON.stringify(Object.fromEntries(folds().map((d) => [d.id, d.open])))); } catch { /* no storage */ }
    location.replace(here);
  };
  const busy = () => [...document.querySelectorAll("textarea")].some((t) => t.value) ||
    [...document.querySelectorAll("main details[open] textarea")].length || document.activeElement.matches("input, select, textarea") || String(getSelection());
  const aims = () => matchMedia("(hover: hover)").matches && document.querySelector("#bar:hover"); // at an answer
  const look = async () => {
    if (document.hidden) return;
    const answer = await fetch(here, { method: "HEAD", cache: "no-store" });
    if (answer.status === 401 && document.getElementById("ended")) {
      if (busy()) show("ended", true);
      else location.reload();
      return;
    }
    if (!answer.ok) throw answer.status;
    show("silent", false);
    const moved = answer.headers.get("ETag") !== seen;
    if (busy() || moved && aims()) show("moved", moved);
    else if (moved || Date.now() - loaded > 60000) again();
  };
  setInterval(() => look().catch(() => show("silent", true)), 5000);
})();
