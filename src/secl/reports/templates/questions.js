// The tables of all questions: search, filters, order and pages over rows that stand in the page as JSON.
// Texts become text nodes, never markup.
(() => {
  "use strict";

  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const amount = (value) => value.toLocaleString("en");
  const oneLine = (text) => text.trim().split(/\s+/u).join(" ");

  const table = (section) => {
    const { rows, signs, first } = JSON.parse(section.querySelector("script").textContent);
    const find = (name) => section.querySelector(`[name=${name}]`);
    const body = section.querySelector("tbody");
    const status = section.querySelector(".count");
    const pages = section.querySelector(".pages");
    const shows = {
      right: (row) => row.g === "right",
      wrong: (row) => row.g === "wrong",
      "not graded": (row) => !row.g,
      labelled: (row) => row.j,
      "worth a look": (row) => row.n,
      "changed by adapting": (row) => row.v,
      abstained: (row) => row.z,
    };
    signs.forEach((sign, number) => { shows[sign] = (row) => row.n && row.n.includes(number); });
    const sortKeys = {
      p: (row) => row.p, q: (row) => row.q, a: (row) => row.a || "", c: (row) => row.c, g: (row) => row.g || "",
      d: (row) => row.d || "", s: (row) => row.s, n: (row) => (row.n ? row.n.length : 0),
    };
    let order = "p", falling = false, page = 0, found = rows;

    const searched = (row) => {
      if (row.h === undefined) row.h = [row.q, row.k, ...(row.o || []), row.a, row.r, row.x, row.d].join("\n").toLowerCase();
      return row.h;
    };

    const option = (row, text) => {
      const item = make("li", text === row.a ? "given" : text === row.r ? "right" : "");
      item.dir = "auto";
      item.append(make("bdi", "", text));
      if (item.className) item.append(" ", make("span", "", text === row.a ? "← answered" : "← right"));
      return item;
    };

    const question = (row) => {
      const cell = make("td", "q");
      cell.dir = "auto";
      const line = oneLine(row.q);
      if (!row.o && !row.r && !row.k && row.q.length <= 140 && line === row.q) {
        cell.textContent = row.q;
        return cell;
      }
      const details = make("details");
      const short = line.length > 140 ? `${line.slice(0, 138)} …` : line;
      details.append(make("summary", "", short));
      if (row.k) details.append(make("p", "full note", row.k));
      details.append(make("p", "full", row.q));
      if (row.o) {
        const list = make("ul", "options");
        list.append(...row.o.map((text) => option(row, text)));
        details.append(list);
      } else if (row.r) details.append(make("p", "", `Right: ${row.r}`));
      cell.append(details);
      return cell;
    };

    const cells = {
      p: (row) => make("td", "p", row.p),
      q: question,
      a: (row) => {
        const cell = make("td", "a", row.a || "no readable answer");
        cell.dir = "auto";
        if (row.x) cell.append(make("small", "", `other: ${row.x}`));
        return cell;
      },
      c: (row) => {
        const cell = make("td", "c"), bar = make("span", "bar", row.c.toFixed(3));
        bar.style.setProperty("--c", row.c);
        cell.append(bar);
        if (row.b) cell.append(make("small", "", `${row.b[0].toFixed(2)} to ${row.b[1].toFixed(2)}`));
        return cell;
      },
      g: (row) => {
        const cell = make("td", `g ${row.g || ""}`, row.g || "");
        if (row.j) cell.append(make("small", "", "labelled"));
        return cell;
      },
      d: (row) => { const cell = make("td", "d", row.d || ""); cell.dir = "auto"; return cell; },
      s: (row) => make("td", "s", row.s),
      n: (row) => {
        const words = (row.n || []).map((number) => signs[number]);
        const more = [row.v && "changed by adapting", row.z && "abstained"].filter(Boolean);
        return make("td", "n", [...words, ...more].join(", "));
      },
    };
    const headings = [...section.querySelectorAll("thead th")];
    const columns = headings.map((heading) => heading.className);

    const draw = () => {
      const start = page * first, shown = found.slice(start, start + first);
      body.replaceChildren(...shown.map((row) => {
        const line = make("tr");
        line.append(...columns.map((key) => cells[key](row)));
        return line;
      }));
      const graded = found.filter((row) => row.g), right = graded.filter((row) => row.g === "right").length;
      const mean = found.reduce((sum, row) => sum + row.c, 0) / found.length;
      status.textContent = !found.length ? `None of ${amount(rows.length)} questions fits.` :
        `${found.length < rows.length ? `${amount(found.length)} of ` : ""}${amount(rows.length)} questions, ` +
        `mean confidence ${mean.toFixed(3)}` +
        (graded.length ? `, ${(100 * right / graded.length).toFixed(1)}% of ${amount(graded.length)} graded right.` : ".");
      const last = Math.max(0, Math.ceil(found.length / first) - 1);
      pages.hidden = last === 0;
      pages.querySelector("span").textContent = `${amount(start + 1)} to ${amount(start + shown.length)}`;
      find("back").disabled = page === 0;
      find("on").disabled = page >= last;
    };

    const select = () => {
      const words = find("search").value.toLowerCase().split(/\s+/u).filter(Boolean);
      const domain = find("domain").value, show = shows[find("show").value], most = parseFloat(find("most").value);
      found = rows.filter((row) =>
        (!domain || `=${row.d || ""}` === domain) && (!show || show(row)) && !(row.c > most) &&
        words.every((word) => searched(row).includes(word)));
      const key = sortKeys[order], sign = falling ? -1 : 1;
      const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
      found.sort((one, other) => sign * compare(key(one), key(other)) || one.p - other.p);
      page = 0;
      draw();
    };

    const choices = (name, values) => {
      for (const [value, text] of values) {
        const choice = make("option", "", text);
        choice.value = value;
        find(name).append(choice);
      }
      if (values.length < 2) find(name).closest("label").hidden = true;
    };
    choices("domain", [...new Set(rows.map((row) => row.d || ""))].map((name) => [`=${name}`, name || "(none)"]));
    choices("show", Object.keys(shows).filter((name) => {
      const count = rows.filter(shows[name]).length;
      return count && count < rows.length;
    }).map((name) => [name, name]));

    for (const heading of headings) {
      const button = make("button", "", heading.textContent);
      button.type = "button";
      heading.replaceChildren(button);
      button.addEventListener("click", () => {
        falling = order === heading.className ? !falling : heading.className === "n";
        order = heading.className;
        for (const other of headings) other.removeAttribute("aria-sort");
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
