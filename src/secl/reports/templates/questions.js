// The tables of all questions: search, filters, order and pages over the rows that stand in the page.
(() => {
  "use strict";
  const FIRST = 50;

  const table = (section) => {
    const find = (name) => section.querySelector(`[name=${name}]`);
    const body = section.querySelector("tbody"), pages = section.querySelector(".pages");
    const rows = [...body.rows].map((line, place) => ({
      line, place, domain: line.querySelector(".d")?.textContent.trim() ?? "", words: line.textContent.toLowerCase(),
      confidence: parseFloat(line.querySelector(".c").dataset.sort), grade: line.querySelector(".g")?.dataset.show,
      shows: [...line.querySelectorAll("[data-show]")].map((each) => each.dataset.show),
      keys: [...line.cells].map(({ dataset, textContent }) => dataset.sort ? parseFloat(dataset.sort) : textContent.trim()),
    }));
    let order = 0, falling = false, page = 0, found = rows;

    const draw = () => {
      const start = page * FIRST, shown = found.slice(start, start + FIRST);
      body.replaceChildren(...shown.map((row) => row.line));
      const graded = found.filter((row) => row.grade === "right" || row.grade === "wrong");
      const right = graded.filter((row) => row.grade === "right").length;
      const known = found.map((row) => row.confidence).filter((confidence) => confidence <= 1);
      const mean = known.reduce((sum, confidence) => sum + confidence, 0) / known.length;
      section.querySelector(".count").textContent = !found.length ? `None of ${rows.length} questions fits.` :
        `${found.length < rows.length ? `${found.length} of ` : ""}${rows.length} questions` +
        (known.length ? `, mean confidence ${mean.toFixed(3)}` : "") +
        (graded.length ? `, ${(100 * right / graded.length).toFixed(1)}% of ${graded.length} graded right.` : ".");
      pages.hidden = found.length <= FIRST;
      pages.querySelector("span").textContent = `${start + 1} to ${start + shown.length}`;
      find("back").disabled = page === 0;
      find("on").disabled = start + FIRST >= found.length;
    };

    const select = () => {
      const words = find("search").value.toLowerCase().split(/\s+/u).filter(Boolean);
      const domain = find("domain").value, show = find("show").value, most = parseFloat(find("most").value);
      found = rows.filter((row) =>
        (!domain || `=${row.domain}` === domain) && (!show || row.shows.includes(show)) && !(row.confidence > most) &&
        words.every((word) => row.words.includes(word)));
      const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
      found.sort((one, other) =>
        (falling ? -1 : 1) * compare(one.keys[order], other.keys[order]) || one.place - other.place);
      page = 0;
      draw();
    };

    const choices = (name, values) => {
      for (const [value, text] of values) find(name).add(new Option(text, value));
      find(name).closest("label").hidden = values.length < 2;
    };
    choices("domain", [...new Set(rows.map((row) => row.domain))].map((name) => [`=${name}`, name || "(none)"]));
    choices("show", [...new Set(rows.flatMap((row) => row.shows))].map((name) => [name, name]));

    for (const [column, heading] of section.querySelectorAll("thead th").entries()) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      heading.replaceChildren(button);
      button.addEventListener("click", () => {
        falling = order === column && !falling;
        order = column;
        for (const other of section.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
        select();
      });
    }
    let wait = 0;
    for (const name of ["search", "domain", "show", "most"]) {
      find(name).addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(select, 120); });
    }
    const turn = (step) => { page += step; draw(); section.scrollIntoView({ block: "start" }); };
    find("back").addEventListener("click", () => turn(-1));
    find("on").addEventListener("click", () => turn(1));
    section.querySelector(".controls").hidden = false;
    draw();
  };

  document.querySelectorAll("section.questions").forEach(table);
})();
