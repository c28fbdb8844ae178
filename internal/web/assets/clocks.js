(() => {
  const two = (n) => String(n).padStart(2, "0");
  const clock = (d) => `${two(d.getHours())}:${two(d.getMinutes())}`;
  const local = (d) => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock(d)}:${two(d.getSeconds())}`;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!zone || new Date().getTimezoneOffset() === 0) return;
  for (const t of document.querySelectorAll("time")) {
    const at = new Date(t.dateTime);
    if (isNaN(at) || t.textContent === "-") continue;
    t.title = at.toISOString().replace("T", " ").replace(/\..*/, " UTC");
    t.textContent = t.matches(".minute") ? clock(at) : local(at);
  }
  for (const t of document.querySelectorAll("svg [data-at]")) {
    const at = new Date(t.dataset.at);
    t.textContent = clock(at);
  }
  document.getElementById("zone").textContent = `Times are local (${zone}); hold the pointer over one for UTC. Times with UTC or Z behind them are UTC.`;
})();
