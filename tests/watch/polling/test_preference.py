from cockpit.watch.tasks import OTHER, UNWELL, VISIBLE, Turns


def test_those_on_a_screen_are_looked_at_each_time_and_the_others_by_turns() -> None:
    ranks = {"seen": VISIBLE, "unwell": UNWELL}
    turns = Turns(lambda name: ranks.get(name, OTHER), few=2)
    names = ["a", "seen", "b", "c", "unwell", "d", "e"]
    taken = [turns.take(names) for _ in range(5)]
    assert all({"seen", "unwell"} < set(each) and len(each) == 4 for each in taken)
    others = [name for each in taken for name in each if name not in ranks]
    assert others == ["a", "b", "c", "d", "e"] * 2, "none waits longer than the rest"


def test_a_fleet_that_is_unwell_altogether_is_looked_at_by_turns() -> None:
    ranks = {"seen": VISIBLE, "well": OTHER}
    turns = Turns(lambda name: ranks.get(name, UNWELL), few=2)
    names = ["a", "seen", "b", "c", "well"]
    assert [turns.take(names) for _ in range(3)] == [
        ["seen", "a", "b", "well"],
        ["seen", "c", "a", "well"],
        ["seen", "b", "c", "well"],
    ]


def test_a_run_that_comes_or_goes_takes_its_turn() -> None:
    turns = Turns(lambda _: OTHER, few=2)
    assert turns.take(["a", "b", "c"]) == ["a", "b"]
    assert turns.take(["a", "b", "d"]) == ["a", "b"], "c has gone, d is new: behind those that wait"
    assert turns.take(["a", "b", "d"]) == ["d", "a"]


def test_a_small_fleet_is_looked_at_whole() -> None:
    turns = Turns(lambda _: OTHER, few=10)
    assert [turns.take(["a", "b"]) for _ in range(2)] == [["a", "b"]] * 2
