"""What runs elsewhere names what there is here."""

from __future__ import annotations

import yaml
from wire_bench import ROOT

from tools.mutate import GROUPS


def test_mutation_scores_are_taken_of_every_group() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/mutation.yml").read_text())
    assert workflow["jobs"]["scores"]["strategy"]["matrix"]["folder"] == [group.folder for group in GROUPS]
