"use strict";
// Paints rows of runs, each text put in as text, never as markup; sends the names of keys.
const SILENT = 12000; // milliseconds without a sign of life: what is shown may be the past
const AGAIN = 2000;
const SEAT = "cockpit-seat"; // kept by this tab for this port alone; a cookie reaches every port
const KEYS = new Set(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Enter", "Escape", "Tab",
  "Backspace", "Delete", "Home", "End", "PageUp", "PageDown", "F1"]);
const screen_ = document.getElementById("screen");
const trouble = document.getElementById("trouble");
let socket = null;
let heard = Date.now();
let columns = 0;
let refused = "";

function complain(words) {
  trouble.textContent = words;
  trouble.hidden = !words;
  screen_.classList.toggle("old", Boolean(words));
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

function fit() {
  if (!columns || !screen_.children.length) return;
  screen_.style.fontSize = "20px";
  const first = screen_.children[0].getBoundingClientRect();
  const across = window.innerWidth / screen_.scrollWidth;
  const down = window.innerHeight / (first.height * screen_.children.length);
  screen_.style.fontSize = `${Math.floor(20 * Math.min(across, down) * 20) / 20}px`;
}

function paint(news) {
  document.body.style.backgroundColor = news.ground;
  screen_.style.color = news.ink;
  while (screen_.children.length > news.height) screen_.lastChild.remove();
  let grown = false;
  while (screen_.children.length < news.height) {
    const row = document.createElement("div");
    row.className = "row";
    screen_.append(row);
    grown = true;
  }
  for (const [place, runs] of Object.entries(news.rows)) {
    paintRow(screen_.children[place], runs);
    columns = Math.max(columns, runs.reduce((sum, run) => sum + run[1], 0));
  }
  if (grown) fit();
}

function connect() {
  socket = new WebSocket(`ws://${location.host}/frames`);
  socket.onopen = () => {
    const link = location.hash.slice(1);
    socket.send(link ? `link ${link}` : sessionStorage.getItem(SEAT) || "none");
  };
  socket.onmessage = (event) => {
    heard = Date.now();
    const news = JSON.parse(event.data);
    refused = news.refused || "";
    complain(refused);
    if (news.rows) paint(news);
    if (news.seat) {
      sessionStorage.setItem(SEAT, news.seat);
      history.replaceState(null, "", "/"); // the link is used up: a reload takes the seat
    }
  };
  socket.onclose = () => {
    if (refused) return;
    complain("Not connected to the cockpit: what stands here is the past. Trying again.");
    setTimeout(connect, AGAIN);
  };
}

window.addEventListener("hashchange", () => {
  if (!location.hash) return;
  refused = ""; // another link was put into this tab
  if (socket.readyState === WebSocket.CLOSED) connect();
  else socket.close();
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
  if (!KEYS.has(event.key) && [...event.key].length !== 1) return;
  event.preventDefault();
  if (socket.readyState === WebSocket.OPEN) socket.send(event.key);
});
window.addEventListener("resize", fit);
setInterval(() => {
  const silent = Date.now() - heard;
  if (socket.readyState === WebSocket.OPEN && silent > SILENT) {
    complain(`No word from the cockpit for ${Math.round(silent / 1000)} s: this may be the past.`);
  }
}, 3000);
connect();
