"""The oracle: torchvision's own code, run with the parameters that gpufeed drew.

Two ways lead through the same image. `run` calls the transform objects themselves, or for a random one the class's own
code with our draw in the place of its own: that is what a sample has to look like. `trace` calls torchvision's function
for each op of a Plan, and yields what lies between them, to compare op by op on equal input. That both end alike is
what makes the Plan a faithful translation, and a test holds them to it.

Everything here is for single images, and slow. Nothing of gpufeed's own pixel code is called. One module holds the
leaves and the functions of one family of transforms.
"""

from __future__ import annotations

from gpufeed.reference.image import Image, spec_of
from gpufeed.reference.running import apply, run, run_steps, run_together, trace

__all__ = ["Image", "apply", "run", "run_steps", "run_together", "spec_of", "trace"]
