! SPDX-License-Identifier: BSD-3-Clause
! Requests on device memory in Fortran, completed in every way, mixed with those of host memory, by each binding (bindings.inc).
! Ranks send to the next and receive from the one before. What comes is checked; what the bindings of a host MPI may get wrong
! by themselves (indices, MPI_UNDEFINED) is printed. With an argument: on host memory.
#ifdef F08
#define STATUS type(MPI_Status)
#define SOURCE_OF(s) s%MPI_SOURCE
#define TAG_OF(s) s%MPI_TAG
#else
#define STATUS integer, dimension(MPI_STATUS_SIZE)
#define SOURCE_OF(s) s(MPI_SOURCE)
#define TAG_OF(s) s(MPI_TAG)
#endif
program waits
  use iso_c_binding
#include "bindings.inc"
  interface
    integer(c_int) function cudaSetDevice(device) bind(C, name='cudaSetDevice')
      import :: c_int
      integer(c_int), value :: device
    end function
    integer(c_int) function cudaMalloc(memory, bytes) bind(C, name='cudaMalloc')
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), intent(out) :: memory
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function cudaMemcpy(to, from, bytes, direction) bind(C, name='cudaMemcpy')
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: to, from
      integer(c_size_t), value :: bytes
      integer(c_int), value :: direction
    end function
  end interface
  integer, parameter :: n = 100
  integer :: rank, size, ierr, left, right, i, index, number, count, indices(4), indices_seen, round, noted
  logical :: flag
  real, target :: host_in(n), host_out(n), image(n), other_in(n), other_out(n)
  real, pointer, contiguous :: device_in(:), device_out(:)
  type(c_ptr) :: in, out
  HANDLE(MPI_Request) :: requests(4), kept(2), single
  STATUS :: status

  noted = 0
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  left = mod(rank + size - 1, size)
  right = mod(rank + 1, size)
  if (command_argument_count() > 0) then ! on host memory: what the host MPI does alone
    in = c_loc(other_in)
    out = c_loc(other_out)
  else
    call check(cudaSetDevice(rank) == 0 .and. cudaMalloc(in, 400_c_size_t) == 0 .and. cudaMalloc(out, 400_c_size_t) == 0, 'CUDA')
  end if
  call c_f_pointer(in, device_in, [n])
  call c_f_pointer(out, device_out, [n])
  host_in = [(1000 * rank + i, i = 1, n)]
  call copy(in, c_loc(host_in))

  do round = 1, 4
    call clear()
    call MPI_Irecv(device_out, n, MPI_REAL, left, 1, MPI_COMM_WORLD, requests(1), ierr)
    call MPI_Irecv(host_out, n, MPI_REAL, left, 2, MPI_COMM_WORLD, requests(2), ierr)
    requests(3) = MPI_REQUEST_NULL
    call MPI_Isend(device_in, n - round, MPI_REAL, right, 1, MPI_COMM_WORLD, requests(4), ierr)
    call MPI_Send(host_in, n, MPI_REAL, right, 2, MPI_COMM_WORLD, ierr)
    number = 0
    indices_seen = 0
    if (round == 1) then
      do i = 1, 3
        call MPI_Waitany(4, requests, index, status, ierr)
        number = number + index
      end do
      call note(number)
    else if (round == 2) then
      do while (number < 3)
        call MPI_Waitsome(4, requests, count, indices, MPI_STATUSES_IGNORE, ierr)
        call check(count >= 1 .and. count <= 3, 'Waitsome')
        indices_seen = indices_seen + sum(indices(1:count))
        number = number + count
      end do
      call note(indices_seen)
    else if (round == 3) then
      flag = .false.
      do while (.not. flag)
        call MPI_Testall(4, requests, flag, MPI_STATUSES_IGNORE, ierr)
      end do
    else
      flag = .false.
      do while (.not. flag)
        call MPI_Request_get_status(requests(1), flag, status, ierr)
      end do
      call look(status)
      call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, ierr)
    end if
    call check_received(n - round)
    call check(all([(requests(i) == MPI_REQUEST_NULL, i = 1, 4)]), 'requests')
    call nothing_left(4, requests)
  end do

  call MPI_Recv_init(device_out, n, MPI_REAL, left, 1, MPI_COMM_WORLD, kept(1), ierr)
  call MPI_Send_init(device_in, n, MPI_REAL, right, 1, MPI_COMM_WORLD, kept(2), ierr)
  do round = 1, 3
    call clear()
    call nothing_left(2, kept)
    call MPI_Startall(2, kept, ierr)
    call MPI_Wait(kept(1), status, ierr)
    call MPI_Wait(kept(2), MPI_STATUS_IGNORE, ierr)
    host_out = host_in + 1000 * (left - rank)
    call check_received(n)
  end do
  call MPI_Request_free(kept(1), ierr)
  call MPI_Request_free(kept(2), ierr)

  call MPI_Iallreduce(device_in, device_out, n, MPI_REAL, MPI_MAX, MPI_COMM_WORLD, single, ierr)
  flag = .false.
  do while (.not. flag)
    call MPI_Test(single, flag, MPI_STATUS_IGNORE, ierr)
  end do
  host_out = host_in + 1000 * (size - 1 - rank)
  call check_received(n)
  call MPI_Allreduce(MPI_IN_PLACE, device_out, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, ierr)
  host_out = size * host_out
  call check_received(n)
  call logical_values()
  call sentinels()
  print '(a, i0, a, i0)', 'rank ', rank, ' noted ', noted
  call MPI_Finalize(ierr)

contains
  subroutine note(number)
    integer, intent(in) :: number
    noted = mod(mod(noted * 31, 1000003) + mod(number, 1000003), 1000003)
  end subroutine
  subroutine copy(to, from)
    type(c_ptr), intent(in) :: to, from
    call check(cudaMemcpy(to, from, 400_c_size_t, 4) == 0, 'cudaMemcpy')
  end subroutine
  subroutine clear()
    host_out = -1
    call copy(out, c_loc(host_out))
  end subroutine
  ! The first elements are what host memory has got, the others are as they were
  subroutine check_received(some)
    integer, intent(in) :: some
    call copy(c_loc(image), out)
    call check(all(image(1:some) == host_out(1:some)) .and. all(image(some + 1:n) == -1), 'what is received')
  end subroutine
  ! What .true. is in memory is the compiler's affair
  subroutine logical_values()
    logical, pointer, contiguous :: flags_in(:), flags_out(:)
    logical, target :: flags(n)
    call c_f_pointer(in, flags_in, [n])
    call c_f_pointer(out, flags_out, [n])
    flags = rank == 0
    call copy(in, c_loc(flags))
    call MPI_Allreduce(flags_in, flags_out, n, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, ierr)
    call copy(c_loc(flags), out)
    call check(all(flags), 'MPI_LOR')
    call MPI_Allreduce(flags_in, flags_out, n, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierr)
    call copy(c_loc(flags), out)
    call check(all(flags .eqv. size == 1), 'MPI_LAND')
    call copy(in, c_loc(host_in))
  end subroutine
  subroutine sentinels()
    HANDLE(MPI_Comm) :: ring
    integer :: sources(1), targets(1)
    sources = left
    targets = right
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, sources, MPI_UNWEIGHTED, 1, targets, MPI_UNWEIGHTED, &
                                        MPI_INFO_NULL, .false., ring, ierr)
    call clear()
    call MPI_Neighbor_allgather(device_in, n, MPI_REAL, device_out, n, MPI_REAL, ring, ierr)
    host_out = host_in + 1000 * (left - rank)
    call check_received(n)
    call MPI_Comm_free(ring, ierr)
    call clear()
    call MPI_Sendrecv(device_in, n, MPI_REAL, right, 3, device_out, n, MPI_REAL, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    host_out = host_in + 1000 * (left - rank)
    call check_received(n)
  end subroutine
  subroutine look(one)
    STATUS, intent(in) :: one
    call MPI_Get_count(one, MPI_REAL, count, ierr)
    call check(count == n - round .and. SOURCE_OF(one) == left .and. TAG_OF(one) == 1, 'the status')
  end subroutine
  ! Null ones and inactive ones
  subroutine nothing_left(some, list)
    integer, intent(in) :: some
    HANDLE(MPI_Request), intent(inout) :: list(some)
    call MPI_Waitany(some, list, index, MPI_STATUS_IGNORE, ierr)
    call note(index)
    call MPI_Testany(some, list, index, flag, MPI_STATUS_IGNORE, ierr)
    call note(index)
    call MPI_Waitsome(some, list, count, indices, MPI_STATUSES_IGNORE, ierr)
    call note(count)
    call MPI_Testsome(some, list, count, indices, MPI_STATUSES_IGNORE, ierr)
    call note(count)
  end subroutine
  subroutine check(right_one, what)
    logical, intent(in) :: right_one
    character(len=*), intent(in) :: what
    if (right_one) return
    print *, 'wrong: ', what
    stop 1
  end subroutine
end program
