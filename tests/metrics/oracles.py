"""Slow, obviously right twins of the metrics: lists of labels, loops over rows, sums in the order they are read.

Hold no assertions and no shortcuts. A row of predictions is a dict label -> score, of true labels a set.
"""

from __future__ import annotations

from math import log2


def rank(predictions: dict[int, float]) -> list[int]:
    """Higher score first, then smaller label."""
    return [label for label, _ in sorted(predictions.items(), key=lambda item: (-item[1], item[0]))]


def is_tied(predictions: dict[int, float], k: int) -> bool:
    """Whether two of the k best, or the last of them and the next one, have the same score."""
    scores = sorted(predictions.values(), reverse=True)[: k + 1]
    return len(set(scores)) < len(scores)


def leave_out(rows: list, pairs: list[tuple[int, int]]) -> list:
    """Rows of predictions or true labels without the pairs."""
    out = []
    for number, row in enumerate(rows):
        kept = {label for label in row if (number, label) not in pairs}
        out.append({label: row[label] for label in kept} if isinstance(row, dict) else kept)
    return out


def precision(ranked: list[list[int]], true: list[set[int]], k: int) -> float:
    return sum(len(true[row] & set(ranked[row][:k])) / k for row in range(len(true))) / len(true)


def recall(ranked: list[list[int]], true: list[set[int]], k: int) -> float:
    found = [len(true[row] & set(ranked[row][:k])) / len(true[row]) if true[row] else 0 for row in range(len(true))]
    return sum(found) / len(true)


def f1(ranked: list[list[int]], true: list[set[int]], k: int) -> float:
    p, r = precision(ranked, true, k), recall(ranked, true, k)
    return 2 * p * r / (p + r) if p + r else 0.0


def gain(labels: list[int], true: set[int], weight, k: int) -> float:
    """Discounted weights of the true ones among the first k."""
    return sum(weight(label) / log2(i + 2) for i, label in enumerate(labels[:k]) if label in true)


def ideal(true: set[int], k: int) -> float:
    return sum(1 / log2(i + 2) for i in range(min(k, len(true))))


def ndcg(ranked: list[list[int]], true: list[set[int]], k: int) -> float:
    rows = range(len(true))
    return sum(gain(ranked[row], true[row], lambda _: 1, k) / ideal(true[row], k) for row in rows if true[row]) / len(
        true
    )


def psp(ranked: list[list[int]], true: list[set[int]], k: int, q) -> float:
    found = sum(q[label] for row in range(len(true)) for label in ranked[row][:k] if label in true[row])
    best = sum(sum(sorted((q[label] for label in labels), reverse=True)[:k]) for labels in true)
    return found / best if best else 0.0


def psndcg(ranked: list[list[int]], true: list[set[int]], k: int, q) -> float:
    found = best = 0.0
    for row, labels in enumerate(true):
        if labels:
            in_best_order = sorted(labels, key=lambda label: -q[label])
            found += gain(ranked[row], labels, lambda label: q[label], k) / ideal(labels, k)
            best += gain(in_best_order, labels, lambda label: q[label], k) / ideal(labels, k)
    return found / best if best else 0.0


def f1_of_sets(predicted: list[set[int]], true: list[set[int]], n_labels: int) -> tuple[float, float]:
    """(micro, macro) F1 of predicted label sets; a label that is neither predicted nor true has F1 0."""
    both = [len(predicted[row] & true[row]) for row in range(len(true))]
    named = sum(map(len, predicted)) + sum(map(len, true))
    of_label = []
    for label in range(n_labels):
        hits = sum(label in predicted[row] and label in true[row] for row in range(len(true)))
        count = sum(label in labels for labels in predicted) + sum(label in labels for labels in true)
        of_label.append(2 * hits / count if count else 0.0)
    return 2 * sum(both) / named if named else 0.0, sum(of_label) / max(n_labels, 1)


def coverage(ranked: list[list[int]], true: list[set[int]], k: int) -> float:
    known = set().union(*true)
    hit = {label for row in range(len(true)) for label in ranked[row][:k] if label in true[row]}
    return len(hit) / len(known) if known else 0.0
