"""`CocoSource`: what it gives, and every fault of a file by its message."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from source_harness import check_contract, lines_of

from gpufeed.errors import ArgumentError
from gpufeed.sources import CocoSource

DOCUMENT: dict[str, Any] = {
    "info": {"year": 2017},
    "categories": [{"id": 90, "name": "toothbrush"}, {"id": 1, "name": "person", "supercategory": "person"}],
    "images": [
        {"id": 30, "file_name": "c.jpg", "width": 64, "height": 48},
        {"id": 7, "file_name": "sub/a ü.jpg", "width": 17, "height": 11},
        {"id": 20, "file_name": "b.jpg", "width": 100, "height": 50.0},
    ],
    "annotations": [
        {"id": 5, "image_id": 30, "category_id": 90, "bbox": [1, 2, 3, 4], "area": 6.5, "iscrowd": 0},
        {"id": 6, "image_id": 7, "category_id": 1, "bbox": [0.5, 0.25, 10.25, 8], "area": 80, "iscrowd": 1},
        {"id": 4, "image_id": 30, "category_id": 1, "bbox": [10, 20, 30.5, 20], "area": 500.25, "iscrowd": 0},
    ],
}


def dataset(root: Path, document: object) -> tuple[Path, Path]:
    """An ``images`` folder with all files of `DOCUMENT`, and a JSON file."""
    images = root / "images"
    (images / "sub").mkdir(parents=True, exist_ok=True)
    for image in DOCUMENT["images"]:
        (images / image["file_name"]).touch()
    path = root / "instances.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return images, path


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    change(document)
    return document


def faults(root: Path, document: object) -> list[str]:
    """The error's lines after the first, with paths below ``root``."""
    images, path = dataset(root, document)
    first, *rest = lines_of(lambda: CocoSource(images, path))
    assert first.startswith(f"the annotations {path} of {images}: ")
    return [line.replace(f"{root}/", "") for line in rest]


def one(source: CocoSource, index: int) -> dict[str, Any]:
    return {name: values[0] for name, values in source.fields([index]).items()}


def test_the_contract(tmp_path: Path) -> None:
    check_contract(CocoSource(*dataset(tmp_path, DOCUMENT)))


def test_samples_are_sorted_by_image_id_and_boxes_as_in_the_file(tmp_path: Path) -> None:
    images, path = dataset(tmp_path, DOCUMENT)
    source = CocoSource(images, path)
    assert [source.name_of(index) for index in range(3)] == [
        str(images / name) for name in ("sub/a ü.jpg", "b.jpg", "c.jpg")
    ]
    assert source.fields([0, 1, 2])["image_id"] == source.fields([0, 1, 2])["target"] == [7, 20, 30]
    assert all(type(number) is int for number in source.fields([0, 1, 2])["target"])
    last = one(source, 2)
    np.testing.assert_array_equal(last["boxes"], np.array([[1, 2, 4, 6], [10, 20, 40.5, 40]], dtype=np.float32))
    assert last["labels"].tolist() == [90, 1]
    assert last["area"].tolist() == [6.5, 500.25]
    assert last["crowd"].tolist() == [False, False]
    assert one(source, 0)["crowd"].tolist() == [True]
    assert {name: str(last[name].dtype) for name in ("boxes", "labels", "crowd", "area")} == {
        "boxes": "float32",
        "labels": "int64",
        "crowd": "bool",
        "area": "float32",
    }
    assert (source.images, source.annotations, source.num_dropped) == (str(images), str(path), 0)
    assert list(source.category_names.items()) == [(90, "toothbrush"), (1, "person")]


def test_an_image_without_boxes_is_kept(tmp_path: Path) -> None:
    empty = one(CocoSource(*dataset(tmp_path, DOCUMENT)), 1)
    assert [empty[name].shape for name in ("boxes", "labels", "crowd", "area")] == [(0, 4), (0,), (0,), (0,)]
    assert [str(empty[name].dtype) for name in ("boxes", "labels")] == ["float32", "int64"]
    source = CocoSource(*dataset(tmp_path, DOCUMENT | {"annotations": []}))
    assert [one(source, index)["boxes"].shape for index in range(3)] == [(0, 4)] * 3


@pytest.mark.parametrize(
    ("bbox", "box"),
    [
        ([0, 0, 17, 11], [0, 0, 17, 11]),
        ([-5, -3, 10, 10], [0, 0, 5, 7]),
        ([16.5, 10.5, 100, 1e308], [16.5, 10.5, 17, 11]),
        ([-1e308, -1, 1.5e308, 2], [0, 0, 17, 1]),
        ([1e308, 1, 1e308, 2], None),
        ([17, 3, 4, 4], None),
        ([3, 11, 4, 4], None),
        ([-4, 3, 4, 4], None),
        ([3, 4, 0, 4], None),
        ([3, 4, 4, 0], None),
        ([16, 4, 1e-9, 4], None),  # x1 and x2 are one number in float32
    ],
)
def test_boxes_are_clipped_and_vanishing_ones_dropped_and_counted(
    tmp_path: Path, bbox: list[float], box: list[float] | None
) -> None:
    document = changed(lambda document: document["annotations"][1].update(bbox=bbox, area=1))
    source = CocoSource(*dataset(tmp_path, document))
    np.testing.assert_array_equal(
        one(source, 0)["boxes"], np.array([box] if box else [], dtype=np.float32).reshape(-1, 4)
    )
    assert [len(one(source, 0)[name]) for name in ("labels", "crowd", "area")] == [0 if box is None else 1] * 3
    assert source.num_dropped == (box is None)
    assert len(one(source, 2)["boxes"]) == 2


coordinates = st.floats(-40, 80, width=32).map(lambda value: round(value, 2))
extents = st.floats(0, 60, width=32).map(lambda value: round(value, 2))
annotations = st.tuples(
    st.sampled_from([7, 20, 30]),
    st.sampled_from([1, 90]),
    st.tuples(coordinates, coordinates, extents, extents),
    st.booleans(),
)


@given(st.lists(annotations, max_size=12))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_boxes_are_those_of_a_plain_loop(tmp_path: Path, drawn: list[tuple[int, int, Any, bool]]) -> None:
    records = [
        {"id": number, "image_id": image, "category_id": label, "bbox": bbox, "area": number, "iscrowd": int(crowd)}
        for number, (image, label, bbox, crowd) in enumerate(drawn)
    ]
    source = CocoSource(*dataset(tmp_path, DOCUMENT | {"annotations": records}))
    kept = 0
    for index, (image, width, height) in enumerate([(7, 17, 11), (20, 100, 50), (30, 64, 48)]):
        expected: list[tuple[list[np.float32], int, bool, int]] = []
        for number, (owner, label, (x, y, w, h), crowd) in enumerate(drawn):
            x1, x2 = (np.float32(min(max(value, 0), width)) for value in (x, x + w))
            y1, y2 = (np.float32(min(max(value, 0), height)) for value in (y, y + h))
            if owner == image and x2 > x1 and y2 > y1:
                expected.append(([x1, y1, x2, y2], label, crowd, number))
        got = one(source, index)
        assert got["boxes"].tolist() == [[float(side) for side in box] for box, *_ in expected]
        assert got["labels"].tolist() == [label for _, label, _, _ in expected]
        assert got["crowd"].tolist() == [crowd for _, _, crowd, _ in expected]
        assert got["area"].tolist() == [number for *_, number in expected]
        kept += len(expected)
    assert source.num_dropped == len(drawn) - kept


def test_area_and_iscrowd_may_be_left_out(tmp_path: Path) -> None:
    def leave_out(document: dict[str, Any]) -> None:
        del document["annotations"][2]["area"], document["annotations"][2]["iscrowd"]
        document["annotations"][2]["bbox"] = [-10, 0, 20, 8]

    got = one(CocoSource(*dataset(tmp_path, changed(leave_out))), 2)
    assert got["area"].tolist() == [6.5, 160.0]  # of the whole bbox, as the others' are of the whole object
    assert got["crowd"].tolist() == [False, False]


def setting(section: str, at: int, **values: Any) -> dict[str, Any]:
    return changed(lambda document: document[section][at].update(values))


def without(section: str, at: int, *keys: str) -> dict[str, Any]:
    return changed(lambda document: [document[section][at].pop(key) for key in keys])


def in_place(section: str, at: int, value: object) -> dict[str, Any]:
    return changed(lambda document: document[section].__setitem__(at, value))


NUMBERS = "and must be four finite numbers: x, y, width, height in pixels"


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (
            setting("annotations", 1, image_id=8),
            "annotation 6: there is no image with the id 8; add it to images, or delete the annotation",
        ),
        (
            setting("annotations", 1, image_id="7"),
            'annotation 6: there is no image with the id "7"; add it to images, or delete the annotation',
        ),
        (
            setting("annotations", 1, category_id=2),
            "annotation 6: there is no category with the id 2; add it to categories",
        ),
        (
            setting("annotations", 1, category_id=True),
            "annotation 6: there is no category with the id true; add it to categories",
        ),
        (setting("annotations", 1, bbox=[1, 2, 3]), f"annotation 6: bbox is [1, 2, 3], {NUMBERS}"),
        (setting("annotations", 1, bbox=[1, 2, 3, 4, 5]), f"annotation 6: bbox is [1, 2, 3, 4, 5], {NUMBERS}"),
        (setting("annotations", 1, bbox=None), f"annotation 6: bbox is null, {NUMBERS}"),
        (setting("annotations", 1, bbox=[1, 2, "3", 4]), f'annotation 6: bbox is [1, 2, "3", 4], {NUMBERS}'),
        (setting("annotations", 1, bbox=[1, 2, True, 4]), f"annotation 6: bbox is [1, 2, true, 4], {NUMBERS}"),
        (setting("annotations", 1, bbox=[math.nan, 2, 3, 4]), f"annotation 6: bbox is [NaN, 2, 3, 4], {NUMBERS}"),
        (setting("annotations", 1, bbox=[1, 2, math.inf, 4]), f"annotation 6: bbox is [1, 2, Infinity, 4], {NUMBERS}"),
        (setting("annotations", 1, bbox=[1, 10**400, 3, 4]), f"annotation 6: bbox is [1, 1{'0' * 55}…, {NUMBERS}"),
        (
            setting("annotations", 1, bbox=[5, 5, -3, 4]),
            (
                "annotation 6: bbox is [5, 5, -3, 4], and its width and height must be at least 0; "
                "a bbox is x, y, width, height"
            ),
        ),
        (
            setting("annotations", 1, bbox=[5, 5, 3, -0.5]),
            (
                "annotation 6: bbox is [5, 5, 3, -0.5], and its width and height must be at least 0; "
                "a bbox is x, y, width, height"
            ),
        ),
        (
            setting("annotations", 1, area=-1),
            "annotation 6: area is -1, and must be a finite number of square pixels, at least 0",
        ),
        (
            setting("annotations", 1, area=1e39),
            "annotation 6: area is 1e+39, and must be a finite number of square pixels, at least 0",
        ),
        (setting("annotations", 1, iscrowd=2), "annotation 6: iscrowd is 2, and must be 0 or 1"),
        (setting("annotations", 1, iscrowd="no"), 'annotation 6: iscrowd is "no", and must be 0 or 1'),
        (
            without("annotations", 1, "bbox"),
            "annotation 6: it has no bbox; found id, image_id, category_id, area, iscrowd",
        ),
        (
            without("annotations", 1, "id", "category_id"),
            "annotations[1]: it has no id, category_id; found image_id, bbox, area, iscrowd",
        ),
        (
            in_place("annotations", 1, [1, 2]),
            "annotations[1]: it is a list of 2, and must be an object with id, image_id, category_id, bbox",
        ),
        (setting("annotations", 1, id="6"), 'annotations[1]: id is "6", and must be an integer of 64 bits'),
        (setting("annotations", 1, id=2**63), f"annotations[1]: id is {2**63}, and must be an integer of 64 bits"),
        (setting("annotations", 1, id=5), "annotation 5: two records have this id; number them anew"),
        (
            setting("images", 2, id=7),
            "image 7: two records have this id, sub/a ü.jpg and b.jpg; number them anew",
        ),
        (
            setting("categories", 0, id=1) | {"annotations": []},
            "category 1: two records have this id, toothbrush and person; number them anew",
        ),
        (without("categories", 0, "name"), "category 90: it has no name; found id"),
        (setting("categories", 0, name=3), "category 90: name is 3, and must be a string"),
        (without("images", 1, "width"), "image 7: it has no width; found id, file_name, height"),
        (setting("images", 1, width=0), "image 7: width is 0, and must be a whole number of pixels above 0"),
        (setting("images", 1, height=10.5), "image 7: height is 10.5, and must be a whole number of pixels above 0"),
        (setting("images", 1, height=None), "image 7: height is null, and must be a whole number of pixels above 0"),
        (setting("images", 1, height=math.nan), "image 7: height is NaN, and must be a whole number of pixels above 0"),
        (setting("images", 1, file_name=5), "image 7: file_name is 5, and must be a path"),
        (setting("images", 1, file_name=""), 'image 7: file_name is "", and must be a path'),
        (
            in_place("images", 2, 5),
            "images[2]: it is a number, and must be an object with id, file_name, width, height",
        ),
        (without("images", 2, "id"), "images[2]: it has no id; found file_name, width, height"),
        *(
            (
                setting("images", 1, file_name=name),
                (
                    f"image 7: there is no file images/{name}; restore it, or give images= the folder "
                    "that file_name starts from"
                ),
            )
            for name in ("a ü.jpg", "nowhere/a ü.jpg", "b.jpg/a.jpg", "b.JPG", "b\0.jpg", "\0/b.jpg")
        ),
    ],
)
def test_each_fault_by_its_message_and_no_other(tmp_path: Path, document: dict[str, Any], fault: str) -> None:
    assert faults(tmp_path, document) == [fault]


def test_all_faults_come_in_one_error_at_most_ten_shown(tmp_path: Path) -> None:
    def break_much(document: dict[str, Any]) -> None:
        document["categories"][0]["name"] = None
        document["images"][1]["file_name"] = "gone.jpg"
        document["annotations"] = [
            {"id": number, "image_id": 99, "category_id": 1, "bbox": [0, 0, 1, 1]} for number in range(12)
        ]

    lines = faults(tmp_path, changed(break_much))
    assert [line.split(":")[0] for line in lines] == [
        "category 90",
        "image 7",
        *(f"annotation {number}" for number in range(8)),
        "and 4 more",
    ]


WANTED = "give annotations= a COCO file such as instances_val2017.json"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("", "is no JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[" * 100_000, "is no JSON: maximum recursion depth exceeded"),
        ([1, 2], "isn't COCO: it holds a list of 2, not an object"),
        ("null", "isn't COCO: it holds null, not an object"),
        (
            {"shapes": [], "imagePath": "a.jpg", "version": None, "n": 3, "ok": True, "info": {}},
            (
                "isn't COCO: it must have the lists images, annotations, categories, and images, annotations, "
                "categories are missing; found shapes (a list of 0), imagePath (a string), version (null), n (a "
                "number), ok (a truth value), info (an object)"
            ),
        ),
        (
            {"images": [{}], "categories": []},
            (
                "isn't COCO: it must have the lists images, annotations, categories, and annotations is missing; found "
                "images (a list of 1), categories (a list of 0)"
            ),
        ),
        (
            DOCUMENT | {"categories": {"1": "person"}, "annotations": [], "images": []},
            (
                "isn't COCO: it must have the lists images, annotations, categories, and categories is missing; found "
                "info (an object), categories (an object), images (a list of 0), annotations (a list of 0)"
            ),
        ),
        ("{}", "categories are missing; found nothing"),
        (DOCUMENT | {"images": []}, "has no images: its list of them is empty"),
    ],
)
def test_what_is_not_coco_is_named_with_what_was_found(tmp_path: Path, document: object, message: str) -> None:
    images, path = dataset(tmp_path, document)
    with pytest.raises(ArgumentError) as raised:
        CocoSource(images, path)
    text = str(raised.value)
    assert text.startswith(str(path))
    assert message in text
    assert text.endswith(f"; {WANTED}")


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    images, path = dataset(tmp_path, DOCUMENT)
    with pytest.raises(ArgumentError, match=r"there is no folder .*elsewhere; give images"):
        CocoSource(tmp_path / "elsewhere", path)
    with pytest.raises(ArgumentError, match=rf"gone.json can't be read: No such file or directory; {WANTED}"):
        CocoSource(images, tmp_path / "gone.json")
    with pytest.raises(ArgumentError, match=rf"images is a folder; {WANTED}"):
        CocoSource(images, images)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_json_in_other_encodings_is_read(tmp_path: Path, encoding: str) -> None:
    images, path = dataset(tmp_path, DOCUMENT)
    path.write_text(json.dumps(DOCUMENT, ensure_ascii=False), encoding=encoding)
    assert CocoSource(images, path).name_of(0) == str(images / "sub/a ü.jpg")


def test_a_file_name_may_leave_the_folder(tmp_path: Path) -> None:
    images, path = dataset(tmp_path, DOCUMENT)
    (tmp_path / "up.jpg").touch()
    document = changed(lambda document: document["images"][0].update(file_name="../up.jpg"))
    document["images"][1]["file_name"] = str(tmp_path / "up.jpg")
    path.write_text(json.dumps(document))
    source = CocoSource(images, path)
    assert [source.name_of(0), source.name_of(2)] == [str(tmp_path / "up.jpg"), str(images / "../up.jpg")]


def test_progress_counts_images_and_annotations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpufeed.sources.coco._RECORDS_A_STEP", 4)
    calls: list[tuple[int, int]] = []
    CocoSource(*dataset(tmp_path, DOCUMENT), progress=lambda done, total: calls.append((done, total)))
    assert calls == [(4, 6), (6, 6)]


def test_the_fingerprint_covers_names_and_labels_and_nothing_else(tmp_path: Path) -> None:
    def fingerprint(folder: str, document: dict[str, Any]) -> str:
        return CocoSource(*dataset(tmp_path / folder, document)).fingerprint()

    base = fingerprint("base", DOCUMENT)
    assert base == fingerprint("moved", changed(lambda document: document["images"].reverse()))
    assert base == fingerprint("info", DOCUMENT | {"info": {}})
    others = [
        fingerprint("box", setting("annotations", 1, bbox=[0.5, 0.25, 10.25, 7])),
        fingerprint("label", setting("annotations", 1, category_id=90)),
        fingerprint("crowd", setting("annotations", 1, iscrowd=0)),
        fingerprint("area", setting("annotations", 1, area=81)),
        fingerprint("owner", setting("annotations", 1, image_id=20)),
        fingerprint("name", setting("images", 1, file_name="b.jpg")),
        fingerprint("fewer", changed(lambda document: document["annotations"].pop())),
        fingerprint("id", changed(lambda document: document["images"][2].update(id=21))),
    ]
    assert len({base, *others}) == 9
