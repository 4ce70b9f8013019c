/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What memory is this? The questions about a pointer that the driver answers.
 */
#include "sim/driver.h"

#include <string.h>

static bool on_host(const struct sim_block *b)
{
    return b->kind == SIM_HOST || b->kind == SIM_REGISTERED;
}

/* The size of the value of an attribute; 0: there is no such attribute */
static size_t attribute_size(CUpointer_attribute attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return sizeof(int);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return 1;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return 8;
    default:
        return 0;
    }
}

struct range {
    CUdeviceptr start;
    size_t bytes;
};

/* Of what is mapped by hand, the addresses that were reserved together, whatever is mapped there. */
static struct range range_of(const struct sim_block *b, CUdeviceptr p)
{
    struct range range = {b->address, b->bytes};
    if (b->kind == SIM_VMM)
        sim_reservation_of(p, &range.start, &range.bytes);
    return range;
}

/* The value for a pointer into block `b`; an error where the attribute makes no sense for it */
static CUresult ask(const struct sim_block *b, CUdeviceptr p, CUpointer_attribute attribute,
                    uint64_t *value)
{
    bool host = on_host(b);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *value = b->kind == SIM_VMM || b->kind == SIM_POOL ? 0 : (uintptr_t)b->ctx;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *value = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *value = b->kind == SIM_REGISTERED ? sim_registered_address(b, p) : p;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *value = host || b->kind == SIM_MANAGED ? p : 0;
        return *value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *value = b->sync_memops;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *value = b->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *value = b->kind == SIM_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *value = (uint32_t)b->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *value = b->kind == SIM_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *value = range_of(b, p).start;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *value = range_of(b, p).bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *value = b->address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *value = b->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *value = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *value = b->kind == SIM_VMM ? sim_physical_handle_types(b->physical) : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *value = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *value = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *value = (uintptr_t)b->pool;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr p)
{
    uint64_t value = 0;
    CUresult result = sim_ready();
    size_t size = attribute_size(attribute);
    if (result)
        return result;
    if (!data || !size)
        return CUDA_ERROR_INVALID_VALUE;
    sim_table_read_lock();
    struct sim_block *b = sim_block_at(p);
    result = b ? ask(b, p, attribute, &value) : CUDA_ERROR_INVALID_VALUE;
    sim_table_unlock();
    if (!result)
        memcpy(data, &value, size); /* both architectures are little-endian */
    return result;
}

/*
 * The value for a pointer that is in no block, with all quirks of the real driver: the size of its
 * range is not answered at all, unless it is in a reservation. False: the place for the answer
 * stays as it is.
 */
static bool ask_unknown(CUdeviceptr p, CUpointer_attribute attribute, uint64_t *value)
{
    CUdeviceptr start = 0;
    size_t bytes = 0;
    bool reserved = sim_reservation_of(p, &start, &bytes);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *value = (uint32_t)CU_DEVICE_INVALID;
        return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *value = p;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *value = start;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *value = bytes;
        return reserved;
    default:
        *value = 0;
        return true;
    }
}

/* What does not apply to the pointer is 0; only an attribute that does not exist is an error. */
CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr p)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!n || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++)
        if (!attribute_size(attributes[i]))
            return CUDA_ERROR_INVALID_VALUE;
    sim_table_read_lock();
    struct sim_block *b = sim_block_at(p);
    for (unsigned i = 0; i < n; i++) {
        uint64_t value = 0;
        if (b ? !ask(b, p, attributes[i], &value) || !(value = 0)
              : ask_unknown(p, attributes[i], &value))
            memcpy(data[i], &value, attribute_size(attributes[i]));
    }
    sim_table_unlock();
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr p)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    sim_table_lock();
    struct sim_block *b = sim_block_at(p);
    if (!b || (b->kind != SIM_DEVICE && b->kind != SIM_VMM))
        result = CUDA_ERROR_INVALID_VALUE;
    else
        b->sync_memops = *(const unsigned *)value != 0;
    sim_table_unlock();
    return result;
}
