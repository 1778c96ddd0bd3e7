"""The Nucleo: the H747's chip with its serial port on USART3 (PD8, PD9), where this board's ST-LINK is wired."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hil_command import check_failure, hil, record_of
from wire_bench import ROOT

from tinyhil.harness.settings.config import Boards, load_boards

RUN = ("run", "--model", "digits_mlp", "--samples", 2, "--json")


@pytest.fixture(scope="module")
def boards() -> Boards:
    return load_boards()


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Of both boards, without the pin that follows inferences: only one has it, and the code around it differs."""
    folder = tmp_path_factory.mktemp("nucleo")
    text, gates = re.subn(r"(?m)^    gate: PJ0 .*\n", "", (ROOT / "boards.yaml").read_text())
    assert gates == 1
    (folder / "boards.yaml").write_text(text)
    arguments = ("--boards-file", folder / "boards.yaml")
    return {name: record_of(hil(*RUN, "--board", name, *arguments, cwd=folder)) for name in ("h747", "nucleo_h745")}


def test_it_computes_the_same_in_as_many_instructions(records: dict[str, dict[str, Any]]) -> None:
    nucleo, discovery = records["nucleo_h745"], records["h747"]
    assert nucleo["bit_exact"] is discovery["bit_exact"] is True
    own, other = ({**record["raw"]} for record in (nucleo, discovery))
    assert own.pop("ticks") == pytest.approx(
        other.pop("ticks"), rel=1e-4
    )  # start-up code of another length: other cache lines
    assert own == other
    assert len(own["instructions"]) == 2
    assert nucleo["provenance"]["image_hash"] != discovery["provenance"]["image_hash"]


def test_each_image_is_silent_on_the_others_wire(records: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """The emulated chips answer on their board's USART and pins only: the other one has no USART3.

    After `records`, so that nothing is compiled within the deadline.
    """
    assert records["nucleo_h745"]["bit_exact"] is True
    text = (ROOT / "boards.yaml").read_text()
    swapped = text.replace('"{chip}"', "stm32h747")
    assert swapped != text
    (tmp_path / "boards.yaml").write_text(swapped)
    arguments = ("--board", "nucleo_h745", "--boards-file", tmp_path / "boards.yaml")
    check_failure(
        hil(*RUN, *arguments, cwd=tmp_path), 7, "write to an unmapped address 0x40004800", "hal::init", logs=True
    )


def test_the_same_chip_by_two_names(boards: Boards) -> None:
    nucleo, discovery = boards.board("nucleo_h745").chip, boards.board("h747").chip
    differing = {"name", "like", "emulated_as", "uart", "cross_checks"}
    assert nucleo.model_dump(exclude=differing) == discovery.model_dump(exclude=differing)


def test_its_probe_does_not_tell_it_from_a_discovery_board(boards: Boards) -> None:
    board = boards.board("nucleo_h745")
    assert board.usb_shared
    assert boards.board("h747").usb_shared
    assert set(board.usb) <= set(boards.board("h747").usb)
    assert (board.upload, board.reset) == ("stlink", "by_probe")
