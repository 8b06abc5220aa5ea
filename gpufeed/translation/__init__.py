"""torchvision's transforms to a `gpufeed.plan.Plan`.

The only package that reads transform objects. It knows torchvision and never DALI: what it makes is a Plan, and who
runs that Plan doesn't matter here. One module per family of transforms holds the rules, `registry` finds the rule of a
class, `compose` walks what is nested, and `translation` puts it together.
"""

from __future__ import annotations

from gpufeed.translation.translation import Step, Translation, translate

__all__ = ["Step", "Translation", "translate"]
