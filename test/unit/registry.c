/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations, on a driver that only keeps books: this process is slot 0, and the cards of the others are written by
 * the test. What is offered when, what is opened and closed in which order, and that no entry means two things.
 */
#include "cuda/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 3, MIB = 1 << 20 };

/* ---- what registry.c calls ---- */

static struct shunt_card cards[SLOTS];
static struct shunt_peer peers[SLOTS];
static struct shunt_gpu gpu;

int shunt_arena_self(const struct shunt_arena *arena)
{
    (void)arena;
    return 0;
}

int shunt_arena_local_size(const struct shunt_arena *arena)
{
    (void)arena;
    return SLOTS;
}

void *shunt_arena_card(const struct shunt_arena *arena, int slot)
{
    (void)arena;
    return &cards[slot];
}

struct shunt_peer *shunt_peer_at(int slot)
{
    return &peers[slot];
}

enum shunt_status shunt_gpu_enter(struct shunt_gpu *at, struct shunt_gpu_scope *scope)
{
    (void)scope;
    assert_ptr_equal(at, &gpu);
    return SHUNT_OK;
}

void shunt_gpu_leave(struct shunt_gpu_scope *scope)
{
    (void)scope;
}

struct shunt_driver shunt_driver;

enum shunt_status shunt_cuda_check(CUresult result, int level, const char *call)
{
    (void)level;
    (void)call;
    return result == CUDA_SUCCESS ? SHUNT_OK : SHUNT_ERR_CUDA;
}

/* Own memory: allocation k lies at (k + 1) * 16 MiB and has id[k], 0: it was freed. */
static uint64_t ids[64];

static uint64_t place(int k)
{
    return (uint64_t)(k + 1) * 16 * MIB;
}

static CUresult attributes(unsigned n, CUpointer_attribute *wanted, void **values, CUdeviceptr p)
{
    int k = (int)(p / (16 * MIB)) - 1;

    for (unsigned i = 0; i < n; i++) {
        uint64_t value = wanted[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID          ? ids[k]
                         : wanted[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ? place(k)
                         : wanted[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE       ? 4 * MIB
                                                                              : 0;
        memcpy(values[i], &value, 8);
    }
    return CUDA_SUCCESS;
}

static bool export_refused;
static int exports;

static CUresult export(CUipcMemHandle *handle, CUdeviceptr p)
{
    exports++;
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &p, sizeof p);
    return export_refused ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* What is open of others: the first byte of the handle names it. */
static int open_count[256], opens, refuse_open;

static CUresult open_handle(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)
{
    (void)flags;
    opens++;
    if (refuse_open == handle.reserved[0])
        return CUDA_ERROR_INVALID_VALUE;
    open_count[(unsigned char)handle.reserved[0]]++;
    *address = 0x1000u + (unsigned char)handle.reserved[0];
    return CUDA_SUCCESS;
}

static CUresult close_handle(CUdeviceptr address)
{
    assert_int_equal(open_count[address - 0x1000], 1);
    open_count[address - 0x1000]--;
    return CUDA_SUCCESS;
}

static int before(void **state)
{
    (void)state;
    shunt_registry_close_all(true);
    memset(cards, 0, sizeof cards);
    memset(peers, 0, sizeof peers);
    memset(open_count, 0, sizeof open_count);
    memset(ids, 0, sizeof ids);
    export_refused = false;
    refuse_open = -1;
    opens = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        cards[i].channel = peers[i].channel = i;
        peers[i].state = SHUNT_PEER_OPEN;
    }
    shunt_driver.cuPointerGetAttributes = attributes;
    shunt_driver.cuIpcGetMemHandle = export;
    shunt_driver.cuIpcOpenMemHandle_v2 = open_handle;
    shunt_driver.cuIpcCloseMemHandle = close_handle;
    shunt_registry_start(&gpu, &cards[0], 10 * MIB);
    return 0;
}

/* ---- the owner ---- */

static uint64_t next_id = 100;

/* The post's registration of `bytes` at an offset in allocation k. */
static uint32_t use_at(int k, uint64_t offset, uint64_t bytes)
{
    struct shunt_mem mem = { .kind = SHUNT_MEM_DEVICE, .id = ids[k] };
    struct shunt_place at;

    shunt_place_of(NULL, (void *)(place(k) + offset), bytes, &mem, true, &at);
    assert_true(at.reg == 0 || at.offset == offset);
    return at.reg;
}

static uint32_t use(int k)
{
    return use_at(k, 0, MIB);
}

static uint32_t allocate_and_register(int k)
{
    ids[k] = next_id++;
    assert_int_equal(use(k), 0);
    uint32_t number = use(k);
    assert_int_not_equal(number, 0);
    return number;
}

static void test_second_use_registers(void **state)
{
    (void)state;
    struct shunt_mem mem = { .kind = SHUNT_MEM_DEVICE, .id = 9 };
    struct shunt_place at;
    uint32_t number = allocate_and_register(0);

    assert_int_equal(use(0), number);
    assert_int_equal(cards[0].version, 1);
    ids[1] = 9;
    for (int i = 0; i < 5; i++) { /* small ones do not count */
        shunt_place_of(NULL, (void *)place(1), 8, &mem, false, &at);
        assert_int_equal(at.reg, 0);
    }
    mem.kind = SHUNT_MEM_MANAGED;
    shunt_place_of(NULL, (void *)place(1), MIB, &mem, true, &at);
    shunt_place_of(NULL, (void *)place(1), MIB, &mem, true, &at);
    assert_int_equal(at.reg, 0);
}

static void test_refused_memory_is_rarely_tried(void **state)
{
    (void)state;
    ids[0] = next_id++;
    export_refused = true;
    exports = 0;
    for (int i = 0; i < 100000; i++)
        assert_int_equal(use(0), 0);
    assert_in_range(exports, 1, 20);
    assert_int_equal(cards[0].version, 0);
}

/* More blocks in turns than can be registered: most are, and they do not push each other out all the time. */
static void test_more_blocks_than_entries(void **state)
{
    (void)state;
    int registered = 0;

    for (int k = 0; k < 50; k++)
        ids[k] = next_id++;
    for (int round = 0; round < 1000; round++)
        for (int k = 0; k < 50; k++)
            use(k);
    for (int k = 0; k < 50; k++)
        registered += use(k) != 0;
    assert_in_range(registered, 30, SHUNT_REGISTRATIONS);
    assert_in_range(cards[0].version, SHUNT_REGISTRATIONS, 2000); /* of 50,000 uses */
}

static void test_buffers_within_a_block(void **state)
{
    (void)state;
    uint32_t number = allocate_and_register(0);

    assert_int_equal(use_at(0, 3 * MIB, MIB), number);
    assert_int_equal(use_at(0, 3 * MIB + 1, MIB), 0); /* one byte too far: in another piece, if anywhere */
    assert_int_equal(use_at(0, 0, 4 * MIB), number);
    assert_int_equal(use_at(0, 0, 4 * MIB + 1), 0);
    assert_int_equal(use_at(0, 4096, UINT64_MAX), 0);
}

static void test_freed_block_is_declared_dead(void **state)
{
    (void)state;
    uint32_t first = allocate_and_register(0), r = shunt_entry_of(first), version = cards[0].version;

    cards[1].opened[0][r] = first;
    ids[0] = next_id++; /* other memory at its address */
    assert_int_equal(use(0), 0);
    assert_int_equal(cards[0].registrations[r].state, SHUNT_REG_DEAD);
    assert_int_not_equal(cards[0].version, version);
    uint32_t second = use(0);
    assert_int_not_equal(shunt_entry_of(second), r); /* a peer has it open */
    cards[1].opened[0][r] = 0;
    ids[1] = next_id++;
    use(1);
    uint32_t third = use(1);
    assert_int_equal(shunt_entry_of(third), r);
    assert_int_not_equal(third, first);
}

/* The freed one is not used again, but another allocation comes: that is when peers are told. */
static void test_new_allocation_tells_of_old_ones(void **state)
{
    (void)state;
    uint32_t number = allocate_and_register(0);

    ids[0] = 0;
    ids[1] = next_id++;
    assert_int_equal(use(1), 0);
    assert_int_equal(cards[0].registrations[shunt_entry_of(number)].state, SHUNT_REG_DEAD);
    assert_int_equal(use(1) & 63, shunt_entry_of(number));
}

static void test_flush_tells_too(void **state)
{
    (void)state;
    uint32_t number = allocate_and_register(0);

    ids[0] = 0;
    shunt_registry_sweep();
    assert_int_equal(cards[0].registrations[shunt_entry_of(number)].state, SHUNT_REG_DEAD);
}

static void test_full_table(void **state)
{
    (void)state;
    uint32_t numbers[SHUNT_REGISTRATIONS];

    for (int k = 0; k < SHUNT_REGISTRATIONS; k++)
        numbers[k] = allocate_and_register(k);
    assert_int_equal(use(0), numbers[0]); /* now allocation 1 is the one used longest ago */
    ids[50] = next_id++;
    use(50);
    assert_int_equal(use(50), 0);
    assert_int_equal(cards[0].registrations[shunt_entry_of(numbers[1])].state, SHUNT_REG_DEAD);
    assert_int_equal(cards[0].registrations[shunt_entry_of(numbers[0])].state, SHUNT_REG_LIVE);
    use(50);
    assert_int_equal(shunt_entry_of(use(50)), shunt_entry_of(numbers[1])); /* nobody has it open: free by now */
}

/* Never opened by somebody: offered again, ever less often; opened at last: nothing more. */
static void test_what_is_missed_is_offered_again(void **state)
{
    (void)state;
    uint32_t number = allocate_and_register(0), r = shunt_entry_of(number);

    for (int i = 0; i < 100000; i++) {
        cards[0].missed |= 1ull << r;
        use(0);
    }
    assert_in_range(cards[0].version, 12, 60);
    cards[0].missed = 0;
    uint32_t version = cards[0].version;
    for (int i = 0; i < 100000; i++)
        use(0);
    assert_int_equal(cards[0].version, version);
    cards[0].missed |= 1ull << r; /* closed by a peer just now: at once */
    use(0);
    assert_int_equal(cards[0].version, version + 1);
}

/* ---- the peer ---- */

/* Slot s offers a block of so many MiB under this name (1 to 255), as its entry r. */
static void offer(int s, uint32_t r, int name, unsigned mib)
{
    static uint32_t count;
    struct shunt_registration *reg = &cards[s].registrations[r];

    reg->kind = SHUNT_EXPORT_IPC;
    reg->handle.reserved[0] = (char)name;
    reg->size = (uint64_t)mib * MIB;
    reg->offers = 1;
    reg->number = ++count << SHUNT_ENTRY_BITS | r;
    reg->state = SHUNT_REG_LIVE;
    cards[s].version++;
}

static void end(int s, uint32_t r)
{
    cards[s].registrations[r].state = SHUNT_REG_DEAD;
    cards[s].version++;
}

static void follow(int s)
{
    shunt_registry_follow(NULL, s, false);
}

static void tidy(void)
{
    shunt_registry_begin_pass();
    for (int s = 1; s < SLOTS; s++) {
        if (peers[s].untidy)
            shunt_registry_follow(NULL, s, true);
    }
}

static void test_offers_are_followed(void **state)
{
    (void)state;
    offer(1, 1, 1, 2);
    follow(1);
    assert_int_equal(open_count[1], 1);
    assert_int_equal(cards[0].opened[1][1], cards[1].registrations[1].number);
    assert_int_equal(peers[1].version, cards[1].version);
    follow(1);
    assert_int_equal(opens, 1);
    assert_false(shunt_peers_untidy());
}

/* Dead: closed only when nothing runs, and before anything new of that owner is opened. */
static void test_dead_before_new(void **state)
{
    (void)state;
    offer(1, 1, 1, 2);
    follow(1);
    end(1, 1);
    offer(1, 2, 2, 2);
    offer(2, 1, 3, 2);
    follow(1);
    follow(2);
    assert_int_equal(open_count[1], 1);
    assert_int_equal(open_count[2], 0);
    assert_int_equal(open_count[3], 1); /* of another owner */
    assert_true(shunt_peers_untidy());
    tidy();
    assert_int_equal(open_count[1], 0);
    assert_int_equal(cards[0].opened[1][1], 0);
    assert_int_equal(open_count[2], 1);
    assert_false(shunt_peers_untidy());
}

/* The entry is used again while we still have the old block open: another number, so the old one is dead. */
static void test_entry_used_again(void **state)
{
    (void)state;
    offer(1, 1, 1, 2);
    follow(1);
    offer(1, 1, 2, 2);
    follow(1);
    assert_int_equal(open_count[1], 1);
    assert_int_not_equal(cards[0].opened[1][1], cards[1].registrations[1].number);
    tidy();
    assert_int_equal(open_count[1], 0);
    assert_int_equal(open_count[2], 1);
    assert_int_equal(cards[0].opened[1][1], cards[1].registrations[1].number);
}

static void test_refusal_is_not_asked_for_again(void **state)
{
    (void)state;
    refuse_open = 1;
    offer(1, 1, 1, 2);
    follow(1);
    cards[1].version++;
    follow(1);
    assert_int_equal(opens, 1);
    assert_int_equal(cards[0].opened[1][1], 0);
    cards[1].registrations[1].offers++; /* but when it is offered again */
    refuse_open = -1;
    follow(1);
    assert_int_equal(open_count[1], 1);
}

/* 10 MiB may be open: what was used longest ago makes room, when nothing runs. */
static void test_bound(void **state)
{
    (void)state;
    for (uint32_t r = 1; r <= 3; r++)
        offer(1, r, (int)r, 3);
    follow(1);
    shunt_block_use(&peers[1].blocks[2]);
    shunt_block_use(&peers[1].blocks[1]);
    offer(2, 1, 4, 4);
    follow(2);
    assert_int_equal(open_count[4], 0);
    assert_true(shunt_peers_untidy());
    tidy();
    assert_int_equal(open_count[3], 0); /* opened last, but never used */
    assert_int_equal(open_count[1] + open_count[2] + open_count[4], 3);
    cards[1].version++;
    follow(1);
    assert_int_equal(open_count[3], 0); /* nobody has offered it again */
    cards[1].registrations[3].offers++;
    follow(1);
    shunt_block_use(&peers[2].blocks[1]);
    tidy();
    assert_int_equal(open_count[3], 1);
    assert_int_equal(open_count[2], 0);
    offer(2, 2, 5, 11); /* never fits: nothing is closed for it */
    follow(2);
    assert_int_equal(open_count[1] + open_count[3] + open_count[4], 3);
    assert_false(shunt_peers_untidy());
}

/* Of what one round opens, nothing is closed for the rest. */
static void test_round_does_not_undo_itself(void **state)
{
    (void)state;
    for (uint32_t r = 1; r <= 6; r++)
        offer(1, r, (int)r, 3);
    follow(1);
    tidy();
    assert_int_equal(open_count[1] + open_count[2] + open_count[3] + open_count[4] + open_count[5] + open_count[6], 3);
    assert_in_range(opens, 3, 6);
    assert_false(shunt_peers_untidy());
}

static void test_close_all(void **state)
{
    (void)state;
    offer(1, 1, 1, 2);
    offer(2, 1, 2, 2);
    follow(1);
    follow(2);
    assert_int_equal(shunt_registry_close_all(false), 2);
    assert_int_equal(open_count[1], 1);
    assert_int_equal(shunt_registry_close_all(true), 0);
    assert_int_equal(open_count[1] + open_count[2], 0);
    assert_int_equal(cards[0].opened[1][1] + cards[0].opened[2][1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_second_use_registers, before),
        cmocka_unit_test_setup(test_refused_memory_is_rarely_tried, before),
        cmocka_unit_test_setup(test_more_blocks_than_entries, before),
        cmocka_unit_test_setup(test_buffers_within_a_block, before),
        cmocka_unit_test_setup(test_freed_block_is_declared_dead, before),
        cmocka_unit_test_setup(test_new_allocation_tells_of_old_ones, before),
        cmocka_unit_test_setup(test_flush_tells_too, before),
        cmocka_unit_test_setup(test_full_table, before),
        cmocka_unit_test_setup(test_what_is_missed_is_offered_again, before),
        cmocka_unit_test_setup(test_offers_are_followed, before),
        cmocka_unit_test_setup(test_dead_before_new, before),
        cmocka_unit_test_setup(test_entry_used_again, before),
        cmocka_unit_test_setup(test_refusal_is_not_asked_for_again, before),
        cmocka_unit_test_setup(test_bound, before),
        cmocka_unit_test_setup(test_round_does_not_undo_itself, before),
        cmocka_unit_test_setup(test_close_all, before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
