"""The CUDA graph without a device: constructed, never built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import test_placement as plans
from nvidia.dali import fn, pipeline_def, types
from op_cases import CASES
from torchvision.transforms import v2

from gpufeed.draws import Draws, epoch_key
from gpufeed.graph.check import structural_faults
from gpufeed.graph.device import device_pipeline, graph_inputs
from gpufeed.graph.windows import compose_windows
from gpufeed.options import Decode
from gpufeed.parameters import draw_parameters
from gpufeed.placement import place
from gpufeed.plan import (
    CenterCrop,
    Convert,
    Flip,
    Plan,
    RandomResize,
    RandomShortestSize,
    Resize,
    ScaleJitter,
    ToDtype,
    ToTensor,
)
from gpufeed.translation import translate

ALL = {
    "train": plans.TRAIN,
    "eval": plans.EVAL,
    "tensor": plans.TENSOR,
    "mixed": plans.MIXED,
    "ragged": plans.RAGGED,
    "windows": plans.WINDOWS,
    "late flip": plans.LATE_FLIP,
    "bytes": Plan((CenterCrop((9, 9)), Convert("tensor"))),
    "flips": Plan(
        (Flip("horizontal"), Resize((9, 8), interpolation="bicubic"), Flip("vertical"), Flip("horizontal"), ToTensor())
    ),
    "lanczos": Plan((Resize((9, 8), interpolation="lanczos"), Convert("tv_image"), ToDtype("float32", True))),
    "whole": Plan((Convert("tensor"),)),
    "drawn size": Plan((RandomResize(30, 40), CenterCrop((28, 28)), ToTensor())),
    "jittered size": Plan((ScaleJitter((40, 30), (0.5, 1.5)), RandomShortestSize((9, 10), 20), Resize((9, 8)))),
}


def operators(pipe: Any) -> list[str]:
    pipe._build_graph()
    names = [f"{operator._op.schema.Name()}/{operator._op.device}" for operator in pipe._ops]
    return [name for name in names if not name.startswith("ExternalSource")]


def pipe_of(plan: Plan, decode: Decode | None = None) -> Any:
    return device_pipeline(place(plan, "cuda"), 8, 2, 0, False, decode or Decode())


@pytest.mark.parametrize("decode", [Decode(), Decode("cpu"), Decode("mixed", 0.7)], ids=str)
@pytest.mark.parametrize("name", ALL)
def test_graphs_have_no_structural_fault(name: str, decode: Decode) -> None:
    assert structural_faults(pipe_of(ALL[name], decode)) == []


@pytest.mark.parametrize(
    "name", [name for name, (_, domains) in CASES.items() if "pil" in domains and "Crop" not in name]
)
def test_every_transform_of_the_tail_stands_behind_a_sound_graph(name: str) -> None:
    """Decoding, cropping and resizing stay DALI's; what it doesn't do follows in torch, in the plan's order."""
    transform = v2.Compose([v2.RandomResizedCrop((61, 83)), v2.RandomHorizontalFlip(), CASES[name][0], v2.ToImage()])
    translated = translate(transform)
    if translated.plan is None:  # it ends in a tensor already
        translated = translate(v2.Compose(transform.transforms[:-1]))
    placement = place(translated.require(), "cuda").require()
    assert [placed.stage for placed in placement.placed[:3]] == ["decode", "graph", "graph"]
    stages = [placed.stage for placed in placement.placed]
    assert stages == sorted(stages, key=["decode", "graph", "tail"].index)
    assert structural_faults(pipe_of(placement.plan)) == []


def test_the_training_graph_is_four_kernels() -> None:
    assert operators(pipe_of(plans.TRAIN)) == [
        "decoders__ImageSlice/mixed",
        "Resize/gpu",
        "CropMirrorNormalize/gpu",
    ]
    assert operators(pipe_of(plans.EVAL)) == [
        "decoders__ImageSlice/mixed",
        "Resize/gpu",
        "Slice/gpu",
        "CropMirrorNormalize/gpu",
    ]
    assert operators(pipe_of(ALL["drawn size"])) == operators(pipe_of(plans.EVAL))
    assert operators(pipe_of(plans.TRAIN, Decode("cpu")))[0] == "decoders__ImageSlice/cpu"
    assert operators(pipe_of(ALL["bytes"])) == ["decoders__ImageSlice/mixed", "Slice/gpu", "Transpose/gpu"]


@pytest.mark.parametrize("name", ALL)
def test_every_input_of_a_graph_is_fed_and_nothing_else(name: str) -> None:
    plan = ALL[name]
    placement = place(plan, "cuda")
    sizes = np.array([[64, 48], [40, 90], [41, 41]])
    parameters = draw_parameters(plan, sizes, Draws(epoch_key(0, 0), np.arange(3), np.zeros(3, dtype=np.int64)))
    windows: list[Any] = [parameters.values[position] for position in range(placement.decoded)]
    feeds = graph_inputs(placement, compose_windows(sizes, windows), parameters)
    pipe = pipe_of(plan)
    pipe._build_graph()
    inputs = {operator.name for operator in pipe._ops if operator._op.schema.Name() == "ExternalSource"}
    assert inputs == {"content", *feeds}
    assert all(len(value) == 3 and value.flags.c_contiguous for value in feeds.values())


def test_two_mirrors_are_none() -> None:
    plan = Plan((Flip("horizontal", 1.0), ToTensor(), Flip("horizontal", 1.0), Flip("horizontal", 0.0)))
    placement = place(plan, "cuda")
    sizes = np.array([[5, 4]])
    parameters = draw_parameters(plan, sizes, Draws(epoch_key(0, 0), np.arange(1), np.zeros(1, dtype=np.int64)))
    assert graph_inputs(placement, compose_windows(sizes, []), parameters)["mirror"].tolist() == [0]


def test_normalisation_has_torchvisions_meaning() -> None:
    pipe = pipe_of(plans.TRAIN)
    pipe._build_graph()
    text = str(pipe._ops[-1].spec)
    assert "127.5" in text  # 255 * 0.5
    assert "51" in text  # 255 * 0.2


@pipeline_def(batch_size=2, num_threads=1, device_id=0)
def _host_after_device() -> Any:
    images = fn.external_source(name="images", device="gpu", ndim=3, dtype=types.UINT8)
    return fn.transpose(images.cpu(), perm=[2, 0, 1])


@pipeline_def(batch_size=2, num_threads=1, device_id=0)
def _host_output() -> Any:
    return fn.external_source(name="images", ndim=3, dtype=types.UINT8)


def test_faults_are_found_and_said() -> None:
    assert structural_faults(_host_after_device())[0] == "Transpose takes images from the GPU back to the host"
    assert structural_faults(_host_output()) == ["output 0 (images) lies on the host, not on the GPU"]
