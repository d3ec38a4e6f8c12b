// The tables of all questions: search, filters, order and pages over the rows that stand in the page.
(() => {
  "use strict";
  const FIRST = 50;

  const table = (section) => {
    const find = (name) => section.querySelector(`[name=${name}]`);
    const body = section.querySelector("tbody"), pages = section.querySelector(".pages");
    const rows = [...body.rows].map((line, place) => {
      const text = (key) => line.querySelector(`.${key}`).textContent.trim();
      const confidence = parseFloat(line.querySelector(".c").dataset.c), signs = text("n").split(", ").filter(Boolean);
      const grade = line.querySelector(".g").firstChild?.textContent.trim() || "not graded";
      const labelled = line.querySelector(".g small") ? ["labelled"] : [];
      return {
        line, domain: text("d"), confidence, grade, words: line.textContent.toLowerCase(),
        shows: [grade, ...labelled, ...signs],
        keys: { p: place, q: text("q"), a: text("a"), c: Number.isFinite(confidence) ? confidence : 2, g: grade, d: text("d"), n: signs.length },
      };
    });
    let order = "p", falling = false, page = 0, found = rows;

    const draw = () => {
      const start = page * FIRST, shown = found.slice(start, start + FIRST);
      body.replaceChildren(...shown.map((row) => row.line));
      const graded = found.filter((row) => row.grade !== "not graded");
      const right = graded.filter((row) => row.grade === "right").length;
      const known = found.map((row) => row.confidence).filter(Number.isFinite);
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
        (falling ? -1 : 1) * compare(one.keys[order], other.keys[order]) || one.keys.p - other.keys.p);
      page = 0;
      draw();
    };

    const choices = (name, values) => {
      for (const [value, text] of values) find(name).add(new Option(text, value));
      find(name).closest("label").hidden = values.length < 2;
    };
    choices("domain", [...new Set(rows.map((row) => row.domain))].map((name) => [`=${name}`, name || "(none)"]));
    choices("show", [...new Set(rows.flatMap((row) => row.shows))].map((name) => [name, name]));

    for (const heading of section.querySelectorAll("thead th")) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      heading.replaceChildren(button);
      button.addEventListener("click", () => {
        falling = order === heading.className ? !falling : heading.className === "n";
        order = heading.className;
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
