# SPDX-License-Identifier: BSD-3-Clause
"""mpi4py's own tests on arrays in device memory: device_arrays.py TESTS ARGUMENT..., where TESTS is the folder with its
main.py. To the kinds of arrays that the tests know one is added that has its elements in device memory, and shows them
by __cuda_array_interface__; the other kinds are left out."""
import array
import ctypes
import os
import runpy
import sys

CUDART = ctypes.CDLL("libcudart.so.13")
CUDART.cudaMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
CUDART.cudaFree.argtypes = [ctypes.c_void_p]
CUDART.cudaMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
ANY_DIRECTION = 4  # cudaMemcpyDefault


def must(error):
    if error != 0:
        raise RuntimeError(f"CUDA error {error}")


class Slice:
    """Elements of a device array one after the other, as an array of its own."""

    def __init__(self, owner, first, size):
        self.owner, self.typecode, self.itemsize, self.size = owner, owner.typecode, owner.itemsize, size
        self.address, self.readonly = owner.address + first * owner.itemsize, False

    def __len__(self):
        return self.size

    def read(self):
        elements = array.array(self.typecode, bytes(self.size * self.itemsize))
        must(CUDART.cudaMemcpy(elements.buffer_info()[0], self.address, self.size * self.itemsize, ANY_DIRECTION))
        return elements

    def write(self, values):
        elements = array.array(self.typecode, values)
        assert len(elements) == self.size
        must(CUDART.cudaMemcpy(self.address, elements.buffer_info()[0], self.size * self.itemsize, ANY_DIRECTION))

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
            address = ctypes.c_void_p()
            must(CUDART.cudaMalloc(ctypes.byref(address), max(self.size * self.itemsize, 1)))
            self.address = address.value
            self.write([array.array(typecode, [arg])[0]] * self.size if alone else arg)

        def __del__(self):
            if getattr(self, "address", None):
                CUDART.cudaFree(self.address)

        @property
        def flat(self):
            return self

        def as_raw(self):
            return self

    return DeviceArray


def main(tests, arguments):
    os.chdir(tests)
    sys.path.insert(0, tests)
    device = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", os.environ.get("MPI_LOCALRANKID", 0)))
    count = ctypes.c_int()
    must(CUDART.cudaGetDeviceCount(ctypes.byref(count)))
    must(CUDART.cudaSetDevice(device % count.value))
    import mpi4py
    mpi4py.rc.threads = "--no-threads" not in arguments  # not every host has windows then; the next line loads MPI
    import arrayimpl
    arrayimpl.ArrayBackends[:] = [device_array(arrayimpl)]
    sys.argv = [os.path.join(tests, "main.py"), *arguments]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), sys.argv[2:])
