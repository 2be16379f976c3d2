"""How the items of a case are kept on one worker of xdist."""

from __future__ import annotations

import pytest
from pytest_exportlint import scheduling


@pytest.mark.parametrize(
    ("nodeid", "case"),
    [
        ("test_a.py::net[capture]", "test_a.py::net"),
        ("test_a.py::net[device-cuda]", "test_a.py::net"),
        ("test_a.py::net[device-fake-cuda]", "test_a.py::net"),
        ("export-model::hf:bert[lint]", "export-model::hf:bert"),
        ("test_a.py::TestX::test_capture[a-b]", "test_a.py::TestX::[a-b]"),
        ("test_a.py::TestX::test_reload", "test_a.py::TestX::"),
        ("test_a.py::test_x[3]", None),
        ("test_a.py::test_capturing", None),
        ("test_a.py", None),
    ],
)
def test_the_case_of_an_item(nodeid, case):
    assert scheduling.case_of(nodeid) == case


class Node:
    def __init__(self, name):
        self.gateway = type("Gateway", (), {"id": name})
        self.sent: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices):
        self.sent += indices

    def shutdown(self):
        self.shutting_down = True


@pytest.fixture
def schedule(pytestconfig, monkeypatch):
    def made(collection: list[str], number: int):
        monkeypatch.setattr("xdist.scheduler.load.parse_tx_spec_config", lambda config: ["popen"] * number)
        scheduler = scheduling.LoadCases(pytestconfig, None)
        nodes = [Node(f"gw{i}") for i in range(number)]
        for node in nodes:
            scheduler.add_node(node)
        for node in nodes:
            scheduler.add_node_collection(node, collection)
        scheduler.schedule()
        for _ in range(len(collection)):  # each node does what it was sent, one after the other
            for node in nodes:
                pending = scheduler.node2pending[node]
                if pending:
                    scheduler.mark_test_complete(node, pending[0])
        return nodes

    return made


@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_no_case_is_sent_to_two_workers(schedule, number):
    checks = ("capture", "reload", "device-second", "state")
    collection = [f"test_{f}.py::net{n}[{check}]" for f in "ab" for n in range(5) for check in checks]
    collection += [f"test_c.py::test_{i}" for i in range(7)]
    nodes = schedule(collection, number)
    assert sorted(i for node in nodes for i in node.sent) == list(range(len(collection)))
    owners: dict[str, set[int]] = {}
    for number_of_node, node in enumerate(nodes):
        for index in node.sent:
            case = scheduling.case_of(collection[index])
            owners.setdefault(case or collection[index], set()).add(number_of_node)
    assert all(len(found) == 1 for found in owners.values())


@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 3, 40])
def test_tests_that_are_no_items_are_sent_as_xdist_sends_them(schedule, pytestconfig, number, length, monkeypatch):
    collection = [f"test_a.py::test_{i}" for i in range(length)]
    ours = [node.sent for node in schedule(collection, number)]
    monkeypatch.setattr(scheduling.LoadCases, "_to_the_end_of_a_case", lambda self, count: count)
    assert [node.sent for node in schedule(collection, number)] == ours
