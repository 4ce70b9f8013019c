/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Modules, libraries and functions. The code in an image is not looked at: functions are found by
 * name among those that were compiled for the CPU.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/launch.h"

struct CUmod_st {
    CUcontext ctx;
    unsigned long long ctx_id;
    struct CUfunc_st *functions;
};

struct CUlib_st {
    struct CUkern_st *kernels;
};

struct CUkern_st {
    uint32_t magic;
    CUlibrary library;
    char *name;
    struct CUfunc_st *functions; /* one per context that it was used in */
    struct CUkern_st *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all lists of functions and kernels */

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUmod_st *m = calloc(1, sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->ctx = ctx;
    m->ctx_id = ctx->id;
    *module = m;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n, CUjit_option *options,
                            void **values)
{
    (void)n;
    (void)options;
    (void)values;
    return cuModuleLoadData(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return cuModuleLoadData(module, image);
}

static void free_functions(struct CUfunc_st *f)
{
    while (f) {
        struct CUfunc_st *next = f->next;
        f->magic = 0;
        free(f->name);
        free(f);
        f = next;
    }
}

CUresult cuModuleUnload(CUmodule module)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!module)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_same_context(module->ctx, module->ctx_id) ? sim_context_wait(module->ctx)
                                                           : CUDA_SUCCESS;
    free_functions(module->functions);
    free(module);
    return result;
}

CUresult sim_function_new(CUcontext ctx, const char *name, struct CUfunc_st **function)
{
    struct sim_request find = {.verb = SIM_FIND};
    struct sim_reply reply;
    if (strlen(name) >= sizeof find.name)
        return CUDA_ERROR_NOT_FOUND;
    strcpy(find.name, name);
    CUresult result = sim_request(&ctx->executor, &find, &reply);
    if (result)
        return result;
    struct CUfunc_st *f = calloc(1, sizeof *f);
    char *copy = strdup(name);
    if (!f || !copy) {
        free(f);
        free(copy);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    f->magic = SIM_FUNCTION_MAGIC;
    f->ctx = ctx;
    f->ctx_id = ctx->id;
    f->name = copy;
    f->kernel = reply.value;
    f->dynamic_shared = 48 << 10;
    memcpy(f->arg_sizes, reply.arg_sizes, sizeof f->arg_sizes);
    *function = f;
    return CUDA_SUCCESS;
}

/* With the lock held: the function of that name and context in a list, or a new one put into it */
static CUresult get(struct CUfunc_st **list, CUcontext ctx, const char *name,
                    struct CUfunc_st **function)
{
    for (struct CUfunc_st *f = *list; f; f = f->next)
        if (f->ctx == ctx && f->ctx_id == ctx->id && !strcmp(f->name, name)) {
            *function = f;
            return CUDA_SUCCESS;
        }
    CUresult result = sim_function_new(ctx, name, function);
    if (!result) {
        (*function)->next = *list;
        *list = *function;
    }
    return result;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!function || !module || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_same_context(module->ctx, module->ctx_id))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    struct CUfunc_st *f;
    pthread_mutex_lock(&lock);
    result = get(&module->functions, module->ctx, name, &f);
    pthread_mutex_unlock(&lock);
    if (result)
        return result;
    f->module = module;
    *function = f;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    (void)address;
    (void)bytes;
    if (result)
        return result;
    return module && name ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    CUresult result = sim_ready();
    if (!result)
        *mode = CU_MODULE_LAZY_LOADING;
    return result;
}

/* ---- libraries: modules of no particular context ---- */

CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *options,
                           void **values, unsigned n, CUlibraryOption *library_options,
                           void **library_values, unsigned n_library)
{
    (void)options;
    (void)values;
    (void)n;
    (void)library_options;
    (void)library_values;
    (void)n_library;
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!library || !image)
        return CUDA_ERROR_INVALID_VALUE;
    *library = calloc(1, sizeof **library);
    return *library ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!library)
        return CUDA_ERROR_INVALID_HANDLE;
    while (library->kernels) {
        struct CUkern_st *k = library->kernels;
        library->kernels = k->next;
        free_functions(k->functions);
        k->magic = 0;
        free(k->name);
        free(k);
    }
    free(library);
    return CUDA_SUCCESS;
}

/*
 * Whether there is such a kernel is known to executors only: one is asked, that of the current
 * context.
 */
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!kernel || !library || !name)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUkern_st *k = calloc(1, sizeof *k);
    char *copy = strdup(name);
    struct CUfunc_st *f;
    if (!k || !copy) {
        free(k);
        free(copy);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&lock);
    result = get(&k->functions, ctx, name, &f);
    if (!result) {
        *k = (struct CUkern_st){SIM_KERNEL_MAGIC, library, copy, f, library->kernels};
        library->kernels = k;
    }
    pthread_mutex_unlock(&lock);
    if (result) {
        free(copy);
        free(k);
        return result;
    }
    *kernel = k;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    CUcontext ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!function || !kernel || kernel->magic != SIM_KERNEL_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    result = get(&kernel->functions, ctx, kernel->name, function);
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult sim_function_of(CUfunction handle, struct CUfunc_st **function)
{
    if (!handle)
        return CUDA_ERROR_INVALID_HANDLE;
    if (handle->magic == SIM_KERNEL_MAGIC)
        return cuKernelGetFunction(function, (CUkernel)handle);
    *function = handle;
    if (handle->magic != SIM_FUNCTION_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = sim_context_usable(handle->ctx);
    return result || handle->ctx_id == handle->ctx->id ? result : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- functions ---- */

CUresult sim_function_load(struct CUfunc_st *f)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&f->ctx->submit);
    if (!f->loaded)
        result = sim_context_wait(f->ctx);
    f->loaded = !result;
    pthread_mutex_unlock(&f->ctx->submit);
    return result;
}

CUresult cuFuncLoad(CUfunction function)
{
    struct CUfunc_st *f;
    CUresult result = sim_ready();
    if (!result)
        result = sim_function_of(function, &f);
    return result ? result : sim_function_load(f);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    struct CUfunc_st *f;
    CUresult result = sim_ready();
    if (!result)
        result = sim_function_of(function, &f);
    if (!result)
        *state = f->loaded ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return result;
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    struct CUfunc_st *f;
    CUresult result = sim_ready();
    if (!result)
        result = sim_function_of(function, &f);
    if (!result)
        *name = f->name;
    return result;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    struct CUfunc_st *f;
    CUresult result = sim_ready();
    if (!result)
        result = sim_function_of(function, &f);
    if (!result)
        *module = f->module;
    return result;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    struct CUfunc_st *f;
    CUresult result = sim_ready();
    if (!result)
        result = sim_function_of(function, &f);
    if (!result)
        result = sim_function_load(f);
    if (result)
        return result;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = 90;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = f->dynamic_shared;
        return CUDA_SUCCESS;
    default:
        *value = 0;
        return attribute >= 0 && attribute < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS
                                                                   : CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    struct CUfunc_st *f;
    CUresult result = sim_ready();
    if (!result)
        result = sim_function_of(function, &f);
    if (result)
        return result;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        return attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    if (value < 0 || value > 232448)
        return CUDA_ERROR_INVALID_VALUE;
    f->dynamic_shared = value;
    return CUDA_SUCCESS;
}
