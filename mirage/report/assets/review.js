// The review of a test set: what is struck, and a file that says so.

const boxes = [...document.querySelectorAll("[data-item]")];
const notes = new Map([...document.querySelectorAll("[data-note]")]
  .map((field) => [field.dataset.note, field]));

function decisions() {
  const struck = {};
  for (const box of boxes) {
    if (box.checked) struck[box.dataset.item] = notes.get(box.dataset.item).value.trim();
  }
  return { dataset: data.dataset, struck };
}

function count() {
  const n = boxes.filter((box) => box.checked).length;
  const words = `${boxes.length - n} kept, ${n} struck`;
  document.getElementById("count").textContent = words;
  say(words);
}

for (const box of boxes) {
  box.addEventListener("change", () => {
    box.closest(".card").style.opacity = box.checked ? "0.55" : "";
    count();
  });
}
document.getElementById("save").addEventListener("click", () => {
  const file = new Blob([JSON.stringify(decisions(), null, 1)], { type: "application/json" });
  const link = h("a", { href: URL.createObjectURL(file), download: `${data.dataset}.decisions.json` });
  document.body.append(link);
  link.click();
  link.remove();
});
count();
