/* SPDX-License-Identifier: BSD-3-Clause */
/* Room for what goes over the network; spare.h. What was made in a context that has ended went with it. */
#include "cuda/spare.h"

#include <pthread.h>

#include "cuda/context.h"

enum { KEPT = 4 };

static struct kept {
    bool taken;
    struct shunt_gpu *gpu; /* NULL: nothing is here */
    unsigned long long context;
    char *host, *device;
    size_t host_bytes, device_bytes;
} kept[KEPT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Give back what is there, if its context is. */
static void drop(struct kept *k)
{
    struct shunt_gpu_scope scope;

    if (k->gpu != NULL && k->context == k->gpu->id && shunt_gpu_enter(k->gpu, &scope) == SHUNT_OK) {
        if (k->host != NULL)
            SHUNT_CUDA(cuMemFreeHost(k->host));
        if (k->device != NULL)
            SHUNT_CUDA(cuMemFree_v2((CUdeviceptr)k->device));
        shunt_gpu_leave(&scope);
    }
    *k = (struct kept){ .gpu = NULL };
}

/* Inside the context. */

static bool make(struct kept *k, struct shunt_gpu *gpu, size_t host_bytes, size_t device_bytes)
{
    void *host = NULL;
    CUdeviceptr device = 0;

    *k = (struct kept){ .gpu = gpu, .context = gpu->id };
    bool made = SHUNT_CUDA(cuMemHostAlloc(&host, host_bytes, CU_MEMHOSTALLOC_PORTABLE)) == SHUNT_OK;
    if (made && device_bytes > 0)
        made = SHUNT_CUDA(cuMemAlloc_v2(&device, device_bytes)) == SHUNT_OK;
    k->host = host;
    k->host_bytes = host_bytes;
    k->device = (char *)device;
    k->device_bytes = device_bytes;
    if (!made)
        drop(k);
    return made;
}

/* One that is free: best one that will do as it is. NULL: all are taken. */
static struct kept *choose(const struct shunt_gpu *gpu, size_t host_bytes, size_t device_bytes, bool *fits)
{
    struct kept *found = NULL;

    *fits = false;
    for (int i = 0; i < KEPT && !*fits; i++) {
        struct kept *k = &kept[i];
        if (k->taken)
            continue;
        *fits = k->gpu == gpu && k->context == gpu->id && k->host_bytes >= host_bytes && k->device_bytes >= device_bytes;
        if (*fits || found == NULL || k->gpu == NULL)
            found = k;
    }
    return found;
}

static struct kept *find(struct shunt_gpu *gpu, size_t host_bytes, size_t device_bytes)
{
    struct shunt_gpu_scope scope;
    bool fits;
    struct kept *k = choose(gpu, host_bytes, device_bytes, &fits);

    if (k == NULL || fits)
        return k;
    if (k->gpu == gpu) { /* it only grows */
        host_bytes = host_bytes > k->host_bytes ? host_bytes : k->host_bytes;
        device_bytes = device_bytes > k->device_bytes ? device_bytes : k->device_bytes;
    }
    drop(k);
    if (shunt_gpu_enter(gpu, &scope) != SHUNT_OK)
        return NULL;
    bool made = make(k, gpu, host_bytes, device_bytes);
    shunt_gpu_leave(&scope);
    return made ? k : NULL;
}

bool shunt_spare_take(const void *like, size_t host_bytes, size_t device_bytes, struct shunt_spare *spare)
{
    bool foreign;
    struct shunt_gpu *gpu = shunt_gpu_of(like, &foreign);

    if (gpu == NULL)
        return false;
    pthread_mutex_lock(&lock);
    struct kept *k = find(gpu, host_bytes, device_bytes);
    if (k != NULL) {
        k->taken = true;
        *spare = (struct shunt_spare){ .place = (int)(k - kept), .host = k->host, .host_bytes = k->host_bytes,
                                       .device = k->device, .device_bytes = k->device_bytes };
    }
    pthread_mutex_unlock(&lock);
    if (k != NULL && k->device != NULL)
        shunt_gpu_classify(k->device, &spare->mem);
    return k != NULL;
}

void shunt_spare_give(const struct shunt_spare *spare)
{
    pthread_mutex_lock(&lock);
    kept[spare->place].taken = false;
    pthread_mutex_unlock(&lock);
}

void shunt_spare_abandon(const struct shunt_spare *spare)
{
    pthread_mutex_lock(&lock);
    kept[spare->place] = (struct kept){ .gpu = NULL };
    pthread_mutex_unlock(&lock);
}

void shunt_spare_close(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT; i++)
        if (!kept[i].taken)
            drop(&kept[i]);
    pthread_mutex_unlock(&lock);
}
