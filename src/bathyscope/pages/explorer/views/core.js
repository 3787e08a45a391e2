// Data, selection and small helpers that all views share. Text enters the page as text nodes only.

/** An element; attributes that are functions are listeners, children that are no nodes are text. */
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter(child => child !== null && child !== undefined));
  return made;
}

/** What a reader may do, which paper leaves out. */
const hint = text => el("span", { class: "hint" }, text);

/** A labelled choice; `options` are [value, text]. */
function choice(label, options, value, chosen) {
  const select = el("select", { change: event => chosen(event.target.value) },
    options.map(([own, text]) => el("option", { value: own, selected: own === value }, text)));
  return el("label", { class: "choice" }, label + " ", select);
}

/** A colour of the style sheet that holds at an element. */
const colourOf = (at, name) => getComputedStyle(at).getPropertyValue(name).trim();

/** Three digits; what is no number is a dash. */
function shown(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5) return value.toExponential(digits - 1);
  if (size < 1e-4) return value.toExponential(0);
  return size >= 1000 ? value.toFixed(0) : value.toPrecision(digits);
}
const signed = value => (value > 0 ? "+" : "") + shown(value);
const perCent = value => Number.isNaN(value) ? "–" : (100 * value).toFixed(1) + " %";

/** What a page holds as text, base64 of a compressed stream, ready to be read. */
function inflated(text) {
  const packed = Uint8Array.from(atob(text.trim()), letter => letter.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate")));
}

/** A run's data: a header in JSON and arrays, each byte plane by byte plane. */
async function unpack(text) {
  const bytes = new Uint8Array(await inflated(text).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const meta = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const kept = new Map();
  const array = name => {
    if (!kept.has(name)) kept.set(name, decoded(bytes.subarray(4 + length), meta.arrays[name]));
    return kept.get(name);
  };
  return { ...meta, array };
}

function decoded(bytes, { kind, shape, at, bytes: width }) {
  const n = shape.reduce((a, b) => a * b, 1);
  const whole = new Uint32Array(n);
  for (let plane = 0; plane < width; plane++)
    for (let i = 0; i < n; i++) whole[i] |= bytes[at + plane * n + i] << (8 * plane);
  if (kind === "whole") return whole;
  if (kind === "permille") return Float32Array.from(whole, one => one === 0xffff ? NaN : one / 1000);
  if (width === 3) return new Float32Array(whole.map(one => one << 8).buffer);
  return Float32Array.from(whole, half);
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, rest = bits & 1023;
  if (exponent === 31) return rest ? NaN : sign * Infinity;
  return exponent ? sign * (1 + rest / 1024) * 2 ** (exponent - 15) : sign * rest * 2 ** -24;
}

/** What is chosen, the same in all views, and kept at a place: `read` gives names and values, or null where nothing of this
    is meant; `write` is given those that are chosen; `changed` calls back when somebody else changes them. */
class Selection {
  static #whole = ["run", "block", "boundary", "prompt", "token"];
  #place;

  constructor(place) {
    this.#place = place;
    this.listeners = [];
    this.read();
    place.changed(() => { if (this.read()) this.tell({}); });
  }

  read() {
    const given = this.#place.read();
    if (!given) return false;
    for (const name of Selection.#whole) {
      const value = Number(given[name] ?? NaN);
      this[name] = Number.isInteger(value) && value >= 0 ? value : null;
    }
    return true;
  }

  set(changes) {
    if (Object.entries(changes).every(([name, value]) => this[name] === value)) return;
    Object.assign(this, changes);
    this.#place.write(Object.fromEntries(Selection.#whole.filter(name => this[name] !== null).map(name => [name, this[name]])));
    this.tell(changes);
  }

  tell(changes) { for (const listener of [...this.listeners]) listener(changes); }
  on(listener) { this.listeners.push(listener); }
}

/** The places of a prompt's tokens in the flat arrays, or null where it has none. */
function tokensOf(data, prompt) {
  const own = data.tokens ? data.tokens.prompts.indexOf(prompt) : -1;
  if (own < 0) return null;
  const first = data.tokens.lengths.slice(0, own).reduce((a, b) => a + b, 0);
  const total = data.tokens.lengths.reduce((a, b) => a + b, 0);
  const pieces = data.pieces && data.pieces[prompt];
  const length = data.tokens.lengths[own];
  const piece = token => pieces ? pieces[token] : `#${token}`;
  const places = data.places?.[prompt] ?? {}, named = token => places[token] ?? "";
  return { first, total, length, piece, named, whole: data.tokens.whole[own], at: (name, row, token) => data.array(name)[row * total + first + token] };
}

/** From one colour to another: what stands at a share of the way. */
function ramp(low, high) {
  const between = d3.interpolateRgb(low, high);
  return share => d3.rgb(between(Math.min(1, Math.max(0, share || 0))));
}
const readable = on => 0.2126 * (on.r / 255) ** 2.2 + 0.7152 * (on.g / 255) ** 2.2 + 0.0722 * (on.b / 255) ** 2.2 > 0.18 ? "#000" : "#fff";

/** A canvas as sharp as the screen, cleared. */
function prepared(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
  canvas.style.width = width + "px"; canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  return pen;
}

/** The vertical axis of bars: linear, or logarithmic beyond usual sizes where a few outweigh all others; `range` is its pixels from below. */
function barScale(values, domain, range) {
  const sizes = values.map(Math.abs).filter(size => size > 0).sort((a, b) => a - b), middle = sizes[Math.floor(sizes.length / 2)] || 1;
  const outweighed = sizes.length > 0 && sizes[sizes.length - 1] > 10 * middle;
  if (!outweighed) return { type: "linear", domain, ticks: d3.scaleLinear(domain, range).ticks(5) };
  const constant = middle / 2;
  return { type: "symlog", constant, domain, ticks: symlogTicks(d3.scaleSymlog(domain, range).constant(constant), constant, 14) };
}

/** In words where an axis becomes logarithmic; nothing of a linear one. */
const scaleInWords = (scale, units) => scale.type === "symlog" ? `logarithmic beyond ${shown(scale.constant, 2)}${units === "1" ? "" : " " + units}` : "";

/** Tick labels, the uppermost with its unit. */
const withUnits = (scale, units) => value => shown(value, 2) + (units !== "1" && value === Math.max(...scale.ticks) ? " " + units : "");

/** Ticks of a scale that changes from linear to logarithmic, at least `gap` pixels apart. */
function symlogTicks(scale, constant, gap) {
  const [low, high] = scale.domain(), found = [0];
  for (let size = 10 ** Math.ceil(Math.log10(constant)); size <= Math.max(high, -low); size *= 10)
    for (const value of [size, 2 * size, 5 * size, -size, -2 * size, -5 * size])
      if (value >= low && value <= high) found.push(value);
  const kept = [];
  for (const value of found.sort((a, b) => (a !== 0) - (b !== 0) || logSteps(a) - logSteps(b)))
    if (kept.every(other => Math.abs(scale(other) - scale(value)) >= gap)) kept.push(value);
  return kept.sort((a, b) => a - b);
}
const logSteps = value => Math.abs(Math.log10(Math.abs(value)) % 1) > 1e-9 ? 1 : 0;
