dnl SPDX-License-Identifier: BSD-3-Clause
dnl Finds the MPIs for which engines are built.

dnl SHUNT_MPI_TRY([MPICC], [NAME or empty])
dnl Looks at a compiler wrapper: sets shunt_family to openmpi or mpich, or empty if there is nothing to be had, and
dnl shunt_cppflags, shunt_libs, shunt_mpicc, shunt_mpirun, shunt_mpifort.
AC_DEFUN([SHUNT_MPI_TRY], [
    shunt_family=
    shunt_mpicc=`command -v "$1" 2>/dev/null`
    if test -n "$shunt_mpicc"; then
        cat > conftest.c <<_SHUNT_EOF
#include <mpi.h>
#if defined(OPEN_MPI)
shunt_family_is openmpi
#elif defined(MPICH_VERSION) || defined(MPICH_NAME) || defined(I_MPI_VERSION)
shunt_family_is mpich
#endif
_SHUNT_EOF
        shunt_family=`$shunt_mpicc -E conftest.c 2>&AS_MESSAGE_LOG_FD | sed -n 's/^shunt_family_is //p'`
        rm -f conftest.c
    fi
    if test -n "$shunt_family"; then
        shunt_cppflags=
        shunt_libs=
        shunt_before=
        for shunt_word in `$shunt_mpicc -show 2>&AS_MESSAGE_LOG_FD`; do
            AS_IF([test "x$shunt_before" = x-Xlinker], [shunt_word="-Wl,$shunt_word"])
            shunt_before=$shunt_word
            AS_CASE([$shunt_word],
                [*\$*], [],
                [-I*|-D*], [shunt_cppflags="$shunt_cppflags $shunt_word"],
                [-L*|-l*|-Wl,*], [shunt_libs="$shunt_libs $shunt_word"])
        done
        # mpicc.openmpi has mpirun.openmpi beside it, /opt/x/bin/mpicc has /opt/x/bin/mpirun
        shunt_bin=${shunt_mpicc%/*}
        AS_CASE([$shunt_mpicc], [*/mpicc*], [shunt_tail=${shunt_mpicc@%:@@%:@*/mpicc}], [shunt_tail=])
        shunt_mpirun=$shunt_bin/mpirun$shunt_tail
        test -x "$shunt_mpirun" || shunt_mpirun=
        shunt_mpifort=$shunt_bin/mpifort$shunt_tail
        test -x "$shunt_mpifort" || shunt_mpifort=
    fi
])

dnl SHUNT_MPI_TAKE(FAMILY, VARIABLE PREFIX): keep what SHUNT_MPI_TRY found, the first of each family wins
AC_DEFUN([SHUNT_MPI_TAKE], [
    if test "$shunt_family" = $1 && test -z "$$2_MPICC"; then
        $2_MPICC=$shunt_mpicc
        $2_MPIRUN=$shunt_mpirun
        $2_MPIFORT=$shunt_mpifort
        $2_CPPFLAGS=$shunt_cppflags
        $2_LIBS=$shunt_libs
    fi
])

AC_DEFUN([SHUNT_MPI_FOUND], [
    SHUNT_MPI_TAKE([openmpi], [OPENMPI])
    SHUNT_MPI_TAKE([mpich], [MPICH])
])

dnl One word of --with-mpi: NAME:MPICC, MPICC, or NAME
AC_DEFUN([SHUNT_MPI_WORD], [
    AS_CASE([$1],
        [*:*], [shunt_name=`AS_ECHO(["$1"]) | sed 's/:.*//'`; shunt_tries=`AS_ECHO(["$1"]) | sed 's/^[[^:]]*://'`],
        [openmpi|mpich], [shunt_name=$1; shunt_tries="mpicc.$1 mpicc"],
        [shunt_name=; shunt_tries=$1])
    shunt_seen=
    for shunt_try in $shunt_tries; do
        SHUNT_MPI_TRY([$shunt_try])
        test -z "$shunt_family" && continue
        shunt_seen=$shunt_family
        test -z "$shunt_name" || test "$shunt_name" = "$shunt_family" && break
    done
    AS_IF([test -z "$shunt_seen"],
        [AC_MSG_ERROR([--with-mpi: $1: no MPI compiler wrapper "$shunt_tries" that finds mpi.h (see config.log)])])
    AS_IF([test -n "$shunt_name" && test "$shunt_name" != "$shunt_seen"],
        [AC_MSG_ERROR([--with-mpi: "$shunt_tries" is $shunt_seen, not $shunt_name])])
    SHUNT_MPI_FOUND
])

AC_DEFUN([SHUNT_MPI], [
    AC_ARG_WITH([mpi], [AS_HELP_STRING([--with-mpi=NAME:MPICC,...],
        [build engines for these MPIs; NAME is openmpi or mpich (Intel MPI and others with the ABI of MPICH too) and may
         be left out, as may MPICC (default: every MPI found)])], [], [with_mpi=yes])
    AC_MSG_CHECKING([for MPIs])
    AS_CASE([$with_mpi],
        [no], [],
        [yes|auto], [
            for shunt_try in mpicc.openmpi mpicc.mpich mpicc; do
                SHUNT_MPI_TRY([$shunt_try])
                SHUNT_MPI_FOUND
            done],
        [
            for shunt_item in `AS_ECHO(["$with_mpi"]) | tr ',' ' '`; do
                SHUNT_MPI_WORD([$shunt_item])
            done])
    AC_MSG_RESULT([${OPENMPI_MPICC:+openmpi ($OPENMPI_MPICC) }${MPICH_MPICC:+mpich ($MPICH_MPICC)}])
    AC_SUBST([OPENMPI_MPICC]) AC_SUBST([OPENMPI_MPIRUN]) AC_SUBST([OPENMPI_MPIFORT])
    AC_SUBST([OPENMPI_CPPFLAGS]) AC_SUBST([OPENMPI_LIBS])
    AC_SUBST([MPICH_MPICC]) AC_SUBST([MPICH_MPIRUN]) AC_SUBST([MPICH_MPIFORT])
    AC_SUBST([MPICH_CPPFLAGS]) AC_SUBST([MPICH_LIBS])
])
