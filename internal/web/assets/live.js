(() => {
  const page = document.documentElement, seen = `W/"${page.dataset.tag}"`, loaded = Date.now();
  const show = (id, yes) => { document.getElementById(id).hidden = !yes; };
  const here = new URL(location.href);
  if (here.searchParams.has("said")) {
    here.searchParams.delete("said");
    history.replaceState(null, "", here);
  }
  const busy = () => [...document.querySelectorAll("textarea")].some((t) => t.value) ||
    document.querySelector("main details[open]:not(.narrow)") || document.activeElement.matches("input, select, textarea") || String(getSelection());
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
    if (busy()) show("moved", moved);
    else if (moved || Date.now() - loaded > 60000) location.replace(here);
  };
  setInterval(() => look().catch(() => show("silent", true)), 5000);
})();
