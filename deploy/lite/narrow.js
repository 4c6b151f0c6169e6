// An extension of the site's JupyterLab, as its loader takes them. On a phone the file list would leave a lesson sixty
// pixels, so it stays folded away until the reader touches something; the folder at the left opens it.
(window._JUPYTERLAB ??= {})["autodiff-narrow"] = {
  init() {},
  async get() {
    const activate = ({ shell, restored }) => {
      if (window.innerWidth >= 700) return;
      const fold = () => shell.leftCollapsed || shell.collapseLeft();
      restored.then(fold);
      shell.layoutModified.connect(fold);
      const stop = () => shell.layoutModified.disconnect(fold);
      window.addEventListener("pointerdown", stop, { capture: true, once: true });
    };
    return () => ({ __esModule: true, default: { id: "autodiff-narrow:plugin", autoStart: true, activate } });
  },
};
