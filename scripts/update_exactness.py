"""Write the bounds that hold now into a README, between its two marker comments.

python scripts/update_exactness.py [README.md]
"""

from __future__ import annotations

import sys
from pathlib import Path

from gpufeed.inspect.exactness import replace_section


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "README.md"
    path.write_text(replace_section(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
