'use strict';
// The script sorts tables, turns sections into tabs, shows a curve's numbers, and zooms and searches graphs. Without the
// script the page shows everything, one part below the other.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  // ---- Tables: a button in each title. Numbers before words, "equal" above all numbers, "-" last. ----
  const number = (text) => {
    if (text === 'equal') return Infinity;
    const value = parseFloat(text.replace(/,/g, ''));
    return Number.isNaN(value) ? null : value;
  };
  const compare = (a, b, sign) => {
    const x = number(a), y = number(b);
    if (x !== null && y !== null) return sign * (x === y ? 0 : x < y ? -1 : 1);
    if (x !== null || y !== null) return x !== null ? -1 : 1;
    return sign * a.localeCompare(b, 'en', {numeric: true});
  };
  for (const table of all('table.page-sorts')) {
    const titles = [...table.tHead.rows[0].cells], body = table.tBodies[0], rows = [...body.rows];
    titles.forEach((title, column) => {
      const button = make('button', {type: 'button'}, ...title.childNodes);
      title.append(button);
      title.setAttribute('aria-sort', 'none');
      button.addEventListener('click', () => {
        const before = title.getAttribute('aria-sort');
        const first = title.classList.contains('page-number') ? 'descending' : 'ascending';
        const now = before === 'none' ? first : before === 'ascending' ? 'descending' : 'ascending';
        for (const other of titles) other.setAttribute('aria-sort', other === title ? now : 'none');
        const text = (row) => row.cells[column].dataset.key ?? row.cells[column].textContent.trim();
        body.append(...rows.slice().sort((a, b) => compare(text(a), text(b), now === 'ascending' ? 1 : -1)));
      });
    });
  }

  // ---- Tabs: the pattern of ARIA, arrow keys and all. ----
  let made = 0;
  for (const group of all('.page-tabs')) {
    const panels = [...group.children].filter((child) => child.matches('.page-tab'));
    if (panels.length < 2) continue;
    const list = make('div', {role: 'tablist', 'aria-label': group.dataset.label});
    const choose = (index, focus) => {
      panels.forEach((panel, i) => {
        panel.hidden = i !== index;
        tabs[i].setAttribute('aria-selected', String(i === index));
        tabs[i].tabIndex = i === index ? 0 : -1;
      });
      if (focus) tabs[index].focus();
    };
    const tabs = panels.map((panel, index) => {
      const name = panel.querySelector('.page-tab-name'), id = `tab${made++}`;
      const tab = make('button', {type: 'button', role: 'tab', id}, name.textContent);
      panel.id ||= `${id}-panel`;
      tab.setAttribute('aria-controls', panel.id);
      panel.setAttribute('role', 'tabpanel');
      panel.setAttribute('aria-labelledby', id);
      name.classList.add('page-unseen');  // still a heading for who moves by headings
      tab.addEventListener('click', () => choose(index, false));
      tab.addEventListener('keydown', (event) => {
        const to = {ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: panels.length - 1}[event.key];
        if (to === undefined) return;
        event.preventDefault();
        choose((to + panels.length) % panels.length, true);
      });
      list.append(tab);
      return tab;
    });
    group.prepend(list);
    choose(0, false);
    const show = (id) => {  // a link into a panel opens it
      const target = id && document.getElementById(id);
      const index = target ? panels.findIndex((panel) => panel.contains(target)) : -1;
      if (index >= 0) choose(index, false);
    };
    window.addEventListener('hashchange', () => show(location.hash.slice(1)));
    show(location.hash.slice(1));
  }

  // ---- Curves: pointing, or arrow keys, moves a line over the plot, and the numbers there are told. ----
  for (const figure of all('figure[data-readouts]')) {
    const svg = figure.querySelector('svg'), cursor = svg.querySelector('.line-cursor');
    const texts = figure.dataset.readouts.split('\n'), places = figure.dataset.places.split(' ').map(Number);
    const output = make('p', {class: 'page-readout', role: 'status'});
    svg.after(output);
    svg.setAttribute('tabindex', '0');
    let at = -1;
    const show = (index) => {
      at = Math.max(0, Math.min(texts.length - 1, index));
      cursor.setAttribute('transform', `translate(${places[at]} 0)`);
      cursor.setAttribute('visibility', 'visible');
      output.textContent = texts[at];
    };
    svg.addEventListener('pointermove', (event) => {
      const x = (event.clientX - svg.getBoundingClientRect().left) / svg.getBoundingClientRect().width * svg.viewBox.baseVal.width;
      let nearest = 0;
      places.forEach((place, i) => { if (Math.abs(place - x) < Math.abs(places[nearest] - x)) nearest = i; });
      show(nearest);
    });
    svg.addEventListener('focus', () => show(at < 0 ? texts.length - 1 : at));
    svg.addEventListener('keydown', (event) => {
      const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: texts.length - 1}[event.key];
      if (to === undefined) return;
      event.preventDefault();
      show(to);
    });
  }

  // ---- Graphs ----
  const graph = (root) => {
    root.classList.add('graph-scripted');
    const view = root.querySelector('.graph-view'), svg = view.querySelector('svg'), steps = all('a', svg);
    const width = svg.viewBox.baseVal.width, height = svg.viewBox.baseVal.height;
    const chosen = make('section', {class: 'graph-chosen', 'aria-label': 'Selected step'});
    const hint = make('p', {class: 'page-note'}, 'Select a step of the graph to see its kernel, attributes, operands, quantization parameters and weight histogram.');
    chosen.append(hint);
    const beside = make('div', {class: 'graph-beside'});
    view.before(beside);
    beside.append(view, chosen);

    const told = make('p', {class: 'page-unseen', role: 'status'});  // tells screen readers that the panel changed
    beside.after(told);

    let scale = 1;
    const said = make('output', {'aria-label': 'Zoom'});
    const zoom = (to, x = view.clientWidth / 2, y = view.clientHeight / 2) => {
      const before = scale;
      scale = Math.min(4, Math.max(0.02, to));
      const left = (view.scrollLeft + x) * scale / before - x, top = (view.scrollTop + y) * scale / before - y;
      svg.setAttribute('width', width * scale);
      svg.setAttribute('height', height * scale);
      view.scrollTo(left, top);
      said.textContent = `${Math.round(scale * 100)} %`;
    };
    const to_width = () => { zoom(Math.min(1.4, (view.clientWidth - 2) / width)); view.scrollTo(0, 0); };
    const to_whole = () => zoom(Math.min((view.clientWidth - 2) / width, (view.clientHeight - 2) / height));
    view.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = view.getBoundingClientRect();
      zoom(scale * Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
    }, {passive: false});
    view.addEventListener('keydown', (event) => {
      const act = {'+': () => zoom(scale * 1.25), '=': () => zoom(scale * 1.25), '-': () => zoom(scale / 1.25), '0': to_width, '1': () => zoom(1)}[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
    let drag = null;
    view.addEventListener('pointerdown', (event) => {
      if (event.pointerType === 'mouse' && event.button === 0) drag = {x: event.clientX, y: event.clientY, left: view.scrollLeft, top: view.scrollTop, far: false};
    });
    window.addEventListener('pointermove', (event) => {
      if (!drag) return;
      const x = event.clientX - drag.x, y = event.clientY - drag.y;
      if (Math.abs(x) + Math.abs(y) > 4) drag.far = true;
      if (!drag.far) return;
      view.classList.add('graph-dragged');
      view.scrollTo(drag.left - x, drag.top - y);
    });
    let dragged = false;  // a drag that ends on a step does not choose it
    window.addEventListener('pointerup', () => {
      dragged = drag !== null && drag.far;
      drag = null;
      view.classList.remove('graph-dragged');
    });
    svg.addEventListener('dragstart', (event) => event.preventDefault());

    const choose = (link) => {
      stop(link);
      for (const other of steps) other.classList.toggle('chosen', other === link);
      const section = document.getElementById(link.getAttribute('href').slice(1));
      if (!section) return;
      const copy = section.cloneNode(true);
      for (const element of [copy, ...all('[id]', copy)]) element.removeAttribute('id');
      chosen.replaceChildren(copy);
      told.textContent = `${copy.querySelector('h4').textContent}: its details are shown beside the graph`;
      chosen.scrollTop = 0;
    };
    const reveal = (link) => {
      const box = link.getBoundingClientRect(), frame = view.getBoundingClientRect();
      view.scrollBy(box.left + box.width / 2 - frame.left - frame.width / 2, box.top + box.height / 2 - frame.top - frame.height / 2);
    };
    // One stop of the Tab key for all steps: from there arrow keys lead to the next and the one before.
    const stop = (link) => steps.forEach((step) => step.setAttribute('tabindex', step === link ? '0' : '-1'));
    stop(steps[0]);
    svg.addEventListener('keydown', (event) => {
      const at = steps.indexOf(document.activeElement);
      const to = {ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: steps.length - 1}[event.key];
      if (at < 0 || to === undefined || !steps[to]) return;
      event.preventDefault();
      stop(steps[to]);
      steps[to].focus({preventScroll: true});
      reveal(steps[to]);
    });
    for (const link of steps)
      link.addEventListener('click', (event) => {
        event.preventDefault();
        if (!dragged) choose(link);
        dragged = false;
      });
    const label = view.getAttribute('aria-label');
    const input = make('input', {type: 'search', placeholder: 'Search layers, ops, tensors', 'aria-label': `Search: ${label}`});
    const count = make('output', {'aria-live': 'polite'});
    let hits = [], current = -1;
    const next = (by) => {
      if (hits.length === 0) return;
      current = (current + by + hits.length) % hits.length;
      count.textContent = `${current + 1} of ${hits.length}`;
      if (scale < 0.5) zoom(0.7);
      reveal(hits[current]);
      choose(hits[current]);
    };
    input.addEventListener('input', () => {
      const words = input.value.trim().toLowerCase();
      hits = words === '' ? [] : steps.filter((step) => step.dataset.search.toLowerCase().includes(words));
      for (const step of steps) step.classList.toggle('found', hits.includes(step));
      current = -1;
      count.textContent = words === '' ? '' : hits.length === 0 ? 'nothing found' : `${hits.length} found: press Enter for the next`;
    });
    input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') { event.preventDefault(); next(event.shiftKey ? -1 : 1); }
      if (event.key === 'Escape') { input.value = ''; input.dispatchEvent(new Event('input')); }
    });
    const button = (text, name, act) => {
      const made = make('button', {type: 'button', 'aria-label': name, title: name}, text);
      made.addEventListener('click', act);
      return made;
    };
    const tools = make('div', {class: 'graph-tools', role: 'toolbar', 'aria-label': `Tools: ${label}`}, input, count,
      button('\u2212', 'Zoom out', () => zoom(scale / 1.25)), button('+', 'Zoom in', () => zoom(scale * 1.25)),
      button('Fit width', 'Fit the width of the view', to_width), button('Fit all', 'Fit the whole graph', to_whole), said);
    beside.before(tools);
    const begin = () => {  // not before it is shown: a hidden tab has no width
      if (root.dataset.begun || view.clientWidth === 0) return;
      root.dataset.begun = '1';
      zoom(Math.min(1.4, Math.max(0.62, (view.clientWidth - 2) / width)));
      const first = steps[0]?.getBoundingClientRect(), frame = view.getBoundingClientRect();
      const right = first ? first.right + 20 - frame.right : 0;  // a wide graph may begin far to the right
      view.scrollTo(right > 0 ? right + frame.width / 3 : 0, 0);
    };
    new ResizeObserver(begin).observe(view);
    begin();
  };
  for (const root of all('.graph')) graph(root);
})();
