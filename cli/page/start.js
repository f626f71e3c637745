setTheme(window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
  setTheme(event.matches ? "dark" : "light");
  redraw();
});
byId("theme").addEventListener("click", () => {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  redraw();
});
showHead();
showReasons();
showTimeline();
showDevices();
showInstead();
showPrice();
showProfiles();
