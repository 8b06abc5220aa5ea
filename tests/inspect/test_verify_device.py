"""Ops of DALI's graph on CUDA: what each gets on its own here, and on a device that they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from verify_run import pixels, transform_file, write_photos

from gpufeed.bench.images import list_image_folder
from gpufeed.bench.progress import Silent
from gpufeed.graph import device as device_module
from gpufeed.graph.decoding import DecodeGraph
from gpufeed.inspect.verify import device as verify_device
from gpufeed.inspect.verify.ops import ops_at
from gpufeed.inspect.verify.verification import Request, verify
from gpufeed.placement import place
from gpufeed.plan import CenterCrop, Convert, Flip, Grayscale, Normalize, Plan, RandomCrop, Resize, ToTensor


class HostGraph:
    """Takes what a `DeviceGraph` takes, checks that its inputs can be made, and decodes on the host."""

    def __init__(self, placement: Any, *_: Any) -> None:
        self._placement = placement
        self._decode = DecodeGraph(1, 1, False)
        self.inputs: dict[str, Any] = {}

    def schedule(self, encoded: Any, region: Any, parameters: Any) -> None:
        self.inputs = device_module.graph_inputs(self._placement, region, parameters)
        assert all(len(value) == 1 for value in self.inputs.values())
        self._decode.schedule(encoded, region.windows)

    def result(self) -> Any:
        return self._decode.result().pixels(range(1))


@pytest.mark.parametrize(
    ("op", "value"),
    [
        (Resize((9, 8)), np.array([[9, 8]])),
        (RandomCrop((5, 6)), np.array([[2, 3, 5, 6]])),
        (CenterCrop((99, 6)), np.array([[-36, 3, 99, 6]])),
        (Flip("horizontal"), np.array([True])),
        (Convert("tensor"), None),
        (ToTensor(), None),
    ],
)
def test_an_op_of_the_graph_gets_the_oracles_pixels(monkeypatch: pytest.MonkeyPatch, op: Any, value: Any) -> None:
    monkeypatch.setattr(device_module, "DeviceGraph", HostGraph)
    monkeypatch.setattr("gpufeed.tensors.from_dali", lambda result: torch.from_numpy(np.array(result)))
    plan = Plan((op,))
    (at,) = ops_at(plan, "cuda")
    run = verify_device.runner_for(place(plan, "cuda"), torch.device("cuda", 0))
    image = pixels(27, 31, 0)
    images = torch.from_numpy(image).permute(2, 0, 1)[None]
    (result,) = run(at, images, value).numpy()
    window = value[0] if isinstance(op, (RandomCrop, CenterCrop)) else (0, 0, 27, 31)
    top, left, height, width = (max(int(side), 0) for side in window)
    assert np.array_equal(result, image[top : top + height, left : left + width])


def test_what_the_graph_does_not_do_runs_in_torch() -> None:
    plan = Plan((CenterCrop((9, 9)), Grayscale(3), ToTensor(), Normalize((0.5,), (0.5,))))
    placement = place(plan, "cuda")
    assert placement.in_graph == 1
    run = verify_device._OnDevice(placement, torch.device("cpu"))  # where its tensors go in place of a device
    image = torch.from_numpy(pixels(9, 9, 0)).permute(2, 0, 1)[None]
    grey = run(ops_at(plan, "cuda")[1], image, None)
    assert torch.equal(grey[:, 0], grey[:, 2])
    assert run._graphs == {}


@pytest.mark.gpu
@pytest.mark.parametrize(
    "expression",
    [
        "v2.Compose([v2.RandomResizedCrop(64), v2.RandomHorizontalFlip(), v2.ToImage(), TO_FLOAT, NORMALIZE])",
        "v2.Compose([v2.Resize(70), v2.CenterCrop(64), v2.RandomGrayscale(0.5), v2.ToImage(), TO_FLOAT, NORMALIZE])",
        "v2.Compose([v2.ToImage(), v2.Resize((40, 50)), v2.RandomVerticalFlip(), TO_FLOAT])",
    ],
)
def test_ops_hold_on_a_device(tmp_path: Path, expression: str) -> None:
    photos = write_photos(tmp_path / "photos")
    reference = transform_file(tmp_path, expression)
    found = verify(Request(list_image_folder(photos), "photos", reference, device="cuda"), Silent())
    assert found.failures == ()
    assert found.device.startswith("cuda")
