"""Sphinx: `make docs-site` builds these pages into build/docs. Why Sphinx: dependencies.md."""

project = "museorch"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "museorch"
html_show_sphinx = False
html_show_sourcelink = False
html_show_copyright = False
# As GitHub makes them, so that one link works there and here.
myst_heading_anchors = 3
