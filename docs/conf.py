"""How the pages of this folder become a site: ``make site``, without network once it is set up."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

project = "cockpit"
release = next(
    line.split('"')[1]
    for line in (ROOT / "cockpit" / "__init__.py").read_text("utf-8").splitlines()
    if line.startswith("__version__")
)
author = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["name"]
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = f"cockpit {release}"
html_static_path: list[str] = []
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
nitpicky = True
