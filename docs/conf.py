"""How the pages of this folder become a site: ``make site``, without network once it is set up."""

import runpy
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "cockpit"

project = "cockpit"
release = runpy.run_path(str(PACKAGE / "__init__.py"))["__version__"]
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = f"cockpit {release}"
html_static_path: list[str] = []
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
nitpicky = True
