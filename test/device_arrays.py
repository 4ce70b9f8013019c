# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py's own tests on arrays in device memory: device_arrays.py KIND TESTS ARGUMENT..., where TESTS is the folder with its
main.py. Of the kinds of arrays that the tests know only one is left:

    interface  one of ours, that has its elements in device memory and shows them by __cuda_array_interface__
    dlpack     the same by DLPack
    cupy       those of CuPy, both ways
"""
import array
import ctypes
import functools
import os
import runpy
import sys

KINDS = ["interface", "dlpack", "cupy"]
ANY_DIRECTION = 4  # cudaMemcpyDefault


@functools.lru_cache(None)
def cudart():
    library = ctypes.CDLL("libcudart.so.13")
    library.cudaMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.cudaFree.argtypes = [ctypes.c_void_p]
    library.cudaMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library


def must(error):
    if error != 0:
        raise RuntimeError(f"CUDA error {error}")


def allocate(size):
    address = ctypes.c_void_p()
    must(cudart().cudaMalloc(ctypes.byref(address), max(size, 1)))
    return address.value


class Slice:
    """Elements of a device array one after the other, as an array of its own."""

    def __init__(self, owner, first, size):
        self.owner, self.typecode, self.itemsize, self.size = owner, owner.typecode, owner.itemsize, size
        self.address, self.readonly = owner.address + first * owner.itemsize, False

    def __len__(self):
        return self.size

    def read(self):
        elements = array.array(self.typecode, bytes(self.size * self.itemsize))
        must(cudart().cudaMemcpy(elements.buffer_info()[0], self.address, self.size * self.itemsize, ANY_DIRECTION))
        return elements

    def write(self, values):
        elements = array.array(self.typecode, values)
        assert len(elements) == self.size
        must(cudart().cudaMemcpy(self.address, elements.buffer_info()[0], self.size * self.itemsize, ANY_DIRECTION))

    def __iter__(self):
        return iter(self.read())

    def __getitem__(self, i):
        if isinstance(i, slice):
            first, last, step = i.indices(self.size)
            return Slice(self, first, max(last - first, 0)) if step == 1 else self.read()[i]
        return self.read()[i]

    def __setitem__(self, i, value):
        elements = self.read()
        elements[i] = array.array(self.typecode, value) if isinstance(i, slice) else value
        self.write(elements)

    def __eq__(self, other):
        return list(self) == list(other)

    __hash__ = None

    @property
    def __cuda_array_interface__(self):
        kind = "f" if self.typecode in "fd" else "u" if self.typecode.isupper() else "i"
        return {"shape": (self.size,), "typestr": f"<{kind}{self.itemsize}", "data": (self.address if self.size else 0, self.readonly),
                "strides": None, "version": 3}


def device_array(arrayimpl):
    class DeviceArray(Slice, arrayimpl.BaseArray):
        backend = "device"  # unknown to the tests, which leave out what a host MPI is known to do wrong with CuPy's
        TypeMap = {code: mpi for code, mpi in {**arrayimpl.TypeMapInteger, **arrayimpl.TypeMapFloat}.items()
                   if code != "g"}
        __getitem__, __setitem__, __len__ = Slice.__getitem__, Slice.__setitem__, Slice.__len__

        def __init__(self, arg, typecode, shape=None, readonly=False):
            alone = isinstance(arg, (int, float, complex))
            shape = (() if alone else len(arg)) if shape is None else shape
            self.typecode, self.itemsize, self.size = typecode, array.array(typecode).itemsize, 1
            self.readonly = readonly
            for n in shape if isinstance(shape, (tuple, list)) else [shape]:
                self.size *= n
            self.address = allocate(self.size * self.itemsize)
            self.write([array.array(typecode, [arg])[0]] * self.size if alone else arg)

        def __del__(self):
            if getattr(self, "address", None):
                cudart().cudaFree(self.address)

        @property
        def flat(self):
            return self

        def as_raw(self):
            return self

    return DeviceArray


def dlpack_array(arrayimpl):
    import dlpackimpl

    class DeviceArray(device_array(arrayimpl)):
        __cuda_array_interface__ = property()  # mpi4py asks for that first

        def buffer_info(self):
            return self.address, self.size

        def __dlpack_device__(self):
            device = ctypes.c_int()
            must(cudart().cudaGetDevice(ctypes.byref(device)))
            return dlpackimpl.DLDeviceType.kDLCUDA, device.value

        def __dlpack__(self, stream=None):
            managed = dlpackimpl.make_dl_managed_tensor(self)
            managed.dl_tensor.device = dlpackimpl.DLDevice(*self.__dlpack_device__())
            return dlpackimpl.make_py_capsule(managed)

    return DeviceArray


def wrapped(value, typecode):
    """What a type of whole numbers holds of one, as a cast of numpy has it: CuPy from 14 on refuses it."""
    if typecode not in "bhilqBHILQ" or type(value) is not int:
        return value
    bits = 8 * array.array(typecode).itemsize
    value %= 1 << bits
    return value - (1 << bits) if typecode.islower() and value >> (bits - 1) else value


def has_type(cupy, typecode):
    try:
        cupy.array(0, typecode)
    except ValueError:
        return False
    return True


def cupy_arrays(arrayimpl):
    """Those of the tests, which want -1 in arrays of unsigned elements."""
    def wrapping(kind):
        class WrappingArray(kind):
            TypeMap = {code: mpi for code, mpi in kind.TypeMap.items() if has_type(arrayimpl.cupy, code)}

            def __init__(self, arg, typecode, *more, **named):
                several = isinstance(arg, (list, tuple, range))
                arg = [wrapped(value, typecode) for value in arg] if several else wrapped(arg, typecode)
                super().__init__(arg, typecode, *more, **named)

            def __setitem__(self, i, value):
                super().__setitem__(i, wrapped(value, self.typecode))

        return WrappingArray

    found = [wrapping(kind) for kind in arrayimpl.ArrayBackends if "cupy" in (kind.backend or "")]
    if not found:
        sys.exit("CuPy is not here, or mpi4py's tests do not know its arrays")
    return found


def local_rank():
    return int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", os.environ.get("MPI_LOCALRANKID", 0)))


def use_device():
    """Each rank has its own."""
    count = ctypes.c_int()
    must(cudart().cudaGetDeviceCount(ctypes.byref(count)))
    must(cudart().cudaSetDevice(local_rank() % count.value))


def use_device_of_cupy():
    import cupy
    cupy.cuda.Device(local_rank() % cupy.cuda.runtime.getDeviceCount()).use()


def main(kind, tests, arguments):
    os.chdir(tests)
    sys.path.insert(0, tests)
    if kind == "cupy":
        arguments = ["--cupy", *arguments]  # without, main.py keeps it from being loaded
        use_device_of_cupy()
    else:
        use_device()
    import mpi4py
    mpi4py.rc.threads = "--no-threads" not in arguments  # not every host has windows then; the next line loads MPI
    import arrayimpl
    arrayimpl.ArrayBackends[:] = (cupy_arrays(arrayimpl) if kind == "cupy" else
                                  [(dlpack_array if kind == "dlpack" else device_array)(arrayimpl)])
    sys.argv = [os.path.join(tests, "main.py"), *arguments]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:])
