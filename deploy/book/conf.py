"""Sphinx settings of the book that `make book` builds; deploy/book/build.py lays the pages out beside this file."""

project = "autodiff"
author = "the autodiff course authors"
copyright = "the autodiff course authors, CC BY 4.0"
html_title = "autodiff: a course on automatic differentiation"

extensions = ["myst_nb", "sphinx-mathjax-offline"]
html_theme = "sphinx_book_theme"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_theme_options = {
    "show_toc_level": 2,
    "use_download_button": True,
    "use_fullscreen_button": False,
    "navbar_persistent": [],  # the side bar has the search field already
}
html_show_sourcelink = False
html_copy_source = False

nb_execution_mode = "off"  # the stored outputs are what nbval has compared
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
exclude_patterns = ["autodiff/**", "**/.ipynb_checkpoints"]
nb_merge_streams = True
highlight_language = "python"
