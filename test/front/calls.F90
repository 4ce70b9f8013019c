! SPDX-License-Identifier: BSD-3-Clause
! The calls of test_front.py's SEQUENCE in Fortran, and their results checked; by each binding (bindings.inc).
program calls
#include "bindings.inc"
  integer :: rank, size, ierr
  double precision :: in(4), out(4), total
  double precision, volatile :: window(4)
  HANDLE(MPI_Comm) :: comm
  HANDLE(MPI_Request) :: request, both(2)
  HANDLE(MPI_Win) :: win
  HANDLE(MPI_File) :: file
  character(len=4096) :: path

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  call get_command_argument(1, path)
  in = rank + 1
  window = 0
  total = size * (size + 1) / 2d0

  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Allreduce(in, out, 4, MPI_DOUBLE_PRECISION, MPI_SUM, comm, ierr)
  call check(out(1) == total .and. out(4) == total, 'Allreduce')
  call MPI_Allreduce(MPI_IN_PLACE, out, 4, MPI_DOUBLE_PRECISION, MPI_SUM, comm, ierr)
  call check(out(4) == total * size, 'Allreduce in place')
  call MPI_Iallreduce(in, out, 4, MPI_DOUBLE_PRECISION, MPI_SUM, comm, request, ierr)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  call check(out(3) == total, 'Iallreduce')
  call MPI_Bcast(out, 4, MPI_DOUBLE_PRECISION, 0, comm, ierr)
  call MPI_Irecv(out, 4, MPI_DOUBLE_PRECISION, rank, 7, comm, both(1), ierr)
  call MPI_Isend(in, 4, MPI_DOUBLE_PRECISION, rank, 7, comm, both(2), ierr)
  call MPI_Waitall(2, both, MPI_STATUSES_IGNORE, ierr)
  call check(out(2) == rank + 1, 'Irecv')
  call MPI_Win_create(window, 32_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, comm, win, ierr)
  call MPI_Win_fence(0, win, ierr)
  call MPI_Put(in, 4, MPI_DOUBLE_PRECISION, rank, 0_MPI_ADDRESS_KIND, 4, MPI_DOUBLE_PRECISION, win, ierr)
  call MPI_Win_fence(0, win, ierr)
  call MPI_Win_free(win, ierr)
  call check(window(4) == rank + 1, 'Put')
  call MPI_File_open(comm, trim(path), MPI_MODE_CREATE + MPI_MODE_WRONLY, MPI_INFO_NULL, file, ierr)
  call MPI_File_set_view(file, rank * 32_MPI_OFFSET_KIND, MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, 'native', &
                         MPI_INFO_NULL, ierr)
  call MPI_File_write_all(file, in, 4, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE, ierr)
  call MPI_File_close(file, ierr)
  call MPI_Comm_free(comm, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_Finalize(ierr)

contains
  subroutine check(right, what)
    logical, intent(in) :: right
    character(len=*), intent(in) :: what
    if (right) return
    print *, 'wrong: ', what
    stop 1
  end subroutine
end program
