/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of datatypes and operations, against the host's own predefined ones; shunt's own types on the host. */
#include "mpi/float16.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "mpi/life.h"
#include "test/short_float.h"

struct shunt_host_table shunt_host;

bool shunt_life_forked(void)
{
    return false;
}

bool shunt_life_has_session(void)
{
    return false;
}

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

/* ---- 16-bit floats ---- */

static const struct short_layout layouts[] = { { 10, 15 }, { 7, 127 } };

static void test_float16_handles(void **state)
{
    (void)state;

    assert_false(shunt_float16_is(MPI_FLOAT) || shunt_float16_is(MPI_UINT16_T));
    assert_null(shunt_float16_find(MPI_DATATYPE_NULL));
    for (int which = 0; which < SHUNT_NFLOAT16; which++) {
        MPI_Datatype handle = shunt_float16_get(which);
        assert_true(handle != MPI_DATATYPE_NULL && shunt_float16_get(which) == handle && shunt_float16_is(handle));
        assert_type(handle, which ? SHUNT_TYPE_BF16 : SHUNT_TYPE_F16, 2);
        assert_true(allows(handle, MPI_SUM) && allows(handle, MPI_PROD) && allows(handle, MPI_MIN));
        assert_false(allows(handle, MPI_BAND) || allows(handle, MPI_MINLOC));
        assert_true(shunt_float16_op(handle, MPI_SUM) != MPI_SUM);
        assert_true(shunt_float16_op(handle, MPI_BAND) == MPI_BAND);
        assert_true(shunt_float16_op(MPI_FLOAT, MPI_SUM) == MPI_SUM);
    }
    assert_true(shunt_float16_get(0) != shunt_float16_get(1));
    assert_true(shunt_float16_op(shunt_float16_get(0), MPI_MAX) != shunt_float16_op(shunt_float16_get(1), MPI_MAX));
    shunt_float16_stop();
    assert_null(shunt_float16_find(MPI_DATATYPE_NULL));
    assert_true(shunt_float16_get(0) != MPI_DATATYPE_NULL); /* made anew: another session may begin */
}

/* inout = in op inout, by the host with the operation that shunt gives it. */
static void reduce(int which, MPI_Op op, const uint16_t *in, uint16_t *inout, int count)
{
    MPI_Datatype handle = shunt_float16_get(which);

    assert_int_equal(PMPI_Reduce_local(in, inout, count, handle, shunt_float16_op(handle, op)), MPI_SUCCESS);
}

static bool is_short_nan(int which, uint16_t bits)
{
    return isnan(short_value(&layouts[which], bits));
}

enum { ALL = 1 << 16 };
static uint16_t in[ALL], inout[ALL];

/* Every number comes through unchanged; and NaN as the one NaN. */
static void test_float16_identity(void **state)
{
    (void)state;

    for (int which = 0; which < SHUNT_NFLOAT16; which++) {
        for (int i = 0; i < ALL; i++) {
            in[i] = (uint16_t)i;
            inout[i] = 0x8000; /* -0, neutral for sums */
        }
        reduce(which, MPI_SUM, in, inout, ALL);
        for (int i = 0; i < ALL; i++)
            assert_int_equal(inout[i], is_short_nan(which, in[i]) ? 0x7fff : in[i]);
    }
}

/* Random bits: subnormals, overflow, ties to even, NaN. In either order the same. */
static void test_float16_results(void **state)
{
    static const MPI_Op ops[] = { MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX };
    static uint16_t other[ALL];
    (void)state;

    srand(1);
    for (int round = 0; round < 2 * 4; round++) {
        int which = round / 4, op = round % 4;
        for (int i = 0; i < ALL; i++) {
            in[i] = other[i] = (uint16_t)(i ^ (unsigned)rand() << 8);
            inout[i] = (uint16_t)(i % 4 ? rand() : in[i] ^ rand() % 4096); /* often of about the same size */
        }
        for (int i = 0; i < ALL; i++) {
            float a = short_value(&layouts[which], in[i]), b = short_value(&layouts[which], inout[i]);
            float sums[] = { a + b, a * b, b < a ? b : a, b > a ? b : a };
            if (op >= 2 && (isnan(a) || isnan(b)))
                sums[op] = NAN;
            uint16_t wanted = short_nearest(&layouts[which], sums[op]), result = inout[i];
            reduce(which, ops[op], &in[i], &result, 1);
            reduce(which, ops[op], &inout[i], &other[i], 1);
            assert_int_equal(result, other[i]);
            if (op < 2 || a != b) /* zeros: below */
                assert_int_equal(result, wanted);
        }
    }
}

static void test_float16_zeros(void **state)
{
    (void)state;

    for (int which = 0; which < SHUNT_NFLOAT16; which++) {
        uint16_t plus = 0, minus = 0x8000, result = plus;
        reduce(which, MPI_MIN, &minus, &result, 1);
        assert_int_equal(result, minus);
        reduce(which, MPI_MAX, &plus, &result, 1);
        assert_int_equal(result, plus);
    }
}

static void start_host(void)
{
    shunt_host.Type_size = PMPI_Type_size;
    shunt_host.Type_get_extent_x = PMPI_Type_get_extent_x;
    shunt_host.Type_contiguous = PMPI_Type_contiguous;
    shunt_host.Type_commit = PMPI_Type_commit;
    shunt_host.Type_set_name = PMPI_Type_set_name;
    shunt_host.Type_free = PMPI_Type_free;
    shunt_host.Op_create = PMPI_Op_create;
    shunt_host.Op_free = PMPI_Op_free;
    shunt_host.Initialized = PMPI_Initialized;
    shunt_host.Finalized = PMPI_Finalized;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_all_found),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_float16_handles),
        cmocka_unit_test(test_float16_identity),
        cmocka_unit_test(test_float16_results),
        cmocka_unit_test(test_float16_zeros),
    };

    start_host();
    assert_true(shunt_float16_get(0) == MPI_DATATYPE_NULL);
    MPI_Init(&argc, &argv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    shunt_float16_stop();
    MPI_Finalize();
    failed += shunt_float16_get(0) != MPI_DATATYPE_NULL;
    return failed;
}
