/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of cuMemCreate and cuMemMap, exported and opened as file descriptors; see vmm.h. */
#include "cuda/vmm.h"

#include <stdint.h>

enum shunt_status shunt_vmm_piece(CUdeviceptr p, CUdeviceptr *base, size_t *size)
{
    /* The address range that the pointer belongs to (RANGE_...) is what was reserved: it may hold several pieces. */
    CUpointer_attribute wanted[3] = { CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
                                      CU_POINTER_ATTRIBUTE_MAPPING_SIZE };
    unsigned long long types = 0;
    void *values[3] = { &types, base, size };

    *base = 0;
    *size = 0;
    if (SHUNT_CUDA_AT(SHUNT_LOG_TRACE, cuPointerGetAttributes(3, wanted, values, p)) != SHUNT_OK)
        return SHUNT_PASS;
    bool exportable = types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && *base != 0 && p - *base < *size;
    return exportable ? SHUNT_OK : SHUNT_PASS;
}

enum shunt_status shunt_vmm_export(CUdeviceptr base, int *descriptor)
{
    CUmemGenericAllocationHandle handle;
    /* Refused for memory of pools, which may have this handle type too. */
    enum shunt_status status = SHUNT_CUDA_AT(SHUNT_LOG_TRACE, cuMemRetainAllocationHandle(&handle, (void *)base));

    if (status != SHUNT_OK)
        return status;
    status = SHUNT_CUDA_AT(
        SHUNT_LOG_INFO, cuMemExportToShareableHandle(descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    shunt_driver.cuMemRelease(handle);
    return status;
}

static enum shunt_status map_handle(CUmemGenericAllocationHandle handle, size_t size, int ordinal, CUdeviceptr *address)
{
    CUmemAccessDesc access = { { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal },
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    CUdeviceptr at = 0;
    enum shunt_status status = SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuMemAddressReserve(&at, size, 0, 0, 0));

    if (status != SHUNT_OK)
        return status;
    status = SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuMemMap(at, size, 0, handle, 0));
    if (status != SHUNT_OK)
        goto free_address;
    status = SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuMemSetAccess(at, size, &access, 1)); /* refused without peer access */
    if (status != SHUNT_OK)
        goto unmap;
    *address = at;
    return SHUNT_OK;
unmap:
    shunt_driver.cuMemUnmap(at, size);
free_address:
    shunt_driver.cuMemAddressFree(at, size);
    return status;
}

enum shunt_status shunt_vmm_open(int descriptor, size_t size, int ordinal, CUdeviceptr *address)
{
    CUmemGenericAllocationHandle handle;
    enum shunt_status status =
        SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)descriptor,
                                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));

    if (status != SHUNT_OK)
        return status;
    status = map_handle(handle, size, ordinal, address);
    shunt_driver.cuMemRelease(handle); /* the mapping keeps the memory */
    return status;
}

void shunt_vmm_close(CUdeviceptr address, size_t size)
{
    SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuMemUnmap(address, size));
    SHUNT_CUDA_AT(SHUNT_LOG_INFO, cuMemAddressFree(address, size));
}
