// Before anything is drawn: the theme that was chosen, or the system's. Kept apart from the page so that nothing flashes.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let chosen = null;
    try {
      chosen = JSON.parse(localStorage.getItem("ronda.theme"));
    } catch {
      // a browser that keeps nothing follows the system
    }
    const isDark = chosen === "dark" || (chosen !== "light" && system.matches);
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
  };
  apply();
  system.addEventListener("change", apply);
  window.rondaTheme = apply;
})();
