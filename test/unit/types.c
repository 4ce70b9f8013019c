/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of datatypes and operations, against the host's own predefined ones. */
#include "mpi/types.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

struct shunt_host_table shunt_host;

static void add_pairs(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)in;
    (void)inout;
    (void)n;
    (void)type;
}

static void assert_type(MPI_Datatype handle, int type, int size)
{
    const struct shunt_mpi_type *found = shunt_types_find(handle);

    assert_non_null(found);
    assert_true(found->handle == handle);
    assert_int_equal(found->type, type);
    assert_int_equal(found->size, size);
    assert_true(type >= 0 || found->ops == 0);
}

static bool allows(MPI_Datatype type, MPI_Op op)
{
    return shunt_types_find(type)->ops & 1u << shunt_types_op(op);
}

static void test_types(void **state)
{
    (void)state;
    MPI_Datatype copy;

    assert_type(MPI_SIGNED_CHAR, SHUNT_TYPE_I8, 1);
    assert_type(MPI_UNSIGNED_SHORT, SHUNT_TYPE_U16, 2);
    assert_type(MPI_INT, SHUNT_TYPE_I32, 4);
    assert_type(MPI_LONG, sizeof(long) == 8 ? SHUNT_TYPE_I64 : SHUNT_TYPE_I32, sizeof(long));
    assert_type(MPI_UNSIGNED_LONG_LONG, SHUNT_TYPE_U64, 8);
    assert_type(MPI_UINT32_T, SHUNT_TYPE_U32, 4);
    assert_type(MPI_AINT, SHUNT_TYPE_I64, 8);
    assert_type(MPI_BYTE, SHUNT_TYPE_U8, 1);
    assert_type(MPI_C_BOOL, SHUNT_TYPE_U8, 1);
    assert_type(MPI_FLOAT, SHUNT_TYPE_F32, 4);
    assert_type(MPI_DOUBLE, SHUNT_TYPE_F64, 8);
    assert_type(MPI_C_FLOAT_COMPLEX, SHUNT_TYPE_C32, 8);
    assert_type(MPI_C_DOUBLE_COMPLEX, SHUNT_TYPE_C64, 16);
    assert_type(MPI_CHAR, SHUNT_TYPE_I8, 1);
    assert_type(MPI_WCHAR, -1, sizeof(wchar_t));
    assert_type(MPI_SHORT_INT, SHUNT_TYPE_I16I, 6);
    assert_type(MPI_2INT, SHUNT_TYPE_I32I, 8);
    assert_type(MPI_LONG_INT, sizeof(long) == 8 ? SHUNT_TYPE_I64I : SHUNT_TYPE_I32I, sizeof(long) + 4);
    assert_type(MPI_FLOAT_INT, SHUNT_TYPE_F32I, 8);
    assert_type(MPI_DOUBLE_INT, SHUNT_TYPE_F64I, 12);
    if (MPI_2INTEGER != MPI_DATATYPE_NULL && shunt_types_find(MPI_2INTEGER)) { /* this host has Fortran */
        assert_type(MPI_2INTEGER, SHUNT_TYPE_I32I, 8);
        assert_type(MPI_2REAL, SHUNT_TYPE_F32F, 8);
        assert_type(MPI_2DOUBLE_PRECISION, SHUNT_TYPE_F64F, 16);
    }
    assert_type(MPI_LONG_DOUBLE_INT, -1, sizeof(long double) + 4);
    if (sizeof(long double) == 16)
        assert_type(MPI_LONG_DOUBLE, -1, 16);
    PMPI_Type_dup(MPI_INT, &copy);
    assert_null(shunt_types_find(copy));
    PMPI_Type_free(&copy);
}

/* Each row of the table is found under its own handle: none is lost among the others. */
static void test_all_found(void **state)
{
    (void)state;
    int size;

#define TYPE(handle, class)                                                                        \
    if (handle != MPI_DATATYPE_NULL && PMPI_Type_size(handle, &size) == MPI_SUCCESS && size > 0) { \
        assert_non_null(shunt_types_find(handle));                                                 \
        assert_int_equal(shunt_types_find(handle)->size, size);                                    \
    }
#include "mpi/types.def"
#undef TYPE
}

static void test_pairs(void **state)
{
    (void)state;
    MPI_Op user;

    assert_true(allows(MPI_INT, MPI_SUM) && allows(MPI_INT, MPI_LXOR) && allows(MPI_INT, MPI_BAND));
    assert_true(allows(MPI_DOUBLE, MPI_MAX) && allows(MPI_BYTE, MPI_BOR) && allows(MPI_C_BOOL, MPI_LAND));
    assert_true(allows(MPI_C_DOUBLE_COMPLEX, MPI_PROD));
    assert_false(allows(MPI_DOUBLE, MPI_BAND) || allows(MPI_DOUBLE, MPI_LAND));
    assert_false(allows(MPI_C_DOUBLE_COMPLEX, MPI_MAX));
    assert_false(allows(MPI_BYTE, MPI_SUM) || allows(MPI_C_BOOL, MPI_SUM));
    assert_true(allows(MPI_CHAR, MPI_SUM));
    assert_false(allows(MPI_AINT, MPI_LAND));
    assert_true(allows(MPI_DOUBLE_INT, MPI_MINLOC) && allows(MPI_2INT, MPI_MAXLOC));
    assert_false(allows(MPI_DOUBLE_INT, MPI_MIN) || allows(MPI_DOUBLE, MPI_MINLOC) || allows(MPI_2INT, MPI_SUM));
    assert_int_equal(shunt_types_op(MPI_REPLACE), SHUNT_OP_NO_KERNEL);
    PMPI_Op_create(add_pairs, 1, &user);
    assert_int_equal(shunt_types_op(user), SHUNT_OP_OF_USER);
    PMPI_Op_free(&user);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_all_found),
        cmocka_unit_test(test_pairs),
    };

    MPI_Init(&argc, &argv);
    shunt_host.Type_size = PMPI_Type_size;
    shunt_host.Type_get_extent_x = PMPI_Type_get_extent_x;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
