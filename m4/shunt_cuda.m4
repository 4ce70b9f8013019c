dnl SPDX-License-Identifier: BSD-3-Clause
dnl Finds cuda.h and nvcc. The library links neither the driver nor the runtime: it opens the driver when a program does.

AC_DEFUN([SHUNT_CUDA], [
    AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=DIR],
        [CUDA toolkit, or a folder with include/cuda.h and bin/nvcc (default: CUDA_HOME, nvcc of PATH,
         /usr/local/cuda)])], [], [with_cuda=yes])
    AC_ARG_WITH([gpu-arch], [AS_HELP_STRING([--with-gpu-arch=LIST],
        [compute capabilities to build the kernels for, e.g. 90; PTX of the last is added for later GPUs
         (default: 80,86,89,90,100, as far as nvcc knows them)])], [], [with_gpu_arch=])
    AC_ARG_ENABLE([quick-kernels], [AS_HELP_STRING([--enable-quick-kernels],
        [compile the kernels in less time and optimize them little: where no GPU is going to run them])],
        [], [enable_quick_kernels=no])
    AC_ARG_VAR([NVCC], [the CUDA compiler; no: do without])
    CUDA_CPPFLAGS=
    CUDA_HOME_DIR=
    shunt_have_cuda=no
    AS_IF([test "x$with_cuda" != xno], [
        AS_CASE([$with_cuda], [yes|auto], [
            shunt_nvcc_dir=`command -v nvcc 2>/dev/null | sed 's,/bin/nvcc$,,'`
            shunt_cuda_dirs="$CUDA_HOME $shunt_nvcc_dir /usr/local/cuda /usr"],
            [shunt_cuda_dirs=$with_cuda])
        AC_MSG_CHECKING([for cuda.h])
        for shunt_dir in $shunt_cuda_dirs; do
            AS_IF([test -f "$shunt_dir/include/cuda.h"], [CUDA_HOME_DIR=$shunt_dir; break])
        done
        AS_IF([test -n "$CUDA_HOME_DIR"], [
            shunt_have_cuda=yes
            # -isystem: the toolkit's warnings are not ours; not for /usr/include, which would break #include_next
            test "$CUDA_HOME_DIR" = /usr || CUDA_CPPFLAGS="-isystem $CUDA_HOME_DIR/include"],
            [AS_IF([test "x$with_cuda" != xyes],
                [AC_MSG_RESULT([no]); AC_MSG_ERROR([--with-cuda=$with_cuda: no include/cuda.h in there])])])
        AC_MSG_RESULT([${CUDA_HOME_DIR:-no}])
        AS_IF([test "x$NVCC" = xno], [NVCC=],
            [AC_PATH_PROG([NVCC], [nvcc], [], [$CUDA_HOME_DIR/bin$PATH_SEPARATOR$PATH])])
    ])
    AS_IF([test $shunt_have_cuda = no], [NVCC=])
    SHUNT_GENCODE
    AC_SUBST([CUDA_CPPFLAGS])
    AC_SUBST([CUDA_HOME_DIR])
])

dnl NVCC_GENCODE from --with-gpu-arch; clears NVCC if it does not work
AC_DEFUN([SHUNT_GENCODE], [
    NVCC_GENCODE=
    GPU_ARCH=
    AS_IF([test -n "$NVCC"], [
        AC_MSG_CHECKING([for the GPUs to build kernels for])
        shunt_known=`$NVCC --list-gpu-arch 2>&AS_MESSAGE_LOG_FD | sed 's/^compute_//' | tr '\n' ' '`
        AS_IF([test -z "$shunt_known"], [AC_MSG_RESULT([none: $NVCC --list-gpu-arch fails]); NVCC=], [
            shunt_asked=`AS_ECHO(["${with_gpu_arch:-80,86,89,90,100}"]) | tr ',' ' '`
            for shunt_arch in $shunt_asked; do
                AS_CASE([" $shunt_known "], [*" $shunt_arch "*], [GPU_ARCH="$GPU_ARCH $shunt_arch"],
                    [AS_IF([test -n "$with_gpu_arch"],
                        [AC_MSG_ERROR([--with-gpu-arch: $NVCC does not know $shunt_arch, only $shunt_known])])])
            done
            for shunt_arch in $GPU_ARCH; do
                NVCC_GENCODE="$NVCC_GENCODE -gencode arch=compute_$shunt_arch,code=sm_$shunt_arch"
            done
            NVCC_GENCODE="$NVCC_GENCODE -gencode arch=compute_$shunt_arch,code=compute_$shunt_arch"
            AC_MSG_RESULT([$GPU_ARCH])
        ])
    ])
    dnl Newer ones optimize functions side by side, which halves the minutes that the kernels take on two cores.
    NVCC_SPLIT=
    AS_IF([test -n "$NVCC" && $NVCC --help 2>&AS_MESSAGE_LOG_FD | grep -q -e --split-compile], [NVCC_SPLIT='--split-compile 0'])
    dnl Most of the time goes into optimizing PTX; code for no GPU need not be fast.
    NVCC_QUICK=
    AS_IF([test -n "$NVCC" && test "x$enable_quick_kernels" = xyes], [
        AS_IF([$NVCC --help 2>&AS_MESSAGE_LOG_FD | grep -q -e --Ofast-compile], [NVCC_QUICK='-Ofc max'],
            [NVCC_QUICK='-Xptxas -O1'])])
    AC_SUBST([NVCC_QUICK])
    AC_SUBST([NVCC_SPLIT])
    AC_SUBST([NVCC_GENCODE])
    AC_SUBST([GPU_ARCH])
])
