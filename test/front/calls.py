# SPDX-License-Identifier: BSD-3-Clause
"""The calls of test_front.py's SEQUENCE by mpi4py, and their results checked."""
import array
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
total = size * (size + 1) / 2
data, out, window = array.array("d", [rank + 1] * 4), array.array("d", [0] * 4), array.array("d", [0] * 4)

world.Barrier()
comm = world.Dup()
comm.Allreduce(data, out)
assert out[0] == out[3] == total
comm.Allreduce(MPI.IN_PLACE, out)
assert out[3] == total * size
comm.Iallreduce(data, out).Wait()
assert out[2] == total
comm.Bcast(out)
MPI.Request.Waitall([comm.Irecv(out, rank, 7), comm.Isend(data, rank, 7)])
assert out[1] == rank + 1
win = MPI.Win.Create(window, 8, comm=comm)
win.Fence()
win.Put(data, rank)
win.Fence()
win.Free()
assert window[3] == rank + 1
file = MPI.File.Open(comm, sys.argv[1], MPI.MODE_CREATE | MPI.MODE_WRONLY)
file.Set_view(rank * 32, MPI.DOUBLE)
file.Write_all(data)
file.Close()
comm.Free()
world.Barrier()
