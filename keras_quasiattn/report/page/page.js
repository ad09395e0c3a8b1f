"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const HIDDEN = -32768, LABEL = 12, FONT = "12px system-ui, sans-serif";

  // From blue over the page's background to red; zero is always in the middle.
  const ENDS = { light: [[33, 102, 172], [255, 255, 255], [178, 24, 43]], dark: [[90, 160, 230], [22, 22, 22], [240, 100, 90]] };
  const colour = (share) => {
    const [low, middle, high] = ENDS[dark.matches ? "dark" : "light"];
    const end = share < 0 ? low : high, part = Math.min(Math.abs(share), 1);
    return middle.map((value, i) => value + (end[i] - value) * part);
  };
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const shown = (token) => (token.trim() === "" ? JSON.stringify(token) : token);

  function tokensOf(list) {
    const spans = list.querySelectorAll("span"), reading = list.parentElement.querySelector("output");
    let place = -1;
    const go = (next) => {
      if (place >= 0) spans[place].classList.remove("current");
      place = Math.max(0, Math.min(next, spans.length - 1));
      spans[place].classList.add("current");
      spans[place].scrollIntoView({ block: "nearest" });
      reading.textContent = `${shown(spans[place].textContent)}: ${spans[place].title}`;
    };
    list.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: spans.length - 1 };
      if (!(event.key in steps) || !spans.length) return;
      event.preventDefault();
      go(steps[event.key]);
    });
  }
  document.querySelectorAll(".tokens").forEach(tokensOf);

  const source = byId("maps");
  if (!source) return;
  const { block, examples } = JSON.parse(source.textContent);
  const encoded = document.querySelectorAll("script.matrix");
  const [example, layer, head] = ["example", "layer", "head"].map(byId), stretch = byId("stretch");
  let panels = [], cursor = null;

  function decode(number) {
    const bytes = atob(encoded[number].textContent), values = new Int16Array(bytes.length / 2);
    for (let i = 0; i < values.length; i += 1) {
      values[i] = bytes.charCodeAt(2 * i) | (bytes.charCodeAt(2 * i + 1) << 8);
    }
    return values;
  }
  const labels = (tokens) => {
    if (block === 1) return tokens.map(shown);
    const cells = [];
    for (let i = 0; i < tokens.length; i += block) {
      const part = tokens.slice(i, i + block).map(shown);
      cells.push(part.length > 1 ? `${part[0]} … ${part[part.length - 1]}` : part[0]);
    }
    return cells;
  };
  const fit = (context, text, room) => {
    let kept = text;
    while (kept.length > 1 && context.measureText(kept).width > room) kept = kept.slice(0, -2) + "…";
    return kept;
  };

  // The value of the strongest colour. Small weights would be blank on a scale up to 1.
  const strongest = (panel) => (stretch.checked ? panel.factor * 32767 : panel.limit);
  const figure3 = (value) => String(+value.toPrecision(3));

  function imageOf(panel) {
    const image = new ImageData(panel.columns.length, panel.rows.length);
    const most = strongest(panel);
    const hidden = dark.matches ? [60, 60, 60] : [214, 214, 214];
    panel.values.forEach((value, i) => {
      const rgb = value === HIDDEN ? hidden : colour((value * panel.factor) / most);
      image.data.set([...rgb, 255], 4 * i);
    });
    const canvas = new OffscreenCanvas(image.width, image.height);
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  function paint(panel) {
    const { canvas, rows, columns } = panel, ratio = devicePixelRatio || 1;
    const context = canvas.getContext("2d");
    context.font = FONT;
    // Rounded up: a label as wide as its room is cut if the room is less by an error of rounding.
    const widest = (tokens) => Math.min(120, Math.ceil(Math.max(...tokens.slice(0, 500).map((t) => context.measureText(t).width))) + 8);
    panel.left = widest(rows);
    panel.top = widest(columns);
    const room = Math.max(260, byId("panels").clientWidth / panels.length - 20) - panel.left;
    panel.cell = Math.max(1, Math.min(48, Math.floor(room / columns.length)));
    panel.height = rows.length === 1 ? Math.max(panel.cell, 20) : panel.cell;
    const width = panel.left + panel.cell * columns.length + 1, height = panel.top + panel.height * rows.length + 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    context.scale(ratio, ratio);
    context.font = FONT;
    context.fillStyle = style("--ink");
    context.textBaseline = "middle";
    const every = (size) => Math.ceil(LABEL / size);
    for (let i = 0; i < rows.length; i += every(panel.height)) {
      context.textAlign = "right";
      context.fillText(fit(context, rows[i], panel.left - 6), panel.left - 4, panel.top + (i + 0.5) * panel.height);
    }
    for (let j = 0; j < columns.length; j += every(panel.cell)) {
      context.save();
      context.translate(panel.left + (j + 0.5) * panel.cell, panel.top - 4);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(fit(context, columns[j], panel.top - 6), 0, 0);
      context.restore();
    }
    context.imageSmoothingEnabled = false;
    context.drawImage(imageOf(panel), panel.left, panel.top, panel.cell * columns.length, panel.height * rows.length);
    context.strokeStyle = style("--line");
    context.strokeRect(panel.left - 0.5, panel.top - 0.5, panel.cell * columns.length + 1, panel.height * rows.length + 1);
    panel.drawn = new OffscreenCanvas(canvas.width, canvas.height);
    panel.drawn.getContext("2d").drawImage(canvas, 0, 0);
  }

  function mark() {
    for (const panel of panels) {
      const context = panel.canvas.getContext("2d"), ratio = devicePixelRatio || 1;
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.clearRect(0, 0, panel.canvas.width, panel.canvas.height);
      context.drawImage(panel.drawn, 0, 0);
      if (!cursor || panel.axes !== cursor.axes) continue;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.strokeStyle = style("--focus");
      context.lineWidth = 2;
      const x = panel.left + cursor.column * panel.cell, y = panel.top + cursor.row * panel.height;
      context.strokeRect(x - 1, y - 1, panel.cell + 2, panel.height + 2);
    }
  }

  function point(panel, row, column) {
    cursor = { axes: panel.axes, row, column };
    const parts = panels.filter((one) => one.axes === panel.axes).map((one) => {
      const value = one.values[row * one.columns.length + column];
      return `${one.title} ${value === HIDDEN ? "masked" : (value * one.factor).toFixed(3).replace("-", "−")}`;
    });
    const from = panel.rows[row] ? `${panel.rows[row]} → ` : "";
    byId("reading").textContent = `${from}${panel.columns[column]}: ${parts.join(", ")}`;
    mark();
  }

  function listen(panel) {
    const { canvas } = panel, clamp = (value, size) => Math.max(0, Math.min(value, size - 1));
    canvas.addEventListener("mousemove", (event) => {
      const column = Math.floor((event.offsetX - panel.left) / panel.cell);
      const row = Math.floor((event.offsetY - panel.top) / panel.height);
      if (row >= 0 && column >= 0 && row < panel.rows.length && column < panel.columns.length) point(panel, row, column);
    });
    canvas.addEventListener("keydown", (event) => {
      const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      const edges = { Home: 0, End: panel.columns.length - 1 };
      if (!(event.key in steps) && !(event.key in edges)) return;
      event.preventDefault();
      const now = cursor && cursor.axes === panel.axes ? cursor : null;
      if (event.key in edges) return point(panel, now ? now.row : 0, edges[event.key]);
      const [down, right] = now ? steps[event.key] : [0, 0], from = now || { row: 0, column: 0 };
      point(panel, clamp(from.row + down, panel.rows.length), clamp(from.column + right, panel.columns.length));
    });
  }

  function show() {
    const map = examples[example.value].maps[layer.value];
    byId("answer").textContent = examples[example.value].answer;
    cursor = null;
    panels = map.panels.map((one) => {
      const number = Math.min(head.value, one.heads.length - 1), [matrix, factor] = one.heads[number];
      const rows = labels(one.rows), columns = labels(one.columns);
      const canvas = document.createElement("canvas"), caption = document.createElement("figcaption");
      canvas.tabIndex = 0;
      canvas.setAttribute("role", "application");
      canvas.setAttribute("aria-roledescription", "heat map");
      canvas.setAttribute("aria-label", `${one.title}, ${rows.length} rows by ${columns.length} columns; arrow keys move`);
      canvas.setAttribute("aria-describedby", "reading");
      caption.textContent = one.title;
      const figure = document.createElement("figure");
      figure.className = "panel";
      const scale = document.createElement("p");
      scale.className = "scale-of";
      figure.append(caption, canvas, scale);
      const axes = [...rows, "", ...columns].join("\u0000");
      return { title: one.title, rows, columns, canvas, figure, scale, factor, limit: one.limit, axes, values: decode(matrix) };
    });
    byId("panels").replaceChildren(...panels.map((panel) => panel.figure));
    panels.forEach(paint);
    panels.forEach(listen);
    const limits = panels.map(strongest), same = limits.every((limit) => limit === limits[0]);
    byId("least").textContent = `−${same ? figure3(limits[0]) : "s"}`;
    byId("most").textContent = same ? figure3(limits[0]) : "s, the number below each matrix";
    panels.forEach((panel) => { panel.scale.textContent = same ? "" : `s = ${figure3(strongest(panel))}`; });
  }

  function paintScale() {
    const canvas = byId("scale"), context = canvas.getContext("2d");
    for (let x = 0; x < canvas.width; x += 1) {
      context.fillStyle = `rgb(${colour((2 * x) / (canvas.width - 1) - 1).join(" ")})`;
      context.fillRect(x, 0, 1, canvas.height);
    }
  }

  const short = (name) => (name.length > 90 ? `${name.slice(0, 89)}…` : name);
  const fill = (select, names) => {
    const kept = Math.min(Math.max(select.selectedIndex, 0), names.length - 1);
    select.replaceChildren(...names.map((name, number) => new Option(short(name), number)));
    select.selectedIndex = kept;
  };
  const fillHeads = () => {
    const { panels: all } = examples[example.value].maps[layer.value];
    const heads = Math.max(...all.map((panel) => panel.heads.length));
    fill(head, Array.from({ length: heads }, (_, number) => `${number + 1} of ${heads}`));
  };
  const fillLayers = () => { fill(layer, examples[example.value].maps.map((map) => map.name)); fillHeads(); };
  fill(example, examples.map((one) => one.name));
  fillLayers();
  example.addEventListener("change", () => { fillLayers(); show(); });
  layer.addEventListener("change", () => { fillHeads(); show(); });
  head.addEventListener("change", show);
  stretch.addEventListener("change", show);
  const again = () => { paintScale(); show(); };
  dark.addEventListener("change", again);
  document.querySelectorAll(".to-map").forEach((button) => button.addEventListener("click", () => {
    example.selectedIndex = button.dataset.example;
    fillLayers();
    show();
    byId("maps-title").scrollIntoView();
    byId("maps-title").focus();
  }));
  addEventListener("resize", () => { panels.forEach(paint); mark(); });
  again();
  document.documentElement.dataset.painted = Math.round(performance.now());
})();
