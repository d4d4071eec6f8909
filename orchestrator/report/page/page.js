"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const themeButton = document.getElementById("theme");
  const views = new Map();
  const shown = new Set();

  const rowsOf = (id) => {
    const columns = data.rows[id];
    const names = Object.keys(columns);
    const count = names.length ? columns[names[0]].length : 0;
    return Array.from({ length: count }, (_, i) =>
      Object.fromEntries(names.map((name) => [name, columns[name][i]])));
  };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const kept = (row) => row.arm === undefined || row.arm === null || shown.has(row.arm);

  const configFor = (place) => {
    const config = data.configs[isDark() ? "dark" : "light"];
    const width = place.clientWidth;
    const columns = width < 480 ? 1 : width < 900 ? 2 : 3;
    return { ...config, legend: { ...config.legend, columns } };
  };

  // Plots are drawn when their phase is shown: a hidden one has no width to fit.
  async function draw(id) {
    const place = document.getElementById(id);
    const spec = structuredClone(data.charts[id]);
    spec.data = { values: rowsOf(id).filter(kept) };
    const old = views.get(id);
    if (old) old.finalize();
    const result = await vegaEmbed(place, spec, {
      actions: false, ast: true, renderer: "svg", tooltip: { theme: "custom" },
      config: configFor(place),
    });
    views.set(id, result);
    const svg = place.querySelector("svg");
    if (svg) svg.setAttribute("aria-hidden", "true");
  }

  async function drawAll() {
    root.dataset.drawn = "no";
    const open = [...document.querySelectorAll(".plot")].filter((place) => place.offsetParent);
    for (const place of open) await draw(place.id);
    root.dataset.drawn = "yes";
  }
  let queue = Promise.resolve();
  const redraw = () => { queue = queue.then(drawAll); };

  function showPhase(wanted) {
    for (const part of document.querySelectorAll("[data-phase]")) {
      part.hidden = part.dataset.phase !== wanted;
    }
  }
  function showArms() {
    shown.clear();
    const left = new Set();  // an arm without a box, as a failed one, stays
    for (const box of document.querySelectorAll("input[name=arm]")) {
      (box.checked ? shown : left).add(box.value);
    }
    for (const row of document.querySelectorAll("tr[data-arm]")) {
      row.hidden = left.has(row.dataset.arm);
    }
  }
  function nameTheme() {
    themeButton.textContent = isDark() ? "Light mode" : "Dark mode";
  }

  document.addEventListener("change", (event) => {
    if (event.target.name === "phase") showPhase(event.target.value);
    else if (event.target.name === "arm") showArms();
    else return;
    redraw();
  });
  themeButton.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
    redraw();
  });
  system.addEventListener("change", () => { nameTheme(); redraw(); });
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });

  for (const part of document.querySelectorAll("[data-needs-script]")) part.hidden = false;
  nameTheme();
  showArms();
  const first = document.querySelector("input[name=phase]:checked");
  if (first) showPhase(first.value);
  redraw();
})();
