"""A tuning as text, charts, JSON and settings; and what is told while it runs."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from constructed import tuning
from PIL import Image

from gpufeed.bench.results import LeftOut
from gpufeed.bench.tuning.charts import can_draw, check_chart_target, png, svg, write_chart
from gpufeed.bench.tuning.curves import curves_of, knee_sentence
from gpufeed.bench.tuning.live import watching
from gpufeed.bench.tuning.render import render
from gpufeed.bench.tuning.results import Trial, Tuned, config_of, to_json
from gpufeed.config import Config, GpufeedSettings, TorchSettings
from gpufeed.errors import ArgumentError


def _torch(workers: int, depth: int = 2) -> TorchSettings:
    return TorchSettings(workers, depth, persistent_workers=True) if workers else TorchSettings()


RATES = {0: 80.0, 1: 100.0, 2: 200.0, 4: 202.0, 8: 170.0}
TORCH = Tuned(
    loader="torch",
    best=_torch(2),
    start=_torch(2),
    trials=(
        *(Trial(_torch(count), (rate, rate + 1, rate - 1), 10**8 * (count + 1)) for count, rate in RATES.items()),
        Trial(_torch(2, 4), (201.0,), 500_000_000),
        Trial(_torch(2, 8), failure="2 workers, prefetch 8: no memory"),
    ),
    main=tuple(map(_torch, RATES)),
    depths=(_torch(2), _torch(2, 4), _torch(2, 8)),
    noise=0.01,
    over_memory=(_torch(8),),
)
OURS = Tuned("gpufeed", GpufeedSettings(3), GpufeedSettings(2), (Trial(GpufeedSettings(3), (400.0,), None),))
TUNING = tuning(TORCH, OURS, max_memory_bytes=800_000_000, environment={"cpu": "a CPU", "packages": {"torch": "2.14"}})


def test_the_text_has_the_choice_the_charts_and_every_trial() -> None:
    text = render(TUNING)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80
    assert "torch   2 workers, prefetch 2, persistent: 200 images/s, 300 MB" in text
    assert "gpufeed 3 threads, prefetch 2: 400 images/s, memory n/a" in text
    assert "torch: throughput over num_workers (images/s; prefetch_factor 2)" in text
    assert "torch: memory over prefetch_factor (MB, peak; num_workers 2)" in text
    lines = text.splitlines()
    bars = {line.split()[0]: line.count("#") for line in lines if "#" in line and line.split()[-1] in ("202", "80")}
    assert bars["0"] == pytest.approx(bars["4"] * 80 / 202, abs=1)
    assert any(line.startswith("2 workers, prefetch 2, persistent") and line.endswith("chosen") for line in lines)
    assert any(line.startswith("8 workers, prefetch 2, persistent") and line.endswith("too much") for line in lines)
    assert any(line.startswith("2 workers, prefetch 8, persistent") and line.endswith("failed") for line in lines)
    assert "Failed: 2 workers, prefetch 8: no memory." in " ".join(lines)


def test_the_knee_and_the_decline_past_it_are_told() -> None:
    assert knee_sentence(TORCH) == (
        "torch: the knee is at num_workers 2 with 200 images/s; num_workers 8 is 15% slower and takes 3.0 times the "
        "memory."
    )
    flat = replace(TORCH, trials=tuple(replace(trial, peak_memory_bytes=3 * 10**8) for trial in TORCH.trials))
    assert "num_workers 8 is 15% slower and takes about the same memory." in knee_sentence(flat)
    rising = replace(TORCH, trials=TORCH.trials[:3], main=TORCH.main[:3])
    assert knee_sentence(rising) == "torch: throughput still rises at num_workers 2, the most that was tried."
    assert knee_sentence(OURS) == ""


def test_what_ended_early_and_who_is_left_out_is_told() -> None:
    cut = replace(TUNING, loaders=(replace(TORCH, finished=False),), left_out=(LeftOut("gpufeed", "it can't"),))
    text = " ".join(render(cut).split())
    assert "best yet" in text
    assert "a larger --budget would tell more" in text
    assert "Left out: gpufeed (it can't)." in text
    assert "stopped by you after 99 of 120 s" in " ".join(render(replace(cut, interrupted=True)).split())
    assert "a larger --budget" not in " ".join(render(replace(cut, interrupted=True)).split())


def test_much_noise_is_told() -> None:
    noisy = replace(TUNING, loaders=(replace(TORCH, noise=0.31),))
    assert "torch: epochs of the same setting differed by 31% (standard" in " ".join(render(noisy).split())
    assert "differed" not in render(TUNING)


def test_curves_mark_the_chosen_and_leave_out_what_failed() -> None:
    throughput, memory, depth = curves_of(TORCH)
    assert [(point.at, point.value) for point in throughput.points] == list(RATES.items())
    assert [point.at for point in throughput.points if point.is_chosen] == [2]
    assert [point.value for point in memory.points] == [1e8, 2e8, 3e8, 5e8, 9e8]
    assert [(point.at, point.value) for point in depth.points] == [(2, 3e8), (4, 5e8)]


def test_svg_has_text_alternatives_and_escapes() -> None:
    root = ElementTree.fromstring(svg(replace(TUNING, data="<b>&\x00")))
    space = "{http://www.w3.org/2000/svg}"
    assert root.findtext(f"{space}title") == "gpufeed tune: <b>&\N{REPLACEMENT CHARACTER}, train, batch 64, 2 CPUs, cpu"
    groups = root.findall(f"{space}g")
    assert [group.findtext(f"{space}title") for group in groups] == [
        "torch: throughput over num_workers",
        "torch: memory over num_workers",
        "torch: memory over prefetch_factor",
    ]
    assert (groups[0].findtext(f"{space}desc") or "").startswith("num_workers 0: 80 images/s; num_workers 1: 100")
    assert "num_workers 2: 200 images/s (chosen)" in (groups[0].findtext(f"{space}desc") or "")
    heights = [float(dot.get("cy", "")) for dot in groups[0].findall(f"{space}circle")]
    assert sorted(heights, reverse=True) == [heights[at] for at in (0, 1, 4, 2, 3)], "higher is faster"


def test_png_is_the_same_picture_twice_as_large() -> None:
    root = ElementTree.fromstring(svg(TUNING))
    image = Image.open(io.BytesIO(png(TUNING)))
    assert image.size == (2 * int(root.get("width", "")), 2 * int(root.get("height", "")))
    assert image.getcolors(1 << 24) is not None
    assert (0xC2, 0x41, 0x0C) in {colour for _, colour in image.getcolors(1 << 24) or []}


@pytest.mark.parametrize("name", ["chart.svg", "chart.png"])
def test_a_chart_replaces_only_its_own(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write_chart(TUNING, path)
    write_chart(TUNING, path)
    foreign = tmp_path / f"foreign{path.suffix}"
    foreign.write_bytes(b"<svg/>")
    if path.suffix == ".png":
        Image.new("RGB", (2, 2)).save(foreign)
    before = foreign.read_bytes()
    with pytest.raises(ArgumentError, match="exists and is not a result of gpufeed tune; give --chart another name"):
        write_chart(TUNING, foreign)
    assert foreign.read_bytes() == before


def test_other_kinds_of_charts_and_empty_ones_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"--chart must end in \.svg or \.png, got .*a\.pdf"):
        check_chart_target(tmp_path / "a.pdf")
    empty = replace(TUNING, loaders=(OURS,))
    assert not can_draw(empty)
    with pytest.raises(ArgumentError, match="there is no chart to draw"):
        svg(empty)


def test_json_and_settings() -> None:
    document = json.loads(to_json(TUNING))
    assert (document["schema"], document["schema_version"]) == ("gpufeed.tune", 1)
    assert document["loaders"][0]["trials"][2]["images_per_s"] == [200.0, 201.0, 199.0]
    config = config_of(TUNING)
    assert (config.torch, config.gpufeed) == (_torch(2), GpufeedSettings(3))
    assert config.measured["torch_images_per_s"] == 200.0
    assert config.measured["torch_peak_memory_bytes"] == 300_000_000
    assert (config.measured["cpu"], config.measured["torch"]) == ("a CPU", "2.14")
    assert config_of(replace(TUNING, loaders=())).torch is None
    assert isinstance(config, Config)


def test_plain_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with watching(stream) as watcher:
        watcher.say("loading")
        watcher.tried(TORCH, TORCH.trials[2])
        watcher.tried(TORCH, TORCH.trials[-1])
    assert stream.getvalue() == (
        "loading\n"
        "torch: 2 workers, prefetch 2, persistent: 200 images/s, 300 MB\n"
        "torch: 2 workers, prefetch 8, persistent: 2 workers, prefetch 8: no memory\n"
    )


def test_a_live_table_on_a_terminal_is_gone_in_the_end() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    with watching(stream) as watcher:
        watcher.budget(60)
        watcher.say("searching")
        watcher.tried(TORCH, TORCH.trials[0])
    assert "Ctrl-C keeps the best so far" in stream.getvalue()
    assert "8 workers, prefetch 2, persistent" in stream.getvalue()
    assert stream.getvalue().rstrip().endswith("\x1b[2K"), "erased"
