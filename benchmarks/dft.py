"""What does a DFT head guarantee without an LP, how narrowly, and what does the order of the labels buy?

    python benchmarks/dft.py [train.txt ...]

Sets of at most k labels: all argmaxable with 16 slack columns beside dft_matrix(n, k), by certified LP, for n up to 200
and k up to 5; their radii shrink with n, and slack brings them back (Figure 5 of the paper, as numbers). Certificates
in product form at n = 20,000, k = 50. For every file of training label sets (XMC text, with test.txt beside it where
there is one): sign changes in the order of the file, along a greedy path through the co-occurrence graph, and in the
order of `order_labels`; the smallest k that covers all of them, test sets covered at the smallest of these, and radii.
Exit code 1 if a goal does not hold: sets that are not argmaxable, a wrong certificate, radii that do not shrink, or an
order that does not beat the greedy path in mean and largest.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import named_figures
import numpy as np
import scipy.sparse as sp

SIZES = (20, 50, 100, 200)
SLACK = 16
SETS = 100  # of at most k labels, for each n and k
LARGE = (20_000, 50, 100)  # n, k, sets
RADII = 200  # training sets whose certificates are looked at


def as_rows(sets: list[np.ndarray], n: int) -> sp.csr_matrix:
    indptr = np.concatenate([[0], np.cumsum([len(labels) for labels in sets])])
    indices = np.concatenate([np.sort(labels) for labels in sets])
    return sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), shape=(len(sets), n))


def small_sets(n: int, k: int, n_sets: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Sets of exactly k random labels, then of 1..k, and the hardest of k: every other label of a stretch."""
    hard = [np.arange(0, 2 * k, 2), np.arange(k), np.array([0]), np.array([n - 1])]
    sizes = [k if row < n_sets // 2 else rng.integers(1, k + 1) for row in range(n_sets - len(hard))]
    return [rng.choice(n, size, replace=False) for size in sizes] + hard


def show_radii(console, n_sets: int) -> bool:
    """Figure 5 as numbers. Whether all sets are argmaxable with slack, and radii shrink with n and come back."""
    from rich.table import Table

    from xpipe.argmaxability import check, dft_certificate, dft_matrix, verify

    table = Table(
        "k", "n", "slack", "sets", "argmaxable", "smallest radius", "median radius", "sets of k: median radius",
        "median log10 of certificates", title="DFT heads: sets of at most k labels, by certified LP",
    )  # fmt: skip
    held = True
    medians: dict[tuple[int, int, int], float] = {}
    for k in (1, 2, 3, 4, 5):
        for n in SIZES:
            rng = np.random.default_rng([n, k])
            sets = small_sets(n, k, n_sets, rng)
            Y = as_rows(sets, n)
            for slack in (0, SLACK):
                W = np.hstack([dft_matrix(n, k), rng.standard_normal((n, slack)) / np.sqrt(n)])
                found = verify(W, Y, radius="exact")
                held &= bool(check(W, Y, found).all()) and (slack == 0 or bool(found.argmaxable.all()))
                radii = found.radius_lower
                medians[k, n, slack] = float(np.median(radii[: n_sets // 2]))  # the random sets of k
                logs = [dft_certificate(labels, n, k).log10_radius for labels in sets]  # type: ignore[union-attr]
                table.add_row(
                    str(k), str(n), str(slack), str(len(sets)), f"{found.argmaxable.mean():.0%}", f"{radii.min():.3g}",
                    f"{np.median(radii):.3g}", f"{medians[k, n, slack]:.3g}", "" if slack else f"{np.median(logs):.1f}",
                )  # fmt: skip
    console.print(table)
    for k in (1, 2, 3, 4, 5):
        falling = [medians[k, n, 0] for n in SIZES]
        held &= falling == sorted(falling, reverse=True) and medians[k, SIZES[-1], SLACK] > medians[k, SIZES[-1], 0]
    console.print(f"all argmaxable with {SLACK} slack columns, radii shrink with n and come back: {held}")
    return held


def show_certificates(console) -> bool:
    """Whether the certificates of sets of k labels have exactly their signs where no LP can look."""
    from xpipe.argmaxability import dft_certificate

    n, k, n_sets = LARGE
    sets = small_sets(n, k, n_sets, np.random.default_rng(0))
    start = time.perf_counter()
    proofs = [dft_certificate(labels, n, k) for labels in sets]
    taken = time.perf_counter() - start
    right = sum(
        proof is not None and proof.positive().tolist() == sorted(labels.tolist())
        for labels, proof in zip(sets, proofs, strict=True)
    )
    logs = [proof.log10_radius for proof in proofs if proof is not None]
    console.print(
        f"n={n:,}, k={k}: {right} of {n_sets} certificates have exactly the signs of their set, "
        f"{1e3 * taken / n_sets:.1f} ms each; log10 radius {min(logs):.0f} to {max(logs):.0f}"
    )
    named_figures.record(f"certificates with exactly their signs, of {n_sets}", right)
    return right == n_sets


def greedy_path(Y: sp.csr_matrix) -> np.ndarray:
    """Pairs of labels, most frequent together first, joined while both are ends of different paths; plain Python."""
    n = Y.shape[1]
    pairs = sp.triu(sp.csr_matrix(Y.T @ Y), 1).tocoo()
    parent, beside = list(range(n)), [[] for _ in range(n)]  # type: ignore[var-annotated]

    def root(label: int) -> int:
        while parent[label] != label:
            parent[label] = parent[parent[label]]
            label = parent[label]
        return label

    for place in np.lexsort((pairs.col, pairs.row, -pairs.data)).tolist():
        a, b = int(pairs.row[place]), int(pairs.col[place])
        if len(beside[a]) < 2 and len(beside[b]) < 2 and root(a) != root(b):
            parent[root(a)] = root(b)
            beside[a].append(b)
            beside[b].append(a)
    order: list[int] = []
    seen = [False] * n
    for end in range(n):
        label = end if len(beside[end]) < 2 and not seen[end] else None
        while label is not None:
            order.append(label)
            seen[label] = True
            label = next((other for other in beside[label] if not seen[other]), None)
    return np.array(order)


def show_order(console, paths: list[str]) -> bool:
    """Whether order_labels beats the greedy path in mean and largest on every file."""
    from rich.table import Table

    from xpipe.argmaxability import dft_argmaxable, dft_certificate, order_labels, sign_changes
    from xpipe.formats import read_xmc

    table = Table(
        "training sets", "order", "mean", "largest", "smallest k", "test sets covered", "log10 radius", "seconds"
    )
    held = True
    order_labels(sp.csr_matrix(np.eye(5, dtype=np.float32)))  # compiles
    for path in paths:
        _, Y = read_xmc(path)
        beside = os.path.join(os.path.dirname(path), "test.txt")
        test = read_xmc(beside)[1] if os.path.exists(beside) else None
        orders: dict[str, tuple[np.ndarray, float]] = {"as in the file": (np.arange(Y.shape[1]), 0.0)}
        makers = (
            ("greedy path", lambda: greedy_path(Y)),  # noqa: B023
            ("order_labels", lambda: order_labels(Y)),  # noqa: B023
            ("mean_tolerance=0.01", lambda: order_labels(Y, mean_tolerance=0.01)),  # noqa: B023
        )
        for name, make in makers:
            start = time.perf_counter()
            order = make()
            orders[name] = order, time.perf_counter() - start
        changes = {name: sign_changes(Y[:, order]) for name, (order, _) in orders.items()}
        needed = {name: -(-int(found.max()) // 2) for name, found in changes.items()}
        least_k = min(needed.values())
        for name, (order, taken) in orders.items():
            ordered = sp.csr_matrix(Y[:, order])
            ordered.sort_indices()
            rows = np.random.default_rng(0).choice(ordered.shape[0], min(RADII, ordered.shape[0]), replace=False)
            proofs = [dft_certificate(ordered[row].indices, Y.shape[1], needed[name]) for row in rows]
            radius = np.median([proof.log10_radius for proof in proofs if proof is not None])
            share = None if test is None else dft_argmaxable(test[:, order], least_k).mean()
            covered = "" if share is None else f"{share:.2%} at k={least_k}"
            data = os.path.basename(os.path.dirname(path)) or path
            named_figures.record(f"{data}, {name}: mean sign changes", changes[name].mean())
            named_figures.record(f"{data}, {name}: largest", changes[name].max())
            named_figures.record(f"{data}, {name}: smallest k", needed[name])
            if share is not None:
                named_figures.record(f"{data}, {name}: test sets covered, %", 100 * share)
            table.add_row(
                data, name, f"{changes[name].mean():.2f}",
                str(changes[name].max()), str(needed[name]), covered, f"{radius:.1f}", f"{taken:.1f}",
            )  # fmt: skip
        own, greedy = changes["order_labels"], changes["greedy path"]
        held &= bool(own.mean() < greedy.mean() and own.max() < greedy.max())
    console.print(table)
    console.print(f"order_labels beats the greedy path in mean and largest on every file: {held}")
    return held


def main() -> int:
    from rich.console import Console

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", nargs="*", help="XMC text with training label sets")
    parser.add_argument("--sets", type=int, default=SETS, help="of at most k labels, for each n and k")
    named_figures.add_option(parser)
    options = parser.parse_args()
    console = Console(width=140)
    held = show_radii(console, options.sets)
    held &= show_certificates(console)
    if options.train:
        held &= show_order(console, options.train)
    named_figures.write(options.json)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
