"""A pipeline's graph for CUDA, as far as it can be known without a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nvidia.dali import fn
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import gpufeed
from gpufeed import ops
from gpufeed.draws import Draws, epoch_key
from gpufeed.graph.check import structural_faults
from gpufeed.graph.reading import ReadGraph
from gpufeed.pipeline_stages.feeding import device_inputs
from gpufeed.pipeline_stages.host_batch import HostWork, prepare_batch
from gpufeed.recording import HostLeaf, Recorded, record
from gpufeed.sources.folders import FolderSource


@gpufeed.pipeline
def usual(sample, *, size: int = 32):
    image = ops.apply(v2.RandomHorizontalFlip(), sample.random_resized_crop(size), sample)
    return ops.normalize(image), sample.target


@gpufeed.pipeline
def with_operators(sample):
    image = fn.rotate(sample.center_crop(40, resize=48), angle=sample.uniform(-9, 9), keep_size=True)
    return ops.normalize(image), sample.index, sample.coin()


@gpufeed.pipeline
def several(sample):
    other = sample.others(2)[1]
    mixed = fn.cat(sample.random_resized_crop(32), other.center_crop(32), axis=0)
    return {
        "mixed": mixed,
        "whole": sample.decode(),
        "planes": ops.to_chw(sample.center_crop(17)),
        "size": sample.size_hw,
    }


@gpufeed.pipeline
def on_the_host_too(sample):
    number = sample.uniform() * 2 + sample.index
    return sample.decode(), number


PIPELINES = (usual, with_operators, several, on_the_host_too)


def recorded(pipeline: gpufeed.Pipeline) -> Recorded:
    return record(pipeline, "cuda", example={"target": 1})


def input_names(graph: Any) -> set[str]:
    return {operator.name for operator in graph._ops if operator._op.schema.Name() == "ExternalSource"}


@pytest.mark.parametrize("pipeline", PIPELINES, ids=str)
def test_the_graph_has_no_structural_fault(pipeline: gpufeed.Pipeline) -> None:
    assert structural_faults(recorded(pipeline).graph) == []


@pytest.mark.parametrize("pipeline", PIPELINES, ids=str)
def test_every_input_of_the_graph_is_fed_and_nothing_else(folder: Path, pipeline: gpufeed.Pipeline) -> None:
    found = recorded(pipeline)
    source = FolderSource(ImageFolder(str(folder)))
    indices = [3, 0, 11]
    draws = Draws(epoch_key(1, 0), np.array(indices), np.zeros(3, dtype=np.int64))
    batch = prepare_batch(HostWork(found), ReadGraph(4, 1, False), source, indices, draws)
    fed = {**device_inputs(batch), **found.inputs}
    assert fed.keys() == input_names(found.graph)
    for name, value in device_inputs(batch).items():
        assert len(value) == 3, name


def test_images_are_decoded_once_for_each_sample_on_the_device() -> None:
    graph = recorded(several).graph
    names = [(operator._op.schema.Name(), operator._op.device) for operator in graph._ops]
    assert names.count(("decoders__ImageSlice", "mixed")) == 2, "one for the sample and one for the other"
    assert ("Slice", "gpu") in names


def test_images_come_from_the_graph_and_fields_from_the_host() -> None:
    found = recorded(several)
    kinds = [isinstance(leaf, HostLeaf) for leaf in found.leaves]
    assert kinds == [False, False, False, True]
    assert len(found.graph._graph_outputs) == 3
    assert {output.device for output in found.graph._graph_outputs} == {"gpu"}


def test_a_plan_without_operators_ends_in_one_scaling_kernel() -> None:
    graph = recorded(usual).graph
    names = [operator._op.schema.Name() for operator in graph._ops]
    assert names.count("CropMirrorNormalize") == 1
    assert "Flip" not in names, "the kernel mirrors"


def test_both_devices_draw_with_the_same_numbers() -> None:
    for pipeline in PIPELINES:
        on_cpu = record(pipeline, "cpu", example={"target": 1})
        assert on_cpu.next_number == recorded(pipeline).next_number
        assert on_cpu.structure == recorded(pipeline).structure
