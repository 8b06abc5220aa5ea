"""Numbers in words, with their units."""

from __future__ import annotations

import re

__all__ = [
    "TIMES",
    "compact",
    "megabytes",
    "per_second",
    "percent",
    "plain_number",
    "seconds",
    "tick_megabytes",
    "tick_number",
    "tick_seconds",
    "unbroken",
]

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|ms|s|MB|GB|images/s)(?!\w))")

TIMES = "\N{MULTIPLICATION SIGN}"


def plain_number(value: float) -> str:
    """Such as ``12,345``, ``150``, ``2.5`` or ``0.25``: what is at least 10 is rounded to whole numbers."""
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.2g}"


def tick_number(value: float) -> str:
    """A place on a scale, exactly: such as ``1,500``, ``12.5`` or ``1.25``."""
    return f"{value:,.6f}".rstrip("0").rstrip(".")


def tick_seconds(duration_s: float) -> str:
    """A duration on a scale, exactly: such as ``0.5 ms``, ``250 ms`` or ``1.5 s``."""
    return f"{tick_number(duration_s)} s" if duration_s >= 1 else f"{tick_number(1000 * duration_s)} ms"


def tick_megabytes(size: float) -> str:
    """A size on a scale, exactly: such as ``500 MB`` or ``1.5 GB``."""
    return f"{tick_number(size / 1e9)} GB" if size >= 1e9 else f"{tick_number(size / 1e6)} MB"


def compact(value: float) -> str:
    """A round number in few characters, such as ``100``, ``10k`` or ``1M``."""
    for least, unit in ((1e6, "M"), (1e3, "k")):
        if value >= least:
            return f"{value / least:g}{unit}"
    return f"{value:g}"


def per_second(images_per_s: float) -> str:
    """A rate, such as ``1,162 images/s``."""
    return f"{images_per_s:,.0f} images/s" if images_per_s >= 10 else f"{images_per_s:.2g} images/s"


def seconds(duration_s: float) -> str:
    """A duration, such as ``1.25 s``, ``48 ms``, ``3.1 ms`` or ``0.02 ms``."""
    if duration_s >= 0.9995:
        return f"{duration_s:.2f} s"
    milliseconds = 1000 * duration_s
    decimals = 0 if milliseconds >= 10 or milliseconds == 0 else 1 if milliseconds >= 1 else 2
    return f"{milliseconds:.{decimals}f} ms"


def percent(share: float) -> str:
    """A share, such as ``87 %`` or ``2.3 %``."""
    return f"{100 * share:.0f} %" if share >= 0.0995 or share == 0 else f"{100 * share:.1f} %"


def megabytes(size: float | None) -> str:
    """A size in decimal units, such as ``890 MB`` or ``1.44 GB``; ``n/a`` where it isn't known."""
    if size is None:
        return "n/a"
    if size < 999.5e6:
        return f"{size / 1e6:.0f} MB"
    return f"{size / 1e9:.2f} GB" if size < 9.995e9 else f"{size / 1e9:,.1f} GB"


def unbroken(text: str) -> str:
    """The text with no line break possible between a number and its unit."""
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)
