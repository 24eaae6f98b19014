"""Small graphs for tests: the paper's three, and random ones."""

import networkx as nx
from hypothesis import strategies as st

# Section "Causal Interpretation of Equalized Odds"; drawn from its text, since the pictures are not public.
DIRECTED = "C -> X1 -> Y -> S; C -> X2 -> S"
SELECTION = "C -> X1 <- X2 -> S; X1 -> Y -> S"
SEPARATED = "C -> Y -> S"


def from_bits(names, bits):
    """Return the DAG in which earlier names may have arrows into later ones."""
    graph = nx.DiGraph()
    graph.add_nodes_from(names)
    pairs = ((one, two) for place, one in enumerate(names) for two in names[place + 1 :])
    graph.add_edges_from(pair for pair, bit in zip(pairs, bits, strict=True) if bit)
    return graph


@st.composite
def dags(draw, largest=7):
    """Draw a DAG over C, Y, S and others, with at least one arrow."""
    size = draw(st.integers(3, largest))
    names = draw(st.permutations(["C", "Y", "S", *(f"X{k}" for k in range(size - 3))]))
    pairs = size * (size - 1) // 2
    bits = draw(st.lists(st.booleans(), min_size=pairs, max_size=pairs).filter(any))
    return from_bits(names, bits)


def random_dags(rng, count, largest=6, density=0.5):
    """Return seeded random DAGs over C, Y, S and others, each with at least one arrow."""
    made = []
    while len(made) < count:
        size = int(rng.integers(3, largest + 1))
        names = [str(name) for name in rng.permutation(["C", "Y", "S", *(f"X{k}" for k in range(size - 3))])]
        bits = rng.random(size * (size - 1) // 2) < density
        if bits.any():
            made.append(from_bits(names, bits))
    return made
