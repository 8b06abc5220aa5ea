"""``python -m gpufeed`` is ``gpufeed``."""

from __future__ import annotations

from gpufeed.cli import main

if __name__ == "__main__":
    main(prog_name="gpufeed")
