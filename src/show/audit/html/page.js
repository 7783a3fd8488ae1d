"use strict";
// The heat map, its filters and the details. Texts reach the page by textContent only.
(async () => {
  const $ = (id) => document.getElementById(id);
  const unpacked = (element) => {
    const bytes = Uint8Array.from(atob(element.textContent), (c) => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  };

  // The same set is in html.rs.
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
  // Details are unpacked in parts of 1000 tasks, when the first of them is opened.
  const TOGETHER = 1000;
  const packed = [...document.querySelectorAll(".details-data")];
  const loaded = [];
  const detail = async (number) => {
    const part = Math.floor(number / TOGETHER);
    return (await (loaded[part] ??= unpacked(packed[part])))[number % TOGETHER];
  };
  const { words, matrix } = await unpacked($("data"));
  const order = Object.keys(words);
  const symbolOf = (word) => words[word][0];
  const groupOf = (word) => words[word][1];
  const nameOf = ({ subject, session }) => `${subject} ${session}`.trim();
  const anchorOf = ({ subject, session, procedure }) => [subject, session, procedure].filter(Boolean).join("_");
  const wordsOf = (cell) => (cell.reason ? `${spaced(cell.decision)} (${spaced(cell.reason)})` : spaced(cell.decision));

  const showDetails = dialog();
  for (const row of document.querySelectorAll("[data-detail]")) {
    const [name, ...others] = row.cells;
    const label = [name, ...others.slice(0, 2)].map((cell) => cell.textContent).join(" ");
    const button = make("button", { type: "button", class: "link", "aria-label": label }, name.textContent);
    button.addEventListener("click", () => showDetails.task(Number(row.dataset.detail)));
    name.replaceChildren(button);
  }
  if ($("grid")) grid();
  addEventListener("hashchange", follow);
  follow();

  // A link such as #sub-01_ses-01_fmriprep unfolds the task and opens its details.
  function follow() {
    let id = location.hash.slice(1);
    try { id = decodeURIComponent(id); } catch { /* not an anchor of this page */ }
    const place = $(id);
    if (place?.matches("#close, #link, dialog *")) return;
    for (let fold = place?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    place?.scrollIntoView({ block: "center" });
    if (!id || (place && !place.dataset.detail)) return;
    if (place) return showDetails.task(Number(place.dataset.detail));
    for (const row of matrix.sessions) {
      const at = matrix.procedures.findIndex((name) => id === anchorOf({ ...row, procedure: name })
        || id === anchorOf({ subject: row.subject, procedure: name }));
      if (at >= 0 && row.cells[at]) return showDetails.cell(row, at);
    }
  }

  function theme() {
    const button = $("theme");
    const names = { auto: "system", light: "light", dark: "dark" };
    let now = "auto";
    try { now = localStorage.getItem("theme") || now; } catch { /* some browsers forbid it for pages from disk */ }
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
      try { localStorage.setItem("theme", now); } catch { /* then the choice lasts until the page is closed */ }
      apply();
    });
    apply();
  }

  function grid() {
    const box = $("grid");
    const names = ["Session", "Health", ...matrix.procedures];
    const rows = matrix.sessions;
    const count = matrix.procedures.length;
    const narrow = count > 12;
    const width = narrow ? "2.2rem" : "minmax(var(--cell, 8.5rem), 1fr)";
    const labels = "minmax(var(--first, 13rem), var(--first, 16rem)) var(--health, 6rem)";
    box.style.setProperty("--columns", `${labels} repeat(${count}, ${width})`);
    box.style.setProperty("--columns-print", `8rem 5.2rem repeat(${count}, minmax(0, 1fr))`);
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
    // A sticky row must be a child of the scrolling element.
    box.firstChild.style.display = "contents";
    const size = head.getBoundingClientRect().height || 28;
    const height = parseFloat(getComputedStyle(document.documentElement).fontSize) * 1.75;

    let shown = rows.map((_, number) => number);
    let sorted = { column: 0, down: false };
    let active = { row: 0, column: 0 };
    let filter = { text: "", status: "", procedure: "", band: "" };
    let texts; // Texts for the text filter, built on first use.
    const drawn = new Map();

    const bandOf = (row) => row.health?.band ?? "none";
    const bandSymbols = { good: "●", fair: "◐", poor: "○", none: "–" };
    const textOf = (row) => [nameOf(row), ...row.cells.map((cell) => (cell
      ? `${wordsOf(cell)} ${cell.reason ?? ""} ${cell.job_id ?? ""} ${cell.text ?? ""}` : ""))].join("\n").toLowerCase();

    // Trouble first.
    const rank = ["failed", "unreadable", "blocked", "lacking", "waiting", "ready", "flight", "complete", "out"];
    function key(row, column) {
      if (column === 1) return row.health?.share ?? 2;
      const word = row.cells[column - 2]?.decision;
      return word ? rank.indexOf(groupOf(word)) * 100 + order.indexOf(word) : 1000;
    }

    function choose() {
      const wanted = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
      if (wanted.length) texts ??= rows.map(textOf);
      const only = filter.procedure === "" ? -1 : Number(filter.procedure);
      shown = [];
      rows.forEach((row, number) => {
        if (filter.band && bandOf(row) !== filter.band) return;
        if (wanted.length && !wanted.every((word) => texts[number].includes(word))) return;
        if (filter.status || only >= 0) {
          const cells = only < 0 ? row.cells : [row.cells[only]];
          if (!cells.some((cell) => cell && (!filter.status || cell.decision === filter.status))) return;
        }
        shown.push(number);
      });
      const { column, down } = sorted;
      if (column > 0) {
        const keys = new Map(shown.map((number) => [number, key(rows[number], column)]));
        shown.sort((a, b) => keys.get(a) - keys.get(b) || a - b);
      }
      if (down) shown.reverse();
      titles.forEach((title, at) => {
        title.setAttribute("aria-sort", at !== column ? "none" : down ? "descending" : "ascending");
        title.textContent = safe(names[at]) + (at !== column ? "" : down ? " ▼" : " ▲");
      });
      box.setAttribute("aria-rowcount", shown.length + 1);
      $("shown").textContent = shown.length === rows.length
        ? `${rows.length} sessions` : `${shown.length} of ${rows.length} sessions`;
      active.row = Math.min(active.row, shown.length - 1);
      body.style.height = `${shown.length * height}px`;
      body.replaceChildren();
      drawn.clear();
      if (!shown.length) {
        body.style.height = "3rem";
        body.append(make("div", { role: "row", class: "g-empty" },
          make("div", { role: "gridcell" }, "No session matches the filter.")));
      }
      draw();
    }

    function draw() {
      const from = Math.max(0, Math.floor(box.scrollTop / height) - 10);
      const to = Math.min(shown.length, Math.ceil((box.scrollTop + box.clientHeight) / height) + 10);
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
      const row = rows[shown[at]];
      const element = make("div", { role: "row", class: "g-row", "aria-rowindex": at + 2, "data-row": at });
      element.style.transform = `translateY(${at * height}px)`;
      const id = (column) => ({ id: `c-${at}-${column}`, "aria-colindex": column + 1, "data-column": column });
      const band = bandOf(row);
      const { complete, of } = row.health ?? { complete: 0, of: 0 };
      element.append(
        make("div", { role: "rowheader", class: "g-cell g-first", ...id(0) }, nameOf(row)),
        make("div", { role: "gridcell", class: "g-cell g-health", ...id(1), "aria-label": `${band}, ${complete} of ${of} complete` },
          `${bandSymbols[band]} ${complete}/${of} `, make("b", null, band)));
      row.cells.forEach((cell, index) => {
        const column = index + 2;
        if (!cell) {
          element.append(make("div", { role: "gridcell", class: "g-cell g-col g-none", ...id(column), "aria-label": "no task" }));
          return;
        }
        const { decision, reason } = cell;
        const label = reason ? `${spaced(decision)}: ${spaced(reason)}` : spaced(decision);
        const word = spaced(reason && (decision === "failed" || reason === "awaiting_output") ? reason : decision);
        const dim = (filter.status && decision !== filter.status) || (filter.procedure !== "" && Number(filter.procedure) !== index);
        element.append(make("div", {
          role: "gridcell", class: `g-cell g-col g-${groupOf(decision)}${dim ? " g-dim" : ""}`, ...id(column),
          "aria-label": label, title: `${names[column]}: ${cell.text || label}`,
        }, narrow ? symbolOf(decision) : `${symbolOf(decision)} ${word}`));
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
        row: Math.max(-1, Math.min(shown.length - 1, row)),
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
      else if (shown.length) {
        const row = rows[shown[active.row]];
        const procedure = active.column - 2;
        if (procedure < 0) showDetails.session(row);
        else if (row.cells[procedure]) showDetails.cell(row, procedure);
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
        Home: [event.ctrlKey ? 0 : row, 0], End: [event.ctrlKey ? shown.length - 1 : row, names.length - 1],
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

    // Prints the filtered sessions, up to a limit.
    const PRINTED = 300;
    addEventListener("beforeprint", () => {
      const more = $("print-more");
      more.hidden = shown.length <= PRINTED;
      more.textContent = `${shown.length - PRINTED} more sessions are not printed; use the filter to choose.`;
      body.style.height = "auto";
      drawn.forEach((row) => row.remove());
      drawn.clear();
      drawRange(0, Math.min(shown.length, PRINTED));
    });
    addEventListener("afterprint", () => { $("print-more").hidden = true; choose(); });
    choose();
  }

  function dialog() {
    const box = $("details");
    const facts = (pairs) => make("dl", null, pairs.filter(([, value]) => value).flatMap(([name, value]) => [
      make("dt", null, name), make("dd", null, value),
    ]));
    const chip = (cell) => make("span", null,
      make("span", { class: `chip g-${groupOf(cell.decision)}`, "aria-hidden": "true" }, symbolOf(cell.decision)), wordsOf(cell));
    const code = (text) => make("code", null, text);
    const seconds = (s) => {
      const two = (n) => String(n).padStart(2, "0");
      const day = Math.floor(s / 86400);
      return `${day ? `${day}-` : ""}${two(Math.floor(s / 3600) % 24)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
    };
    const memory = (mb) => (mb < 1024 ? `${mb} MB` : `${(mb / 1024).toFixed(1)} GB`);
    const of = (used, asked, show) => {
      if (used === null && asked === null) return "";
      const text = (value) => (value === null ? "?" : show(value));
      return `${text(used)} of ${text(asked)}`;
    };
    const symbols = { found: "✓", missing: "✕", excused: "–", forbidden: "⊘", unreadable: "?" };

    function show(title, anchor, ...content) {
      $("details-title").textContent = safe(title);
      $("link").hidden = !anchor;
      if (anchor) {
        $("link").href = `#${encodeURIComponent(anchor)}`;
        history.replaceState(null, "", $("link").href);
      }
      $("details-body").replaceChildren(...content.flat().filter(Boolean));
      if (!box.open) box.showModal();
      box.scrollTop = 0;
      for (const log of box.querySelectorAll("pre")) log.scrollTop = log.scrollHeight;
      $("details-title").focus();
    }

    function cell(row, procedure) {
      const it = row.cells[procedure];
      if (it.detail !== undefined) return task(it.detail);
      const anchor = anchorOf({ ...row, procedure: matrix.procedures[procedure] });
      show(`${matrix.procedures[procedure]} · ${nameOf(row)}`, anchor, facts([
        ["Status", chip(it)], ["Explanation", it.text], ["Job", it.job_id],
      ]));
    }

    async function task(number) {
      const it = await detail(number);
      const { job } = it;
      const parts = [facts([
        ["Status", chip(it)], ["Explanation", it.text], ["Outputs", code(it.output_dir)],
      ])];
      if (job) {
        parts.push(make("h3", null, "Newest job"), facts([
          ["Job", job.job_id], ["Attempt", job.attempt], ["Status", job.status], ["Slurm state", job.slurm_state],
          ["Exit code", [job.exit_code, job.failure].filter(Boolean).join(": ")],
          ["Node", job.node_list], ["Time", of(job.elapsed_s, job.time_limit_s, seconds)],
          ["Memory", of(job.max_rss_mb, job.req_mem_mb, memory)],
          ["Submitted", job.submitted_at], ["Started", job.started_at], ["Ended", job.ended_at],
          ["Output", job.output && code(job.output)], ["Errors", job.error && code(job.error)],
        ]));
      }
      if (it.findings.length) {
        parts.push(make("h3", null, "Known errors in the log"), ...it.findings.map(({ pattern, line, file, line_number: at }) =>
          make("div", null, make("strong", null, spaced(pattern)), " ", code(`${file}${at ? `:${at}` : ""}`), make("pre", null, line))));
      }
      if (it.log_tail.length) {
        parts.push(make("h3", null, "End of the log"), make("pre", { tabindex: 0, "aria-label": "End of the log" },
          document.createTextNode(it.log_tail.map(safe).join("\n"))));
      }
      if (it.markers.length) {
        parts.push(make("h3", null, "Markers"), table("Requirements for complete outputs", ["Marker", "State", "Path"],
          it.markers.map(({ marker, state, path, note }) => make("tr", null,
            make("th", { scope: "row" }, code(marker)),
            make("td", { class: `marker-${state}` }, `${symbols[state] || ""} ${state}`),
            make("td", { class: "c" }, path, note && ` (${note})`)))));
      }
      show(`${it.procedure} · ${nameOf(it)}`, anchorOf(it), parts);
    }

    const table = (caption, titles, rows) => make("table", null,
      make("caption", null, caption),
      make("thead", null, make("tr", null, titles.map((title) => make("th", { scope: "col" }, title)))),
      make("tbody", null, rows));

    function session(row) {
      const list = row.cells.map((it, at) => {
        if (!it) return null;
        const button = make("button", { type: "button", class: "link" }, matrix.procedures[at]);
        button.addEventListener("click", () => cell(row, at));
        return make("tr", null, make("th", { scope: "row" }, button), make("td", null, chip(it)), make("td", null, it.text));
      });
      const { complete, of } = row.health ?? { complete: 0, of: 0 };
      show(nameOf(row), null, make("p", null, `${complete} of ${of} procedures complete.`),
        table("Procedures of this session", ["Procedure", "Status", "Explanation"], list));
    }

    $("close").addEventListener("click", () => box.close());
    // Without a hash, the address is the page's own.
    box.addEventListener("close", () => history.replaceState(null, "", location.pathname + location.search));
    box.addEventListener("click", (event) => { if (event.target === box) box.close(); });
    return { cell, task, session };
  }
})();
