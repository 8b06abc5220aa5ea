"""Handles: DALI's nodes that know what they stand for."""

from __future__ import annotations

from typing import Any, cast

from nvidia.dali.data_node import DataNode

from gpufeed.recording.values import HostValue

__all__ = ["Node", "plain"]


class Node(DataNode):
    """A node of the graph that operators of DALI's take like any other.

    Attributes:
        value: what it stands for where it has met no operator of DALI's yet; ``None`` else.
        recording: what it belongs to.
        ragged: whether it is handed over as a list of tensors, one per sample.
    """

    def __init__(
        self, node: Any, value: HostValue | None = None, recording: Any = None, *, ragged: bool = False
    ) -> None:
        cast(Any, super()).__init__(node.name, node.device, node.source, node.index)
        self.value = value
        self.recording = recording
        self.ragged = ragged

    def gpu(self) -> Any:
        """The node on the GPU, as an operator's input; what it stood for is left behind."""
        return plain(self).gpu()

    def as_ragged(self) -> Node:
        """The same, handed over as a list."""
        return Node(self, self.value, self.recording, ragged=True)


def plain(node: Any) -> Any:
    """The node as DALI's own."""
    return DataNode(node.name, node.device, node.source, node.index)
