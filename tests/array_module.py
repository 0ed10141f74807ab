"""A stand-in for cupy where there is no GPU: what the pinned cupy has, with its limits and its rounding, and no more.

Holds no assertions. Arrays are a class of their own, so that host and device cannot mix unseen: as in cupy, numpy gets
at the numbers through `get()` alone. What differs from numpy, all read in cupy 14.2's own sources:

- `maximum.at` and `minimum.at` round float64 to float32 (`atomics.cuh`: atomicMax is fmaxf); int64 came with 14.1;
- `add.at` and `bincount(weights=...)` add with atomics, in whatever order threads arrive: here in a random one;
- values set through indices that are there twice: whichever thread comes last. Here that is an error;
- `searchsorted` takes device arrays, sorting is stable, objects are not held, a numpy array is no operand or index.
A sum's order is fixed but not numpy's. What is not listed here is refused with AttributeError.
"""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

import numpy as np

HELD = "?bhilqBHILQfd"  # dtype characters: no objects, texts or dates
MEMORY = 1 << 31  # bytes
ATOMIC = {"add": "ilLfd", "maximum": "ilLfd", "minimum": "ilLfd"}
_threads = np.random.default_rng(0)  # the order in which they arrive


class DeviceArray:
    """Numbers on the device."""

    __array_ufunc__ = None  # numpy must not take part in an operation with one
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, numbers: np.ndarray):
        if numbers.dtype.char not in HELD:
            raise ValueError(f"Unsupported dtype {numbers.dtype}")
        self._numbers = numbers

    dtype = property(lambda self: self._numbers.dtype)
    shape = property(lambda self: self._numbers.shape)
    ndim = property(lambda self: self._numbers.ndim)
    size = property(lambda self: self._numbers.size)
    T = property(lambda self: DeviceArray(self._numbers.T))

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __iter__(self) -> Any:
        raise TypeError("one transfer an element: take `.get()` first")

    def __len__(self) -> int:
        return len(self._numbers)

    def __int__(self) -> int:
        return int(self._numbers.item())

    def __float__(self) -> float:
        return float(self._numbers.item())

    def __bool__(self) -> bool:
        return bool(self._numbers.item())

    def get(self) -> np.ndarray:
        return self._numbers.copy()

    def copy(self) -> DeviceArray:
        return DeviceArray(self._numbers.copy())

    def astype(self, dtype: Any, copy: bool = True) -> DeviceArray:
        return DeviceArray(self._numbers.astype(dtype, copy=copy))

    def __getitem__(self, index: Any) -> DeviceArray:
        return DeviceArray(np.asarray(self._numbers[_index(index)]))

    def __setitem__(self, index: Any, value: Any) -> None:
        place = _index(index)
        if isinstance(value, DeviceArray) and not _once(self._numbers.shape, place):
            raise ValueError("an index is there twice: which value stays depends on the threads")
        self._numbers[place] = _operand(value)

    def sum(self, axis: int | None = None, keepdims: bool = False) -> DeviceArray:
        order = np.random.default_rng(1).permutation(self.shape[-1 if axis is None else axis])
        shuffled = np.take(self._numbers, order, axis=-1 if axis is None else axis)
        return DeviceArray(np.asarray(shuffled.sum(axis=axis, keepdims=keepdims)))

    def _extreme(self, name: str, axis: int | None, keepdims: bool) -> DeviceArray:
        if not self.size:
            raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
        return DeviceArray(np.asarray(getattr(self._numbers, name)(axis=axis, keepdims=keepdims)))

    def min(self, axis: int | None = None, keepdims: bool = False) -> DeviceArray:
        return self._extreme("min", axis, keepdims)

    def max(self, axis: int | None = None, keepdims: bool = False) -> DeviceArray:
        return self._extreme("max", axis, keepdims)

    def any(self) -> DeviceArray:
        return DeviceArray(np.asarray(self._numbers.any()))

    def all(self) -> DeviceArray:
        return DeviceArray(np.asarray(self._numbers.all()))

    def __matmul__(self, other: Any) -> DeviceArray:
        return DeviceArray(self._numbers @ _array(other))


def _operator(name: str) -> Any:
    compute = getattr(operator, name)

    def forward(self: DeviceArray, other: Any) -> DeviceArray:
        with np.errstate(all="ignore"):
            return DeviceArray(np.asarray(compute(self._numbers, _operand(other))))

    def backward(self: DeviceArray, other: Any) -> DeviceArray:
        with np.errstate(all="ignore"):
            return DeviceArray(np.asarray(compute(_operand(other), self._numbers)))

    return forward, backward


for _name in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and_",
    "or_",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
):
    _forward, _backward = _operator(_name)
    _bare = _name.rstrip("_")
    setattr(DeviceArray, f"__{_bare}__", _forward)
    if _bare not in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(DeviceArray, f"__r{_bare}__", _backward)
DeviceArray.__neg__ = lambda self: DeviceArray(-self._numbers)  # type: ignore[attr-defined]
DeviceArray.__invert__ = lambda self: DeviceArray(~self._numbers)  # type: ignore[attr-defined]


def _array(value: Any) -> np.ndarray:
    if not isinstance(value, DeviceArray):
        raise TypeError(f"Unsupported type {type(value)}: only arrays on the device")
    return value._numbers


def _operand(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | np.generic) else _array(value)


def _index(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(_index(part) for part in index)
    return index if index is None or isinstance(index, int | slice) else _array(index)


def _once(shape: tuple[int, ...], place: Any) -> bool:
    """Whether every place is named once."""
    if isinstance(place, np.ndarray) and place.ndim == len(shape) == 1 and place.dtype != bool:
        return len(np.unique(place)) == len(place)
    named = np.zeros(shape, dtype=np.int64)
    np.add.at(named, place, 1)
    return bool((named <= 1).all())


class Elementwise:
    """A function of numbers, one by one, and, where cupy has it, its `at`."""

    def __init__(self, name: str):
        self.name, self._compute = name, getattr(np, name)

    def __call__(self, *operands: Any) -> DeviceArray:
        if not any(isinstance(operand, DeviceArray) for operand in operands):
            raise TypeError(f"{self.name} of numbers that are not on the device")
        with np.errstate(all="ignore"):
            return DeviceArray(np.asarray(self._compute(*map(_operand, operands))))

    def at(self, target: DeviceArray, places: DeviceArray, values: Any) -> None:
        if self.name not in ATOMIC:
            raise NotImplementedError(f"`{self.name}.at` is not supported")
        if target.dtype.char not in ATOMIC[self.name]:
            raise TypeError(f"`{self.name}.at` does not support {target.dtype}")
        numbers, where = np.broadcast_arrays(_operand(values), _array(places))
        order = _threads.permutation(len(where))
        if self.name != "add" and target.dtype == np.float64:
            target._numbers[where] = target._numbers[where].astype(np.float32)
            numbers = numbers.astype(np.float32).astype(np.float64)
        self._compute.at(target._numbers, where[order], numbers[order])


class ArrayModule:
    """Names of cupy; all others are missing."""

    float32, float64, int32, int64, bool_ = np.float32, np.float64, np.int32, np.int64, np.bool_
    inf, nan = float("inf"), float("nan")
    ndarray = DeviceArray
    runtime = SimpleNamespace(memGetInfo=lambda: (MEMORY, MEMORY), getDeviceCount=lambda: 1)  # (free, all) bytes
    cuda = SimpleNamespace(runtime=runtime)
    del runtime
    add, subtract, multiply = Elementwise("add"), Elementwise("subtract"), Elementwise("multiply")
    maximum, minimum = Elementwise("maximum"), Elementwise("minimum")
    sqrt, exp, log, abs = Elementwise("sqrt"), Elementwise("exp"), Elementwise("log"), Elementwise("abs")
    log1p, expm1 = Elementwise("log1p"), Elementwise("expm1")

    def get_default_memory_pool(self) -> Any:
        return SimpleNamespace(free_bytes=lambda: 0)

    def asarray(self, values: Any, dtype: Any = None) -> DeviceArray:
        numbers = values._numbers if isinstance(values, DeviceArray) else np.array(values)
        return DeviceArray(numbers if dtype is None else numbers.astype(dtype))

    def zeros(self, shape: Any, dtype: Any = np.float64) -> DeviceArray:
        return DeviceArray(np.zeros(shape, dtype))

    def ones(self, shape: Any, dtype: Any = np.float64) -> DeviceArray:
        return DeviceArray(np.ones(shape, dtype))

    def full(self, shape: Any, value: Any, dtype: Any = None) -> DeviceArray:
        return DeviceArray(np.full(shape, _operand(value), dtype))

    def arange(self, stop: int) -> DeviceArray:
        return DeviceArray(np.arange(stop))

    def concatenate(self, parts: list[Any]) -> DeviceArray:
        return DeviceArray(np.concatenate([_array(part) for part in parts]))

    def where(self, condition: DeviceArray, one: Any, other: Any) -> DeviceArray:
        if not isinstance(one, DeviceArray) and not isinstance(other, DeviceArray):
            raise TypeError("the type of two plain numbers is anybody's guess")
        return DeviceArray(np.where(_array(condition), _operand(one), _operand(other)))

    def flatnonzero(self, values: DeviceArray) -> DeviceArray:
        return DeviceArray(np.flatnonzero(_array(values)))

    def cumsum(self, values: DeviceArray) -> DeviceArray:
        numbers = _array(values)
        if not len(numbers) or numbers.dtype == bool:
            raise ValueError("cumsum of nothing, or of truth values, is not relied on")
        return DeviceArray(np.cumsum(numbers))

    def argsort(self, values: DeviceArray, kind: str | None = None) -> DeviceArray:
        if kind not in (None, "stable") or not len(_array(values)):
            raise ValueError("only 'stable' or None can be specified as kind; of nothing it is not relied on")
        return DeviceArray(np.argsort(_array(values), kind="stable"))

    def searchsorted(self, values: Any, wanted: Any, side: str = "left") -> DeviceArray:
        if not isinstance(values, DeviceArray):
            raise NotImplementedError("Only int or ndarray are supported for a")
        if not isinstance(wanted, DeviceArray | int | float):
            raise NotImplementedError("Only python scalars or ndarrays are supported for v")
        return DeviceArray(np.asarray(np.searchsorted(values._numbers, _operand(wanted), side=side)))

    def unique(self, values: DeviceArray, return_inverse: bool = False) -> Any:
        found = np.unique(_array(values), return_inverse=return_inverse)
        return tuple(map(DeviceArray, found)) if return_inverse else DeviceArray(found)

    def bincount(self, values: DeviceArray, weights: Any = None, minlength: int = 0) -> DeviceArray:
        order = _threads.permutation(len(_array(values)))
        given = None if weights is None else _array(weights)[order]
        return DeviceArray(np.bincount(_array(values)[order], given, minlength))


NAMES = tuple(name for name in vars(ArrayModule) if not name.startswith("_"))
array_module = ArrayModule()
