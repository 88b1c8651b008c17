"""Arrays in and out: layouts, dtypes, protocols, and what is refused."""

import array
import ctypes
import gc
import struct

import numpy as np
import pytest
import relaxc


DTYPES = {
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "bool": "bool",
}


def same(dtype):
    return relaxc.compile(f'def main(x: Tensor(("n",), "{dtype}")):\n    return x\n', backend="interpreter")


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_keep_their_elements(dtype):
    given = np.array([0, 1, 1, 0, 1], DTYPES[dtype])
    result = same(dtype)(given)
    assert result.dtype == dtype and result.shape == (5,)
    back = np.asarray(result)
    assert back.dtype == given.dtype
    assert back.tolist() == given.tolist()
    # DLPack, both ways.
    assert np.from_dlpack(result).tolist() == given.tolist()


def test_contiguous_arguments_are_not_copied(double):
    before = double.copied_arguments, double.copied_bytes
    given = np.arange(12, dtype="float32").reshape(3, 4)
    assert np.array_equal(np.asarray(double(given)), given * 2)
    assert (double.copied_arguments, double.copied_bytes) == before


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[::-1],
        lambda a: a[:, ::-1],
        lambda a: a[::2, 1::3],
        lambda a: np.broadcast_to(a[:1], a.shape),
        lambda a: np.asfortranarray(a),
    ],
)
def test_other_layouts_are_copied_and_counted(double, view):
    given = view(np.arange(48, dtype="float32").reshape(6, 8))
    arguments, copied = double.copied_arguments, double.copied_bytes
    assert np.array_equal(np.asarray(double(given)), given * 2)
    assert double.copied_arguments == arguments + 1
    assert double.copied_bytes == copied + given.size * 4


def test_unaligned_arguments_are_copied(double):
    raw = bytearray(4 * 6 + 1)
    given = np.frombuffer(raw, "float32", 6, offset=1).reshape(2, 3)
    given[...] = 7
    assert not given.flags.aligned
    arguments = double.copied_arguments
    assert np.asarray(double(given)).tolist() == [[14.0] * 3] * 2
    assert double.copied_arguments == arguments + 1


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_arrays(double, shape):
    assert np.asarray(double(np.empty(shape, "float32"))).shape == shape


def test_rank_zero():
    module = relaxc.compile('def main(x: Tensor((), "f32")):\n    return add(x, x)\n')
    for given in (np.float32(1.5), np.array(1.5, "float32"), 1.5):
        result = module(given)
        assert result.shape == () and float(result) == 3.0 and result.item() == 3.0
    assert float(module(2)) == 4.0
    with pytest.raises(TypeError):
        len(module(1))


def test_numbers_are_in_the_range_of_their_dtype():
    module = relaxc.compile('def main(x: Tensor((), "u8")):\n    return x\n', backend="interpreter")
    assert module(255).item() == 255
    for wrong in (256, -1, 1.5, 1 << 200):
        with pytest.raises(relaxc.ArgumentError, match="argument `x`"):
            module(wrong)


def test_read_only_arguments(double):
    given = np.ones((2, 2), "float32")
    given.flags.writeable = False
    assert np.asarray(double(given)).tolist() == [[2.0, 2.0]] * 2


def test_other_byte_order_is_refused(double):
    with pytest.raises(relaxc.ArgumentError, match="byte order") as raised:
        double(np.ones((2, 2), ">f4"))
    assert isinstance(raised.value, TypeError)


@pytest.mark.parametrize("wrong", [np.ones((2, 2), "complex64"), np.array([["a"]]), np.array([[None]]), np.zeros((1, 1), "M8[s]")])
def test_other_elements_are_refused(double, wrong):
    with pytest.raises(relaxc.ArgumentError, match="argument `x`"):
        double(wrong)


@pytest.mark.parametrize("wrong", [[[1.0]], "text", object(), {}, None, np.ones((2, 2)), np.ones(2, "float32"), np.ones((2, 2), "int32")])
def test_wrong_arguments_say_what_is_expected(double, wrong):
    with pytest.raises(relaxc.Error) as raised:
        double(wrong)
    assert "x" in str(raised.value)


def test_counts_and_names_of_arguments(double):
    ones = np.ones((1, 1), "float32")
    for call in (lambda: double(), lambda: double(ones, ones), lambda: double(y=ones), lambda: double(ones, x=ones)):
        with pytest.raises(relaxc.ArgumentError):
            call()
    assert np.asarray(double(x=ones)).tolist() == [[2.0]]
    with pytest.raises(relaxc.ArgumentError, match=r"`x` of `main` is missing: .*; it has no parameter `y`"):
        double(y=ones)


def test_names_of_parameters_of_which_nothing_is_checked():
    module = relaxc.compile('def main(o: Object, x: Tensor(("n",), "f32")):\n    return (o, add(x, x))\n')
    assert module["main"].parameters == [("o", "Object"), ("x", 'Tensor((n,), "f32")')]
    own, double = module(x=np.ones(1, "float32"), o=(1, 2))
    assert (own, double.tolist()) == ((1, 2), [2.0])
    endless = []
    endless.append(endless)
    with pytest.raises(relaxc.ArgumentError, match="argument `o`: tuples are more than 64 deep"):
        module(endless, np.ones(1, "float32"))


def test_buffers_of_the_standard_library():
    module = relaxc.compile('def main(x: Tensor(("n",), "f32")):\n    return add(x, x)\n')
    assert module(array.array("f", [1, 2])).tolist() == [2.0, 4.0]
    assert module(memoryview(array.array("f", [1, 2, 3]))[::2]).tolist() == [2.0, 6.0]


class Capsule:
    """Speaks DLPack alone, of version 1 or of the form before it. `device` is written into the capsule."""

    def __init__(self, inner, is_old=False, device=None):
        self.inner, self.is_old, self.device = inner, is_old, device

    def __dlpack_device__(self):
        return self.device or self.inner.__dlpack_device__()

    def __dlpack__(self, **wishes):
        if self.is_old and wishes:
            raise TypeError("no such argument")
        capsule = self.inner.__dlpack__(**wishes)
        if self.device:
            pointer = ctypes.pythonapi.PyCapsule_GetPointer
            pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            # Version, context, deleter, flags and data come before the device.
            address = pointer(capsule, b"dltensor_versioned") + 8 + 8 + 8 + 8 + 8
            ctypes.memmove(address, struct.pack("ii", *self.device), 8)
        return capsule


@pytest.mark.parametrize("is_old", [False, True])
def test_dlpack_arguments(double, is_old):
    given = np.arange(6, dtype="float32").reshape(2, 3)
    arguments = double.copied_arguments
    assert np.array_equal(np.asarray(double(Capsule(given, is_old))), given * 2)
    assert double.copied_arguments == arguments
    assert np.array_equal(np.asarray(double(Capsule(given.T[::-1], is_old))), given.T[::-1] * 2)
    assert double.copied_arguments == arguments + 1


def test_other_devices_are_refused(double):
    with pytest.raises(relaxc.ArgumentError, match="another device"):
        double(Capsule(np.ones((1, 1), "float32"), device=(2, 0)))


def test_an_exporter_that_raises(double):
    class Broken:
        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **wishes):
            raise BufferError("it requires grad")

    with pytest.raises(relaxc.ArgumentError, match="requires grad") as raised:
        double(Broken())
    assert isinstance(raised.value.__cause__, BufferError)


def test_results_share_their_memory(double):
    result = double(np.ones((2, 2), "float32"))
    first, second = np.asarray(result), np.from_dlpack(result)
    assert result.writable and first.flags.writeable
    first[0, 0] = 5
    assert second[0, 0] == 5 and memoryview(result)[0, 0] == 5
    address = first.__array_interface__["data"][0]
    assert second.__array_interface__["data"][0] == address
    copy = np.array(result)
    copy[0, 0] = 6
    assert first[0, 0] == 5
    assert np.from_dlpack(result, copy=True).__array_interface__["data"][0] != address
    # The memory lives as long as an array of it.
    del result, second
    gc.collect()
    assert first.tolist() == [[5.0, 2.0], [2.0, 2.0]]


def test_results_that_are_arguments_are_read_only():
    module = relaxc.compile('def main(x: Tensor(("n",), "f32")):\n    return x\n')
    given = np.ones(3, "float32")
    result = module(given)
    assert not result.writable and not np.asarray(result).flags.writeable
    assert np.asarray(result).__array_interface__["data"][0] == given.__array_interface__["data"][0]
    # The old form of DLPack cannot say that memory is read-only.
    assert np.from_dlpack(Capsule(result, is_old=True)).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(BufferError):
        result.__dlpack__(copy=False)
    del given
    gc.collect()
    assert np.asarray(result).tolist() == [1.0, 1.0, 1.0]


def test_results_are_arguments(double):
    result = double(double(np.ones((1, 2), "float32")))
    assert result.tolist() == [[4.0, 4.0]]


def test_bfloat16_by_dlpack(double):
    module = relaxc.compile('def main(x: Tensor(("n",), "f32")):\n    return astype(x, "bf16")\n', backend="interpreter")
    result = module(np.array([1, 2.5], "float32"))
    assert result.dtype == "bf16" and result.nbytes == 4
    back = relaxc.compile('def main(x: Tensor(("n",), "bf16")):\n    return astype(x, "f32")\n', backend="interpreter")
    assert back(Capsule(result)).tolist() == [1.0, 2.5]
    with pytest.raises(BufferError):
        memoryview(result)


def test_array_protocol(double):
    result = double(np.ones((1, 2), "float32"))
    assert np.asarray(result, "float64").dtype == "float64"
    with pytest.raises(ValueError):
        np.array(result, "float64", copy=False)
    assert result.__array__().tolist() == [[2.0, 2.0]]
    assert repr(result) == 'relaxc.Tensor((1, 2), "f32")' and len(result) == 1


def test_tuples_and_named_results():
    module = relaxc.compile(
        'def main(x: Tensor(("n",), "f32"), s: Shape(("n",))):\n    return (x, add(x, x), s)\n', backend="interpreter"
    )
    given = np.ones(2, "float32")
    first, second, shape = module(given, (2,))
    assert first.tolist() == [1.0, 1.0] and second.tolist() == [2.0, 2.0] and shape == (2,)
    with pytest.raises(relaxc.ArgumentError, match="negative"):
        module(given, (-2,))


