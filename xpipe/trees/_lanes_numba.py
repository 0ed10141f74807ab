"""Sparse rows times many vectors at once: the vectors lie side by side, so that one instruction serves 16 of them.

Holds no solver and no tree. `block` is a float32 matrix, features x width, C-ordered, width a multiple of LANES; a
column is the vector of one classifier. Written with LLVM's vectors because loops over a row of a numpy array are not
kept in registers: plain loops take four times as long. Products are rounded before they are added, on every machine.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from xpipe.ground.accelerate import jit

LANES = 16
MANY_LANES = 4 * LANES
VECTOR = ir.VectorType(ir.FloatType(), LANES)
WORD = ir.IntType(64)


def _data(context, builder, kind, array):
    """The pointer to an array's numbers."""
    return context.make_array(kind)(context, builder, array).data


def _load(builder, pointer):
    """LANES numbers from memory."""
    return builder.load(builder.bitcast(pointer, VECTOR.as_pointer()), align=4)


def _store(builder, vector, pointer):
    """LANES numbers to memory."""
    builder.store(vector, builder.bitcast(pointer, VECTOR.as_pointer()), align=4)


def _repeat(builder, number):
    """One number in all lanes."""
    nothing = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.IntType(32)(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _row_entry(builder, arrays, width, lane, entry):
    """(the value of an entry in all lanes, where the lanes of its feature are)."""
    columns, values, block, _ = arrays
    column = builder.load(builder.gep(columns, [entry]))
    if column.type.width < WORD.width:
        column = builder.zext(column, WORD)
    value = _repeat(builder, builder.load(builder.gep(values, [entry])))
    return value, builder.gep(block, [builder.add(builder.mul(column, width), lane)])


def _signature(columns, values, block, vector):
    """The types of an intrinsic for rows, a block and a vector of lanes."""
    return types.void(columns, values, types.int64, types.int64, block, types.int64, types.int64, vector)


def _generate_products(vectors):
    """Code that adds the products of a row with `vectors` x LANES lanes, whose sums stay in registers meanwhile."""

    def generate(context, builder, signature, arguments):
        arrays = [_data(context, builder, signature.args[at], arguments[at]) for at in (0, 1, 4, 7)]
        _, _, start, stop, _, width, lane, _ = arguments
        steps = [WORD(LANES * vector) for vector in range(vectors)]
        target = builder.gep(arrays[3], [lane])
        sums = [cgutils.alloca_once_value(builder, _load(builder, builder.gep(target, [step]))) for step in steps]
        with cgutils.for_range_slice(builder, start, stop, WORD(1)) as (entry, _):
            value, lanes = _row_entry(builder, arrays, width, lane, entry)
            for step, total in zip(steps, sums, strict=True):
                product = builder.fmul(value, _load(builder, builder.gep(lanes, [step])))
                builder.store(builder.fadd(builder.load(total), product), total)
        for step, total in zip(steps, sums, strict=True):
            _store(builder, builder.load(total), builder.gep(target, [step]))
        return context.get_dummy_value()

    return generate


@intrinsic
def add_products(typing_context, columns, values, start, stop, block, width, lane, sums):
    """sums[lane : lane + LANES] += the products of the row's entries start..stop-1 with these lanes of the block."""
    return _signature(columns, values, block, sums), _generate_products(1)


@intrinsic
def add_many_products(typing_context, columns, values, start, stop, block, width, lane, sums):
    """The same for MANY_LANES lanes: the row is read once for all of them."""
    return _signature(columns, values, block, sums), _generate_products(MANY_LANES // LANES)


@intrinsic
def add_row(typing_context, columns, values, start, stop, block, width, lane, steps):
    """Add the row's entries start..stop-1 to these lanes of the block, in each lane times its step."""

    def generate(context, builder, signature, arguments):
        arrays = [_data(context, builder, signature.args[at], arguments[at]) for at in (0, 1, 4, 7)]
        _, _, start, stop, _, width, lane, _ = arguments
        step = _load(builder, builder.gep(arrays[3], [lane]))
        with cgutils.for_range_slice(builder, start, stop, WORD(1)) as (entry, _):
            value, lanes = _row_entry(builder, arrays, width, lane, entry)
            _store(builder, builder.fadd(_load(builder, lanes), builder.fmul(value, step)), lanes)
        return context.get_dummy_value()

    return _signature(columns, values, block, steps), generate


@jit
def add_all_products(columns, values, start, stop, block, width, sums):
    """sums += the products of the row's entries start..stop-1 with all lanes of the block."""
    lane = 0
    while lane + MANY_LANES <= width:
        add_many_products(columns, values, start, stop, block, width, lane, sums)  # type: ignore[call-arg]
        lane += MANY_LANES
    while lane < width:
        add_products(columns, values, start, stop, block, width, lane, sums)  # type: ignore[call-arg]
        lane += LANES
