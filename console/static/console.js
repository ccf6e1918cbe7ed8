/* Berth console: theme, keys, tips, windows of long tables, live events. Every page works without it. */
(() => {
  'use strict';
  const root = document.documentElement;
  root.classList.add('scripted');
  const themes = ['auto', 'light', 'dark'];
  let theme = new URLSearchParams(location.search).get('theme');
  try { theme = theme || localStorage.getItem('berth-theme'); } catch { /* storage is off */ }
  const setTheme = (t) => {
    theme = themes.includes(t) ? t : 'auto';
    if (theme === 'auto') root.removeAttribute('data-theme'); else root.dataset.theme = theme;
    const b = document.getElementById('theme');
    if (b) { b.title = 'Theme: ' + (theme === 'auto' ? 'automatic' : theme); b.setAttribute('aria-label', b.title); b.hidden = false; }
    try { localStorage.setItem('berth-theme', theme); } catch { /* storage is off */ }
  };
  setTheme(theme); // before the first paint: the script is not deferred
  const nextTheme = () => setTheme(themes[(themes.indexOf(theme) + 1) % themes.length]);

  // one tip for all cells, also on focus; the text is the cell's own label
  const tips = () => {
    const tip = document.createElement('div');
    tip.className = 'tip'; tip.hidden = true; tip.setAttribute('aria-hidden', 'true');
    document.body.append(tip);
    const show = (el) => {
      tip.textContent = el.getAttribute('aria-label'); tip.hidden = false;
      const r = el.getBoundingClientRect(), w = tip.offsetWidth;
      const x = Math.min(Math.max(8, r.left + r.width / 2 - w / 2), innerWidth - w - 8);
      const y = r.top > 48 ? r.top - tip.offsetHeight - 4 : r.bottom + 4;
      tip.style.setProperty('transform', `translate(${Math.round(x)}px,${Math.round(y)}px)`);
    };
    const light = (ids, on) => ids.split(' ').forEach((id) => document.querySelectorAll(`[data-s~="${CSS.escape(id)}"]`)
      .forEach((e) => e.classList.toggle('lit', on)));
    const at = (e, what) => e.target.closest && e.target.closest(what);
    const over = (e) => {
      const cell = at(e, '.cell'), held = at(e, '[data-s]');
      if (cell) show(cell);
      if (held) light(held.dataset.s, true);
    };
    const out = (e) => { tip.hidden = true; const held = at(e, '[data-s]'); if (held) light(held.dataset.s, false); };
    document.addEventListener('mouseover', over); document.addEventListener('mouseout', out);
    document.addEventListener('focusin', over); document.addEventListener('focusout', out);
    addEventListener('scroll', () => { tip.hidden = true; }, { passive: true });
  };

  // Long tables: a body for each window of lines near the visible part, and before each of them, and at the end, one
  // empty body as high as the windows that are not in the page. A table of few bodies and rows is laid out and painted
  // fast.
  const windows = (table) => {
    const lines = Number(table.dataset.lines), size = Number(table.dataset.window), first = table.tBodies[0];
    const rowHeight = first.offsetHeight / first.rows.length; // until a window has been in the page
    const columns = table.tHead.rows[0].cells.length;
    const heights = []; // of all windows
    for (let from = 0; from < lines; from += size) heights.push(Math.min(size, lines - from) * rowHeight);
    const shown = []; // the windows in the page, in their order: at, body, and gap, the empty body before
    const setHeight = (row, height) => {
      row.hidden = height <= 0; row.cells[0].style.setProperty('height', Math.max(height, 0) + 'px');
    };
    const newBody = (height) => { // with one empty row
      const [body, row, cell] = ['tbody', 'tr', 'td'].map((name) => document.createElement(name));
      row.className = 'gap'; row.setAttribute('aria-hidden', 'true'); cell.colSpan = columns;
      body.setAttribute('role', 'rowgroup');
      row.append(cell); setHeight(row, height); body.append(row);
      return body;
    };
    const end = newBody(0);
    const newWindow = (at, body) => {
      body.dataset.from = at * size;
      const one = { at, body, gap: newBody(0) };
      const i = shown.findIndex((w) => w.at > at), next = i < 0 ? end : shown[i].gap;
      next.before(one.gap, body);
      shown.splice(i < 0 ? shown.length : i, 0, one);
      return one;
    };
    // the part of the page with a window; null: the page is loaded again
    const fetchPart = async (body, more) => {
      const answer = await fetch(table.dataset.rows + more + '&from=' + body.dataset.from);
      if (answer.status === 401 || answer.redirected) { location.reload(); return null; } // to the sign-in page
      if (!answer.ok) throw new Error(answer.status);
      return new DOMParser().parseFromString(await answer.text(), 'text/html');
    };
    let turn = Promise.resolve(); // one window in each frame, so that no frame takes long
    const frame = () => { turn = turn.then(() => new Promise(requestAnimationFrame)); return turn; };
    const load = async (body) => {
      try {
        const part = await fetchPart(body, '');
        if (!part) return;
        await frame();
        if (body.isConnected) {
          body.replaceChildren(...part.querySelector('tbody').rows);
          body.dataset.state = 'full';
        }
      } catch { // the cloud is being read, or the console does not answer
        setTimeout(() => { if (body.isConnected) load(body); }, 2000);
      }
    };
    const fillGaps = () => {
      let at = 0;
      for (const w of [...shown, { at: heights.length, gap: end }]) {
        setHeight(w.gap.rows[0], heights.slice(at, w.at).reduce((sum, height) => sum + height, 0));
        at = w.at + 1;
      }
    };
    const arrange = () => { // at the beginning of a frame, when reading positions is free
      const top = table.tHead.offsetHeight + table.getBoundingClientRect().top;
      for (const w of shown) heights[w.at] = w.body.offsetHeight;
      const wanted = new Set();
      let y = top;
      heights.forEach((height, at) => {
        if (y + height > -innerHeight && y < 2 * innerHeight) wanted.add(at);
        y += height;
      });
      for (const w of [...shown]) {
        if (wanted.delete(w.at) || w.body.contains(document.activeElement)) continue;
        w.gap.remove(); w.body.remove(); shown.splice(shown.indexOf(w), 1);
      }
      for (const at of wanted) load(newWindow(at, newBody(heights[at])).body);
      fillGaps();
    };
    const begin = Number(first.dataset.from), rows = [...first.rows];
    table.append(end); first.remove();
    for (let i = 0; i < rows.length; i += size) {
      const { body } = newWindow((begin + i) / size, newBody(0));
      body.replaceChildren(...rows.slice(i, i + size)); body.dataset.state = 'full';
    }
    fillGaps();
    if (begin > 0) shown[0].body.scrollIntoView();
    arrange();
    addEventListener('beforeprint', () => {
      const n = table.querySelectorAll('tbody[data-state=full] tr').length, part = document.getElementById('part');
      if (part) part.textContent = part.textContent.replace(/^This paper has .*? of/, `This paper has ${n} of`);
    });
    addEventListener('scroll', arrange, { passive: true }); addEventListener('resize', arrange);
    live(table, () => shown.map((w) => w.body), fetchPart);
  };

  // The rows of the windows that are loaded follow the cloud. A row is replaced in its place; one in which text is selected
  // waits. Rows are never moved: a note says when the list has changed. A page in the background does not follow.
  const live = (table, bodies, fetchPart) => {
    const read = document.getElementById('read'), moved = document.getElementById('moved');
    if (!read) return;
    const time = read.querySelector('time');
    let shown = time.dateTime, wanted = '', running = false, source;
    const keep = (old, now) => { // replaces an element, and keeps the focus
      const links = (e) => [...e.querySelectorAll('a')], at = links(old).indexOf(document.activeElement);
      old.replaceWith(now);
      if (at >= 0) links(now)[at]?.focus({ preventScroll: true });
    };
    const name = (row) => row.dataset.row || 'group ' + row.dataset.group;
    const same = (a, b) => a.outerHTML.replaceAll(' lit"', '"').replaceAll(/ class="(lit)?"/g, '') === b.outerHTML;
    const update = (body, part) => {
      const rows = new Map([...part.querySelectorAll('tbody tr')].map((row) => [name(row), row]));
      const selection = getSelection();
      let changed = Number(part.querySelector('table').dataset.lines) !== Number(table.dataset.lines);
      for (const row of [...body.rows]) {
        const now = rows.get(name(row));
        if (!now) { changed = true; continue; }
        if (same(row, now) || (!selection.isCollapsed && selection.containsNode(row, true))) continue;
        keep(row, now);
      }
      if (changed) moved.hidden = false;
      const sums = document.getElementById('sums'), nowSums = part.getElementById('sums');
      if (sums && nowSums && !same(sums, nowSums)) keep(sums, nowSums);
      shown = part.querySelector('table').dataset.read;
      time.dateTime = shown; time.textContent = shown.slice(11, 19);
    };
    const run = async () => {
      if (running) return;
      running = true;
      try {
        while (wanted) {
          wanted = '';
          for (const body of bodies().filter((b) => b.dataset.state === 'full')) {
            const part = await fetchPart(body, '&live=1');
            if (!part) return;
            if (body.isConnected) update(body, part);
          }
        }
      } catch { read.toggleAttribute('data-stale', true); } finally { running = false; }
    };
    const open = () => {
      if (document.hidden || source) return;
      source = new EventSource(table.dataset.stream);
      source.addEventListener('read', (m) => {
        read.toggleAttribute('data-stale', false); read.title = '';
        if (JSON.parse(m.data).slice(0, 19) !== shown.slice(0, 19)) { wanted = m.data; run(); }
      });
      source.addEventListener('stale', (m) => { read.toggleAttribute('data-stale', true); read.title = JSON.parse(m.data); });
      source.addEventListener('failed', () => location.reload()); // to the sign-in page
      source.onopen = () => read.toggleAttribute('data-live', true);
      source.onerror = () => { read.toggleAttribute('data-stale', true); read.toggleAttribute('data-live', false); };
    };
    document.addEventListener('visibilitychange', () => {
      if (document.hidden && source) { source.close(); source = null; } else open();
    });
    open();
  };

  const keys = () => {
    const q = document.getElementById('q');
    const rows = () => [...document.querySelectorAll('[data-row]')];
    const move = (d) => { // to the next row
      const list = rows(); if (!list.length) return;
      const now = list.findIndex((r) => r.contains(document.activeElement));
      const next = list[Math.min(Math.max(now + d, 0), list.length - 1)], a = next.querySelector('a');
      if (a) { a.focus(); next.scrollIntoView({ block: 'nearest' }); }
    };
    const step = (d) => { // to the next cell of the row
      const row = document.activeElement.closest('[data-row]'); if (!row) return false;
      const list = [...row.querySelectorAll('th a, a.cell')], now = list.indexOf(document.activeElement);
      if (now < 0) return false;
      list[Math.min(Math.max(now + d, 0), list.length - 1)].focus(); return true;
    };
    const views = { f: '/fleet', s: '/servers', a: '/ask', c: '/classes', u: '/audit', e: '/events' };
    let go = false;
    document.addEventListener('keydown', (e) => {
      const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
      if (e.key === 'Escape' && typing) { document.activeElement.blur(); return; }
      if (typing || e.ctrlKey || e.metaKey || e.altKey) return;
      if (go && views[e.key]) { location.href = views[e.key]; return; }
      go = e.key === 'g';
      if (e.key === '/' && q) { e.preventDefault(); q.focus(); q.select(); }
      else if (e.key === 'j') move(1);
      else if (e.key === 'k') move(-1);
      else if (e.key === 'ArrowRight') { if (step(1)) e.preventDefault(); }
      else if (e.key === 'ArrowLeft') { if (step(-1)) e.preventDefault(); }
      else if (e.key === 't') nextTheme();
    });
  };

  // Events: rows are added at the top. While the page is paused, events wait.
  const maxRows = 500;
  const events = (table) => {
    const get = (id) => document.getElementById(id), state = get('state'), pause = get('pause'), body = table.tBodies[0];
    const live = (text, ok) => { state.textContent = text; state.toggleAttribute('data-stale', !ok); };
    let waiting = [], last = 0, failed = false;
    const cell = (row, label, text, type = 'td', link = '') => {
      const c = document.createElement(type);
      c.setAttribute('role', type === 'th' ? 'rowheader' : 'cell');
      if (type === 'th') c.scope = 'row'; else c.dataset.l = label;
      if (link) { const a = document.createElement('a'); a.href = link; a.textContent = text; c.append(a); } else c.textContent = text;
      row.append(c); return c;
    };
    const add = (e) => {
      const row = document.createElement('tr');
      row.setAttribute('role', 'row'); row.dataset.row = e.subject;
      const time = document.createElement('time');
      time.dateTime = e.at; time.className = 'mono'; time.textContent = e.time;
      cell(row, 'Time', '').append(time);
      cell(row, 'Subject', e.subject, 'th', e.link);
      cell(row, 'Kind', e.kind); cell(row, 'Action', e.action); cell(row, 'What', e.what).className = 'what';
      body.prepend(row);
      while (body.rows.length > maxRows) body.lastElementChild.remove();
      get('shown').textContent = body.rows.length; get('waiting').hidden = true;
    };
    const paused = () => pause.getAttribute('aria-pressed') === 'true';
    pause.hidden = false;
    pause.addEventListener('click', () => {
      pause.setAttribute('aria-pressed', String(!paused()));
      pause.textContent = paused() ? 'Continue' : 'Pause';
      if (!paused()) { waiting.forEach(add); waiting = []; }
    });
    const source = new EventSource(table.dataset.stream);
    source.onopen = () => live('Live', true);
    source.onmessage = (m) => {
      last = Date.now();
      const e = JSON.parse(m.data);
      if (paused()) { waiting = [...waiting, e].slice(-maxRows); pause.textContent = `Continue (${waiting.length})`; } else add(e);
    };
    source.addEventListener('failed', (m) => {
      failed = true; source.close(); live('Not connected', false);
      get('failed').textContent = JSON.parse(m.data); get('failed').hidden = false;
    });
    source.onerror = () => {
      if (failed) return;
      live(source.readyState === EventSource.CLOSED ? 'Not connected; load the page again' : 'Connecting again', false);
    };
    setInterval(() => {
      if (source.readyState === EventSource.OPEN && last) live(`Live, last event ${Math.round((Date.now() - last) / 1000)} s ago`, true);
    }, 1000);
  };

  // The answer to a request follows what is typed; its address is that of the page.
  const ask = (form) => {
    const answer = document.getElementById('answer'), asking = document.getElementById('asking');
    let timer, running;
    const load = async () => {
      const fields = [...new FormData(form)].filter(([name, value]) => value.trim() && name + value !== 'group_policynone');
      const q = String(new URLSearchParams(fields));
      history.replaceState(null, '', '/ask' + (q && '?' + q));
      clearTimeout(timer); running?.abort(); running = new AbortController();
      const mine = running;
      answer.setAttribute('aria-busy', 'true');
      const slow = setTimeout(() => { asking.hidden = mine !== running; }, 500);
      try {
        const got = await fetch('/ask/answer?' + q, { signal: mine.signal });
        if (got.status === 401 || got.redirected) { location.reload(); return; } // to the sign-in page
        const part = new DOMParser().parseFromString(await got.text(), 'text/html').getElementById('answer');
        if (!got.ok || !part) throw new Error(got.status);
        if (mine !== running) return;
        answer.replaceChildren(...part.childNodes); again();
      } catch {
        if (mine !== running || mine.signal.aborted) return;
        answer.textContent = 'The answer could not be loaded. Press Ask to try again.';
      } finally { clearTimeout(slow); }
      answer.removeAttribute('aria-busy'); asking.hidden = true;
    };
    const again = () => { if (answer.querySelector('[data-again]')) timer = setTimeout(load, 2000); };
    form.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(load, 300); });
    form.addEventListener('submit', (e) => { e.preventDefault(); load(); });
    again();
  };

  document.addEventListener('DOMContentLoaded', () => {
    setTheme(theme);
    document.getElementById('theme').addEventListener('click', nextTheme);
    tips(); keys();
    const table = document.getElementById('fleet');
    if (table && 'windows' in table.dataset) windows(table);
    const live = document.getElementById('events');
    if (live) events(live);
    const request = document.getElementById('ask');
    if (request) ask(request);
  });
})();
