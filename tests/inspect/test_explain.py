"""What becomes of a transform: the placement's own statements, step by step, and every refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torchvision import transforms as v1
from torchvision.datasets import ImageFolder
from torchvision.transforms import InterpolationMode, v2

from gpufeed import DataLoader
from gpufeed.bounds import bound_of
from gpufeed.errors import ArgumentError, UnsupportedError
from gpufeed.inspect.explain.explanation import SCHEMA, SCHEMA_VERSION, ExplainedOp, Explanation, explain, to_json
from gpufeed.placement import place
from gpufeed.plan import CenterCrop, Flip, RandomApply, RandomCrop, RandomOrder, Resize
from gpufeed.translation import translate

SCALE = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.5])]
TRAIN = v2.Compose([v2.RandomResizedCrop((24, 20)), v2.RandomHorizontalFlip(), v2.Identity(), *SCALE])
NESTED = v2.Compose(
    [
        v2.Resize(29),
        v2.RandomApply([v2.Grayscale(3), v2.RandomChoice([v2.Resize((9, 7)), v2.RandomCrop(7)])], p=0.3),
        v2.RandomOrder([v2.CenterCrop(8), v2.RandomHorizontalFlip()]),
        v2.PILToTensor(),
    ]
)
FIVE = v2.Compose([v2.FiveCrop(9), v2.ToImage()])
BOX = v2.Compose(
    [
        v2.Resize((9, 9), interpolation=InterpolationMode.BOX),
        v2.RandomApply([v2.Resize((9, 9), interpolation=InterpolationMode.HAMMING)]),
        v2.ToImage(),
    ]
)


def a_function(image: Any) -> Any:
    return image


BAD = v2.Compose(
    [
        v2.Resize(20),
        a_function,
        v2.RandomApply([v2.Grayscale(3), v2.Lambda(a_function)]),
        v2.CenterCrop(8),
        v2.RandomCrop(-1),
    ]
)
GOOD = [TRAIN, NESTED, FIVE, v1.ToTensor(), None]


def ops_of(explanation: Explanation) -> list[ExplainedOp]:
    return [explained for step in explanation.steps for explained in step.ops]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("transform", GOOD, ids=["train", "nested", "five", "one", "none"])
def test_ops_stand_as_they_are_placed(transform: Any, device: Any) -> None:
    explanation = explain(transform, device, "mine")
    plan = translate(transform).require()
    placement = place(plan, device)
    explained = ops_of(explanation)
    assert [(one.op, one.input, one.output, one.bound) for one in explained] == [
        (one.op, one.input, one.output, one.bound) for one in placement.placed
    ]
    where = {"decode": ("DALI", "mixed" if device == "cuda" else "cpu"), "graph": ("DALI", device)}
    assert [(one.stage, one.runs_on) for one in explained] == [
        where.get(one.stage, ("torch", device)) for one in placement.placed
    ]
    assert (explanation.output, explanation.fingerprint) == (plan.output, plan.fingerprint())
    assert explanation.refused == ()
    positions = [position for group in explanation.groups for position in group.positions]
    assert sorted(positions) == list(range(len(plan.ops)))


def test_a_step_that_does_nothing_is_passed_through() -> None:
    steps = explain(TRAIN, "cpu", "mine").steps
    assert [step.name.rpartition(".")[2] for step in steps if step.passes_through] == ["Identity"]
    assert (steps[2].place, steps[2].ops) == ("transforms[2]", ())
    never = explain(v2.RandomApply([v2.Grayscale(3)], p=0.0), "cpu", "mine").steps
    assert [step.passes_through for step in never] == [True]


def test_steps_inside_of_containers_get_what_their_branch_gets() -> None:
    _, applied, ordered, _ = explain(NESTED, "cpu", "mine").steps
    assert isinstance(applied.ops[0].op, RandomApply)
    ((grey, choice),) = applied.branches
    assert (grey.place, choice.place) == ("transforms[1].transforms[0]", "transforms[1].transforms[1]")
    resize, crop = (branch[0].ops[0] for branch in choice.branches)
    assert isinstance(resize.op, Resize)
    assert isinstance(crop.op, RandomCrop)
    assert resize.output is not None
    assert resize.output.size_hw == (9, 7)
    assert (resize.bound, resize.stage) == (bound_of(resize.op, applied.ops[0].input, "cpu"), "torch")
    assert applied.ops[0].bound == choice.ops[0].bound == resize.bound
    assert isinstance(ordered.ops[0].op, RandomOrder)
    assert [type(branch[0].ops[0].op) for branch in ordered.branches] == [CenterCrop, Flip]
    assert [step.place for step in explain(NESTED, "cpu", "mine").each_step()][:3] == [
        "transforms[0]",
        "transforms[1]",
        "transforms[1].transforms[0]",
    ]


def test_every_refusal_is_listed_and_what_is_known_before_the_first_is_shown() -> None:
    explanation = explain(BAD, "cpu", "mine")
    assert [(one.place, one.reason) for one in explanation.refused] == [
        (step.place, step.refusal) for top in translate(BAD).steps for step in top.refused_steps()
    ]
    assert [one.place for one in explanation.refused] == [
        "transforms[1]",
        "transforms[2].transforms[1]",
        "transforms[4]",
    ]
    assert (explanation.output, explanation.fingerprint, explanation.groups) == (None, None, ())
    first, _, container, crop, _ = explanation.steps
    assert first.ops[0].bound == bound_of(first.ops[0].op, explanation.input, "cpu")
    assert (first.ops[0].stage, first.ops[0].runs_on) == (None, None)
    assert (container.ops, container.passes_through) == ((), False)
    assert len(container.branches[0][0].ops) == 1
    assert (crop.ops[0].input, crop.ops[0].output, crop.ops[0].bound) == (None, None, None)


def test_what_the_device_can_not_do_is_refused_where_it_stands() -> None:
    assert explain(BOX, "cpu", "mine").refused == ()
    explanation = explain(BOX, "cuda", "mine")
    assert [one.place for one in explanation.refused] == ["transforms[0]", "transforms[1].transforms[0]"]
    assert all("use device='cpu' or another interpolation" in one.reason for one in explanation.refused)
    assert explanation.groups == ()
    assert explanation.steps[0].ops[0].stage is None
    assert explanation.output is not None  # the plan itself is whole


def test_what_no_loader_takes_is_said_as_the_loader_says_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    Image.new("RGB", (12, 9)).save(tmp_path / "a" / "0.png")
    transform = v2.Compose([v2.Resize(8)])
    explanation = explain(transform, "cpu", "mine")
    assert explanation.unfit is not None
    assert explanation.sizes_vary
    with pytest.raises(UnsupportedError) as caught:
        list(DataLoader(ImageFolder(tmp_path, transform), device="cpu"))
    assert str(caught.value) == explanation.unfit
    assert (explain(TRAIN, "cpu", "mine").unfit, explain(TRAIN, "cpu", "mine").sizes_vary) == (None, False)


def test_another_device_is_refused() -> None:
    with pytest.raises(ArgumentError, match="device must be 'cpu' or 'cuda', got 'tpu'"):
        explain(TRAIN, "tpu", "mine")  # type: ignore[arg-type]


def test_json_has_the_schema_and_all_that_the_tables_show() -> None:
    document = json.loads(to_json(explain(NESTED, "cuda", "mine.py:t")))
    assert (document["schema"], document["schema_version"]) == (SCHEMA, SCHEMA_VERSION) == ("gpufeed.explain", 1)
    assert set(document) == {
        *("schema", "schema_version", "subject", "device", "fingerprint"),
        *("input", "output", "steps", "groups", "unfit", "refused"),
    }
    resize, applied, _, _ = document["steps"]
    assert (resize["place"], resize["passes_through"], resize["refusal"]) == ("transforms[0]", False, None)
    assert resize["name"] == "torchvision.transforms.v2.Resize"
    (op,) = resize["ops"]
    assert (op["op"]["op"], op["op"]["size"], op["stage"], op["runs_on"]) == ("Resize", [29], "DALI", "cuda")
    assert op["input"]["container"] == "pil"
    assert (op["exactness"]["kind"], op["exactness"]["measured"]) == ("bounded", False)
    assert [len(branch) for branch in applied["branches"][0][1]["branches"]] == [1, 1]
    assert [group["kind"] for group in document["groups"]] == ["decode", "operator", "sample"]
    refused = json.loads(to_json(explain(BAD, "cpu", "mine.py:t")))
    assert refused["refused"][0]["place"] == "transforms[1]"
    assert (refused["output"], refused["steps"][1]["ops"]) == (None, [])
    assert refused["steps"][3]["ops"][0]["exactness"] is None
