"""Kernels that turn bytes of whole lines into CSR arrays: one pass, int64 offsets, status codes, no exceptions.

Hold no file access and no wording: `blocks` feeds them, `diagnosis` turns a status into an error that teaches.

Every text handed in ends in a newline, so a scan that stops at a byte that is not a digit never leaves it. A value is
float32(float(token)) to the last bit: where one correctly rounded operation gives it, that; else an approximation with
a proven margin; the few values nearer to a rounding boundary than the margin are listed for Python's own float().
"""

# ruff: noqa: PLR1714, SIM109 - `in` builds a tuple where == is one instruction

from __future__ import annotations

import numpy as np

from xpipe.ground.accelerate import jit

OK, BAD_LABEL, BAD_FEATURE, TWICE_LABEL, TWICE_FEATURE, BLANK_LINE, UNSURE_FULL, NEAR_OVERFLOW = range(8)
XMC, SPARSE, SVMLIGHT = range(3)
# rules: what the file is
KIND, N_FEATURES, N_LABELS, INDEX_BASE, LABEL_BASE, BLANK_IS_ERROR = range(6)
# state: where the parse stands. A status leaves it at the start of the row that caused it; TOKEN is the position of the
# offending token, or for TWICE_* the index that comes twice; a value NEAR_OVERFLOW up to CLEARED is known to be finite
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
    """The byte there; an unsigned index spares numba's test for a negative one, a quarter of the parser's time."""
    return text[np.uintp(position)]


@jit
def parse_lines(text, rules, state, feature_ends, features, values, label_ends, labels, label_values, unsure):
    """Parse rows from state[POSITION] to the end of `text` or to the first row that is not right; returns the status.

    Ends of rows, indices and values are appended where `state` says; `unsure` lists (entry, token, feature) of the
    values that Python must finish.
    """
    kind = rules[KIND]
    n_features, n_labels = rules[N_FEATURES], rules[N_LABELS]
    index_base, label_base = rules[INDEX_BASE], rules[LABEL_BASE]
    position, row = state[POSITION], state[ROW]
    feature, label, n_unsure = state[FEATURE], state[LABEL], state[UNSURE]
    stop = len(text)
    status = OK
    while position < stop:
        row_start, row_feature, row_label, row_unsure = position, feature, label, n_unsure
        while byte_at(text, position) == SPACE or byte_at(text, position) == TAB:
            position += 1
        token = position
        byte = byte_at(text, position)
        if byte == HASH and kind == SVMLIGHT:  # a line of comment is no row
            while byte_at(text, position) != NEWLINE:
                position += 1
            position += 1
            state[LINE] += 1
            state[POSITION] = position
            continue

        # ` 1:0` alone (` 0:0` where features count from 0) is how svmlight writes a row without labels and features
        placeholder = (
            kind == SVMLIGHT
            and position > row_start
            and byte == ZERO + index_base
            and byte_at(text, position + 1) == COLON
            and byte_at(text, position + 2) == ZERO
            and (
                byte_at(text, position + 3) == NEWLINE
                or (byte_at(text, position + 3) == RETURN and byte_at(text, position + 4) == NEWLINE)
            )
        )
        if placeholder:
            position += 3
        # labels begin a line: after a blank there are none, and what looks like one is a feature without its value
        if kind != SPARSE and position == row_start and byte != NEWLINE and byte != RETURN:
            ordered = True
            last = np.int64(-1)
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
                    position = token
                    break
                ends = byte == SPACE or byte == NEWLINE or byte == TAB or byte == RETURN
                ends = ends or (byte == HASH and kind == SVMLIGHT)
                index -= label_base
                wrong = position == start or position - start > MOST_DIGITS or index < 0 or index >= n_labels
                if wrong or not (ends or byte == COMMA):
                    status = BAD_LABEL
                    break
                ordered = ordered and index > last
                last = index
                labels[label] = index
                label_values[label] = 1.0
                label += 1
                if ends:
                    break
                position += 1
            if status == OK and not ordered:
                sort_row(labels, label_values, row_label, label)
                for entry in range(row_label + 1, label):
                    if labels[entry] == labels[entry - 1]:
                        status = TWICE_LABEL
                        token = labels[entry]
                        break
            if status != OK:
                break

        ordered = True
        last = np.int64(-1)
        while True:
            byte = byte_at(text, position)
            while byte == SPACE or byte == TAB:
                position += 1
                byte = byte_at(text, position)
            if byte == NEWLINE:
                position += 1
                break
            if byte == RETURN and byte_at(text, position + 1) == NEWLINE:
                position += 2
                break
            if byte == HASH and kind == SVMLIGHT:
                while byte_at(text, position) != NEWLINE:
                    position += 1
                position += 1
                break

            token = position
            index = np.int64(0)
            digit = np.int64(byte) - ZERO
            while 0 <= digit <= 9:
                index = index * 10 + digit
                position += 1
                digit = np.int64(byte_at(text, position)) - ZERO
            if byte_at(text, position) != COLON or position == token or position - token > MOST_DIGITS:
                status = BAD_FEATURE
                break
            index -= index_base
            if index < 0 or index >= n_features:
                status = BAD_FEATURE
                break
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
                status = BAD_FEATURE
                break
            features[feature] = index
            if plain:
                value = mantissa / POWER_OF_TEN[n_decimals]
                values[feature] = -value if negative else value
            else:
                value, verdict = round_decimal(text, value_start)
                if verdict == NOT_FINITE:
                    status = BAD_FEATURE
                    break
                if verdict == BORDERLINE and token > state[CLEARED]:
                    status = NEAR_OVERFLOW
                    break
                values[feature] = value
                if verdict != SURE:
                    if n_unsure == len(unsure):
                        status = UNSURE_FULL
                        break
                    unsure[n_unsure, 0] = feature
                    unsure[n_unsure, 1] = value_start
                    unsure[n_unsure, 2] = index
                    n_unsure += 1
            feature += 1
        if status == OK and not ordered:
            sort_row(features, values, row_feature, feature)
            for entry in range(row_feature + 1, feature):
                if features[entry] == features[entry - 1]:
                    status = TWICE_FEATURE
                    token = features[entry]
                    break
            for item in range(row_unsure, n_unsure):
                unsure[item, 0] = row_feature + np.searchsorted(features[row_feature:feature], unsure[item, 2])
        blank = feature == row_feature and label == row_label and not placeholder
        if status == OK and rules[BLANK_IS_ERROR] and blank:
            status = BLANK_LINE
            token = row_start
        if status != OK:
            break
        feature_ends[row] = feature
        label_ends[row] = label
        row += 1
        state[LINE] += 1
        state[POSITION], state[ROW] = position, row
        state[FEATURE], state[LABEL], state[UNSURE] = feature, label, n_unsure
    if status != OK:
        state[TOKEN] = token
    return status


@jit
def round_decimal(text, position):
    """The float32 of the decimal number at `position`, whose form is already checked, and how sure it is."""
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
    """Heapsort of indices[first:last] with their values: rare, in place, never quadratic."""
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


@jit
def count_lines(text):
    """How many newlines there are."""
    n_lines = 0
    for byte in text:
        n_lines += byte == NEWLINE
    return n_lines


@jit
def find_rows(text, kind, starts):
    """Byte position of every row's line; returns how many. A line of svmlight comment is no row."""
    n_rows = 0
    position = 0
    while position < len(text):
        start = position
        while byte_at(text, position) == SPACE or byte_at(text, position) == TAB:
            position += 1
        is_row = not (kind == SVMLIGHT and byte_at(text, position) == HASH)
        while byte_at(text, position) != NEWLINE:
            position += 1
        position += 1
        if is_row:
            starts[n_rows] = start
            n_rows += 1
    return n_rows
