// A table that people can sort by its headers. Rows are reused and cells are written only where
// their text differs, so a table of 1000 rows that shows 30 costs what 30 rows cost.
import { h, number, say, show } from "./format.js";

const MORE = 100;

/*
 * `columns`: {label, text(row), order(row), kind: "text" | "number", share(row) (0 to 1: a bar
 * behind the cell), tone(row) ("bad", "warn" or ""), has(row) (a column that no row has is hidden)}.
 * The first column is the row's header.
 */
export class Table {
  constructor(place, caption, columns, most = 30) {
    this.columns = columns;
    this.most = most;
    this.sorted = { column: -1, down: false }; // -1: as the rows come
    this.rows = [];
    this.pool = [];
    this.body = h("tbody");
    this.headers = columns.map((column, i) => this.header(column, i));
    this.more = h("button", { type: "button", class: "quiet" });
    this.more.addEventListener("click", () => {
      this.most += MORE;
      this.update(this.rows);
    });
    place.append(
      h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
        h("table", {}, h("caption", { class: "hidden-text" }, caption),
          h("thead", {}, h("tr", {}, ...this.headers)), this.body)),
      this.more,
    );
  }

  header(column, i) {
    const button = h("button", { type: "button" }, column.label);
    const cell = h("th", { scope: "col", class: column.kind === "number" ? "number" : null, title: column.help }, button);
    button.addEventListener("click", () => {
      const down = this.sorted.column === i ? !this.sorted.down : column.kind === "number";
      this.sorted = { column: i, down };
      this.headers.forEach((other) => other.removeAttribute("aria-sort"));
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      this.update(this.rows);
    });
    return cell;
  }

  sort(rows) {
    const column = this.columns[this.sorted.column];
    if (column === undefined) {
      return rows;
    }
    const sign = this.sorted.down ? -1 : 1;
    const keyed = rows.map((row) => [(column.order ?? column.text)(row), row]);
    keyed.sort(([a], [b]) => {
      if (a === b) {
        return 0;
      }
      if (a === undefined || a === null) {
        return 1;
      }
      return b === undefined || b === null ? -1 : sign * (a < b ? -1 : 1);
    });
    return keyed.map(([, row]) => row);
  }

  update(rows) {
    this.rows = rows;
    const shown = this.sort(rows).slice(0, this.most);
    while (this.pool.length < shown.length) {
      this.pool.push(this.row());
    }
    this.isThere = this.columns.map((column) => column.has === undefined || rows.some((row) => column.has(row)));
    this.headers.forEach((header, i) => show(header, this.isThere[i]));
    shown.forEach((row, i) => this.fill(this.pool[i], row));
    this.pool.forEach((tr, i) => show(tr, i < shown.length));
    show(this.more, rows.length > shown.length);
    say(this.more, `Show more (${number(rows.length - shown.length)} not shown)`);
  }

  row() {
    const cells = this.columns.map((column, i) =>
      h(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null, class: column.kind === "number" ? "number" : null }));
    const tr = h("tr", {}, ...cells);
    this.body.append(tr);
    return tr;
  }

  fill(tr, row) {
    this.columns.forEach((column, i) => {
      const cell = tr.cells[i];
      show(cell, this.isThere[i]);
      say(cell, column.text(row));
      const share = column.share?.(row);
      const bar = share > 0 ? `${Math.round(Math.min(share, 1) * 50) * 2}%` : "";
      if (cell.dataset.bar !== bar && column.share !== undefined) {
        cell.dataset.bar = bar;
        cell.style.setProperty("--bar", bar || "0%");
      }
      const tone = column.tone?.(row) ?? "";
      if ((cell.dataset.tone ?? "") !== tone) {
        cell.dataset.tone = tone;
      }
    });
  }
}
