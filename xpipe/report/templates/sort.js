"use strict";
// Tables sort by the column whose title is pressed; a second press turns the order round. Empty cells come last.
document.querySelectorAll("table").forEach(function (table) {
  var heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach(function (head, column) {
    head.querySelector("button").addEventListener("click", function () {
      var rising = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      var body = table.tBodies[0];
      var rows = Array.from(body.rows).map(function (row, place) {
        var cell = row.cells[column];
        var number = cell.dataset.value;
        return { row: row, place: place, none: "none" in cell.dataset,
          value: number === undefined ? cell.textContent : Number(number) };
      });
      rows.sort(function (a, b) {
        if (a.none !== b.none) return a.none ? 1 : -1;
        var order = typeof a.value === "number" && typeof b.value === "number"
          ? a.value - b.value : String(a.value).localeCompare(String(b.value), "en", { numeric: true });
        return (rising ? order : -order) || a.place - b.place;
      });
      rows.forEach(function (each) { body.appendChild(each.row); });
    });
  });
});
// Everything is open on paper.
window.addEventListener("beforeprint", function () {
  document.querySelectorAll("details.example").forEach(function (each) { each.open = true; });
});
