/* SPDX-License-Identifier: BSD-3-Clause */
/* Flattened datatypes against the host's Pack and Unpack: each constructor, and hundreds of random nested ones. */
#include "mpi/flatten.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cuda/pack.h"
#include "mpi/life.h"

enum { HALF = 1 << 20, MOST = 1 << 18 }; /* bytes on either side of an element; of an element's data */

struct shunt_host_table shunt_host;
static int forgotten;

bool shunt_life_forked(void)
{
    return false;
}

void shunt_pack_forget(struct shunt_pattern *pattern)
{
    (void)pattern;
    forgotten++;
}

static uint64_t state = 1;

static int dice(int sides)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((state >> 33) % (unsigned)sides);
}

/* ---- one datatype against the host ---- */

static char source[2 * HALF], wanted[2 * HALF], got[2 * HALF], packed[2 * HALF], own[2 * HALF];
static unsigned char covered[2 * HALF];

static enum shunt_status cover(void *context, int64_t offset, uint64_t at, uint64_t bytes)
{
    bool *overlaps = context;

    (void)at;
    for (uint64_t i = 0; i < bytes; i++)
        *overlaps |= covered[HALF + offset + (int64_t)i]++ != 0;
    return SHUNT_OK;
}

/* In pieces of any size, as the staging copies. */
static void check_pieces(const struct shunt_pattern *pattern, uint64_t bytes)
{
    memset(own, 0, bytes);
    for (uint64_t at = 0, n; at < bytes; at += n) {
        n = 1 + (uint64_t)dice(dice(2) ? 16 : 4096);
        n = n < bytes - at ? n : bytes - at;
        shunt_pattern_gather(pattern, source + HALF, at, n, own + at);
        shunt_pattern_scatter(pattern, got + HALF, at, n, packed + at);
    }
    assert_memory_equal(own, packed, bytes);
}

/* False: too large for the buffers. */
static bool check_type(MPI_Datatype type, int count)
{
    struct shunt_pattern *pattern = NULL;
    int size = 0, in = 0, out = 0;
    bool overlaps = false;
    MPI_Count lb, extent;

    MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    MPI_Type_get_extent_x(type, &lb, &extent);
    assert_int_equal(shunt_flatten(type, &pattern), SHUNT_OK);
    assert_int_equal(pattern->bytes, size);
    int64_t reach = (count - 1) * extent, low = pattern->low + (reach < 0 ? reach : 0);
    int64_t high = pattern->high + (reach > 0 ? reach : 0);
    bool fits = low >= -HALF && high <= HALF && (int64_t)size * count <= MOST;
    uint64_t bytes = (uint64_t)size * (uint64_t)count;
    if (fits && bytes > 0) {
        MPI_Pack(source + HALF, count, type, packed, sizeof packed, &in, MPI_COMM_SELF);
        assert_int_equal(in, bytes);
        memset(own, 0, bytes);
        shunt_pattern_gather(pattern, source + HALF, 0, bytes, own);
        assert_memory_equal(own, packed, bytes);
        memset(covered, 0, sizeof covered);
        shunt_pattern_walk(pattern, 0, bytes, cover, &overlaps);
        memset(got, 0x55, sizeof got);
        memset(wanted, 0x55, sizeof wanted);
        check_pieces(pattern, bytes);
        MPI_Unpack(packed, in, &out, wanted + HALF, count, type, MPI_COMM_SELF);
        for (size_t i = 0; !overlaps && i < sizeof got; i++)
            if (got[i] != wanted[i])
                fail_msg("byte %td of what is unpacked", (ptrdiff_t)i - HALF);
    }
    shunt_pattern_release(pattern);
    return fits;
}

/* ---- each constructor ---- */

static void check_and_free(MPI_Datatype type)
{
    for (int count = 1; count < 4; count++)
        assert_true(check_type(type, count));
    MPI_Type_free(&type);
}

static MPI_Datatype with_gaps(void)
{
    MPI_Datatype type;

    MPI_Type_create_struct(3, (int[]){ 1, 2, 1 }, (MPI_Aint[]){ 0, 8, 21 },
                           (MPI_Datatype[]){ MPI_INT, MPI_SHORT, MPI_CHAR }, &type);
    return type;
}

static void test_simple(void **unused)
{
    (void)unused;
    MPI_Datatype type, inner = with_gaps();

    MPI_Type_contiguous(5, inner, &type);
    check_and_free(type);
    MPI_Type_vector(4, 3, 7, inner, &type);
    check_and_free(type);
    MPI_Type_vector(4, 3, -7, inner, &type);
    check_and_free(type);
    MPI_Type_create_hvector(4, 1, 33, inner, &type);
    check_and_free(type);
    MPI_Type_indexed(4, (int[]){ 2, 0, 1, 3 }, (int[]){ 9, 1, -4, 3 }, MPI_DOUBLE, &type);
    check_and_free(type);
    MPI_Type_create_hindexed(3, (int[]){ 2, 1, 3 }, (MPI_Aint[]){ -900, 1, 400 }, inner, &type);
    check_and_free(type);
    MPI_Type_create_indexed_block(4, 2, (int[]){ 9, 1, -4, 5 }, MPI_FLOAT, &type);
    check_and_free(type);
    MPI_Type_create_hindexed_block(4, 1, (MPI_Aint[]){ 0, 5, 10, 15 }, MPI_CHAR, &type);
    check_and_free(type);
    MPI_Type_create_resized(inner, -8, 3, &type);
    check_and_free(type);
    MPI_Type_dup(inner, &type);
    check_and_free(type);
    MPI_Type_contiguous(0, MPI_INT, &type);
    check_and_free(type);
    check_and_free(inner);
}

static void test_arrays(void **unused)
{
    (void)unused;
    static const int distribs[] = { MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE };
    MPI_Datatype type;

    for (int order = 0; order < 2; order++) {
        MPI_Type_create_subarray(3, (int[]){ 8, 9, 10 }, (int[]){ 3, 9, 4 }, (int[]){ 5, 0, 2 },
                                 order ? MPI_ORDER_C : MPI_ORDER_FORTRAN, MPI_DOUBLE, &type);
        check_and_free(type);
    }
    for (int i = 0; i < 300; i++) {
        int kinds[2] = { dice(3), dice(3) }, grid[2], sizes[2], args[2], all[2];
        for (int d = 0; d < 2; d++) {
            sizes[d] = 1 + dice(20);
            grid[d] = kinds[d] == 2 ? 1 : 1 + dice(4);
            all[d] = distribs[kinds[d]];
            args[d] = dice(2) || kinds[d] == 2 ? MPI_DISTRIBUTE_DFLT_DARG : 1 + dice(5);
            if (kinds[d] == 0 && args[d] != MPI_DISTRIBUTE_DFLT_DARG)
                args[d] = (sizes[d] + grid[d] - 1) / grid[d] + dice(2);
        }
        MPI_Type_create_darray(grid[0] * grid[1], dice(grid[0] * grid[1]), 2, sizes, all, args, grid,
                               dice(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, MPI_INT, &type);
        check_type(type, 1);
        MPI_Type_free(&type);
    }
}

/* Pairs with padding, as the host's Pack has them. (Of long double MPICH leaves 6 bytes as they were.) */
static void test_predefined(void **unused)
{
    (void)unused;
    MPI_Datatype types[] = { MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_SHORT_INT, MPI_2INT, MPI_C_BOOL,
                             MPI_C_DOUBLE_COMPLEX, MPI_BYTE, MPI_PACKED, MPI_WCHAR };
    MPI_Datatype type;

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        MPI_Type_vector(3, 2, 3, types[i], &type);
        check_and_free(type);
    }
    MPI_Type_create_f90_real(12, MPI_UNDEFINED, &types[0]);
    MPI_Type_create_f90_complex(6, 20, &types[1]);
    MPI_Type_create_f90_integer(9, &types[2]);
    for (int i = 0; i < 3; i++) {
        MPI_Type_vector(3, 2, 3, types[i], &type);
        check_and_free(type);
    }
}

static void test_large_counts(void **unused)
{
    (void)unused;
#if MPI_VERSION >= 4
    MPI_Datatype type;

    MPI_Type_contiguous_c(5, MPI_INT, &type);
    check_and_free(type);
    MPI_Type_vector_c(4, 3, 7, MPI_INT, &type);
    check_and_free(type);
    MPI_Type_create_hvector_c(4, 3, 70, MPI_INT, &type);
    check_and_free(type);
    MPI_Type_indexed_c(3, (MPI_Count[]){ 2, 1, 3 }, (MPI_Count[]){ 9, 1, -4 }, MPI_DOUBLE, &type);
    check_and_free(type);
    MPI_Type_create_hindexed_c(3, (MPI_Count[]){ 2, 1, 3 }, (MPI_Count[]){ 90, 10, -40 }, MPI_DOUBLE, &type);
    check_and_free(type);
    MPI_Type_create_indexed_block_c(3, 2, (MPI_Count[]){ 9, 1, -4 }, MPI_DOUBLE, &type);
    check_and_free(type);
    MPI_Type_create_hindexed_block_c(3, 2, (MPI_Count[]){ 90, 10, -40 }, MPI_DOUBLE, &type);
    check_and_free(type);
    MPI_Type_create_struct_c(2, (MPI_Count[]){ 2, 1 }, (MPI_Count[]){ 1, 33 }, (MPI_Datatype[]){ MPI_INT, MPI_DOUBLE },
                             &type);
    check_and_free(type);
    MPI_Type_create_subarray_c(2, (MPI_Count[]){ 8, 9 }, (MPI_Count[]){ 3, 4 }, (MPI_Count[]){ 5, 2 }, MPI_ORDER_C,
                               MPI_INT, &type);
    check_and_free(type);
    MPI_Type_create_darray_c(4, 1, 2, (MPI_Count[]){ 8, 9 }, (int[]){ MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC },
                             (int[]){ MPI_DISTRIBUTE_DFLT_DARG, 2 }, (int[]){ 2, 2 }, MPI_ORDER_FORTRAN, MPI_INT, &type);
    check_and_free(type);
    MPI_Type_create_resized_c(MPI_INT, -8, 24, &type);
    check_and_free(type);
#endif
}

/* ---- random ones ---- */

static MPI_Datatype make_random(int depth);

static void make_indexed(int kind, MPI_Datatype inner, MPI_Datatype *type)
{
    int n = dice(dice(8) ? 6 : 60), lengths[60], places[60], at = 0, step = 1 + dice(3);
    MPI_Aint bytes[60], lb, extent;

    MPI_Type_get_extent(inner, &lb, &extent);
    for (int i = 0; i < n; i++) {
        lengths[i] = dice(3);
        places[i] = at;
        bytes[i] = at * extent + dice(3);
        at += dice(4) ? 3 * step : 2 + dice(3);
    }
    if (kind == 0)
        MPI_Type_indexed(n, lengths, places, inner, type);
    else if (kind == 1)
        MPI_Type_create_hindexed(n, lengths, bytes, inner, type);
    else if (kind == 2)
        MPI_Type_create_indexed_block(n, 2, places, inner, type);
    else
        MPI_Type_create_hindexed_block(n, 2, bytes, inner, type);
}

static void make_struct(int depth, MPI_Datatype inner, MPI_Datatype *type)
{
    MPI_Datatype parts[3] = { inner, make_random(depth - 1), make_random(0) };
    MPI_Aint places[3], at = dice(9), lb, extent;
    int lengths[3];

    for (int i = 0; i < 3; i++) {
        MPI_Type_get_extent(parts[i], &lb, &extent);
        lengths[i] = dice(3);
        places[i] = at - lb;
        at += lengths[i] * (extent < 0 ? -extent : extent) + dice(9);
    }
    MPI_Type_create_struct(3, lengths, places, parts, type);
    MPI_Type_free(&parts[1]);
    MPI_Type_free(&parts[2]);
}

static MPI_Datatype make_random(int depth)
{
    MPI_Datatype leaves[] = { MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_DOUBLE_INT, MPI_FLOAT };
    MPI_Datatype type, inner;
    int sizes[3], subsizes[3], starts[3], dims = 1 + dice(3), kind = dice(10);

    if (depth == 0) {
        MPI_Type_dup(leaves[dice(6)], &type);
        return type;
    }
    inner = make_random(depth - 1);
    for (int i = 0; i < dims; i++) {
        sizes[i] = 1 + dice(5);
        subsizes[i] = 1 + dice(sizes[i]);
        starts[i] = dice(sizes[i] - subsizes[i] + 1);
    }
    switch (kind) {
    case 0: MPI_Type_contiguous(dice(5), inner, &type); break;
    case 1:
    case 2: MPI_Type_vector(1 + dice(9), 1 + dice(3), 1 + dice(5), inner, &type); break;
    case 3: MPI_Type_create_hvector(1 + dice(9), 1 + dice(2), 1 + dice(500), inner, &type); break;
    case 4:
    case 5: MPI_Type_create_subarray(dims, sizes, subsizes, starts, dice(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, inner, &type);
        break;
    case 6: MPI_Type_create_resized(inner, dice(20) - 10, 1 + dice(100), &type); break;
    case 7: make_struct(depth, inner, &type); break;
    default: make_indexed(dice(4), inner, &type); break;
    }
    MPI_Type_free(&inner);
    return type;
}

static void test_random(void **unused)
{
    (void)unused;
    int fitting = 0, most = getenv("FLATTEN_TYPES") ? atoi(getenv("FLATTEN_TYPES")) : 600;

    for (int i = 0; i < most; i++) {
        MPI_Datatype type = make_random(1 + dice(5));
        fitting += check_type(type, 1 + dice(4));
        MPI_Type_free(&type);
    }
    assert_true(fitting > most / 3);
}

/* ---- what comes out is short ---- */

static struct shunt_pattern *flatten(MPI_Datatype type)
{
    struct shunt_pattern *pattern = NULL;

    assert_int_equal(shunt_flatten(type, &pattern), SHUNT_OK);
    return pattern;
}

static void test_faces(void **unused)
{
    (void)unused;
    MPI_Datatype face, fields;
    enum { N = 512 };

    for (int dim = 0; dim < 3; dim++) {
        int sizes[3] = { N, N, N }, subsizes[3] = { N, N, N }, starts[3] = { 0, 0, 0 };
        subsizes[dim] = 1;
        MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &face);
        struct shunt_pattern *pattern = flatten(face);
        assert_int_equal(pattern->n, 1);
        assert_int_equal(pattern->outer_levels, 0);
        assert_int_equal(pattern->nests[0].levels, dim > 0); /* the rows of the last face go on from plane to plane */
        assert_int_equal(pattern->granule, dim == 2 ? 8 : 16);
        assert_int_equal(shunt_pattern_is_dense(pattern, 1), dim == 0);
        shunt_pattern_release(pattern);
        MPI_Type_create_struct(3, (int[]){ 1, 1, 1 }, (MPI_Aint[]){ 0, 5 << 20, 77 << 20 },
                               (MPI_Datatype[]){ face, face, face }, &fields);
        pattern = flatten(fields);
        assert_true(pattern->n <= 3 && pattern->nests);
        shunt_pattern_release(pattern);
        MPI_Type_free(&fields);
        MPI_Type_free(&face);
    }
}

/* Blocks without order are a plain list, ones in order are loops whatever they were made by. */
static void test_lists(void **unused)
{
    (void)unused;
    enum { N = 10000 };
    static int places[N], lengths[N];
    MPI_Datatype type;

    for (int i = 0; i < N; i++) {
        places[i] = 7 * i;
        lengths[i] = 1 + i % 3;
    }
    MPI_Type_create_indexed_block(N, 2, places, MPI_DOUBLE, &type);
    struct shunt_pattern *pattern = flatten(type);
    assert_true(pattern->n == 1 && pattern->nests[0].levels == 1);
    shunt_pattern_release(pattern);
    MPI_Type_free(&type);
    for (int i = 0; i < N; i++)
        places[i] += dice(3);
    MPI_Type_create_indexed_block(N, 2, places, MPI_DOUBLE, &type);
    pattern = flatten(type);
    assert_true(pattern->n > N / 2 && !pattern->nests && !pattern->starts && pattern->length == 16);
    shunt_pattern_release(pattern);
    MPI_Type_free(&type);
    MPI_Type_indexed(N, lengths, places, MPI_DOUBLE, &type);
    pattern = flatten(type);
    assert_true(pattern->n > N / 2 && !pattern->nests && pattern->starts);
    shunt_pattern_release(pattern);
    MPI_Type_free(&type);
}

/* ---- the cache ---- */

static void test_cache(void **unused)
{
    (void)unused;
    MPI_Datatype type, copy;
    int before = forgotten;

    MPI_Type_vector(3, 1, 2, MPI_INT, &type);
    struct shunt_pattern *pattern = shunt_pattern_of(type);
    assert_non_null(pattern);
    assert_ptr_equal(shunt_pattern_of(type), pattern);
    shunt_pattern_release(pattern);
    MPI_Type_free(&type);
    assert_int_equal(forgotten, before); /* in use */
    assert_int_equal(pattern->bytes, 12);
    shunt_pattern_release(pattern);
    assert_int_equal(forgotten, before + 1);
    for (int i = 0; i < 1000; i++) { /* handles and addresses come again */
        MPI_Type_vector(1 + i % 7, 1, 2, MPI_INT, &type);
        pattern = shunt_pattern_of(type);
        assert_int_equal(pattern->bytes, 4 * (1 + i % 7));
        shunt_pattern_release(pattern);
        MPI_Type_free(&type);
    }
    assert_int_equal(forgotten, before + 1001);
    MPI_Type_vector(3, 1, 2, MPI_INT, &type);
    shunt_pattern_release(shunt_pattern_of(type));
    MPI_Type_dup(type, &copy); /* has no pattern of its own yet, and keeps what it was made from */
    MPI_Type_free(&type);
    shunt_pattern_release(shunt_pattern_of(copy));
    shunt_patterns_stop();
    assert_int_equal(forgotten, before + 1003);
    MPI_Type_free(&copy);
}

static void start_host(void)
{
#define HOST(name) shunt_host.name = PMPI_##name
    HOST(Type_size_x);
    HOST(Type_get_extent_x);
    HOST(Type_get_true_extent_x);
    HOST(Type_get_envelope);
    HOST(Type_get_contents);
    HOST(Type_free);
    HOST(Type_create_keyval);
    HOST(Type_free_keyval);
    HOST(Type_set_attr);
#if MPI_VERSION >= 4
    HOST(Type_get_envelope_c);
    HOST(Type_get_contents_c);
#endif
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simple), cmocka_unit_test(test_arrays),       cmocka_unit_test(test_predefined),
        cmocka_unit_test(test_random), cmocka_unit_test(test_large_counts), cmocka_unit_test(test_faces),
        cmocka_unit_test(test_lists),  cmocka_unit_test(test_cache),
    };

    start_host();
    MPI_Init(&argc, &argv);
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (char)dice(256);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    MPI_Finalize();
    return failed;
}
