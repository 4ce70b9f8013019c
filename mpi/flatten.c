/* SPDX-License-Identifier: BSD-3-Clause */
/* From a datatype of the host to a shape: one function for each way to make one; flatten.h. */
#include "mpi/flatten.h"

#include <stdlib.h>

#include "base/log.h"

enum { DEEPEST = 100 }; /* of datatypes in datatypes */

/*
 * How a datatype was made: the numbers in the order of the constructor's parameters, whether the host has them as int,
 * as addresses or as large counts.
 */
struct contents {
    int combiner;
    int64_t *numbers;
    MPI_Datatype *types;
    MPI_Count n_numbers, n_types;
};

/* A datatype that another is made of. */
struct part {
    struct shunt_outline shape;
    int64_t extent;
};

/* The same as the host has it. */
struct raw {
    MPI_Count ints, addresses, counts;
    int *int_values;
    MPI_Aint *address_values;
    MPI_Count *count_values;
};

static bool is_predefined(int combiner)
{
    return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX ||
           combiner == MPI_COMBINER_F90_INTEGER;
}

/* The function for large counts serves datatypes of both kinds; the other one calls the error handler for large ones. */
static bool ask_envelope(MPI_Datatype datatype, struct contents *contents, struct raw *raw)
{
    int ints = 0, addresses = 0, types = 0;

    if (shunt_host.Type_get_envelope_c)
        return shunt_host.Type_get_envelope_c(datatype, &raw->ints, &raw->addresses, &raw->counts, &contents->n_types,
                                              &contents->combiner) == MPI_SUCCESS;
    int rc = shunt_host.Type_get_envelope(datatype, &ints, &addresses, &types, &contents->combiner);
    *raw = (struct raw){ .ints = ints, .addresses = addresses };
    contents->n_types = types;
    return rc == MPI_SUCCESS;
}

static bool ask_contents(MPI_Datatype datatype, struct contents *contents, struct raw *raw)
{
    if (shunt_host.Type_get_contents_c)
        return shunt_host.Type_get_contents_c(datatype, raw->ints, raw->addresses, raw->counts, contents->n_types,
                                              raw->int_values, raw->address_values, raw->count_values,
                                              contents->types) == MPI_SUCCESS;
    return shunt_host.Type_get_contents(datatype, (int)raw->ints, (int)raw->addresses, (int)contents->n_types,
                                        raw->int_values, raw->address_values, contents->types) == MPI_SUCCESS;
}

/* Arrays with large counts have these behind the third (darray) or the first number (subarray). */
static MPI_Count find_insertion(int combiner, const struct raw *raw)
{
    if (combiner == MPI_COMBINER_DARRAY)
        return 3;
    return combiner == MPI_COMBINER_SUBARRAY && raw->counts > 0 ? 1 : raw->ints;
}

static void order_numbers(struct contents *contents, const struct raw *raw)
{
    MPI_Count insertion = find_insertion(contents->combiner, raw), n = 0;

    for (MPI_Count i = 0; i < raw->ints && i < insertion; i++)
        contents->numbers[n++] = raw->int_values[i];
    for (MPI_Count i = 0; i < raw->counts; i++)
        contents->numbers[n++] = raw->count_values[i];
    for (MPI_Count i = insertion; i < raw->ints; i++)
        contents->numbers[n++] = raw->int_values[i];
    for (MPI_Count i = 0; i < raw->addresses; i++)
        contents->numbers[n++] = raw->address_values[i];
}

static enum shunt_status read_raw(MPI_Datatype datatype, struct contents *contents, struct raw *raw)
{
    enum shunt_status status = SHUNT_ERR_MEMORY;

    contents->n_numbers = raw->ints + raw->addresses + raw->counts;
    raw->int_values = malloc((raw->ints + 1) * sizeof *raw->int_values);
    raw->address_values = malloc((raw->addresses + 1) * sizeof *raw->address_values);
    raw->count_values = malloc((raw->counts + 1) * sizeof *raw->count_values);
    contents->numbers = malloc((contents->n_numbers + 1) * sizeof *contents->numbers);
    contents->types = malloc((contents->n_types + 1) * sizeof(MPI_Datatype));
    if (raw->int_values && raw->address_values && raw->count_values && contents->numbers && contents->types)
        status = ask_contents(datatype, contents, raw) ? SHUNT_OK : SHUNT_ERR_INVALID;
    if (status == SHUNT_OK)
        order_numbers(contents, raw);
    else
        contents->n_types = 0;
    free(raw->int_values);
    free(raw->address_values);
    free(raw->count_values);
    return status;
}

static void free_contents(struct contents *contents)
{
    for (MPI_Count i = 0; i < contents->n_types; i++) {
        struct contents part;
        struct raw raw = { .ints = 0 };
        /* Predefined ones may not be freed. */
        if (ask_envelope(contents->types[i], &part, &raw) && !is_predefined(part.combiner))
            shunt_host.Type_free(&contents->types[i]);
    }
    free(contents->numbers);
    free(contents->types);
}

static bool find_extent(MPI_Datatype datatype, int64_t *extent)
{
    MPI_Count lb, value;

    if (shunt_host.Type_get_extent_x(datatype, &lb, &value) != MPI_SUCCESS)
        return false;
    *extent = value;
    return true;
}

/* A predefined one. What is smaller than its extent is a pair of a value and an int, as C lays it out. */
static enum shunt_status flatten_predefined(MPI_Datatype datatype, struct shunt_outline *shape)
{
    MPI_Count size, lb, extent;
    const int64_t second = sizeof(int);

    if (shunt_host.Type_size_x(datatype, &size) != MPI_SUCCESS ||
        shunt_host.Type_get_true_extent_x(datatype, &lb, &extent) != MPI_SUCCESS)
        return SHUNT_ERR_INVALID;
    if (size == extent || size == 0)
        return shunt_outline_block(shape, lb, (uint64_t)size);
    int64_t value = size - second, at = (value + second - 1) / second * second;
    if (value <= 0 || lb != 0 || at + second > extent)
        return SHUNT_ERR_INVALID;
    enum shunt_status status = shunt_outline_block(shape, 0, (uint64_t)value);
    return status == SHUNT_OK ? shunt_outline_block(shape, at, (uint64_t)second) : status;
}

/* ---- the constructors. n: the numbers ---- */

/* contiguous, vector, hvector: `stride` in bytes. */
static enum shunt_status flatten_vector(struct shunt_outline *shape, const struct part *part, int64_t count,
                                        int64_t length, int64_t stride)
{
    enum shunt_status status = shunt_outline_add(shape, &part->shape, 0, (uint64_t)length, part->extent);

    return status == SHUNT_OK ? shunt_outline_repeat(shape, (uint64_t)count, stride) : status;
}

/* The four indexed ones. lengths: NULL if all are `length`; `unit`: of the places, in bytes. */
static enum shunt_status flatten_indexed(struct shunt_outline *shape, const struct part *part, int64_t count,
                                         const int64_t *lengths, int64_t length, const int64_t *places, int64_t unit)
{
    enum shunt_status status = SHUNT_OK;

    for (int64_t i = 0; i < count && status == SHUNT_OK; i++)
        status = shunt_outline_add(shape, &part->shape, places[i] * unit, (uint64_t)(lengths ? lengths[i] : length),
                                 part->extent);
    return status;
}

static enum shunt_status flatten_struct(struct shunt_outline *shape, const struct part *parts, const int64_t *n)
{
    enum shunt_status status = SHUNT_OK;
    int64_t count = n[0];

    for (int64_t i = 0; i < count && status == SHUNT_OK; i++)
        status = shunt_outline_add(shape, &parts[i].shape, n[1 + count + i], (uint64_t)n[1 + i], parts[i].extent);
    return status;
}

/* Along one dimension, `taken` of the places 0, 1, ... that lie `stride` apart, from `start` on. */
static enum shunt_status take_range(struct shunt_outline *shape, int64_t start, int64_t taken, int64_t stride)
{
    struct shunt_outline line = *shape;
    enum shunt_status status;

    *shape = (struct shunt_outline)SHUNT_OUTLINE_EMPTY;
    status = shunt_outline_add(shape, &line, start * stride, (uint64_t)taken, stride);
    shunt_outline_free(&line);
    return status;
}

static enum shunt_status flatten_subarray(struct shunt_outline *shape, const struct part *part, const int64_t *n)
{
    int64_t dims = n[0], stride = part->extent;
    const int64_t *sizes = n + 1, *subsizes = sizes + dims, *starts = subsizes + dims;
    bool c_order = starts[dims] == MPI_ORDER_C;
    enum shunt_status status = shunt_outline_add(shape, &part->shape, 0, 1, 0);

    for (int64_t i = 0; i < dims && status == SHUNT_OK; i++) {
        int64_t dim = c_order ? dims - 1 - i : i;
        status = take_range(shape, starts[dim], subsizes[dim], stride);
        stride *= sizes[dim];
    }
    return status;
}

/* Along one dimension of `size` places, every `processes`th of the blocks of `block` places, from number `mine` on. */
static enum shunt_status take_cyclic(struct shunt_outline *shape, int64_t size, int64_t block, int64_t processes,
                                     int64_t mine, int64_t stride)
{
    struct shunt_outline line = *shape;
    enum shunt_status status = SHUNT_OK;

    *shape = (struct shunt_outline)SHUNT_OUTLINE_EMPTY;
    for (int64_t at = mine * block; at < size && status == SHUNT_OK; at += processes * block)
        status = shunt_outline_add(shape, &line, at * stride, (uint64_t)(size - at < block ? size - at : block), stride);
    shunt_outline_free(&line);
    return status == SHUNT_OK ? shunt_outline_fold(shape) : status;
}

/* Processes are numbered as in a Cartesian communicator: the last dimension runs fastest, whatever the array's order. */
static enum shunt_status flatten_darray(struct shunt_outline *shape, const struct part *part, const int64_t *n)
{
    int64_t rank = n[1], dims = n[2], stride = part->extent, processes = n[0];
    const int64_t *sizes = n + 3, *distribs = sizes + dims, *args = distribs + dims, *grid = args + dims;
    bool c_order = grid[dims] == MPI_ORDER_C;
    int64_t *place = malloc((dims + 1) * sizeof *place);
    enum shunt_status status = place ? shunt_outline_add(shape, &part->shape, 0, 1, 0) : SHUNT_ERR_MEMORY;

    for (int64_t i = 0; i < dims && place; i++) {
        processes /= grid[i];
        place[i] = rank / processes;
        rank %= processes;
    }
    for (int64_t i = 0; i < dims && status == SHUNT_OK; i++) {
        int64_t dim = c_order ? dims - 1 - i : i, block = args[dim];
        if (distribs[dim] == MPI_DISTRIBUTE_NONE)
            block = sizes[dim];
        else if (block == MPI_DISTRIBUTE_DFLT_DARG)
            block = distribs[dim] == MPI_DISTRIBUTE_BLOCK ? (sizes[dim] + grid[dim] - 1) / grid[dim] : 1;
        status = take_cyclic(shape, sizes[dim], block, grid[dim], place[dim], stride);
        stride *= sizes[dim];
    }
    free(place);
    return status;
}

static enum shunt_status flatten_combined(const struct contents *contents, const struct part *parts,
                                          struct shunt_outline *shape)
{
    const int64_t *n = contents->numbers;
    int64_t unit = parts[0].extent;

    switch (contents->combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED: return shunt_outline_add(shape, &parts[0].shape, 0, 1, 0);
    case MPI_COMBINER_CONTIGUOUS: return flatten_vector(shape, &parts[0], n[0], 1, unit);
    case MPI_COMBINER_VECTOR: return flatten_vector(shape, &parts[0], n[0], n[1], n[2] * unit);
    case MPI_COMBINER_HVECTOR: return flatten_vector(shape, &parts[0], n[0], n[1], n[2]);
    case MPI_COMBINER_INDEXED: return flatten_indexed(shape, &parts[0], n[0], n + 1, 0, n + 1 + n[0], unit);
    case MPI_COMBINER_HINDEXED: return flatten_indexed(shape, &parts[0], n[0], n + 1, 0, n + 1 + n[0], 1);
    case MPI_COMBINER_INDEXED_BLOCK: return flatten_indexed(shape, &parts[0], n[0], NULL, n[1], n + 2, unit);
    case MPI_COMBINER_HINDEXED_BLOCK: return flatten_indexed(shape, &parts[0], n[0], NULL, n[1], n + 2, 1);
    case MPI_COMBINER_STRUCT: return flatten_struct(shape, parts, n);
    case MPI_COMBINER_SUBARRAY: return flatten_subarray(shape, &parts[0], n);
    case MPI_COMBINER_DARRAY: return flatten_darray(shape, &parts[0], n);
    default: return SHUNT_ERR_INVALID;
    }
}

static enum shunt_status flatten_any(MPI_Datatype datatype, int depth, struct shunt_outline *shape);

static enum shunt_status flatten_parts(const struct contents *contents, int depth, struct shunt_outline *shape)
{
    struct part *parts = calloc(contents->n_types + 1, sizeof *parts);
    enum shunt_status status = parts ? SHUNT_OK : SHUNT_ERR_MEMORY;
    MPI_Count made = 0;

    for (; made < contents->n_types && status == SHUNT_OK; made++) {
        status = flatten_any(contents->types[made], depth + 1, &parts[made].shape);
        if (status == SHUNT_OK && !find_extent(contents->types[made], &parts[made].extent))
            status = SHUNT_ERR_INVALID;
    }
    if (status == SHUNT_OK)
        status = flatten_combined(contents, parts, shape);
    if (status == SHUNT_OK)
        status = shunt_outline_fold(shape);
    while (made-- > 0)
        shunt_outline_free(&parts[made].shape);
    free(parts);
    return status;
}

/* Into an empty shape. */
static enum shunt_status flatten_any(MPI_Datatype datatype, int depth, struct shunt_outline *shape)
{
    struct contents contents = { .combiner = MPI_COMBINER_NAMED };
    struct raw raw = { .ints = 0 };

    if (depth > DEEPEST || !ask_envelope(datatype, &contents, &raw))
        return SHUNT_ERR_LIMIT;
    if (is_predefined(contents.combiner))
        return flatten_predefined(datatype, shape);
    enum shunt_status status = read_raw(datatype, &contents, &raw);
    if (status == SHUNT_OK)
        status = flatten_parts(&contents, depth, shape);
    free_contents(&contents);
    return status;
}

/* Does the host say the same of it? MPICH's true bounds may lie too far apart. */
static bool is_plausible(MPI_Datatype datatype, const struct shunt_pattern *pattern)
{
    MPI_Count size, lb, extent;

    return shunt_host.Type_size_x(datatype, &size) == MPI_SUCCESS && (uint64_t)size == pattern->bytes &&
           shunt_host.Type_get_true_extent_x(datatype, &lb, &extent) == MPI_SUCCESS &&
           (size == 0 || (lb <= pattern->low && lb + extent >= pattern->high));
}

enum shunt_status shunt_flatten(MPI_Datatype datatype, struct shunt_pattern **pattern)
{
    struct shunt_outline shape = SHUNT_OUTLINE_EMPTY;
    int64_t extent = 0;
    enum shunt_status status = find_extent(datatype, &extent) ? SHUNT_OK : SHUNT_ERR_INVALID;

    if (status == SHUNT_OK)
        status = flatten_any(datatype, 0, &shape);
    if (status == SHUNT_OK)
        status = shunt_pattern_make(&shape, extent, pattern);
    shunt_outline_free(&shape);
    if (status == SHUNT_OK && !is_plausible(datatype, *pattern)) {
        shunt_warn("stage", "a datatype of %llu bytes is not what the host says of it",
                   (unsigned long long)(*pattern)->bytes);
        shunt_pattern_release(*pattern);
        status = SHUNT_ERR_INVALID;
    }
    return status;
}
