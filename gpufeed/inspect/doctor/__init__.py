"""What holds a training up: the machine, the data, a running training."""

from __future__ import annotations
