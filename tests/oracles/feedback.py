"""What a store should read, by a loop over all that was ever said."""


def rows(lists, events):
    """Return sorted (key, item, position, label) for lists (key, items, served) and events in any order."""
    shown = {}
    for key, items, _ in sorted(lists, key=lambda one: one[2]):
        for place, item in enumerate(items, 1):
            shown.setdefault((key, item), place)
    found = []
    for (key, item), place in shown.items():
        said = [event for event in events if event[:2] == (key, item)]
        told = [position for *_, position in said if position is not None]
        found.append(
            (key, item, min(told, default=place), max((label for _, _, label, _ in said), default=0))
        )
    return sorted(found)
