"""What pipelines/README.md says of the shipped modules."""

from __future__ import annotations

import re

from gpufeed.pipelines import Pipeline, load_pipeline, named_pipelines
from gpufeed.pipelines.naming import shipped_folder, shipped_modules

README = (shipped_folder() / "README.md").read_text(encoding="utf-8")


def test_the_table_has_every_module_and_its_pipelines() -> None:
    rows = dict(re.findall(r"^\| `(\w+)\.py` \| (.*?) \|", README, flags=re.MULTILINE))
    assert sorted(rows) == list(shipped_modules())
    for named in named_pipelines():
        if named.origin == "gpufeed":
            _, module, name = named.reference.split(":")
            assert f"`{name}`" in rows[module]


def test_the_parameters_in_the_example_are_there() -> None:
    block = next(block for block in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL) if "size=176" in block)
    given: list[Pipeline] = []
    names = {"DataLoader": lambda _, pipeline, **arguments: given.append(pipeline), "load_pipeline": load_pipeline}
    exec(block, names)  # the README's own
    assert str(given[0]) == "train(size=176, erasing_prob=0.1)"
