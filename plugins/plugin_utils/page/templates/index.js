"use strict";
(() => {
  const table = document.querySelector("table.fleet"), form = document.querySelector("form.filters");
  const body = table.tBodies[0], shown = document.getElementById("shown");
  const heads = [...table.tHead.rows[0].cells], titles = heads.map((head) => head.textContent);
  const [HOST, VERDICT, FINDINGS, , GPU, DRIVER, , , DRIFT, CHECKED] = titles.keys();
  const fields = ["q", "verdict", "gpu", "layer", "driver", "drift", "finding", "sort"];
  const collator = new Intl.Collator("en", {numeric: true});
  const hosts = [...body.rows].map((row, place) => {
    const cells = [...row.cells].map((cell) => cell.textContent), [plan, since] = cells[DRIFT].split(" / ");
    const time = row.cells[CHECKED].querySelector("small");
    return {row, place, cells, text: cells.join(" ").toLowerCase(), verdict: cells[VERDICT], driver: cells[DRIVER],
      gpu: cells[GPU].split(", ").map((part) => part.replace(/^\d+ × /, "")),
      layer: (cells[FINDINGS].split(": ")[1] || "").split(", ").filter(Boolean),
      drift: [plan > 0 && "from the plan", since > 0 && "since the report before", !(plan > 0 || since > 0) && "none"],
      finding: (row.dataset.f || "").split(" "), age: time ? time.textContent : ""};
  });
  const order = {[VERDICT]: (a, b) => a.place - b.place, [CHECKED]: (a, b) => collator.compare(a.age, b.age),
    [FINDINGS]: (a, b) => (parseInt(a.cells[FINDINGS]) || 0) - (parseInt(b.cells[FINDINGS]) || 0)};
  const number = (host) => host.cells[DRIFT].split(" / ").reduce((sum, part) => sum + (parseInt(part) || 0), 0);
  order[DRIFT] = (a, b) => number(a) - number(b);
  const many = new Set([FINDINGS, DRIFT]);

  const fill = (name, first, values) => {
    const chosen = [...new Set(values)].filter(Boolean).sort(collator.compare);
    form[name].replaceChildren(new Option(first, ""), ...chosen.map((value) => new Option(value, value)));
  };
  fill("verdict", "all", hosts.map((host) => host.verdict));
  for (const name of ["gpu", "layer", "driver", "drift"]) fill(name, "all", hosts.flatMap((host) => host[name]));
  form.finding.prepend(new Option("all", ""));
  form.sort.replaceChildren(new Option("worst first", ""), ...titles.flatMap((title, column) =>
    [new Option(title, column), new Option(title + ", reversed", "-" + column)]));
  form.finding.value = form.sort.value = "";

  let sorted = "";
  const apply = () => {
    const wanted = Object.fromEntries(fields.map((name) => [name, form[name].value]));
    const words = wanted.q.toLowerCase().split(/\s+/).filter(Boolean);
    const lists = ["gpu", "layer", "drift", "finding"], texts = ["verdict", "driver"];
    let count = 0;
    for (const host of hosts) {
      const fits = words.every((word) => host.text.includes(word)) &&
        lists.every((name) => !wanted[name] || host[name].includes(wanted[name])) &&
        texts.every((name) => !wanted[name] || host[name] === wanted[name]);
      host.row.hidden = !fits;
      count += fits;
    }
    const column = Math.abs(parseInt(wanted.sort)), back = wanted.sort.startsWith("-") ? -1 : 1;
    const by = order[column] || ((a, b) => collator.compare(a.cells[column], b.cells[column]));
    // The most first where numbers are bad news.
    if (wanted.sort !== sorted) {
      const after = wanted.sort === "" ? hosts
        : [...hosts].sort((a, b) => back * (many.has(column) ? by(b, a) : by(a, b)) || a.place - b.place);
      body.append(...after.map((host) => host.row));
      sorted = wanted.sort;
    }
    heads.forEach((head, at) => {
      const mine = wanted.sort !== "" && at === column;
      head.setAttribute("aria-sort", !mine ? "none" : (back > 0) === many.has(column) ? "descending" : "ascending");
    });
    form.finding.parentElement.hidden = !wanted.finding;
    shown.textContent = count === hosts.length ? `All ${count} hosts are shown.` : `${count} of ${hosts.length} hosts are shown.`;
  };
  const keep = () => {
    const set = fields.filter((name) => form[name].value).map((name) => [name, form[name].value]);
    history.replaceState(null, "", set.length ? "#" + new URLSearchParams(set) : location.pathname + location.search);
    apply();
  };
  const read = () => {
    const set = new URLSearchParams(location.hash.slice(1));
    for (const name of fields) {
      form[name].value = set.get(name) || "";
      if (form[name].selectedIndex === -1) form[name].value = "";
    }
    apply();
    if (location.hash) document.getElementById("fleet").scrollIntoView();
  };
  const show = (values) => {
    form.reset();
    for (const [name, value] of Object.entries(values)) form[name].value = value;
    keep();
    document.getElementById("fleet").scrollIntoView();
  };
  const button = (element, values) => {
    const made = document.createElement("button");
    made.type = "button";
    made.append(...element.childNodes);
    element.append(made);
    made.addEventListener("click", values);
  };
  heads.forEach((head, column) => button(head, () => {
    form.sort.value = form.sort.value === String(column) ? "-" + column : column;
    keep();
  }));
  for (const tile of document.querySelectorAll("[data-verdict]")) button(tile, () => show({verdict: tile.dataset.verdict}));
  for (const more of document.querySelectorAll("[data-finding]")) button(more, () => show({finding: more.dataset.finding}));
  for (const element of document.querySelectorAll(".js")) element.hidden = false;
  form.addEventListener("input", keep);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(keep));
  addEventListener("hashchange", read);
  read();
})();
