"""What stands beside the numbers: definitions, explanations, and what the criterion promises."""

from __future__ import annotations

from evenodds.report.facts import Facts, Gap
from evenodds.report.words import biased, chance, noun, percent

_SPACE = "\N{NO-BREAK SPACE}"


def definition(facts: Facts) -> str:
    """Say what qualified means on this page."""
    label = str(facts.about.columns.get("label", "label"))
    yes = f"column {label} is 1" if facts.outcomes == 1 else f"column {label} is 1 to {facts.outcomes}"
    if not biased(facts):
        return (
            f"“Qualified” means that the item was positive ({yes}) where it stood: this page assumes no "
            "position bias."
        )
    said = (
        f"“Qualified” means that the item would be positive ({yes}) if it stood at the top of the list. "
        "Further down people look less often, so a positive counts for more there; the curve below says "
        "by how much."
    )
    if facts.main == "observed":
        said += (
            " The model on this page was fitted for the labels as they are logged, so these are judged here."
        )
    return said


def assumption(facts: Facts) -> str:
    """Say what was found of the assumption behind the position-bias curve."""
    bias = facts.bias
    if bias.method == "none":
        return "No position bias is assumed: the log has no positions, or the model was fitted so."
    if bias.method == "given":
        return "The weights were given with the model, not estimated; they are taken as exact."
    if bias.p is None or bias.excess is None:
        return "This estimate comes without a test of its assumption."
    excess = percent(max(bias.excess, 0.0))
    if bias.fails:
        return (
            "The curve assumes that position matters alike for all items. Here it does not: positives "
            f"depart from that by {excess} beyond chance ({chance(bias.p)}). Read what follows from the "
            "curve with care."
        )
    return (
        "The curve assumes that position matters alike for all items. A test on this log does not "
        f"contradict that: positives depart from it by {excess} beyond chance ({chance(bias.p)}; it would "
        f"fail with over 3{_SPACE}% and p < 0.001)."
    )


def promise(facts: Facts) -> list[str]:
    """Say what the criterion promises, and what it does not."""
    odds = facts.about.criterion == "odds"
    settings = facts.about.settings
    if odds:
        made = (
            "Equalized odds. Given what an item turns out to be, its corrected score says nothing about "
            "its group: at any cut-off, qualified items of all groups pass equally often, and "
            "unqualified ones too."
        )
        how = (
            "To get there, scores are moved at random between bins, as little as the aim allows. An item "
            "keeps its draw by its key, so it does not jump from one request to the next; but two items "
            "with the same score in the same group can end up apart."
        )
        if settings.get("target") == "observed":
            made += " This model holds for labels as they will be logged, not for merit."
        if settings.get("epsilon") is not None:
            made += (
                f" It was relaxed: ratios up to exp(epsilon) are allowed, epsilon = {settings['epsilon']}."
            )
    else:
        made = (
            "Equality of opportunity. At any cut-off, qualified items of all groups pass equally often. "
            "Nothing is promised about unqualified items: there groups may still differ."
        )
        how = (
            "Within a group the order of the scores stays as it was, and no score is drawn at random "
            "unless scores tie."
        )
    shares = (
        "It does not promise that groups get equal shares of the list, nor of the positives: if more of "
        "one group are qualified, more of them stand at the top."
    )
    trust = (
        "It trusts the labels. If a click or a hire is itself biased against a group, this correction "
        "carries that on."
    )
    persons = "It speaks of groups, not of two particular people; and it is no legal finding."
    return [made, how, shares, trust, persons]


def rows_note() -> str:
    """Say what happens to rows that cannot be used."""
    return (
        "None. Counting refuses a log with missing, infinite or impossible values, names each problem and its "
        "first row, and drops nothing in silence; a stream sets such rows aside with their reasons. What was "
        "never logged cannot be seen here."
    )


def in_sample(facts: Facts) -> str:
    """Say that the model was fitted on the log it is judged by."""
    if not facts.about.in_sample:
        return ""
    return (
        "The correction was learned from this same log; the intervals after it allow for that. For a "
        "stricter test, make this page from a later log."
    )


def which_labels(facts: Facts) -> str:
    """Say which labels the model makes alike."""
    if facts.about.criterion == "odds":
        return (
            "The correction aims to bring the lines together for each label, so for qualified and for "
            "unqualified items."
        )
    return (
        "The correction aims to bring the lines of qualified items together. For unqualified items it "
        "promises nothing; they are shown so that you can see what happens to them."
    )


def bias_note(facts: Facts) -> str:
    """Say how the curve was found."""
    method = {
        "joint": "estimated from the log itself, by comparing items of the same group and score at different positions",
        "adjacent": "estimated from pairs of neighbouring positions",
        "randomized": "estimated from slots shuffled at random",
        "swaps": "estimated from neighbours swapped at random",
        "given": "given",
    }.get(facts.bias.method, facts.bias.method)
    return (
        f"The chance that an item is looked at, the first position being 1; {method}. The band is two "
        "standard errors either way. It belongs to the log, so the slider does not move it."
    )


def movers_note(facts: Facts) -> str:
    """Say how items move."""
    if facts.about.criterion == "odds":
        return (
            "Each square shows the items of one group: old rank across, new rank up. On the diagonal "
            "nothing moves; above it items rise. Darker means more of them."
        )
    return (
        "Each line shows what a score of one group becomes. Above the grey line an item rises, below it "
        "falls; within a group the order stays."
    )


def table_note(facts: Facts) -> str:
    """Explain the columns of the table of groups."""
    said = (
        "Mean rank: the share of all items that a group’s qualified items stand above. Move up or down: "
        "the share of its items that change to a higher or lower twentieth of the ranking."
    )
    if facts.before.shares is None:
        return said
    more = (
        "Exposure: the mean chance of a group’s items to be looked at, the first position being 100"
        + _SPACE
        + "%."
    )
    if facts.before.parity is not None:
        more += " Qualified items seen: the same for its qualified items only."
    return f"{more} {said}"


def given(facts: Facts, gap: Gap) -> str:
    """Name the items of a distance."""
    return noun(facts, gap.label, gap.kind)


def gaps_note(facts: Facts) -> str:
    """Explain the table of distances."""
    said = "Kolmogorov–Smirnov distances with 95" + _SPACE + "% intervals."
    if biased(facts):
        said += (
            " “Qualified” undoes position bias; “logged as” takes labels as they come in, after the "
            "correction as they are expected to come in at the new positions."
        )
    return said
