"use strict";
// Draws one document: what a command prints with --json. Nothing is fetched and nothing is stored.

const data = JSON.parse(document.getElementById("data").textContent);
const COLOURS = {
  "launch": "#999999", "prologue": "#e69f00", "main loop": "#0072b2", "epilogue": "#009e73", "tail wave": "#d55e00",
  "reduction": "#cc79a7",
};
const BOUNDS = {
  "math": "#0072b2", "shared memory": "#e69f00", "L2": "#009e73", "DRAM": "#d55e00", "issue": "#cc79a7", "latency": "#56b4e9",
};
const OTHER = "#8a8f98";
let chosen = 0;

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  return filled(element, attributes, children);
}

function draw(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1e5) return Math.round(value).toLocaleString("en");
  return Number(value.toPrecision(digits)).toString();
}

function percent(share) {
  return `${share < 0 ? "" : "+"}${(100 * share).toFixed(1)} %`;
}

// Writes the numbers of a column with as many places as its least one needs for four digits, and no more than six digits in all.
function placed(values) {
  const sizes = values.filter((value) => typeof value === "number" && value && !Number.isInteger(value)).map(Math.abs);
  if (!sizes.length) return number;
  const places = Math.max(0, Math.min(3 - Math.floor(Math.log10(Math.min(...sizes))), 5 - Math.floor(Math.log10(Math.max(...sizes)))));
  return (value) => (typeof value === "number" && Number.isFinite(value)
    ? value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places }) : value ?? "");
}

function named(detail) {
  return detail.replaceAll("_", " ").replace(/\b(l2|dram|sm)\b/g, (word) => word.toUpperCase()).replace("tflops", "TFLOP/s");
}

function section(title, ...children) {
  return make("section", {}, make("h2", {}, title), ...children);
}

function key(colours) {
  return make("div", { class: "key" }, Object.entries(colours).map(([name, colour]) =>
    make("span", {}, make("i", { style: `background:${colour}` }), name)));
}

function boundsKey(bounds) {
  return key(Object.fromEntries([...new Set(bounds)].map((name) => [name || "none", BOUNDS[name] ?? OTHER])));
}

// Text wraps in a column of up to 30 letters (56 where it is long), on a phone of fewer in the first, but within no word of up to 16.
function leastWidth(text, column) {
  const share = text.length > 120 ? 110 : text.length > (column ? 20 : 40) ? 50 : 28;
  const word = Math.max(...text.split(" ").map((each) => each.length));
  return `min-width:min(${Math.min(text.length > 120 ? 56 : 30, text.length) + 1}ch, max(${share}vw, ${Math.min(16, word) + 2}ch))`;
}

function plain(head, rows, words = [0]) {
  return make("div", { class: "scroll" }, make("table", { class: "still" },
    make("thead", {}, make("tr", {}, head.map((name, i) => make("th", { class: words.includes(i) ? "word" : "" }, name)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map((cell, i) =>
      make("td", !words.includes(i) ? { class: row.length < 3 ? "wrap" : "" } : { class: "word wrap",
        style: row.length < 3 ? "" : leastWidth(String(cell ?? ""), i) }, cell ?? "")))))));
}

// ---- candidates

const hints = data.hints ?? [];
const tunables = [...new Set(hints.flatMap((hint) => Object.keys(hint.config)))];
const varied = tunables.filter((name) => new Set(hints.map((hint) => hint.config[name])).size > 1);
const shownTunables = varied.length ? varied : tunables;
const longest = () => Math.max(...visible().map((hint) => (hint.band_ms ? hint.band_ms[1] : hint.predicted_ms)));
let order = { by: "rank", down: false };
let filter = "";

const WORDS = ["bound", "kernel"];
const COLUMNS = [
  ["#", (hint) => hint.rank],
  ["ms", (hint) => hint.predicted_ms],
  ...(hints.some((hint) => hint.details?.tflops) ? [["TFLOP/s", (hint) => hint.details?.tflops]] : []),
  ["bound", (hint) => hint.bound],
  ...(new Set(hints.map((hint) => hint.kernel)).size > 1 ? [["kernel", (hint) => hint.kernel]] : []),
  ...shownTunables.map((name) => [name, (hint) => hint.config[name]]),
  ["smem KiB", (hint) => (hint.launch ? hint.launch.smem_bytes / 1024 : null)],
  ["registers", (hint) => hint.launch?.registers],
  ...(hints.some((hint) => hint.details?.spill_bytes) ? [["spilled", (hint) => hint.details?.spill_bytes]] : []),
  ...(tunables.includes("num_warps") || tunables.includes("warps") ? [] : [["warps", (hint) => hint.num_warps ?? (hint.launch ? hint.launch.threads / 32 : null)]]),
];

function valueOf(hint, name) {
  const column = COLUMNS.find(([title]) => title === name);
  if (column) return column[1](hint);
  return name in hint.config ? hint.config[name] : hint.details?.[name] ?? hint[name];
}

function passes(hint) {
  return filter.split(/\s+/).filter(Boolean).every((term) => {
    const match = term.match(/^([\w.]+)(>=|<=|!=|=|>|<)(.+)$/);
    if (!match) return JSON.stringify([hint.config, hint.bound]).toLowerCase().includes(term.toLowerCase());
    const [, name, sign, text] = match;
    const left = valueOf(hint, name);
    const right = Number.isNaN(Number(text)) ? text : Number(text);
    return { ">=": left >= right, "<=": left <= right, "!=": left != right, "=": left == right, ">": left > right,
      "<": left < right }[sign];
  });
}

function visible() {
  const out = hints.filter(passes);
  const get = COLUMNS.find(([title]) => title === order.by)?.[1] ?? COLUMNS[0][1];
  out.sort((a, b) => {
    const [x, y] = [get(a), get(b)];
    const sign = x === y ? a.rank - b.rank : x > y ? 1 : -1;
    return order.down ? -sign : sign;
  });
  return out;
}

function bar(hint, whole) {
  const scale = (ms) => `${(100 * ms) / whole}%`;
  return make("div", { class: "bar", title: Object.entries(hint.terms_ms).map(([name, ms]) => `${name} ${number(ms)} ms`).join("\n") },
    Object.entries(hint.terms_ms).map(([name, ms]) =>
      make("i", { style: `background:${COLOURS[name] ?? OTHER};width:${scale(ms)}` })),
    hint.band_ms ? make("span", {
      class: "band", style: `left:${scale(hint.band_ms[0])};width:${scale(hint.band_ms[1] - hint.band_ms[0])}`,
      title: `80 % of measured times: ${number(hint.band_ms[0])} to ${number(hint.band_ms[1])} ms`,
    }) : null);
}

function candidates() {
  const body = make("tbody");
  const count = make("span", { class: "faint" });
  const head = make("tr");
  function fill() {
    const rows = visible();
    const whole = rows.length ? longest() : 1;
    const writers = COLUMNS.map(([, get]) => placed(rows.map(get)));
    const heads = COLUMNS.map(([title]) => make("th", { class: WORDS.includes(title) ? "word" : "" },
      make("button", { type: "button", onclick: () => {
        order = { by: title, down: order.by === title && !order.down };
        fill();
      } }, title.replaceAll("_", "_\u200b") + (order.by === title ? (order.down ? " ▾" : " ▴") : ""))));
    heads.splice(2, 0, make("th", { class: "word" }, "time by cause, band"));
    head.replaceChildren(...heads);
    body.replaceChildren(...rows.map((hint) => {
      const cells = COLUMNS.map(([title, get], i) => make("td", { class: WORDS.includes(title) ? "word" : "" },
        typeof get(hint) === "number" ? writers[i](get(hint)) : String(get(hint) ?? ""), title === "#" && hint.tied ? " =" : ""));
      cells.splice(2, 0, make("td", { class: "word" }, bar(hint, whole)));
      return make("tr", {
        class: hints.indexOf(hint) === chosen ? "chosen" : "", tabindex: 0,
        onclick: () => choose(hint), onkeydown: (event) => { if (event.key === "Enter") choose(hint); },
      }, cells);
    }));
    count.textContent = `${rows.length} of ${hints.length}`;
  }
  function choose(hint) {
    chosen = hints.indexOf(hint);
    fill();
    follow();
  }
  fill();
  const fixed = tunables.filter((name) => !varied.includes(name)).map((name) => `${name}=${hints[0].config[name]}`);
  return section("Candidates",
    make("div", { class: "tools" },
      make("input", { type: "search", "aria-label": "filter", placeholder: `filter: ${shownTunables[0] ?? "ms"}>=64 bound=math`,
        oninput: (event) => { filter = event.target.value; fill(); } }), count),
    make("div", { class: "scroll tall" }, make("table", {}, make("thead", {}, head), body)),
    key(Object.fromEntries(Object.entries(COLOURS).filter(([name]) => hints.some((hint) => hint.terms_ms[name] > 0)))),
    varied.length && fixed.length ? make("p", { class: "faint" }, `In all rows: ${fixed.join(" ")}`) : null,
    hints.some((hint) => hint.tied) ? make("p", { class: "faint" }, "=: tied with the first; the model cannot tell them apart.") : null);
}

// ---- pictures

function axes(width, height, box, x, y, xName, yName) {
  const parts = [];
  for (const tick of x.ticks) {
    parts.push(draw("line", { class: "grid", x1: x.at(tick), x2: x.at(tick), y1: box.top, y2: box.bottom }),
      draw("text", { x: x.at(tick), y: box.bottom + 14, "text-anchor": "middle" }, x.name(tick)));
  }
  for (const tick of y.ticks) {
    parts.push(draw("line", { class: "grid", x1: box.left, x2: box.right, y1: y.at(tick), y2: y.at(tick) }),
      draw("text", { x: box.left - 6, y: y.at(tick) + 4, "text-anchor": "end" }, y.name(tick)));
  }
  parts.push(draw("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
    draw("line", { class: "axis", x1: box.left, x2: box.left, y1: box.top, y2: box.bottom }),
    draw("text", { x: (box.left + box.right) / 2, y: height - 4, "text-anchor": "middle" }, xName),
    draw("text", { x: 12, y: box.top - 14 }, yName));
  return parts;
}

function logScale(low, high, from, to) {
  const [a, b] = [Math.log10(low), Math.log10(high)];
  const powers = Array.from({ length: Math.floor(b) - Math.floor(a) + 1 }, (_, i) => 10 ** (Math.floor(a) + i));
  const near = 10 ** Math.floor(Math.log10(high - low));
  const apart = [0.1, 0.2, 0.5, 1, 2].map((step) => step * near).find((step) => (high - low) / step < 6) ?? 5 * near;
  const even = Array.from({ length: Math.floor(high / apart) - Math.ceil(low / apart) + 1 }, (_, i) => (Math.ceil(low / apart) + i) * apart);
  const ticks = [...[[1], [1, 2, 5]].map((steps) => powers.flatMap((power) => steps.map((step) => step * power))
    .filter((tick) => tick >= low * 0.999 && tick <= high * 1.001)), even].find((each) => each.length > 2) ?? even;
  return { ticks, at: (value) => from + ((Math.log10(value) - a) / (b - a)) * (to - from), name: (tick) => number(Number(tick.toPrecision(3)), 3) };
}

function roofline() {
  const roof = data.roofline;
  if (!roof || !roof.flops_per_s || !hints.some((hint) => hint.details?.tflops > 0)) return null;
  const points = hints.map((hint) => ({
    hint, flops: hint.details.tflops * 1e12, intensity: (hint.details.tflops * 1e9 * hint.predicted_ms) / hint.details.dram_bytes,
  }));
  const knee = roof.flops_per_s / roof.dram_bytes_per_s;
  const [width, height] = [560, 330];
  const box = { left: 62, right: width - 12, top: 34, bottom: height - 40 };
  const all = [knee, ...points.map((p) => p.intensity)];
  const [low, high] = [Math.min(...all) / 3, Math.max(...all) * 3];
  const floor = Math.min(...points.map((p) => p.flops)) / 1e12 / 1.6;
  const x = logScale(low, high, box.left, box.right);
  const y = logScale(floor, (roof.flops_per_s / 1e12) * 1.3, box.bottom, box.top);
  const start = Math.max(low, (floor * 1e12) / roof.dram_bytes_per_s);
  const path = `M${x.at(start)},${y.at((start * roof.dram_bytes_per_s) / 1e12)} L${x.at(knee)},${y.at(roof.flops_per_s / 1e12)} L${x.at(high)},${y.at(roof.flops_per_s / 1e12)}`;
  const dots = points.slice().reverse().map((p) => draw("circle", {
    cx: x.at(p.intensity), cy: y.at(p.flops / 1e12), r: 3.5, fill: BOUNDS[p.hint.bound] ?? OTHER, opacity: 0.75,
  }, draw("title", {}, `#${p.hint.rank}: ${number(p.hint.predicted_ms)} ms, ${number(p.flops / 1e12)} TFLOP/s`)));
  const mark = points[chosen];
  return section("Roofline", draw("svg", { viewBox: `0 0 ${width} ${height}`, style: `max-width:${1.4 * width}px`, role: "img" },
    axes(width, height, box, x, y, "FLOP per byte of DRAM", "TFLOP/s"), draw("path", { class: "roof", d: path }), dots,
    draw("circle", { class: "ring", cx: x.at(mark.intensity), cy: y.at(mark.flops / 1e12), r: 7 })),
    boundsKey(hints.map((hint) => hint.bound)),
    make("p", { class: "faint" }, "Each dot is a candidate, coloured by what bounds it. The ring is the chosen one."));
}

function measured() {
  const points = data.measured ?? [];
  if (!points.length) return null;
  const [width, height] = [460, 440];
  const box = { left: 62, right: width - 12, top: 34, bottom: height - 40 };
  const times = points.flatMap(([predicted, taken]) => [predicted, taken]);
  const [low, high] = [Math.min(...times) / 1.2, Math.max(...times) * 1.2];
  const [x, y] = [logScale(low, high, box.left, box.right), logScale(low, high, box.bottom, box.top)];
  return section("Predicted and measured", draw("svg", { viewBox: `0 0 ${width} ${height}`, style: `max-width:${1.4 * width}px`, role: "img" },
    axes(width, height, box, x, y, "predicted ms", "measured ms"),
    draw("line", { class: "axis", x1: box.left, y1: box.bottom, x2: box.right, y2: box.top, "stroke-dasharray": 4 }),
    points.map(([predicted, taken, bound]) => draw("circle", {
      cx: x.at(predicted), cy: y.at(taken), r: 3.5, fill: BOUNDS[bound] ?? OTHER, opacity: 0.75,
    }, draw("title", {}, `predicted ${number(predicted)} ms, measured ${number(taken)} ms, ${bound}`)))),
  boundsKey(points.map(([, , bound]) => bound)),
  make("p", { class: "faint" }, "Each dot is a candidate, coloured by what bounds it; on the line the prediction is right."));
}

let heat = null;
function heatmap() {
  if (varied.length < 2) return null;
  heat ??= [varied[0], varied[1]];
  const holder = make("div");
  const pick = (which) => make("select", { "aria-label": which ? "rows" : "columns", onchange: (event) => {
    heat[which] = event.target.value;
    fill();
  } }, varied.map((name) => make("option", name === heat[which] ? { selected: "" } : {}, name)));
  function fill() {
    const values = heat.map((name) => [...new Set(hints.map((hint) => hint.config[name]))].sort((a, b) => (a > b ? 1 : -1)));
    const best = new Map();
    for (const hint of hints) {
      const cell = `${values[0].indexOf(hint.config[heat[0]])},${values[1].indexOf(hint.config[heat[1]])}`;
      if (!best.has(cell) || best.get(cell).predicted_ms > hint.predicted_ms) best.set(cell, hint);
    }
    const least = Math.min(...hints.map((hint) => hint.predicted_ms));
    const [cell, left, top] = [Math.max(46, Math.min(84, 460 / values[0].length)), 84, 22];
    const [width, height] = [left + cell * values[0].length + 8, top + 30 * values[1].length + 26];
    const parts = [];
    values[0].forEach((value, i) => parts.push(draw("text", { x: left + cell * (i + 0.5), y: height - 10, "text-anchor": "middle" }, String(value))));
    values[1].forEach((value, j) => parts.push(draw("text", { x: left - 6, y: top + 30 * j + 19, "text-anchor": "end" }, String(value))));
    for (const [at, hint] of best) {
      const [i, j] = at.split(",").map(Number);
      const share = Math.min(1, Math.log(hint.predicted_ms / least) / Math.log(4));
      parts.push(draw("rect", { x: left + cell * i + 1, y: top + 30 * j + 1, width: cell - 2, height: 28, rx: 3, fill: "#0072b2", opacity: 0.9 - 0.8 * share },
        draw("title", {}, `#${hint.rank}: ${JSON.stringify(hint.config)}`)),
      draw("text", { x: left + cell * (i + 0.5), y: top + 30 * j + 19, "text-anchor": "middle", style: share < 0.35 ? "fill:#fff" : "" }, number(hint.predicted_ms, 3)));
    }
    holder.replaceChildren(make("div", { class: "scroll" }, draw("svg", { viewBox: `0 0 ${width} ${height}`, style: `max-width:${width * 1.25}px;min-width:${0.7 * Math.min(width, 520)}px`, role: "img" }, parts)));
  }
  fill();
  return section("Best time by two tunables", make("div", { class: "tools" }, "across", pick(0), "down", pick(1)), holder,
    make("p", { class: "faint" }, "Milliseconds of the fastest candidate of each cell; the stronger the colour, the faster."));
}

// ---- the chosen candidate

function bars(rows, colours, unit = "ms") {
  const most = Math.max(...rows.map(([, value]) => value), 1e-30);
  const letter = window.innerWidth > 600 ? 7 : 10.5;  // page.css has larger letters on a phone
  const beside = Math.max(128, ...rows.map(([name]) => letter * name.length + 8));
  const above = letter > 7 && beside > 200;  // a long name stands above its bar
  const [left, right, drop] = [above ? 8 : beside, 12 * letter, above ? 20 : 0];
  const [width, line] = [Math.max(520, above ? beside : 2.4 * left), 22 + drop];
  return draw("svg", { viewBox: `0 0 ${width} ${rows.length * line + 4}`, role: "img", style: `max-width:${1.4 * width}px` }, rows.flatMap(([name, value], i) => [
    draw("text", { x: above ? left : left - 8, y: i * line + 15, "text-anchor": above ? "start" : "end" }, name),
    draw("rect", { x: left, y: i * line + 4 + drop, width: Math.max(1, ((width - left - right) * value) / most), height: 14, rx: 2, fill: colours[name] ?? OTHER }),
    draw("text", { x: left + ((width - left - right) * value) / most + 6, y: i * line + 15 + drop }, `${number(value)} ${unit}`),
  ]));
}

function copies(hint) {
  const warps = hint.config.num_warps ?? 4;
  const constants = Object.entries(hint.config).filter(([name]) => !["num_warps", "num_stages", "num_ctas"].includes(name));
  const python = (value) => (typeof value === "string" ? JSON.stringify(value) : value === true ? "True" : value === false ? "False" : value);
  const triton = `triton.Config({${constants.map(([name, value]) => `${JSON.stringify(name)}: ${python(value)}`).join(", ")}}, num_warps=${warps}, num_stages=${hint.config.num_stages ?? 3})`;
  const offers = [["JSON", JSON.stringify(hint.config)], ...(data.backend === "triton" || "num_warps" in hint.config ? [["triton.Config", triton]] : []),
    ...(data.command ? [["command", data.command]] : [])];
  return make("div", { class: "tools" }, offers.map(([name, text]) => make("button", { type: "button", title: text, onclick: async (event) => {
    const button = event.target;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      button.textContent = "select it below";
      button.closest("section").querySelector("pre").textContent = text;
    }
    setTimeout(() => { button.textContent = `copy ${name}`; }, 1500);
  } }, `copy ${name}`)));
}

function occupancy(hint) {
  const curves = hint.occupancy;
  if (!curves) return null;
  const names = Object.keys(curves.limits);
  const [width, height] = [520, 168];
  const parts = Object.entries(curves.curves).map(([name, curve]) => {
    const box = { left: 34, right: width - 10, top: 32, bottom: height - 44 };
    const most = Math.max(1, ...curve.blocks);
    const x = (value) => box.left + ((value - curve.values[0]) / (curve.values[curve.values.length - 1] - curve.values[0] || 1)) * (box.right - box.left);
    const y = (blocks) => box.bottom - (blocks / most) * (box.bottom - box.top);
    let d = "";
    curve.values.forEach((value, i) => { d += i ? ` H${x(value)} V${y(curve.blocks[i])}` : `M${x(value)},${y(curve.blocks[i])}`; });
    const ends = [curve.values[0], curve.values[curve.values.length - 1]];
    return draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" },
      draw("text", { x: 4, y: 14 }, `blocks an SM by ${name}`),
      draw("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
      draw("text", { x: box.left - 6, y: y(most) + 4, "text-anchor": "end" }, String(most)),
      draw("text", { x: box.left - 6, y: box.bottom + 4, "text-anchor": "end" }, "0"),
      ends.map((value, i) => draw("text", { x: x(value), y: height - 26, "text-anchor": i ? "end" : "start" }, number(value))),
      draw("path", { class: "roof", d }),
      draw("line", { x1: x(curve.now), x2: x(curve.now), y1: box.top, y2: box.bottom, stroke: "var(--mark)", "stroke-width": 2 }),
      draw("text", { x: x(curve.now), y: height - 4, "text-anchor": ["start", "middle", "end"][Math.round((2 * x(curve.now)) / width)] },
        `now ${number(curve.now)}`));
  });
  return [make("h3", {}, "Occupancy"), plain(["limit", "blocks an SM"], names.map((name) => [name, String(curves.limits[name])])), parts];
}

function chosenSection(hint) {
  const why = hint.explanation;
  const facts = [
    ["predicted", `${number(hint.predicted_ms)} ms`],
    hint.band_ms ? ["80 % of measured times", `${number(hint.band_ms[0])} to ${number(hint.band_ms[1])} ms`] : ["band", "nothing of this kernel was measured"],
    ["bound by", hint.bound],
    ...(hint.limited_by ? [["occupancy limited by", hint.limited_by]] : []),
    ...(hint.launch ? [["grid", hint.launch.grid.join(" x ")], ["threads", number(hint.launch.threads)],
      ["registers a thread", number(hint.launch.registers)], ["shared memory", `${number(hint.launch.smem_bytes)} bytes`]] : []),
    ...Object.entries(hint.details ?? {}).map(([name, value]) => [named(name), number(value)]),
  ];
  return section(`Candidate #${hint.rank}`,
    make("pre", {}, Object.entries(hint.config).map(([name, value]) => `${name}=${value}`).join(" ")), copies(hint),
    make("div", { class: "columns" },
      make("div", {}, make("h3", {}, "Where the time goes"), bars(Object.entries(hint.terms_ms).filter(([, ms]) => ms > 0), COLOURS),
        why ? [make("h3", {}, "The main loop, if each of these alone had to be waited for"), bars(Object.entries(why.main_loop_alone_ms), BOUNDS)] : null,
        hint.loop_ms ? [make("h3", {}, "The main loop, if each of these alone had to be waited for"), bars(Object.entries(hint.loop_ms), BOUNDS)] : null,
        occupancy(hint)),
      make("div", {}, plain(["", ""], facts),
        why && why.changes.length ? [make("h3", {}, "Nearest changes"), plain(["tunable", "from", "to", "ms", "change", "or why not"], why.changes.map((change) =>
          [change.tunable, String(change.old), String(change.new), change.ms === null ? "" : number(change.ms),
            change.ms === null ? "" : percent(change.ms / hint.predicted_ms - 1), change.why || change.avoided]), [0, 5])] : null,
        hint.loops?.length ? [make("h3", {}, "Loops of the machine code"), plain(["loop", "passes", "instructions", "clocks of a warp by pipe"], hint.loops.map((loop) =>
          [loop.name, number(loop.passes), number(loop.instructions), [
            Object.entries(loop.pipes).filter(([, n]) => n >= 1).sort((a, b) => b[1] - a[1]).map(([pipe, n]) => `${pipe} ${number(n)}`).join(", "),
            ...Object.entries(loop.matrix_flop).map(([name, flop]) => `${name} ${number(flop)} FLOP`)].join("; ")]), [0, 3])] : null)),
    (hint.notes ?? []).map((note) => make("p", { class: "faint" }, note)));
}

function refused() {
  const rules = Object.entries(data.rejected ?? {}).sort((a, b) => b[1] - a[1]);
  if (!rules.length) return null;
  const reasons = Object.entries(data.reasons ?? {});
  return section("Not ranked", plain(["rule", "configurations"], rules.map(([rule, count]) => [rule, number(count)])),
    reasons.length ? make("details", {}, make("summary", {}, "each of the given configurations"),
      plain(["place in the list", "why"], reasons.map(([place, why]) => [place, why]), [1])) : null);
}

function general() {
  return (data.tables ?? []).map((table) => {
    const writers = table.columns.map((_, i) => (table.ratios?.includes(i) ? (ratio) => ratio.toFixed(3)
      : !table.columns[0] ? number : placed(table.rows.map((row) => row[i]))));
    const drawn = table.rows.flatMap((row) => (table.bars ?? []).map((i) => [`${row[0]}, ${table.columns[i]}`, row[i]]));
    return section(table.title, plain(table.columns, table.rows.map((row) => row.map((cell, i) =>
      (typeof cell === "number" ? writers[i](cell) : cell))), table.words ?? [0]),
    table.note ? make("p", { class: "faint" }, table.note) : null,
    drawn.length ? bars(drawn.filter(([, value]) => value), {}, "") : null);
  });
}

const follows = make("div");

function follow() {
  const pictures = [roofline(), heatmap()].filter(Boolean);
  follows.replaceChildren(chosenSection(hints[chosen]), make("div", { class: "columns" }, pictures));
}

function page() {
  const parts = [...general(), measured()];
  if (hints.length) {
    parts.push(candidates(), follows);
    follow();
  }
  parts.push(refused(), make("footer", { class: "faint" }, (data.provenance ?? []).map((line) => make("p", {}, line)),
    data.command ? make("pre", {}, data.command) : null));
  document.getElementById("title").textContent = data.title;
  document.getElementById("subtitle").textContent = data.subtitle ?? "";
  document.getElementById("main").replaceChildren(...parts.filter(Boolean));
}

page();
