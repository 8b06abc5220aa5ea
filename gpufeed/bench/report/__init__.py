"""A comparison as a page (``--html``) and as a picture (``--png``)."""

from __future__ import annotations

from gpufeed.bench.report.html import check_html_target, write_html
from gpufeed.bench.report.png import check_png_target, write_png

__all__ = ["check_html_target", "check_png_target", "write_html", "write_png"]
