"use strict";
// Paints rows of runs, each text put in as text, never as markup; sends the names of keys, the
// cells of its window, and the cell that was tapped.
const SILENT = 12000; // milliseconds without a sign of life: what is shown may be the past
const AGAIN = 2000;
const SETTLED = 120; // milliseconds for which a window must have had its size
const TURN = 40; // pixels that a finger must have moved to turn a page
const SMALLEST = 11; // pixels of text that can still be read
const USUAL = 16;
const ROOMY = [80, 24]; // columns and rows for which text may become smaller than usual
const TALL = 1.16; // a row, in heights of its text: as in view.css
const SEAT = `cockpit-seat ${location.pathname}`; // kept by this tab alone; a cookie reaches every port
const KEYS = new Set(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Enter", "Escape", "Tab",
  "Backspace", "Delete", "Home", "End", "PageUp", "PageDown", "F1"]);
const ALWAYS = [["Escape", "✕"], ["ArrowUp", "▲"], ["ArrowDown", "▼"], ["Enter", "⏎"]];
const screen_ = document.getElementById("screen");
const room = document.getElementById("room");
const bar = document.getElementById("keys");
const typed = document.getElementById("typed");
const trouble = document.getElementById("trouble");
const icon = document.querySelector("link[rel=icon]");
let socket = null;
let heard = Date.now();
let begun = heard; // when the present connection was asked for
let shown = { width: 0, height: 0, critical: null };
let told = ""; // the size that the cockpit knows of this window
let refused = "";

function say(word) {
  if (socket.readyState === WebSocket.OPEN) socket.send(word);
}

function complain(words) {
  trouble.textContent = words;
  trouble.hidden = !words;
  screen_.classList.toggle("old", Boolean(words));
  title();
}

function title() {
  // What cannot be known now is a question mark: a number would be the past's.
  const known = trouble.hidden && shown.critical !== null;
  const mark = !known ? "?" : shown.critical ? String(shown.critical) : "";
  document.title = !known ? "? cockpit · not up to date"
    : shown.critical ? `${shown.critical} critical · cockpit` : "cockpit · read-only";
  const fill = known ? "#c4303f" : "#6b7280";
  const drawn = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="16" fill="${fill}"/>` +
    `<text x="16" y="23" font-family="sans-serif" font-size="20" font-weight="bold" fill="#fff" text-anchor="middle">${mark}</text></svg>`;
  const href = mark ? `data:image/svg+xml,${encodeURIComponent(drawn)}` : "data:,";
  if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
}

function cells(text) {
  // Plain text keeps its cells by itself; every other sign stands in a box of its own, so that a
  // font that lacks it moves nothing.
  return text.match(/[\x20-\x7e]+|./gsu) || [];
}

function wide(sign) {
  const code = sign.codePointAt(0);
  return (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf) ||
    (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) ||
    (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60) ||
    (code >= 0xffe0 && code <= 0xffe6) || (code >= 0x1f300 && code <= 0x1faff);
}

function box(text, width, [ink, ground, marks]) {
  const span = document.createElement("span");
  span.textContent = text;
  span.style.width = `${width}ch`;
  span.style.color = ink;
  span.style.backgroundColor = ground;
  if (marks.includes("b")) span.style.fontWeight = "bold";
  if (marks.includes("i")) span.style.fontStyle = "italic";
  const lines = [marks.includes("u") ? "underline" : "", marks.includes("s") ? "line-through" : ""];
  if (lines.join("")) span.style.textDecorationLine = lines.join(" ").trim();
  return span;
}

function paintRow(row, runs) {
  const boxes = [];
  for (const [text, width, ...look] of runs) {
    const parts = cells(text);
    if (parts.length === 1) {
      boxes.push(box(text, width, look));
      continue;
    }
    for (const part of parts) {
      const plain = /^[\x20-\x7e]/.test(part);
      boxes.push(box(part, plain ? part.length : wide(part) ? 2 : 1, look));
    }
  }
  row.replaceChildren(...boxes);
}

function broad() {
  // The width of a cell, in heights of its text.
  const probe = document.createElement("span");
  probe.style.cssText = "position:absolute;visibility:hidden;font-size:100px;width:10ch";
  screen_.append(probe);
  const found = probe.getBoundingClientRect().width / 1000;
  probe.remove();
  return found || 0.6;
}

function cut() {
  // The text and the cells for this window: as large as usual where that leaves room enough, and
  // never so small that it cannot be read.
  const wide_ = broad();
  const { offsetWidth: across, offsetHeight: down } = room; // with the bars of what is scrolled still
  const roomy = Math.min(across / (ROOMY[0] * wide_), down / (ROOMY[1] * TALL));
  const text = Math.floor(Math.max(SMALLEST, Math.min(USUAL, roomy)) * 20) / 20;
  return { text, columns: Math.floor(across / (text * wide_)), rows: Math.floor(down / (text * TALL)) };
}

function fit() {
  // The window of somebody else, or a fixed size, is scaled; it scrolls where it would be too small.
  if (!shown.width || !shown.height) return;
  const own = cut();
  const same = shown.width === own.columns && shown.height === own.rows;
  const scaled = Math.min(room.offsetWidth / (shown.width * broad()), room.offsetHeight / (shown.height * TALL));
  const text = same ? own.text : Math.max(SMALLEST, Math.floor(scaled * 20) / 20);
  screen_.style.fontSize = `${text}px`;
  screen_.style.width = `${shown.width}ch`;
  room.classList.toggle("-scrolls", !same && scaled < SMALLEST);
}

function tell() {
  const { columns, rows } = cut();
  const size = `size ${Math.min(columns, 9999)}x${Math.min(rows, 9999)}`;
  if (size !== told && columns > 0 && rows > 0 && socket.readyState === WebSocket.OPEN) {
    told = size;
    say(size);
  }
}

function resized() {
  // An open keyboard covers a part of the page on some phones, and makes it smaller on others.
  const seen = window.visualViewport;
  if (seen && seen.scale > 1.01) return; // enlarged with two fingers: the page has not changed
  if (seen) {
    document.body.style.height = `${seen.height}px`;
    document.body.style.top = `${seen.offsetTop}px`;
  }
  fit();
  clearTimeout(resized.later);
  resized.later = setTimeout(tell, SETTLED);
}

function offer(keys) {
  const wanted = [...ALWAYS, ...keys.filter(([key]) => key !== "esc" && key !== "enter"), ["", "⌨"]];
  const form = JSON.stringify(wanted);
  if (offer.form === form) return;
  offer.form = form;
  bar.replaceChildren(...wanted.map(([key, words]) => {
    const button = document.createElement("button");
    button.textContent = words;
    button.title = key || "keyboard";
    button.tabIndex = -1;
    button.addEventListener("pointerdown", (event) => event.preventDefault()); // keeps a keyboard open
    button.addEventListener("click", () => (key ? say(key) : type()));
    return button;
  }));
}

function paint(news) {
  document.body.style.backgroundColor = news.ground;
  screen_.style.color = bar.style.color = news.ink;
  while (screen_.children.length > news.height) screen_.lastChild.remove();
  while (screen_.children.length < news.height) {
    const row = document.createElement("div");
    row.className = "row";
    screen_.append(row);
  }
  for (const [place, runs] of Object.entries(news.rows)) paintRow(screen_.children[place], runs);
  const other = news.width !== shown.width || news.height !== shown.height;
  shown = news;
  offer(news.keys);
  if (other) fit();
  title();
}

function connect() {
  told = "";
  begun = Date.now();
  const own = socket = new WebSocket(new URL("frames", location.href).href.replace(/^http/, "ws"));
  own.onopen = () => {
    const link = location.hash.slice(1);
    own.send(link ? `link ${link}` : sessionStorage.getItem(SEAT) || "none");
  };
  own.onmessage = (event) => {
    if (own !== socket) return;
    heard = Date.now();
    const news = JSON.parse(event.data);
    refused = news.refused || "";
    complain(refused);
    if (news.rows) paint(news);
    if (news.seat) {
      sessionStorage.setItem(SEAT, news.seat);
      history.replaceState(null, "", location.pathname); // the link is used up: a reload takes the seat
      tell();
    }
  };
  own.onclose = () => {
    if (refused || own !== socket) return;
    complain("Not connected to the cockpit: what stands here is the past. Trying again.");
    clearTimeout(connect.later);
    connect.later = setTimeout(connect, AGAIN);
  };
}

function look() {
  // A phone that changes its network, or sleeps, hears nothing of the end of a connection.
  const silent = Date.now() - heard;
  if (refused || silent <= SILENT) return;
  complain(`No word from the cockpit for ${Math.round(silent / 1000)} s: this may be the past.`);
  if (socket.readyState <= WebSocket.OPEN && Date.now() - begun > SILENT) {
    socket.close();
    connect();
  }
}

// A phone's keyboard writes into a line of its own, and may change there what it wrote before.
const START = "·";
let before = START;
typed.value = START;
function type() {
  if (document.activeElement === typed) typed.blur();
  else typed.focus({ preventScroll: true });
}
typed.addEventListener("input", (event) => {
  const now = [...typed.value];
  const former = [...before];
  let same = 0;
  while (same < now.length && now[same] === former[same]) same += 1;
  for (let gone = former.length; gone > same; gone -= 1) say("Backspace");
  for (const letter of now.slice(same)) say(letter);
  if (!event.isComposing || !now.length) typed.value = START;
  before = typed.value;
});
typed.addEventListener("compositionend", () => {
  typed.value = before = START;
});

window.addEventListener("hashchange", () => {
  if (!location.hash) return;
  refused = ""; // another link was put into this tab
  if (socket.readyState === WebSocket.CLOSED) connect();
  else socket.close();
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.keyCode === 229) return;
  if (!KEYS.has(event.key) && [...event.key].length !== 1) return;
  event.preventDefault();
  say(event.key);
});
screen_.addEventListener("click", (event) => {
  if (String(getSelection())) return; // text was selected, to be copied
  const { left, top, width, height } = screen_.getBoundingClientRect();
  const column = Math.floor((event.clientX - left) / width * shown.width);
  const row = Math.floor((event.clientY - top) / height * shown.height);
  if (column >= 0 && row >= 0) say(`tap ${column}x${row}`);
});
let touched = null;
room.addEventListener("touchstart", (event) => {
  const [finger] = event.touches;
  touched = event.touches.length === 1 ? [finger.clientX, finger.clientY] : null;
}, { passive: true });
room.addEventListener("touchend", (event) => {
  if (!touched || room.classList.contains("-scrolls")) return;
  const [finger] = event.changedTouches;
  const [across, down] = [finger.clientX - touched[0], finger.clientY - touched[1]];
  touched = null;
  if (Math.abs(down) > TURN && Math.abs(down) > 2 * Math.abs(across)) say(down < 0 ? "PageDown" : "PageUp");
}, { passive: true });
window.addEventListener("resize", resized);
if (window.visualViewport) {
  window.visualViewport.addEventListener("resize", resized);
  window.visualViewport.addEventListener("scroll", resized);
}
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState !== "visible") return;
  if (socket.readyState === WebSocket.CLOSED && !refused) connect();
  look();
});
setInterval(look, 3000);
resized();
connect();
