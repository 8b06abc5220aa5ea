"""`gpufeed.inspect.check`: what is found of good pipelines, and each kind of fault."""

from __future__ import annotations

import json
import math
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch

from gpufeed.bench import progress
from gpufeed.bench.progress import Silent
from gpufeed.errors import ArgumentError
from gpufeed.inspect.check import checking as check_module
from gpufeed.inspect.check.checking import Request, check, pipelines_of
from gpufeed.inspect.check.outputs import Batch, described, differing, first_image, form_changes, taken_apart
from gpufeed.inspect.check.render import render
from gpufeed.inspect.check.results import Check, Fault, to_json
from gpufeed.inspect.example_data import example_data
from gpufeed.pipelines import load_pipeline

HEAD = """\
import torch
from nvidia.dali import fn, types
from torchvision.transforms import v2
import gpufeed
from gpufeed import ops

"""
PLAIN = """\
@gpufeed.pipeline
def train(sample, *, size: int = 24):
    return ops.normalize(sample.random_resized_crop(size)), sample.target
"""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "_TIMED_S", 0.0)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(example_data(tmp_path_factory.mktemp("check"), count=13).folders)


@pytest.fixture
def checked(tmp_path: Path, folders: str) -> Any:
    """Checks the pipeline ``train`` of a module with this text."""

    def run(text: str, **options: Any) -> Check:
        path = tmp_path / "study.py"
        path.write_text(HEAD + dedent(text))
        pipeline = load_pipeline(f"{path}:train")(**options.pop("values", {}))
        options = {"data": folders, "batch_size": 4, "num_batches": 3, **options}
        return check(Request("study.py:train", pipeline, **options), tmp_path / "examples", Silent())

    return run


def only_fault(found: Check) -> Fault:
    (fault,) = found.faults
    return fault


def line_of(found: Check, text: str) -> int:
    lines = Path(found.path).read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


# A good one -----------------------------------------------------------------------------------------------------------


def test_a_good_pipeline(checked: Any) -> None:
    found = checked(
        PLAIN
        + """
@train.reference
def train_torch(*, size: int):
    to_float = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(ops.IMAGENET_MEAN, ops.IMAGENET_STD)]
    return v2.Compose([v2.RandomResizedCrop(size), *to_float])
""",
        values={"size": 20},
    )
    assert found.faults == ()
    assert found.notes == ()
    assert found.exact
    assert (found.pipeline, found.num_batches, found.num_samples) == ("study.py:train(size=20)", 3, 12)
    image, target = found.outputs
    assert (image.name, image.shape, image.dtype, image.device) == ("[0]", "(4, 3, 20, 20)", "float32", "cpu")
    assert image.low is not None
    assert image.high is not None
    assert -2.2 < image.low < 0 < image.high < 2.7
    assert (target.shape, target.dtype) == ("(4,)", "int64")
    assert target.low is not None
    assert target.low >= 0
    assert found.gpu is not None
    assert found.gpu.on_gpu > 0
    assert len(found.comparisons) == 3
    assert [one.differing for one in found.comparisons] == [()] * 3
    assert found.reference is not None
    assert (found.reference.kind, found.reference.shape) == ("reference", (3, 20, 20))
    assert found.speed is not None
    assert found.speed.num_batches == 4
    assert found.speed.images_per_s > 0


def test_a_pipeline_without_nodes_runs_nothing_on_the_gpu(checked: Any) -> None:
    found = checked("@gpufeed.pipeline\ndef train(sample):\n    return sample.target, sample.index\n")
    assert found.faults == ()
    assert found.gpu is not None
    assert (found.gpu.on_gpu, found.gpu.on_host) == (0, 0)
    assert "where its graph has nothing to do" in " ".join(render(found).split())


def test_without_data_there_is_example_data(checked: Any) -> None:
    found = checked(PLAIN, data=None, num_batches=1)
    assert found.data == "32 built-in example images"
    assert found.faults == ()


def test_fewer_samples_than_asked_for_are_all_of_them(checked: Any) -> None:
    found = checked(PLAIN, batch_size=5, num_batches=100)
    assert (found.num_batches, found.num_samples) == (3, 13)
    assert found.faults == ()
    assert found.outputs[0].shape == "(5, 3, 24, 24)"


def test_padding_may_differ_with_the_batch(checked: Any) -> None:
    found = checked(
        """
        @gpufeed.pipeline
        def train(sample):
            numbers = fn.slice(sample.uniform(0, 1, 40), 0, sample.integers(1, 40), axes=[0])
            numbers, lengths = ops.pad(numbers, fill=-1)
            return {"numbers": numbers, "lengths": lengths}
        """
    )
    assert found.faults == ()
    assert found.notes == ()
    assert " to " in found.outputs[0].shape


def test_lists_inside_a_structure_are_structures(checked: Any) -> None:
    found = checked(
        """
        @gpufeed.pipeline
        def train(sample):
            return {"views": [sample.random_resized_crop(8), sample.random_resized_crop(6)], "index": sample.index}
        """
    )
    assert [output.name for output in found.outputs] == ["['views'][0]", "['views'][1]", "['index']"]
    assert [output.shape for output in found.outputs] == ["(4, 8, 8, 3)", "(4, 6, 6, 3)", "(4,)"]
    assert found.faults == ()


# Faults ---------------------------------------------------------------------------------------------------------------


def test_a_mistake_is_the_fault_once_for_both_devices(checked: Any) -> None:
    found = checked("@gpufeed.pipeline\ndef train(sample):\n    return fn.rotat(sample.decode())\n")
    fault = only_fault(found)
    assert "did you mean fn.rotate" in fault.text
    assert (fault.path, fault.line) == (found.path, line_of(found, "fn.rotat"))
    assert found.num_batches == 0
    assert found.speed is None
    text = render(found)
    assert "fn.rotat(sample.decode())" in text
    assert "One fault." in text


def test_a_mistake_for_the_gpu_alone(checked: Any) -> None:
    found = checked(
        """
        @gpufeed.pipeline
        def train(sample):
            image = sample.random_resized_crop(24)
            angle = fn.cast(fn.reductions.mean(image), dtype=types.FLOAT)
            return fn.rotate(image, angle=angle, keep_size=True)
        """
    )
    fault = only_fault(found)
    assert fault.concern == "gpu"
    assert fault.line == line_of(found, "angle=angle")
    assert found.gpu is None
    assert found.num_batches == 3


def test_a_graph_that_fails_while_it_runs(checked: Any) -> None:
    found = checked("@gpufeed.pipeline\ndef train(sample):\n    return fn.crop(sample.decode(), crop=[5000, 5000])\n")
    fault = only_fault(found)
    assert fault.concern == "cpu"
    assert "fn.crop failed while it ran" in fault.text
    assert found.gpu is not None


def test_a_file_that_can_not_be_read_is_a_fault(checked: Any, tmp_path: Path) -> None:
    folder = tmp_path / "photos" / "cats"
    folder.mkdir(parents=True)
    (folder / "0.jpg").write_bytes(b"no picture")
    found = checked(PLAIN, data=str(folder.parent))
    assert "0.jpg" in only_fault(found).text


def test_native_draws_are_faults_with_their_line(checked: Any) -> None:
    found = checked(
        """
        @gpufeed.pipeline
        def train(sample):
            angle = fn.random.uniform(range=(-15.0, 15.0))
            return fn.rotate(sample.random_resized_crop(24), angle=angle, keep_size=True)
        """
    )
    fault = only_fault(found)
    assert fault.concern == "exactness"
    assert fault.line == line_of(found, "fn.random.uniform")
    assert "use sample.uniform(low, high)" in fault.text
    assert not found.exact


@pytest.mark.parametrize(
    ("tail", "text"),
    [
        ("images * torch.rand(len(images), 1, 1, 1)", "the tail draws from the global generator"),
        ("images + next(COUNT)", "a second run gives other values of output: something in it isn't a function"),
    ],
)
def test_a_tail_that_is_no_function_of_the_samples(tail: str, text: str, checked: Any) -> None:
    found = checked(
        f"""
        from itertools import count
        COUNT = count()
        @gpufeed.pipeline
        def train(sample):
            return ops.normalize(sample.random_resized_crop(24))
        @train.tail
        def tail(images):
            return {tail}
        """
    )
    assert text in only_fault(found).text
    assert not found.exact


def test_what_depends_on_the_batch_is_a_note_that_names_the_output(checked: Any) -> None:
    found = checked(
        PLAIN
        + """
@train.tail
def tail(images, target):
    return {"mixed": (images + images.flip(0)) / 2, "target": target}
"""
    )
    assert found.faults == ()
    (note,) = found.notes
    assert note.startswith("['mixed'] depends on the batch")
    assert [output.by_batch for output in found.outputs] == [True, False]


def test_an_output_whose_form_changes(checked: Any) -> None:
    text = "@gpufeed.pipeline\ndef train(sample):\n    return {}, sample.index\n"
    found = checked(text.format("sample.decode()"))
    fault = only_fault(found)
    assert fault.concern == "outputs"
    assert fault.text.startswith("[0] comes as one tensor")
    assert "ops.ragged" in fault.text
    assert "ops.pad" in fault.text
    assert found.outputs[0].shape == "list of (N, M, 3)"
    assert checked(text.format("ops.ragged(sample.decode())")).faults == ()


def test_values_that_are_not_finite_are_noted(checked: Any) -> None:
    found = checked(
        PLAIN
        + """
@train.tail
def tail(images, target):
    images[:, 0] = float("nan")
    images[:, 1] = float("inf")
    return images, target
"""
    )
    assert found.faults == ()
    assert found.exact
    assert "[0] holds NaN or infinite values" in found.notes
    assert found.outputs[0].low is not None
    assert math.isfinite(found.outputs[0].low)


# Its reference --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("v2.Compose([v2.CenterCrop(size + 1), v2.ToImage(), v2.ToDtype(torch.float32)])", "makes (3, 25, 25)"),
        ("v2.Compose([v2.CenterCrop(size), v2.ToImage()])", "makes uint8, and the pipeline float32 ([0])"),
        ("v2.CenterCrop(size)", "returns no image tensor, and [0] is one"),
        ("v2.Normalize([0.5], [0.5])", "does not support PIL images"),
        ("None", "'NoneType' object is not callable"),
    ],
)
def test_a_reference_that_does_not_agree(returned: str, text: str, checked: Any) -> None:
    found = checked(f"{PLAIN}\n@train.reference\ndef train_torch(*, size: int):\n    return {returned}\n")
    fault = only_fault(found)
    assert fault.concern == "reference"
    assert text in fault.text
    assert fault.line in (line_of(found, "@train.reference"), line_of(found, "def train_torch"))
    assert found.reference is None


def test_a_torch_dataset_is_held_to_it_too(checked: Any) -> None:
    text = """
@train.torch_dataset
def train_dataset(source, *, size: int):
    return [(torch.zeros(3, size{}, size), 0)]
"""
    good = checked(PLAIN + text.format(""))
    assert good.faults == ()
    assert good.reference is not None
    assert good.reference.kind == "torch_dataset"
    assert "(3, 25, 24)" in only_fault(checked(PLAIN + text.format(" + 1"))).text


def test_a_source_that_fails_is_a_fault_with_its_line(checked: Any) -> None:
    found = checked(f"{PLAIN}\n@train.source\ndef train_source(root):\n    return root.nothing\n")
    fault = only_fault(found)
    assert "'str' object has no attribute 'nothing'" in fault.text
    assert fault.line == line_of(found, "root.nothing")


# Requests -------------------------------------------------------------------------------------------------------------


def test_wrong_requests(tmp_path: Path) -> None:
    path = tmp_path / "study.py"
    path.write_text(
        HEAD + "@gpufeed.pipeline\ndef train(sample, *, size: int): ...\nflip = v2.RandomHorizontalFlip()\n"
    )
    train = load_pipeline(f"{path}:train")
    with pytest.raises(ArgumentError, match="needs a value for size: int"):
        Request("train", train)
    for name in ("batch_size", "num_batches"):
        with pytest.raises(ArgumentError, match="must be at least 1, got 0"):
            Request("train", train(size=3), **{name: 0})
    with pytest.raises(ArgumentError, match=r"not a pipeline; gpufeed explain .*study\.py:flip shows"):
        pipelines_of(f"{path}:flip")
    with pytest.raises(ArgumentError, match=r"name a function under @gpufeed\.pipeline"):
        pipelines_of(f"{path}:ops")
    path.write_text(HEAD + "flip = v2.RandomHorizontalFlip()\n")
    with pytest.raises(ArgumentError, match="gpufeed explain"):
        pipelines_of(str(path))


def test_data_without_samples_is_refused(checked: Any) -> None:
    with pytest.raises(ArgumentError, match="holds no sample"):
        checked(EMPTY)


EMPTY = (
    PLAIN
    + """
class Empty(torch.utils.data.Dataset):
    def __len__(self): return 0
    def read(self, indices): ...
    def fields(self, indices): ...
    def name_of(self, index): ...
    def fingerprint(self): ...
@train.source
def source(root):
    return Empty()
"""
)


# Outputs, apart -------------------------------------------------------------------------------------------------------


def rows(**outputs: Any) -> list[dict[str, Any]]:
    return [outputs]


def test_what_counts_as_the_same() -> None:
    one = torch.tensor([1.0, float("nan"), 0.0])
    assert differing(rows(a=one), rows(a=one.clone())) == ()
    assert differing(rows(a=one), rows(a=torch.tensor([1.0, float("nan"), -0.0]))) == ("a",)
    assert differing(rows(a=one), rows(a=one.double())) == ("a",)
    assert differing(rows(a=one), rows(b=one)) == ("a", "b")
    assert differing(rows(a="x", b=1), rows(a="y", b=1)) == ("a",)
    assert differing(rows(a=one), []) == ("a",)
    assert differing(rows(a=one.bfloat16()), rows(a=one.bfloat16())) == ()


def test_padding_is_what_lies_beyond_a_length() -> None:
    short, long = torch.tensor([5, 6, 0]), torch.tensor([5, 6, 0, 0])
    two, three = torch.tensor(2), torch.tensor(3)
    assert differing(rows(a=short, n=two), rows(a=long, n=two)) == ()
    assert differing(rows(a=short, n=two), rows(a=torch.tensor([5, 7, 0, 0]), n=two)) == ("a",)
    assert differing(rows(a=short, n=two), rows(a=torch.tensor([5, 6, 0, 1]), n=two)) == ("a",)
    assert differing(rows(a=short, n=two), rows(a=long, n=three)) == ("a", "n")
    assert differing(rows(a=short), rows(a=long)) == ("a",)


def test_shapes_in_words() -> None:
    def shape(*leaves: Any) -> str:
        batches = [Batch({"a": leaf}, len(leaf)) for leaf in leaves]
        return described("a", batches, by_batch=False).shape

    assert shape(torch.zeros(4, 3), torch.zeros(4, 3), torch.zeros(2, 3)) == "(4, 3)"
    assert shape(torch.zeros(4, 3), torch.zeros(4, 5)) == "(4, 3 to 5)"
    assert shape([torch.zeros(2, 4), torch.zeros(3, 4)]) == "list of (N, 4)"
    assert shape([torch.zeros(2, 4)], torch.zeros(1, 2, 4)) == "list of (2, 4)"
    assert shape([torch.zeros(2), torch.zeros(2, 2)]) == "list of tensors of differing dimensions"
    assert shape(["a", "b"]) == "list of 2"


def test_the_form_of_an_output() -> None:
    tensor, listed = Batch({"a": torch.zeros(2, 3)}, 2), Batch({"a": [torch.zeros(1), torch.zeros(2)]}, 2)
    assert form_changes("a", [tensor, listed], always_list=False)
    assert not form_changes("a", [listed, listed], always_list=False)
    assert not form_changes("a", [tensor, tensor], always_list=False)


def test_batches_are_taken_apart_along_the_structure() -> None:
    images = [torch.zeros(2), torch.zeros(3)]
    batch = taken_apart(({"x": images}, torch.arange(2)), ({"x": 0}, 1), 2)
    assert list(batch.outputs) == ["[0]['x']", "[1]"]
    assert [row["[1]"].item() for row in batch.rows()] == [0, 1]
    assert list(taken_apart((images, torch.arange(2)), None, 2).outputs) == ["[0]", "[1]"]
    assert first_image({"a": torch.zeros(3), "b": torch.zeros(5, 5, 3)}) is not None
    assert first_image({"a": torch.zeros(3), "b": torch.zeros(5, 5, 4)}) is None


# Shown ----------------------------------------------------------------------------------------------------------------


def test_a_report_fits_a_terminal_and_json_has_everything(checked: Any) -> None:
    found = checked(
        """
        @gpufeed.pipeline
        def train(sample, *, a_rather_long_name_of_a_parameter: str = "and a value that is rather long as well, too"):
            image = fn.rotate(sample.decode(), keep_size=True, fill_value=0, angle=fn.random.uniform(range=(0.0, 9.0)))
            return {"image": image, "the name of another output that is long": sample.target}
        """,
        values={"a_rather_long_name_of_a_parameter": "short"},
    )
    text = render(found)
    assert max(map(len, text.splitlines())) <= 80
    assert "Two faults." in text
    document = json.loads(to_json([found]))
    assert (document["schema"], document["schema_version"]) == ("gpufeed.check", 1)
    (shown,) = document["checks"]
    assert len(shown["faults"]) == 2
    assert shown["exact"] is False
    assert shown["outputs"][0]["shape"] == "list of (N, M, 3)"


@pytest.mark.parametrize(("after_s", "told"), [(0.0, ["running", (1, 2)]), (1e9, [])])
def test_progress_is_told_only_where_it_takes_long(
    after_s: float, told: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[object] = []

    class Notes(Silent):
        def say(self, text: str) -> None:
            said.append(text)

        def count(self, done: int, total: int) -> None:
            said.append((done, total))

    monkeypatch.setattr(progress, "_WORTH_TELLING_S", after_s)
    late = progress.Late(Notes())
    late.say("running")
    late.count(1, 2)
    assert said == told
