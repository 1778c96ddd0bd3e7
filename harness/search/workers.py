"""Several processes that answer the questions of one search (search/journal.py)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.task import Task, load_task
from tinyhil.harness.settings.config import Boards
from tinyhil.notice import Say
from tinyhil.processes import Started
from tinyhil.search.journal import Journal
from tinyhil.search.search_loop import answered

POLL_S = 0.02
WAIT_S = 60.0  # of one who comes before the search that it is to help
END_S = 5.0
COMMAND = (sys.executable, "-P", "-m", "tinyhil.harness.search.workers")


@contextmanager
def helped(task: Task) -> Iterator[Task]:
    """The task with a journal, and `--workers` processes less one that answer what it will ask. They end with us."""
    workers = task.request.workers
    if workers is None:
        yield task
        return
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(journal_path(task)))
        journal.lead()
        for _ in range(workers - 1):
            helper = Started(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
            stack.callback(helper.end, END_S)
            assert helper.stdin is not None
            helper.stdin.write(json.dumps(_order_of(task)))
            helper.stdin.close()
        yield replace(task, problem=replace(task.problem, journal=journal))


def assist(request: SearchRequest, boards: Boards | None, say: Say) -> int:
    """Answer the questions of the same search, on this machine or on another with the same results folder, until it
    ends; how many were answered."""
    request.check()
    task = load_task(request, default_cache_dir(), say, lambda trial, best: None, boards)
    answers, deadline = 0, time.monotonic() + WAIT_S
    with Journal(journal_path(task)) as journal:
        while not journal.is_led() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        while (question := journal.take()) is not None or journal.is_led():
            if question is None:
                time.sleep(POLL_S)
                continue
            journal.tell(question, answered(task.problem, question))
            answers += 1
    return answers


def journal_path(task: Task) -> Path:
    """One for all searches, whatever their strategies and limits, that ask about the same things."""
    return task.folder / f"journal-{task.scores_key[:12]}.jsonl"


def _order_of(task: Task) -> dict[str, Any]:
    """What a helper needs to load the same task."""
    given = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(task.request).items()}
    return {"request": given, "boards": None if task.boards is None else task.boards.model_dump_json()}


def _request(data: Mapping[str, Any]) -> SearchRequest:
    values: dict[str, Any] = {}
    for field in fields(SearchRequest):
        value = data[field.name]
        if value is not None and "Path" in str(field.type):
            value = Path(value)
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return SearchRequest(**values)


def main() -> None:
    """A helper of a search: its request comes as one line of JSON on stdin."""
    order = json.loads(sys.stdin.read())
    boards = None if order["boards"] is None else Boards.model_validate_json(order["boards"])
    assist(_request(order["request"]), boards, lambda line: None)


if __name__ == "__main__":
    main()
