"use strict";
// The heat map, its filters and the details. Texts reach the page by textContent only.
(() => {
  const $ = (id) => document.getElementById(id);
  const read = (id) => JSON.parse($(id).textContent);

  // The same set stands in safe.rs.
  const HIDDEN = /[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
  const safe = (text) => String(text).replace(HIDDEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  const spaced = (word) => safe(word).replaceAll("_", " ");

  // Makes an element; children are texts or elements.
  function make(name, attributes, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value !== undefined && value !== null && value !== false) element.setAttribute(key, value);
    }
    for (const child of children.flat()) {
      if (child !== undefined && child !== null) element.append(child instanceof Node ? child : safe(child));
    }
    return element;
  }

  theme();
  const data = read("data");
  let loaded; // Details are parsed when the first is asked for.
  const details = () => (loaded ??= read("details-data"));
  const showDetails = $("details") && dialog();
  for (const name of document.querySelectorAll("[data-detail]")) {
    if (!showDetails) break;
    const button = make("button", { type: "button", class: "link" }, name.textContent);
    button.addEventListener("click", () => showDetails.task(Number(name.dataset.detail)));
    name.replaceChildren(button);
  }
  if ($("grid")) grid();

  function theme() {
    const button = $("theme");
    const names = { auto: "as the system", light: "light", dark: "dark" };
    let now = "auto";
    try { now = localStorage.getItem("theme") || now; } catch { /* not from disk in every browser */ }
    const apply = () => {
      if (now === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = now;
      button.textContent = `Theme: ${names[now]}`;
    };
    if (!(now in names)) now = "auto";
    button.hidden = false;
    button.addEventListener("click", () => {
      const all = Object.keys(names);
      now = all[(all.indexOf(now) + 1) % all.length];
      try { localStorage.setItem("theme", now); } catch { /* then it lasts as long as the page */ }
      apply();
    });
    apply();
  }

  // Cells are null, the number of a word, or [word, reason, job, text, detail].
  function cellOf(raw) {
    if (raw === null) return null;
    const [word, reason, job, text, detail] = typeof raw === "number" ? [raw, -1, "", -1, -1] : raw;
    const [name, symbol, group] = data.words[word];
    return {
      name, symbol, job, detail, group: data.groups[group][0],
      reason: data.reasons[reason], text: data.texts[text],
    };
  }

  function grid() {
    const box = $("grid");
    const names = ["Session", "Health", ...data.procedures];
    const rows = data.rows;
    const narrow = data.procedures.length > 12;
    const width = narrow ? "2.2rem" : "minmax(var(--cell, 8.5rem), 1fr)";
    const labels = "minmax(var(--first, 13rem), var(--first, 16rem)) var(--health, 6rem)";
    box.style.setProperty("--columns", `${labels} repeat(${data.procedures.length}, ${width})`);
    box.style.setProperty("--columns-print", `8rem 5.2rem repeat(${data.procedures.length}, minmax(0, 1fr))`);
    box.classList.toggle("narrow", narrow);
    box.setAttribute("aria-colcount", names.length);

    const head = make("div", { role: "row", class: "g-row g-head", "aria-rowindex": 1 });
    const titles = names.map((name, column) => {
      const kind = column === 0 ? "g-first" : column === 1 ? "g-health" : "g-col";
      return make("div", {
        role: "columnheader", class: `g-cell ${kind}`, id: `h-${column}`, "aria-colindex": column + 1,
        "aria-sort": "none", title: `${name}: click to sort`, "data-column": column,
      }, name);
    });
    head.append(...titles);
    const body = make("div", { role: "rowgroup", class: "g-body" });
    box.append(make("div", { role: "rowgroup", class: "g-top" }, head), body);
    // A sticky row must be a child of what scrolls.
    box.firstChild.style.display = "contents";
    const size = head.getBoundingClientRect().height || 28;
    const height = parseFloat(getComputedStyle(document.documentElement).fontSize) * 1.75;

    let order = rows.map((_, number) => number);
    let sorted = { column: 0, down: false };
    let active = { row: 0, column: 0 };
    let filter = { text: "", status: "", procedure: "", band: "" };
    let texts; // What the text filter looks at, made when it is first used.
    const drawn = new Map();

    const bandOf = ([, , complete, of]) =>
      of === 0 ? "none" : complete * 10 >= of * 8 ? "good" : complete * 10 >= of * 4 ? "fair" : "poor";
    const bandSymbols = { good: "●", fair: "◐", poor: "○", none: "–" };
    const wordOf = (raw) => (raw === null ? -1 : typeof raw === "number" ? raw : raw[0]);
    const textOf = (row) => [row[0], row[1], ...row[4].map((raw) => {
      const cell = cellOf(raw);
      return cell ? `${cell.name} ${spaced(cell.reason || "")} ${cell.reason || ""} ${cell.job} ${cell.text || ""}` : "";
    })].join("\n").toLowerCase();

    // Trouble first.
    const rank = { failed: 0, unreadable: 1, blocked: 2, lacking: 3, waiting: 4, ready: 5, flight: 6, complete: 7, out: 8 };
    const ranks = data.words.map(([, , group]) => rank[data.groups[group][0]] * 100);
    function key(row, column) {
      if (column === 1) return row[3] === 0 ? 2 : row[2] / row[3];
      const raw = row[4][column - 2];
      return raw === null ? 1000 : ranks[wordOf(raw)] + wordOf(raw);
    }

    function choose() {
      const wanted = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
      if (wanted.length) texts ??= rows.map(textOf);
      const only = filter.procedure === "" ? -1 : Number(filter.procedure);
      const status = data.words.findIndex(([name]) => name === filter.status);
      order = [];
      rows.forEach((row, number) => {
        if (filter.band && bandOf(row) !== filter.band) return;
        if (wanted.length && !wanted.every((word) => texts[number].includes(word))) return;
        if (filter.status || only >= 0) {
          const cells = only < 0 ? row[4] : [row[4][only]];
          if (!cells.some((raw) => raw !== null && (!filter.status || wordOf(raw) === status))) return;
        }
        order.push(number);
      });
      const { column, down } = sorted;
      if (column > 0) {
        const keys = new Map(order.map((number) => [number, key(rows[number], column)]));
        order.sort((a, b) => keys.get(a) - keys.get(b) || a - b);
      }
      if (down) order.reverse();
      titles.forEach((title, at) => {
        title.setAttribute("aria-sort", at !== column ? "none" : down ? "descending" : "ascending");
        title.textContent = safe(names[at]) + (at !== column ? "" : down ? " ▼" : " ▲");
      });
      box.setAttribute("aria-rowcount", order.length + 1);
      $("shown").textContent = order.length === rows.length
        ? `${rows.length} sessions` : `${order.length} of ${rows.length} sessions`;
      active.row = Math.min(active.row, order.length - 1);
      body.style.height = `${order.length * height}px`;
      body.replaceChildren();
      drawn.clear();
      if (!order.length) {
        body.style.height = "3rem";
        body.append(make("div", { role: "row", class: "g-empty" },
          make("div", { role: "gridcell" }, "No session fits the filter.")));
      }
      draw();
    }

    function draw() {
      const from = Math.max(0, Math.floor(box.scrollTop / height) - 10);
      const to = Math.min(order.length, Math.ceil((box.scrollTop + box.clientHeight) / height) + 10);
      drawRange(from, to);
    }

    function drawRange(from, to) {
      for (const [at, row] of drawn) {
        if (at < from || at >= to) { row.remove(); drawn.delete(at); }
      }
      const fresh = document.createDocumentFragment();
      for (let at = from; at < to; at++) {
        if (drawn.has(at)) continue;
        const row = rowElement(at);
        drawn.set(at, row);
        fresh.append(row);
      }
      body.append(fresh);
      mark();
    }

    function rowElement(at) {
      const row = rows[order[at]];
      const element = make("div", { role: "row", class: "g-row", "aria-rowindex": at + 2, "data-row": at });
      element.style.transform = `translateY(${at * height}px)`;
      const id = (column) => ({ id: `c-${at}-${column}`, "aria-colindex": column + 1, "data-column": column });
      element.append(
        make("div", { role: "rowheader", class: "g-cell g-first", ...id(0) }, `${row[0]} ${row[1]}`.trim()),
        make("div", { role: "gridcell", class: "g-cell g-health", ...id(1), "aria-label": `${bandOf(row)}, ${row[2]} of ${row[3]} complete` },
          `${bandSymbols[bandOf(row)]} ${row[2]}/${row[3]} `, make("b", null, bandOf(row))));
      row[4].forEach((raw, index) => {
        const cell = cellOf(raw);
        const column = index + 2;
        if (!cell) {
          element.append(make("div", { role: "gridcell", class: "g-cell g-col g-none", ...id(column), "aria-label": "no task" }));
          return;
        }
        const says = cell.reason ? `${spaced(cell.name)}: ${spaced(cell.reason)}` : spaced(cell.name);
        const isReason = cell.group === "failed" || cell.reason === "awaiting_output";
        const word = isReason && cell.reason ? spaced(cell.reason) : spaced(cell.name);
        const dim = (filter.status && cell.name !== filter.status) || (filter.procedure !== "" && Number(filter.procedure) !== index);
        element.append(make("div", {
          role: "gridcell", class: `g-cell g-col g-${cell.group}${dim ? " g-dim" : ""}`, ...id(column),
          "aria-label": says, title: `${names[column]}: ${cell.text || says}`,
        }, narrow ? cell.symbol : `${cell.symbol} ${word}`));
      });
      return element;
    }

    function mark() {
      box.querySelector(".g-active")?.classList.remove("g-active");
      const id = active.row < 0 ? `h-${active.column}` : `c-${active.row}-${active.column}`;
      const cell = $(id);
      if (cell) {
        cell.classList.add("g-active");
        box.setAttribute("aria-activedescendant", id);
      } else box.removeAttribute("aria-activedescendant");
    }

    function move(row, column) {
      active = {
        row: Math.max(-1, Math.min(order.length - 1, row)),
        column: Math.max(0, Math.min(names.length - 1, column)),
      };
      if (active.row >= 0) {
        const top = active.row * height;
        const seen = box.clientHeight - size;
        if (top < box.scrollTop) box.scrollTop = top;
        else if (top + height > box.scrollTop + seen) box.scrollTop = top + height - seen;
      }
      draw();
      const cell = box.querySelector(".g-active");
      if (cell && active.column > 0) {
        const first = titles[0].getBoundingClientRect().right;
        const { left, right } = cell.getBoundingClientRect();
        const edge = box.getBoundingClientRect().left + box.clientWidth;
        if (left < first) box.scrollLeft -= first - left;
        else if (right > edge) box.scrollLeft += right - edge;
      } else if (active.column === 0) box.scrollLeft = 0;
    }

    function act() {
      if (active.row < 0) sortBy(active.column);
      else if (order.length) {
        const row = rows[order[active.row]];
        const procedure = active.column - 2;
        if (procedure < 0) showDetails.session(row);
        else if (row[4][procedure] !== null) showDetails.cell(row, procedure);
      }
    }

    function sortBy(column) {
      sorted = { column, down: sorted.column === column && !sorted.down };
      box.scrollTop = 0;
      choose();
    }

    box.addEventListener("keydown", (event) => {
      if (event.altKey || event.metaKey) return;
      const page = Math.max(1, Math.floor((box.clientHeight - size) / height) - 1);
      const { row, column } = active;
      const steps = {
        ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
        PageUp: [Math.max(0, row - page), column], PageDown: [row + page, column],
        Home: [event.ctrlKey ? 0 : row, 0], End: [event.ctrlKey ? order.length - 1 : row, names.length - 1],
      };
      if (event.key in steps) move(...steps[event.key]);
      else if (event.key === "Enter" || event.key === " ") act();
      else return;
      event.preventDefault();
    });
    box.addEventListener("click", (event) => {
      const cell = event.target.closest("[data-column]");
      if (!cell) return;
      const row = cell.closest("[data-row]");
      active = { row: row ? Number(row.dataset.row) : -1, column: Number(cell.dataset.column) };
      mark();
      act();
    });
    let waiting = false;
    box.addEventListener("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; draw(); });
    }, { passive: true });
    new ResizeObserver(draw).observe(box);

    const form = $("filters");
    const changed = () => {
      filter = { text: $("text").value, status: $("status").value, procedure: $("procedure").value, band: $("band").value };
      box.scrollTop = 0;
      choose();
    };
    let soon;
    form.addEventListener("input", () => { clearTimeout(soon); soon = setTimeout(changed, 80); });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(changed));

    // A printer gets what the filter lets through, up to a bound.
    const PRINTED = 300;
    addEventListener("beforeprint", () => {
      const more = $("print-more");
      more.hidden = order.length <= PRINTED;
      more.textContent = `${order.length - PRINTED} more sessions are not printed; a filter chooses which are.`;
      body.style.height = "auto";
      drawn.forEach((row) => row.remove());
      drawn.clear();
      drawRange(0, Math.min(order.length, PRINTED));
    });
    addEventListener("afterprint", () => { $("print-more").hidden = true; choose(); });
    choose();
  }

  function dialog() {
    const box = $("details");
    const path = (short, own) => {
      const at = short.indexOf(":");
      const rest = short.slice(at + 1);
      const number = short.slice(0, at);
      if (number === "-") return rest;
      return (data.roots[Number(number)] ?? own) + rest;
    };
    const facts = (pairs) => make("dl", null, pairs.filter(([, value]) => value).flatMap(([name, value]) => [
      make("dt", null, name), make("dd", null, value),
    ]));
    const chip = (cell) => make("span", null,
      make("span", { class: `chip g-${cell.group}`, "aria-hidden": "true" }, cell.symbol),
      cell.reason ? `${spaced(cell.name)} (${spaced(cell.reason)})` : spaced(cell.name));
    const code = (text) => make("code", null, text);
    const seconds = (s) => {
      const two = (n) => String(n).padStart(2, "0");
      const day = Math.floor(s / 86400);
      return `${day ? `${day}-` : ""}${two(Math.floor(s / 3600) % 24)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
    };
    const memory = (mb) => (mb < 1024 ? `${mb} MB` : `${(mb / 1024).toFixed(1)} GB`);
    const of = (used, asked, show) => {
      if (used === undefined && asked === undefined) return "";
      const text = (value) => (value === undefined ? "?" : show(value));
      return `${text(used)} of ${text(asked)}`;
    };
    const symbols = { found: "✓", missing: "✕", excused: "–", forbidden: "⊘", unreadable: "?" };

    function show(title, ...content) {
      $("details-title").textContent = safe(title);
      $("details-body").replaceChildren(...content.flat().filter(Boolean));
      if (!box.open) box.showModal();
      box.scrollTop = 0;
      for (const log of box.querySelectorAll("pre")) log.scrollTop = log.scrollHeight;
      $("details-title").focus();
    }

    function cell(row, procedure) {
      const found = cellOf(row[4][procedure]);
      if (found.detail >= 0) return task(found.detail, found);
      show(`${data.procedures[procedure]} · ${row[0]} ${row[1]}`, facts([
        ["Status", chip(found)], ["Why", found.text], ["Job", found.job],
      ]));
    }

    function task(number, known) {
      const { texts, markers, tasks } = details();
      const it = tasks[number];
      // Texts that tasks share have letters where the names of the task belong.
      const names = { "%": "%", s: it.subject, e: it.session, j: it.job?.job_id };
      const text = (at) => texts[at].replace(/%(.)/gs, (_, letter) => names[letter]);
      const own = path(text(it.dir));
      const found = known || cellOf([it.word, -1, "", -1, number]);
      if (!found.reason) found.reason = it.reason;
      const job = it.job || {};
      const parts = [facts([
        ["Status", chip(found)], ["Why", text(it.text)], ["Outputs", code(own)],
      ])];
      if (it.job) {
        parts.push(make("h3", null, "Newest job"), facts([
          ["Job", job.job_id], ["Attempt", job.attempt], ["Status", job.status], ["Slurm's state", job.slurm_state],
          ["Exit code", [job.exit_code, job.failure].filter(Boolean).join(": ")],
          ["Node", job.node_list], ["Time", of(job.elapsed_s, job.time_limit_s, seconds)],
          ["Memory", of(job.max_rss_mb, job.req_mem_mb, memory)],
          ["Submitted", job.submitted_at], ["Started", job.started_at], ["Ended", job.ended_at],
          ["Output", job.output !== undefined && code(path(text(job.output)))], ["Errors", job.error !== undefined && code(path(text(job.error)))],
        ]));
      }
      if (it.findings) {
        parts.push(make("h3", null, "Known errors in the log"), ...it.findings.map(([pattern, line, file, at]) =>
          make("div", null, make("strong", null, spaced(pattern)), " ", code(`${path(text(file), own)}${at ? `:${at}` : ""}`), make("pre", null, line))));
      }
      if (it.tail) {
        parts.push(make("h3", null, it.tail_cut ? "End of the log (cut here; the file has more)" : "End of the log"),
          make("pre", { tabindex: 0, "aria-label": "End of the log" }, it.tail.map(safe).map((line) => [document.createTextNode(`${line}\n`)]).flat()));
      }
      if (it.markers !== undefined) {
        parts.push(make("h3", null, "Markers"), make("table", null,
          make("caption", null, "What makes the outputs complete"),
          make("thead", null, make("tr", null, ["Marker", "State", "Where"].map((t) => make("th", { scope: "col" }, t)))),
          make("tbody", null, markers[it.markers].map(([marker, state, where, note]) => make("tr", null,
            make("th", { scope: "row" }, code(text(marker))),
            make("td", { class: `marker-${state}` }, `${symbols[state] || ""} ${state}`),
            make("td", { class: "c" }, where === null ? "" : path(text(where), own), note === null ? "" : ` (${text(note)})`))))));
      }
      show(`${text(it.procedure)} · ${it.subject} ${it.session || ""}`.trim(), parts);
    }

    function session(row) {
      const list = row[4].map((raw, at) => {
        const found = cellOf(raw);
        if (!found) return null;
        const button = make("button", { type: "button", class: "link" }, data.procedures[at]);
        button.addEventListener("click", () => cell(row, at));
        return make("tr", null, make("th", { scope: "row" }, button), make("td", null, chip(found)), make("td", null, found.text || ""));
      });
      show(`${row[0]} ${row[1]}`.trim(),
        make("p", null, `${row[2]} of ${row[3]} procedures complete.`),
        make("table", null,
          make("caption", null, "Procedures of this session"),
          make("thead", null, make("tr", null, ["Procedure", "Status", "Why"].map((t) => make("th", { scope: "col" }, t)))),
          make("tbody", null, list)));
    }

    $("close").addEventListener("click", () => box.close());
    box.addEventListener("click", (event) => { if (event.target === box) box.close(); });
    return { cell, task, session };
  }
})();
