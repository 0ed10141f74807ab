"""Kernels that turn bytes of whole lines into CSR arrays: one pass, int64 offsets, status codes, no exceptions.

They hold no file access and no wording of errors: `blocks` feeds them, `diagnosis` turns a status into an error.

Every text handed in ends in a newline, so a scan that stops at a byte that is not a digit never leaves the text. A
value is float32(float(token)) to the last bit. Where one correctly rounded operation gives the value, it is used. Else
the value is an approximation with a proven margin. The few values that are nearer to a rounding boundary than the
margin are listed, and Python's own float() computes them.
"""

# ruff: noqa: PLR1714, SIM109 - `in` builds a tuple where == is one instruction

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from xpipe.ground.accelerate import jit

OK, BAD_LABEL, BAD_FEATURE, TWICE_LABEL, TWICE_FEATURE, BLANK_LINE, UNSURE_FULL, NEAR_OVERFLOW = range(8)
XMC, SPARSE, SVMLIGHT = range(3)
# rules: what the file is
KIND, N_FEATURES, N_LABELS, INDEX_BASE, LABEL_BASE, BLANK_IS_ERROR = range(6)
# state: how far the parse is. A status leaves it at the start of the row that caused it. TOKEN is the position of the
# wrong token, or for TWICE_* the index that comes twice. Tokens up to position CLEARED are known to have finite values.
POSITION, LINE, ROW, FEATURE, LABEL, UNSURE, TOKEN, CLEARED = range(8)

TAB, NEWLINE, RETURN, SPACE, HASH, PLUS, COMMA, MINUS, DOT, ZERO, COLON = 9, 10, 13, 32, 35, 43, 44, 45, 46, 48, 58
UPPER_E, LOWER_E = 69, 101
MOST_DIGITS = 18  # always fit an int64
EXACT_MANTISSA = 1 << 53
EXACT_POWER = 22  # 10**22 is the largest power of ten that is a double
POWER_OF_TEN = np.array([float(f"1e{exponent}") for exponent in range(70)])
MARGIN = 2.0**-49  # over three roundings and a cut mantissa: they add up to less than 2**-51
SURE, UNSURE_VALUE, NOT_FINITE, BORDERLINE = range(4)


@jit
def byte_at(text, position):
    """The byte at a position. An unsigned index avoids numba's test for negative ones: a quarter of parsing time."""
    return text[np.uintp(position)]


@jit
def parse_lines(text, rules, state, feature_ends, features, values, label_ends, labels, label_values, unsure):
    """Parse rows from state[POSITION] to the end of `text`, or to the first row that is not right. Returns the status.

    Ends of rows, indices and values are appended where `state` says. `unsure` lists (entry, token, feature) of the
    values that Python must compute.
    """
    kind = rules[KIND]
    while state[POSITION] < len(text):
        start = state[POSITION]
        position = skip_blanks(text, start)
        token = position
        if kind == SVMLIGHT and byte_at(text, position) == HASH:  # a line of comment is no row
            state[POSITION] = skip_line(text, position)
            state[LINE] += 1
            continue
        status = OK
        label, feature, n_unsure = state[LABEL], state[FEATURE], state[UNSURE]
        placeholder = position > start and is_placeholder(text, position, rules)
        if placeholder:
            position += 3
        # labels begin a line: after a blank there are none, and what looks like one is a feature without its value
        elif kind != SPARSE and position == start and not is_line_end(byte_at(text, position)):
            status, position, label, token = parse_labels(text, position, rules, labels, label_values, label)
        if status == OK:
            status, position, feature, n_unsure, token = parse_features(
                text, position, rules, state[CLEARED], features, values, feature, unsure, n_unsure
            )
        blank = feature == state[FEATURE] and label == state[LABEL] and not placeholder
        if status == OK and rules[BLANK_IS_ERROR] and blank:
            status = BLANK_LINE
            token = start
        if status != OK:
            state[TOKEN] = token
            return status
        row = state[ROW]
        feature_ends[row] = feature
        label_ends[row] = label
        state[POSITION], state[LINE], state[ROW] = position, state[LINE] + 1, row + 1
        state[FEATURE], state[LABEL], state[UNSURE] = feature, label, n_unsure
    return OK


@jit
def parse_labels(text, token, rules, labels, label_values, label):
    """Parse the labels that begin at `token`; the first is entry `label`.

    Returns the status, the position after the labels, the entry after the last label, and the wrong token.
    """
    position, first = token, label
    ordered, last = True, np.int64(-1)
    while True:
        start = position
        index = np.int64(0)
        digit = np.int64(byte_at(text, position)) - ZERO
        while 0 <= digit <= 9:
            index = index * 10 + digit
            position += 1
            digit = np.int64(byte_at(text, position)) - ZERO
        byte = byte_at(text, position)
        if byte == COLON and start == token:  # a feature: the row has no labels
            return OK, token, first, token
        index -= rules[LABEL_BASE]
        wrong = position == start or position - start > MOST_DIGITS or index < 0 or index >= rules[N_LABELS]
        ends = byte == SPACE or is_line_end(byte) or byte == TAB or (byte == HASH and rules[KIND] == SVMLIGHT)
        if wrong or not (ends or byte == COMMA):
            return BAD_LABEL, position, label, token
        ordered = ordered and index > last
        last = index
        labels[label] = index
        label_values[label] = 1.0
        label += 1
        if ends:
            break
        position += 1
    if not ordered:
        twice = sort_row(labels, label_values, first, label)
        if twice >= 0:
            return TWICE_LABEL, position, label, twice
    return OK, position, label, token


@jit
def parse_features(text, position, rules, cleared, features, values, feature, unsure, n_unsure):
    """Parse the entries of a row up to its end; the first is entry `feature`.

    Returns the status, the position after the line, the entry after the last, the length of `unsure`, and the wrong
    token. Nearly all time is spent in this loop: calls would more than double it, so digits are read in place.
    """
    kind, n_features, index_base = rules[KIND], rules[N_FEATURES], rules[INDEX_BASE]
    first, first_unsure = feature, n_unsure
    ordered, last = True, np.int64(-1)
    while True:
        byte = byte_at(text, position)
        while byte == SPACE or byte == TAB:
            position += 1
            byte = byte_at(text, position)
        token = position
        if byte == NEWLINE:
            position += 1
            break
        if byte == RETURN and byte_at(text, position + 1) == NEWLINE:
            position += 2
            break
        if byte == HASH and kind == SVMLIGHT:
            position = skip_line(text, position)
            break

        index = np.int64(0)
        digit = np.int64(byte) - ZERO
        while 0 <= digit <= 9:
            index = index * 10 + digit
            position += 1
            digit = np.int64(byte_at(text, position)) - ZERO
        if byte_at(text, position) != COLON or position == token or position - token > MOST_DIGITS:
            return BAD_FEATURE, position, feature, n_unsure, token
        index -= index_base
        if index < 0 or index >= n_features:
            return BAD_FEATURE, position, feature, n_unsure, token
        ordered = ordered and index > last
        last = index

        position += 1
        value_start = position
        byte = byte_at(text, position)
        negative = byte == MINUS
        if negative or byte == PLUS:
            position += 1
        mantissa = np.int64(0)
        first_digit = position
        digit = np.int64(byte_at(text, position)) - ZERO
        while 0 <= digit <= 9:
            mantissa = mantissa * 10 + digit
            position += 1
            digit = np.int64(byte_at(text, position)) - ZERO
        n_digits = position - first_digit
        n_decimals = np.int64(0)
        if byte_at(text, position) == DOT:
            position += 1
            first_digit = position
            digit = np.int64(byte_at(text, position)) - ZERO
            while 0 <= digit <= 9:
                mantissa = mantissa * 10 + digit
                position += 1
                digit = np.int64(byte_at(text, position)) - ZERO
            n_decimals = position - first_digit
            n_digits += n_decimals
        byte = byte_at(text, position)
        plain = n_digits <= MOST_DIGITS and n_decimals <= EXACT_POWER and mantissa <= EXACT_MANTISSA
        if byte == LOWER_E or byte == UPPER_E:
            plain = False
            position += 1
            if byte_at(text, position) == PLUS or byte_at(text, position) == MINUS:
                position += 1
            first_digit = position
            while ZERO <= byte_at(text, position) <= ZERO + 9:
                position += 1
            if position == first_digit:
                n_digits = 0
            byte = byte_at(text, position)
        ends = byte == SPACE or byte == NEWLINE or byte == TAB or byte == RETURN
        ends = ends or (byte == HASH and kind == SVMLIGHT)
        if n_digits == 0 or not ends:
            return BAD_FEATURE, position, feature, n_unsure, token
        features[feature] = index
        if plain:
            value = mantissa / POWER_OF_TEN[n_decimals]
            values[feature] = -value if negative else value
        else:
            value, verdict = round_decimal(text, value_start)
            if verdict == NOT_FINITE:
                return BAD_FEATURE, position, feature, n_unsure, token
            if verdict == BORDERLINE and token > cleared:
                return NEAR_OVERFLOW, position, feature, n_unsure, token
            values[feature] = value
            if verdict != SURE:
                if n_unsure == len(unsure):
                    return UNSURE_FULL, position, feature, n_unsure, token
                unsure[n_unsure, 0] = feature
                unsure[n_unsure, 1] = value_start
                unsure[n_unsure, 2] = index
                n_unsure += 1
        feature += 1
    if not ordered:
        twice = sort_row(features, values, first, feature)
        if twice >= 0:
            return TWICE_FEATURE, position, feature, n_unsure, twice
        for item in range(first_unsure, n_unsure):
            unsure[item, 0] = first + np.searchsorted(features[first:feature], unsure[item, 2])
    return OK, position, feature, n_unsure, token


@jit
def skip_blanks(text, position):
    """The position of the next byte that is neither a space nor a tab."""
    while byte_at(text, position) == SPACE or byte_at(text, position) == TAB:
        position += 1
    return position


@jit
def skip_line(text, position):
    """The position after the end of the line."""
    while byte_at(text, position) != NEWLINE:
        position += 1
    return position + 1


@jit
def is_line_end(byte):
    """Whether a byte ends a line, or may."""
    return byte == NEWLINE or byte == RETURN


@jit
def is_placeholder(text, position, rules):
    """Whether ` 1:0` stands alone (` 0:0` where features count from 0): an svmlight row without labels and features."""
    return (
        rules[KIND] == SVMLIGHT
        and byte_at(text, position) == ZERO + rules[INDEX_BASE]
        and byte_at(text, position + 1) == COLON
        and byte_at(text, position + 2) == ZERO
        and (
            byte_at(text, position + 3) == NEWLINE
            or (byte_at(text, position + 3) == RETURN and byte_at(text, position + 4) == NEWLINE)
        )
    )


@jit
def round_decimal(text, position):
    """The float32 of the decimal number at `position`, whose form is checked, and how sure the value is."""
    negative = byte_at(text, position) == MINUS
    if negative or byte_at(text, position) == PLUS:
        position += 1
    mantissa, n_digits, exponent = np.int64(0), np.int64(0), np.int64(0)
    decimals = 0
    while True:
        digit = np.int64(byte_at(text, position)) - ZERO
        if byte_at(text, position) == DOT:
            decimals = 1
        elif digit < 0 or digit > 9:
            break
        elif n_digits < MOST_DIGITS:
            mantissa = mantissa * 10 + digit
            n_digits += mantissa > 0  # zeros in front do not count
            exponent -= decimals
        else:  # the digits left out are worth less than the margin, and a mantissa this long is never exact
            exponent += 1 - decimals
        position += 1
    if byte_at(text, position) == LOWER_E or byte_at(text, position) == UPPER_E:
        position += 1
        downward = byte_at(text, position) == MINUS
        if downward or byte_at(text, position) == PLUS:
            position += 1
        power = np.int64(0)
        while ZERO <= byte_at(text, position) <= ZERO + 9:
            if power < 1_000_000_000_000:
                power = power * 10 + (np.int64(byte_at(text, position)) - ZERO)
            position += 1
        exponent += -power if downward else power
    sign = np.float32(-1.0 if negative else 1.0)
    magnitude = n_digits + exponent  # the number is below 10**magnitude and not below a tenth of that
    if mantissa == 0 or magnitude < -46:  # half the smallest float32 is 7e-46
        return sign * np.float32(0.0), SURE
    if magnitude > 40:
        return sign * np.float32(0.0), NOT_FINITE
    number = np.float64(mantissa)
    number = number / POWER_OF_TEN[-exponent] if exponent < 0 else number * POWER_OF_TEN[exponent]
    if mantissa <= EXACT_MANTISSA and -EXACT_POWER <= exponent <= EXACT_POWER:
        return sign * np.float32(number), SURE
    low, high = np.float32(number * (1 - MARGIN)), np.float32(number * (1 + MARGIN))
    if low == high:
        return sign * low, NOT_FINITE if np.isinf(low) else SURE
    return sign * low, BORDERLINE if np.isinf(high) else UNSURE_VALUE


@jit
def sort_row(indices, values, first, last):
    """Sort indices[first:last] with their values. Returns an index that comes twice, or -1.

    A heapsort: it is rarely needed, and must never be quadratic.
    """
    n = last - first
    root = n // 2
    while n > 1:
        if root > 0:
            root -= 1
            index, value = indices[first + root], values[first + root]
        else:
            n -= 1
            index, value = indices[first + n], values[first + n]
            indices[first + n], values[first + n] = indices[first], values[first]
        hole, child = root, 2 * root + 1
        while child < n:
            if child + 1 < n and indices[first + child + 1] > indices[first + child]:
                child += 1
            if indices[first + child] <= index:
                break
            indices[first + hole], values[first + hole] = indices[first + child], values[first + child]
            hole, child = child, 2 * child + 1
        indices[first + hole], values[first + hole] = index, value
    for entry in range(first + 1, last):
        if indices[entry] == indices[entry - 1]:
            return np.int64(indices[entry])
    return np.int64(-1)


@jit
def count_lines(text):
    """How many newlines there are."""
    n_lines = 0
    for byte in text:
        n_lines += byte == NEWLINE
    return n_lines


@jit
def find_rows(text, kind, starts):
    """Write the byte position of each row to `starts`; returns the number of rows. svmlight comments are no rows."""
    n_rows = 0
    position = 0
    while position < len(text):
        start = position
        position = skip_blanks(text, position)
        is_row = not (kind == SVMLIGHT and byte_at(text, position) == HASH)
        position = skip_line(text, position)
        if is_row:
            starts[n_rows] = start
            n_rows += 1
    return n_rows
