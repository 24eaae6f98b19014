"""A social network in the shape of the paper's application. Everything in it is simulated.

The paper's logs cannot be had. This world was written down before it was run, and is not tuned to
the paper's table. Infrequent members (IM, 65 % of all) and frequent members (FM):

- appeal N(0, 1), the same in both groups; with the fit of the pair, N(0, 1), it makes the value
  v = 0.6 appeal + 0.8 fit; log activity is N(-1, 0.5) for IM and N(1, 0.5) for FM;
- a viewer would invite a candidate at the top of the list with probability
  sigmoid(-2 + u + 1.2 v + 0.2 FM), u ~ N(0, 0.7) his own inclination; FM visit three times as often;
- an invitation is accepted if the candidate comes by (IM 0.6, FM 0.95) and wants to, sigmoid(0.5 + v);
- 200 candidates are retrieved, FM with twice the chance; 100 are shown; w_j = 1 / log2(1 + j);
- the model sees signal (v plus noise: sd 0.5 for FM; sd 1 and 0.5 too low for IM, who have fewer
  connections), activity, and standing, log(1 + invitations received), which fades by a fifth a week.

History was ranked by 0.5 signal + activity, so those who visit were seen. The model is a logistic
regression on such logs, as they are: position and past exposure are in its labels. One world more has
a fair start, a history ranked by signal alone: what the loop itself makes of it shows there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evenodds.reranker import Reranker
from evenodds.simulate import position_weights

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

GROUPS = ("IM", "FM")
FREQUENT_SHARE = 0.35
RETRIEVED, SHOWN = 200, 100
FADING = 0.8
# The rules that ranked before there was a model: by activity, as told above, and by signal alone.
HISTORY = np.array([0.0, 0.5, 1.0, 0.0])
FAIR_START = np.array([0.0, 0.5, 0.0, 0.0])
WEIGHTS = position_weights(SHOWN)
_CHUNK = 10_000


@dataclass
class Members:
    """Who there is. `standing` changes: invitations received, older ones faded."""

    frequent: Ints
    appeal: Floats
    activity: Floats
    inclination: Floats
    standing: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.standing = np.zeros(self.frequent.size)


@dataclass(frozen=True)
class Shown:
    """Lists as they were shown, one row a list and one column a position.

    Attributes
    ----------
    features
        What the model saw: 1, signal, activity, standing.
    score, fair
        The model's score, and what the list was ranked by.
    merit, sent, accepted
        Whether an invitation would have been sent at the top; was sent; was sent and accepted.
    """

    viewer: Ints
    item: Ints
    group: Ints
    features: Floats
    score: Floats
    fair: Floats
    merit: Flags
    sent: Flags
    accepted: Flags


def draw_members(size: int, seed: int) -> Members:
    """Draw the members of a network."""
    rng = np.random.default_rng([seed, 10])
    frequent = (rng.random(size) < FREQUENT_SHARE).astype(np.int64)
    return Members(
        frequent,
        rng.normal(0.0, 1.0, size),
        rng.normal(2.0 * frequent - 1.0, 0.5),
        rng.normal(0.0, 0.7, size),
    )


def sigmoid(values: Floats) -> Floats:
    """Return 1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + np.exp(-values))


def week(
    members: Members,
    queries: int,
    coefficients: Floats | None,
    rerankers: dict[str, Reranker | None],
    *,
    luck: list[int],
    arms: Ints | None = None,
) -> Iterator[tuple[int, Shown]]:
    """Serve a week in chunks; yield the place of an arm's reranker, and what it showed.

    Parameters
    ----------
    members
        Their standing is used as it is; the caller updates it after the week.
    coefficients
        Of the model; the score is the predicted probability. None ranks by the true one.
    rerankers
        One an arm, None for none.
    luck
        Seeds every draw: two worlds with the same luck retrieve the same candidates.
    arms
        The arm of each member as a viewer; without it everyone is in the first.
    """
    for number, first in enumerate(range(0, queries, _CHUNK)):
        size = min(_CHUNK, queries - first)
        rng = np.random.default_rng([*luck, number])
        viewer = _draw_weighted(members.frequent, 3.0, size, rng)
        item = _draw_weighted(members.frequent, 2.0, (size, RETRIEVED), rng)
        item.sort(axis=1)
        fit = rng.normal(size=item.shape)
        blur = rng.normal(size=item.shape)
        chance = rng.random((3, *item.shape))
        frequent = members.frequent[item]
        value = 0.6 * members.appeal[item] + 0.8 * fit
        signal = value + np.where(frequent == 1, 0.5 * blur, blur - 0.5)
        standing = np.log1p(members.standing)[item]
        features = np.stack((np.ones_like(fit), signal, members.activity[item], standing), axis=-1)
        truth = sigmoid(-2.0 + members.inclination[viewer][:, None] + 1.2 * value + 0.2 * frequent)
        score = truth if coefficients is None else sigmoid(features @ coefficients)
        again = np.zeros(item.shape, dtype=bool)
        again[:, 1:] = item[:, 1:] == item[:, :-1]
        top = np.argsort(np.where(again, -1.0, score), axis=1)[:, : -SHOWN - 1 : -1]
        merit = chance[0] < truth
        welcome = chance[1] < np.where(frequent == 1, 0.95, 0.6) * sigmoid(0.5 + value)
        member_arm = np.zeros(size, dtype=np.int64) if arms is None else arms[viewer]
        for arm, reranker in enumerate(rerankers.values()):
            rows = np.flatnonzero(member_arm == arm)
            if rows.size == 0:
                continue
            chosen = top[rows]
            at = (rows[:, None], chosen)
            old = score[at]
            fair = old
            if reranker is not None:
                names = np.array(GROUPS)[frequent[at]].ravel()
                fair = reranker.transform(old.ravel(), names, seed=luck[0] + number).reshape(old.shape)
                order = np.argsort(-fair, axis=1, kind="stable")
                fair = np.take_along_axis(fair, order, axis=1)
                at = (rows[:, None], np.take_along_axis(chosen, order, axis=1))
            sent = merit[at] & (chance[2][at] < WEIGHTS)
            yield (
                arm,
                Shown(
                    viewer[rows],
                    item[at],
                    frequent[at],
                    features[at],
                    score[at],
                    fair,
                    merit[at],
                    sent,
                    sent & welcome[at],
                ),
            )


def _draw_weighted(
    frequent: Ints, weight: float, shape: int | tuple[int, int], rng: np.random.Generator
) -> Ints:
    """Draw members at random, frequent ones with `weight` times the chance of the others."""
    kinds = [np.flatnonzero(frequent == code) for code in (0, 1)]
    share = weight * kinds[1].size / (weight * kinds[1].size + kinds[0].size)
    is_frequent = rng.random(shape) < share
    place = rng.random(shape)
    return np.where(
        is_frequent,
        kinds[1][(place * kinds[1].size).astype(np.int64)],
        kinds[0][(place * kinds[0].size).astype(np.int64)],
    )


def received(shown: Shown, members: int) -> Floats:
    """Count the invitations that each member received."""
    return np.bincount(shown.item[shown.sent], minlength=members).astype(np.float64)


def logistic(features: Floats, label: Flags, *, steps: int = 25) -> Floats:
    """Fit a logistic regression by Newton's method, with a trace of ridge.

    >>> x = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    >>> logistic(x, np.array([True, False, True, True, True, False])).round(2).tolist()
    [0.0, 1.1]
    """
    ridge = 1e-6 * np.eye(features.shape[1])
    found = np.zeros(features.shape[1])
    for _ in range(steps):
        chance = sigmoid(features @ found)
        slope = features.T @ (label - chance) - ridge @ found
        curve = (features * (chance * (1.0 - chance))[:, None]).T @ features + ridge
        move = np.linalg.solve(curve, slope)
        found = found + move
        if np.abs(move).max() < 1e-8:
            break
    return found
