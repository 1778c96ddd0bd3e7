"""What runs elsewhere names what there is here."""

from __future__ import annotations

import yaml
from fuzz_targets import TARGETS
from wire_bench import ROOT

from tools.mutate import GROUPS


def test_mutation_scores_are_taken_of_every_group() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/mutation.yml").read_text())
    assert workflow["jobs"]["scores"]["strategy"]["matrix"]["folder"] == [group.folder for group in GROUPS]


def test_an_hour_of_every_target_is_fuzzed() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/fuzz.yml").read_text())
    assert workflow["jobs"]["hour"]["strategy"]["matrix"]["target"] == list(TARGETS)
