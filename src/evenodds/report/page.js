"use strict";
// Fills the charts and tables from the page's own numbers, and moves them to the strength of the slider.
(() => {
  const page = JSON.parse(document.getElementById("facts").textContent);
  const slider = document.getElementById("alpha");
  const views = new Map();
  let at = page.own;

  const column = (field) => field.m ? field.m[at] : field.v;

  // The rows of a table: each combination of its dims' values, the last one running fastest.
  function rowsOf(table) {
    const { dims, fields } = table;
    const columns = fields.map(column);
    const count = dims.reduce((product, dim) => product * dim.v.length, 1);
    const rows = [];
    for (let place = 0; place < count; place += 1) {
      const row = {};
      let known = false;
      fields.forEach((field, k) => {
        const value = columns[k][place];
        row[field.n] = value === undefined || (field.z && value === 0) ? null : value;
        if (row[field.n] !== null) known = true;
      });
      if (!known) continue;
      let rest = place;
      for (let k = dims.length - 1; k >= 0; k -= 1) {
        row[dims[k].n] = dims[k].v[rest % dims[k].v.length];
        rest = Math.floor(rest / dims[k].v.length);
      }
      rows.push(row);
    }
    return rows;
  }

  const shown = (value) => typeof value === "number"
    ? value.toLocaleString("en", { maximumSignificantDigits: 4 })
    : value === null ? "–" : String(value);

  function fillTable(details, chart) {
    const box = details.querySelector(".numbers");
    const { dims, fields } = chart.table;
    const columns = [...dims, ...fields];
    const table = document.createElement("table");
    const caption = table.createCaption();
    caption.textContent = chart.title;
    const head = table.createTHead().insertRow();
    for (const part of columns) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = part.t;
      head.append(cell);
    }
    const body = table.createTBody();
    for (const row of rowsOf(chart.table)) {
      const line = body.insertRow();
      columns.forEach((part, k) => {
        const cell = k === 0 ? document.createElement("th") : document.createElement("td");
        if (k === 0) cell.scope = "row";
        if (typeof row[part.n] === "number") cell.className = "n";
        cell.textContent = shown(row[part.n]);
        line.append(cell);
      });
    }
    box.replaceChildren(table);
  }

  const dark = matchMedia("(prefers-color-scheme: dark)");

  async function draw(figure) {
    const chart = page.charts[figure.dataset.chart];
    const spec = { ...page.specs[chart.spec], data: { name: "d", values: rowsOf(chart.table) } };
    const result = await window.vegaEmbed(figure.querySelector(".chart"), spec, {
      actions: false,
      renderer: "svg",
      config: page.config,
      mode: "vega-lite",
      tooltip: { theme: dark.matches ? "dark" : "light" },
    });
    // A chart is one image with its text; what is in it stands in the table below.
    figure.querySelector("svg").setAttribute("aria-hidden", "true");
    views.set(figure.dataset.chart, result.view);
    steer(figure.dataset.chart, result.view);
    return result.view.runAsync();
  }

  const moves = (chart) => chart.table.fields.some((field) => field.m);
  const steers = (chart) => (page.specs[chart.spec].params || []).some((param) => param.name === "alpha");

  function steer(name, view) {
    const chart = page.charts[name];
    if (moves(chart)) view.data("d", rowsOf(chart.table));
    if (steers(chart)) view.signal("alpha", page.alphas[at]);
  }

  function say() {
    for (const part of document.querySelectorAll("[data-k]")) {
      part.textContent = page.text[part.dataset.k][at];
    }
    slider.setAttribute("aria-valuetext", page.text.strength[at]);
    document.body.classList.toggle("other-strength", at !== page.own);
  }

  async function move() {
    at = Number(slider.value);
    say();
    const drawn = [];
    for (const [name, view] of views) {
      const chart = page.charts[name];
      if (moves(chart) || steers(chart)) {
        steer(name, view);
        drawn.push(view.runAsync());
      }
    }
    for (const details of document.querySelectorAll("figure details[open]")) {
      const chart = page.charts[details.closest("figure").dataset.chart];
      if (moves(chart)) fillTable(details, chart);
    }
    await Promise.all(drawn);
    document.body.dataset.at = String(at);
  }

  async function start() {
    slider.value = String(at);
    say();
    slider.addEventListener("input", move);
    document.getElementById("back").addEventListener("click", () => {
      slider.value = String(page.own);
      move();
    });
    const figures = [...document.querySelectorAll("figure[data-chart]")];
    for (const figure of figures) {
      const details = figure.querySelector("details");
      details.addEventListener("toggle", () => {
        if (details.open) fillTable(details, page.charts[figure.dataset.chart]);
      });
      await draw(figure);
    }
    document.body.dataset.at = String(at);
    document.body.dataset.ready = "yes";
  }

  start();
})();
