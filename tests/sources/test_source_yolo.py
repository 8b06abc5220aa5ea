"""`YoloSource`: what it gives, and every fault of a folder by its message."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from source_harness import check_contract, lines_of, paths_of

from gpufeed.errors import ArgumentError
from gpufeed.sources import YoloSource

BOX = "0 0.5 0.5 0.2 0.1\n"


def dataset(root: Path, labels: Mapping[str, str | bytes | None]) -> Path:
    """A folder ``images`` with the files that are named, and ``labels`` with their labels, and the former's path."""
    for name, text in labels.items():
        image = root / "images" / name
        image.parent.mkdir(parents=True, exist_ok=True)
        image.touch()
        label = (root / "labels" / name).with_suffix(".txt")
        label.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            label.write_bytes(text.encode() if isinstance(text, str) else text)
    return root / "images"


def arrays(source: YoloSource, index: int = 0) -> tuple[Any, Any, Any]:
    fields = source.fields([index])
    return fields["boxes"][0], fields["labels"][0], fields["target"][0]


def faults(images: Path, **arguments: Any) -> list[str]:
    """The error's lines after the first, with paths below the dataset's folder."""
    first, *rest = lines_of(lambda: YoloSource(images, **arguments))
    assert first.startswith(f"the labels of {images} in {images.parent / 'labels'}: ")
    return [line.replace(f"{images.parent}/", "") for line in rest]


def test_the_contract(tmp_path: Path) -> None:
    images = dataset(tmp_path, {"b.jpg": BOX * 2, "a/ü 1.PNG": "", "c.webp": "7 0 1 1 0.25\n" + BOX})
    check_contract(YoloSource(images))


def test_boxes_labels_and_target(tmp_path: Path) -> None:
    images = dataset(tmp_path, {"b.jpg": "3 0.1 0.2 0.3 0.4\n0 1 0 1 0.000001\n", "a.jpg": "1 0.5 0.5 1 1"})
    source = YoloSource(images)
    assert [source.name_of(0), source.name_of(1)] == [str(images / "a.jpg"), str(images / "b.jpg")]
    assert (source.images, source.labels) == (str(images), str(tmp_path / "labels"))
    boxes, labels, target = arrays(source, 1)
    expected = np.array([[3, 0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1, 1e-6]], dtype=np.float32)
    assert (boxes.dtype, labels.dtype, target.dtype) == (np.float32, np.int64, np.float32)
    np.testing.assert_array_equal(target, expected)
    np.testing.assert_array_equal(boxes, expected[:, 1:])
    np.testing.assert_array_equal(labels, [3, 0])


@pytest.mark.parametrize("text", ["", "\n", " \r\n\r\n\t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n"])
def test_an_image_without_objects_is_kept(tmp_path: Path, text: str | bytes) -> None:
    source = YoloSource(dataset(tmp_path, {"a.jpg": text, "b.jpg": BOX}))
    boxes, labels, target = arrays(source)
    assert (boxes.shape, labels.shape, target.shape) == ((0, 4), (0,), (0, 5))
    assert (boxes.dtype, labels.dtype, target.dtype) == (np.float32, np.int64, np.float32)
    assert len(source) == 2
    assert arrays(source, 1)[0].shape == (1, 4)


def test_all_images_may_be_without_objects(tmp_path: Path) -> None:
    source = YoloSource(dataset(tmp_path, {"a.jpg": "", "b.jpg": "\n"}))
    assert [target.shape for target in cast(Any, source.fields([0, 1])["target"])] == [(0, 5), (0, 5)]


@pytest.mark.parametrize(
    "text",
    [
        "2 0.5 0.25 0.1 0.2\n4 0.5 0.5 0.5 0.5",
        "2 0.5 0.25 0.1 0.2\r\n4 0.5 0.5 0.5 0.5\r\n",
        "2 0.5 0.25 0.1 0.2\r4 0.5 0.5 0.5 0.5\r",
        "\n\n  2\t0.5  0.25 0.1 0.2 \n\n\t\n4 .5 5e-1 +0.5 0.50000\n\n",
        b"\xef\xbb\xbf2 0.5 0.25 0.1 0.2\n4 0.5 0.5 0.5 0.5\n",
        "2.0 0.5 0.25 0.1 0.2\n4.000000 0.5 0.5 0.5 0.5\n",
    ],
    ids=["plain", "windows", "old-mac", "blanks", "byte-order-mark", "classes-as-floats"],
)
def test_ways_to_write_the_same_labels(tmp_path: Path, text: str | bytes) -> None:
    source = YoloSource(dataset(tmp_path, {"a.jpg": text}))
    np.testing.assert_array_equal(
        arrays(source)[2], np.array([[2, 0.5, 0.25, 0.1, 0.2], [4, 0.5, 0.5, 0.5, 0.5]], dtype=np.float32)
    )


def test_a_long_file_is_read_to_its_end(tmp_path: Path) -> None:
    source = YoloSource(dataset(tmp_path, {"a.jpg": BOX * 150_000}))  # 2.7 MB, three pieces
    assert arrays(source)[2].shape == (150_000, 5)


def test_a_box_over_the_edge_stays_as_it_is(tmp_path: Path) -> None:
    source = YoloSource(dataset(tmp_path, {"a.jpg": "0 0.01 0.99 0.5 0.5"}))
    np.testing.assert_array_equal(arrays(source)[0], np.array([[0.01, 0.99, 0.5, 0.5]], dtype=np.float32))


shares = st.floats(0.0, 1.0, width=32)
sizes = st.floats(float(np.finfo(np.float32).tiny), 1.0, width=32, allow_subnormal=False)
rows = st.lists(st.tuples(st.integers(0, (1 << 24) - 1), shares, shares, sizes, sizes), max_size=6)


@given(
    files=st.lists(rows, min_size=1, max_size=5),
    end=st.sampled_from(["\n", "\r\n", "\n\n", " \n"]),
    space=st.sampled_from([" ", "\t", "  "]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[tuple[float, ...]]], end: str, space: str
) -> None:
    texts = {
        f"{number}.jpg": "".join(space.join(map(repr, row)) + end for row in of) for number, of in enumerate(files)
    }
    source = YoloSource(dataset(tmp_path_factory.mktemp("yolo"), texts))
    for number, of in enumerate(files):
        expected = np.array(of, dtype=np.float64).reshape(-1, 5)
        np.testing.assert_array_equal(arrays(source, number)[2], expected.astype(np.float32))
        np.testing.assert_array_equal(arrays(source, number)[1], expected[:, 0].astype(np.int64))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("0 0.5 0.5 0.1", "4 columns, and a box has 5: class cx cy w h"),
        ("0", "1 column, and a box has 5: class cx cy w h"),
        ("0,0.5,0.5,0.1,0.1", "1 column, and a box has 5: class cx cy w h"),
        (
            "0 0.1 0.1 0.2 0.1 0.2 0.2",
            (
                "7 columns, and a box has 5: class cx cy w h; polygons, oriented boxes, keypoints and confidences "
                "aren't read, so write the box around each object instead"
            ),
        ),
        ("person 0.5 0.5 0.1 0.1", "class is person, and must be a number"),
        ("0 0.5 0_1 0.1 0.1", "cy is 0_1, and must be a number"),
        (f"0 0.5 0.5 0.1 {'x' * 30}", f"height is {'x' * 24}…, and must be a number"),
        ("2 0.5 0.5 0.1 0.1", "class is 2, and must be an integer in [0, 2)"),
        ("-1 0.5 0.5 0.1 0.1", "class is -1, and must be an integer in [0, 2)"),
        ("0.5 0.5 0.5 0.1 0.1", "class is 0.5, and must be an integer in [0, 2)"),
        ("nan 0.5 0.5 0.1 0.1", "class is nan, and must be an integer in [0, 2)"),
        ("inf 0.5 0.5 0.1 0.1", "class is inf, and must be an integer in [0, 2)"),
        ("0 nan 0.5 0.1 0.1", "cx is nan, and must be in [0, 1], as a share of the image's width"),
        ("0 0.5 -inf 0.1 0.1", "cy is -inf, and must be in [0, 1], as a share of the image's height"),
        ("0 0.5 0.5 NaN 0.1", "width is NaN, and must be in (0, 1], as a share of the image's width"),
        ("0 320.5 240 64 48", "cx is 320.5, and must be in [0, 1], as a share of the image's width"),
        ("0 0.5 1.000001 0.1 0.1", "cy is 1.000001, and must be in [0, 1], as a share of the image's height"),
        ("0 -0.001 0.5 0.1 0.1", "cx is -0.001, and must be in [0, 1], as a share of the image's width"),
        ("0 0.5 0.5 1.5 0.1", "width is 1.5, and must be in (0, 1], as a share of the image's width"),
        ("0 0.5 0.5 0.1 1e300", "height is 1e300, and must be in (0, 1], as a share of the image's height"),
        ("0 0.5 0.5 0 0.1", "width is 0, and must be in (0, 1], as a share of the image's width"),
        ("0 0.5 0.5 0.1 -0.2", "height is -0.2, and must be in (0, 1], as a share of the image's height"),
        ("0 0.5 0.5 1e-60 0.1", "width is 1e-60, and must be in (0, 1], as a share of the image's width"),
    ],
)
@pytest.mark.parametrize("before", ["", "\r\n\r\n"], ids=["line-2", "line-4"])
def test_a_bad_line_is_named_with_its_number(tmp_path: Path, line: str, fault: str, before: str) -> None:
    images = dataset(tmp_path, {"a.jpg": BOX, "b.jpg": f"{BOX}{before}{line}\n{BOX}", "c.jpg": BOX})
    number = 4 if before else 2
    assert faults(images, num_classes=2) == [f"labels/b.txt, line {number}: {fault}"]


def test_what_is_no_text_is_named(tmp_path: Path) -> None:
    images = dataset(tmp_path, {"a.jpg": b"\xff\xd8\xff\n", "b.jpg": b"\0 0.5 0.5 0.1 0.1", "c.jpg": b"\x1b 0 0 0 0"})
    assert faults(images) == [
        "labels/a.txt, line 1: 1 column, and a box has 5: class cx cy w h",
        r"labels/b.txt, line 1: class is \x00, and must be a number",
        r"labels/c.txt, line 1: class is \x1b, and must be a number",
    ]


@pytest.mark.parametrize("order", ["le", "be"])
def test_utf_16_is_named(tmp_path: Path, order: str) -> None:
    images = dataset(tmp_path, {"a.jpg": f"\ufeff{BOX}{BOX}".encode(f"utf-16-{order}")})
    assert faults(images) == ["labels/a.txt: it is UTF-16; save it as UTF-8 or ASCII"]


def test_without_num_classes_a_class_must_be_exact_in_float32(tmp_path: Path) -> None:
    images = dataset(tmp_path, {"a.jpg": f"{2**24 - 1} 0.5 0.5 0.1 0.1"})
    assert arrays(YoloSource(images))[1].tolist() == [2**24 - 1]
    dataset(tmp_path, {"a.jpg": f"{2**24} 0.5 0.5 0.1 0.1"})
    assert faults(images) == ["labels/a.txt, line 1: class is 16777216, and must be an integer in [0, 16777216)"]


def test_an_image_without_label_file_is_an_error_or_background(tmp_path: Path) -> None:
    images = dataset(tmp_path, {"a.jpg": BOX, "sub/b.jpg": None})
    assert faults(images) == [
        (
            "images/sub/b.jpg: there is no label file labels/sub/b.txt; write it (empty for an image without objects), "
            "or give missing='background'"
        )
    ]
    source = YoloSource(images, missing="background")
    assert [len(boxes) for boxes in cast(Any, source.fields([0, 1])["boxes"])] == [1, 0]
    assert source.missing == "background"


def test_a_label_file_without_image_is_named(tmp_path: Path) -> None:
    images = dataset(tmp_path, {"a.jpg": BOX})
    (tmp_path / "labels/A.txt").touch()
    expected = ["labels/A.txt: there is no image of that name in images; delete or move it"]
    assert faults(images) == faults(images, missing="background") == expected


def test_a_list_of_classes_is_no_label_file(tmp_path: Path) -> None:
    images = dataset(tmp_path, {"a.jpg": BOX})
    (tmp_path / "labels/classes.txt").write_text("person\ncar\n")
    assert len(YoloSource(images)) == 1
    dataset(tmp_path, {"classes.jpg": None})  # unless an image has that name
    assert faults(images)[0] == "labels/classes.txt, line 1: 1 column, and a box has 5: class cx cy w h"


def test_two_files_of_one_stem_are_named(tmp_path: Path) -> None:
    images = dataset(tmp_path, {"a.jpg": BOX, "a.png": BOX, "b.jpg": BOX})
    (tmp_path / "labels/b.TXT").touch()
    assert faults(images) == [
        "labels/b.txt: b.TXT is for the same image; keep one of them",
        "images/a.png: a.jpg has the same label file; keep one of them, or rename one",
    ]


def test_a_label_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    images = dataset(tmp_path, {"a.jpg": BOX, "b.jpg": None})
    (tmp_path / "labels/b.txt").symlink_to("nothing.txt")
    assert faults(images) == ["labels/b.txt: it can't be read: No such file or directory; restore or delete it"]


def test_all_faults_come_in_one_error_in_the_order_of_the_files(tmp_path: Path) -> None:
    images = dataset(
        tmp_path, {"a.jpg": "0 2 0.5 0.1 0.1\n1 1", "b.jpg": None, "c.jpg": BOX, "d.jpg": "0\n0 0.5 0.5 0 0.1"}
    )
    lines = faults(images)
    assert [line.split(": ")[0] for line in lines] == [
        "images/b.jpg",
        "labels/a.txt, line 1",
        "labels/a.txt, line 2",
        "labels/d.txt, line 1",
        "labels/d.txt, line 2",
    ]


def test_at_most_ten_faults_are_shown(tmp_path: Path) -> None:
    images = dataset(tmp_path, {"a.jpg": "x\n" * 13, "b.jpg": BOX})
    lines = faults(images)
    assert lines[9].startswith("labels/a.txt, line 10: ")
    assert lines[10:] == ["and 3 more"]


@pytest.mark.parametrize("bad", range(7))
def test_a_fault_is_found_in_any_chunk(tmp_path: Path, bad: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpufeed.sources.yolo._FILES_A_CHUNK", 3)
    texts = {f"{number}.jpg": BOX * number for number in range(7)}
    images = dataset(tmp_path, texts)
    assert [len(boxes) for boxes in cast(Any, YoloSource(images).fields(range(7))["boxes"])] == list(range(7))
    for before, line in ((f"\n{BOX}", 3), ("", 1)):
        dataset(tmp_path, {f"{bad}.jpg": f"{before}0 0.5 0.5 0.1 2\n{BOX}"})
        assert faults(images) == [
            f"labels/{bad}.txt, line {line}: height is 2, and must be in (0, 1], as a share of the image's height"
        ]


def test_progress_counts_label_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpufeed.sources.yolo._FILES_A_CHUNK", 3)
    calls: list[tuple[int, int]] = []
    YoloSource(
        dataset(tmp_path, {f"{number}.jpg": BOX for number in range(7)}),
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls == [(3, 7), (6, 7), (7, 7)]


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        ("images", "labels"),
        ("images/train", "labels/train"),
        ("train/images", "train/labels"),
        ("images/x/images/y", "images/x/labels/y"),
    ],
)
def test_the_labels_folder_is_found_beside_the_images(tmp_path: Path, images: str, labels: str) -> None:
    (tmp_path / images).mkdir(parents=True)
    (tmp_path / images / "a.jpg").touch()
    (tmp_path / labels).mkdir(parents=True)
    (tmp_path / labels / "a.txt").write_text(BOX)
    assert YoloSource(tmp_path / images).labels == str(tmp_path / labels)


def test_a_relative_path_below_an_images_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset(tmp_path, {"train/a.jpg": BOX})
    monkeypatch.chdir(tmp_path)
    assert YoloSource("images").labels == "labels"
    monkeypatch.chdir(tmp_path / "images")
    source = YoloSource("train")
    assert (source.labels, source.name_of(0)) == (str(tmp_path / "labels/train"), "train/a.jpg")


def test_the_labels_folder_may_be_anywhere(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures/a.jpg").touch()
    (tmp_path / "pictures/a.txt").write_text(BOX)
    with pytest.raises(ArgumentError, match=r"no folder in its path is named 'images'; give .* as labels="):
        YoloSource(tmp_path / "pictures")
    assert len(YoloSource(tmp_path / "pictures", tmp_path / "pictures")) == 1


def test_missing_and_empty_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"there is no folder .*/images; give images"):
        YoloSource(tmp_path / "images")
    (tmp_path / "images").mkdir()
    with pytest.raises(ArgumentError, match=r"there is no folder .*/labels; give labels"):
        YoloSource(tmp_path / "images")
    (tmp_path / "labels").mkdir()
    with pytest.raises(ArgumentError, match=r"images holds no images: looked for \.jpg, .*\.webp"):
        YoloSource(tmp_path / "images")
    (tmp_path / "images/a.jpg").touch()
    for missing in ("error", "background"):
        with pytest.raises(ArgumentError, match=r"labels holds no label files: looked for \.txt"):
            YoloSource(tmp_path / "images", missing=missing)  # type: ignore[arg-type]


def test_names_give_the_number_of_classes(tmp_path: Path) -> None:
    images = dataset(tmp_path, {"a.jpg": "1 0.5 0.5 0.1 0.1"})
    assert YoloSource(images, names={1: "car", 0: "person"}).names == ("person", "car")
    source = YoloSource(images, names=["person", "car"], num_classes=2)
    assert (source.names, source.num_classes) == (("person", "car"), 2)
    assert (YoloSource(images).names, YoloSource(images).num_classes) == (None, None)
    assert faults(images, names=["person"]) == ["labels/a.txt, line 1: class is 1, and must be an integer in [0, 1)"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"missing": "ignore"}, "missing must be 'error' or 'background', got 'ignore'"),
        ({"num_classes": 0}, r"num_classes must be in \[1, 16777216\], got 0"),
        ({"num_classes": 2**24 + 1}, r"num_classes must be in \[1, 16777216\], got 16777217"),
        ({"num_classes": True}, "num_classes must be an integer or None, got True"),
        ({"num_classes": 2.0}, r"num_classes must be an integer or None, got 2\.0"),
        ({"num_classes": 3, "names": ["a", "b"]}, "num_classes is 3, and there are 2 names; leave num_classes out"),
        ({"names": "person"}, r"names must be the classes' names, such as \['person', 'car'\], got 'person'"),
        ({"names": []}, "names must be the classes' names"),
        ({"names": ["a", 1]}, "names must be the classes' names"),
        ({"names": {1: "a", 2: "b"}}, r"names must have the keys 0 to 1, got \[1, 2\]; name each class"),
    ],
)
def test_arguments_outside_their_rule_are_refused(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        YoloSource(dataset(tmp_path, {"a.jpg": BOX}), **arguments)


def test_names_in_any_script_and_unicode_form(tmp_path: Path) -> None:
    images = dataset(tmp_path, {"日本 語/ä.jpg": BOX})
    composed = tmp_path / "labels/日本 語" / unicodedata.normalize("NFC", "ä.txt")
    composed.rename(composed.with_name(unicodedata.normalize("NFD", "ä.txt")))
    source = YoloSource(images)
    assert paths_of(source, [0]) == [str(images / "日本 語/ä.jpg")]
    assert len(arrays(source)[0]) == 1


def test_the_fingerprint_covers_names_and_labels_and_nothing_else(tmp_path: Path) -> None:
    def fingerprint(folder: str, labels: Mapping[str, str | None], **arguments: Any) -> str:
        return YoloSource(dataset(tmp_path / folder, labels), **arguments).fingerprint()

    base = fingerprint("base", {"a.jpg": BOX, "b.jpg": ""})
    assert base == fingerprint("moved", {"b.jpg": "\r\n", "a.jpg": "0.0 .5 .5 .2 .1"}, num_classes=1)
    assert base == fingerprint("background", {"a.jpg": BOX, "b.jpg": None}, missing="background")
    others = [
        fingerprint("class", {"a.jpg": "1 0.5 0.5 0.2 0.1\n", "b.jpg": ""}),
        fingerprint("box", {"a.jpg": "0 0.5 0.5 0.2 0.100001\n", "b.jpg": ""}),
        fingerprint("owner", {"a.jpg": "", "b.jpg": BOX}),
        fingerprint("name", {"a.jpg": BOX, "c.jpg": ""}),
        fingerprint("more", {"a.jpg": BOX, "b.jpg": "", "c.jpg": ""}),
        fingerprint("twice", {"a.jpg": BOX * 2, "b.jpg": ""}),
    ]
    assert len({base, *others}) == 7
