/* SPDX-License-Identifier: BSD-3-Clause */
/* Which bytes a datatype has, by trial; covered.h. */
#include "mpi/covered.h"

#include <stdlib.h>
#include <string.h>

struct element {
    MPI_Datatype datatype;
    MPI_Count size, extent, true_lb, true_extent;
};

/*
 * Pack and unpack one element; what is not packed in `from` stays in `to`. Both lack the type's true lower bound. Packed
 * bytes from `bytes` on are zeros.
 */
static enum shunt_status repack(const struct element *element, const char *from, char *to, int64_t bytes)
{
    int size = 0, in = 0, out = 0;
    char *packed = NULL;

    if (shunt_host.Pack_size(1, element->datatype, MPI_COMM_SELF, &size) != MPI_SUCCESS || size <= 0 ||
        !(packed = malloc(size)))
        return SHUNT_ERR_MEMORY;
    int rc = shunt_host.Pack(from - element->true_lb, 1, element->datatype, packed, size, &in, MPI_COMM_SELF);
    if (rc == MPI_SUCCESS && bytes < in)
        memset(packed + bytes, 0, in - bytes);
    if (rc == MPI_SUCCESS)
        rc = shunt_host.Unpack(packed, in, &out, to - element->true_lb, 1, element->datatype, MPI_COMM_SELF);
    free(packed);
    return rc == MPI_SUCCESS ? SHUNT_OK : SHUNT_ERR_INVALID;
}

/*
 * Which bytes of an element its type map covers, as far as `bytes` bytes of it go: an element of ones, packed and unpacked
 * over zeros by the host, which alone knows its types. NULL if that fails. To be freed by the caller.
 */
static char *find_covered(const struct element *element, int64_t bytes)
{
    char *ones = malloc(element->true_extent), *covered = calloc(1, element->true_extent);

    if (ones && covered) {
        memset(ones, 0xff, element->true_extent);
        if (repack(element, ones, covered, bytes) == SHUNT_OK) {
            free(ones);
            return covered;
        }
    }
    free(ones);
    free(covered);
    return NULL;
}

/* `offset`: of the element. */
static enum shunt_status visit_element(const struct element *element, const char *covered, int64_t offset,
                                       shunt_covered_visit *visit, void *context)
{
    enum shunt_status status = SHUNT_OK;

    for (MPI_Count start = 0, end; status == SHUNT_OK && start < element->true_extent; start = end) {
        for (end = start + 1; end < element->true_extent && !covered[end] == !covered[start]; end++)
            ;
        if (covered[start])
            status = visit(context, offset + element->true_lb + start, (uint64_t)(end - start));
    }
    return status;
}

static enum shunt_status visit_elements(const struct element *element, int64_t first, int64_t count, int64_t bytes,
                                        shunt_covered_visit *visit, void *context)
{
    char *covered = count > 0 ? find_covered(element, bytes) : NULL;
    enum shunt_status status = covered || count == 0 ? SHUNT_OK : SHUNT_ERR_MEMORY;

    for (int64_t i = first; i < first + count && status == SHUNT_OK; i++)
        status = visit_element(element, covered, i * element->extent, visit, context);
    free(covered);
    return status;
}

enum shunt_status shunt_covered_walk(MPI_Datatype datatype, int64_t count, uint64_t bytes, shunt_covered_visit *visit,
                                     void *context)
{
    struct element element = { .datatype = datatype };
    MPI_Count lb;

    if (shunt_host.Type_size_x(datatype, &element.size) != MPI_SUCCESS ||
        shunt_host.Type_get_extent_x(datatype, &lb, &element.extent) != MPI_SUCCESS ||
        shunt_host.Type_get_true_extent_x(datatype, &element.true_lb, &element.true_extent) != MPI_SUCCESS)
        return SHUNT_ERR_INVALID;
    if (element.size == 0)
        return SHUNT_OK;
    int64_t whole = (int64_t)bytes / element.size, rest = (int64_t)bytes % element.size;
    whole = whole < count ? whole : count;
    enum shunt_status status = visit_elements(&element, 0, whole, element.size, visit, context);
    if (status == SHUNT_OK && rest > 0 && whole < count)
        status = visit_elements(&element, whole, 1, rest, visit, context);
    return status;
}
