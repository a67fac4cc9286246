// Formulas: what the Markdown has between dollar signs, drawn by KaTeX.
document.addEventListener("DOMContentLoaded", () => {
  for (const node of document.querySelectorAll(".arithmatex")) {
    const tex = node.textContent.replace(/^\\[([]/, "").replace(/\\[)\]]$/, "");
    katex.render(tex, node, { displayMode: node.tagName === "DIV", throwOnError: false });
  }
});
