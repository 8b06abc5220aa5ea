"""Recording: a pipeline function is called once, and what it does to the sample's handles becomes a graph.

Handles are nodes of DALI's. What stands before the first operator of DALI's, and what never meets one, is described by
values (`gpufeed.recording.values`) that are computed on the host; the rest is the user's graph.
"""

from __future__ import annotations

from gpufeed.recording.recorded import HostLeaf, Recorded, check_same, record
from gpufeed.recording.sample import Sample

__all__ = ["HostLeaf", "Recorded", "Sample", "check_same", "record"]
