/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines for people, see log.h. A line is put together on the caller's stack and leaves in one write(2), so lines of
 * threads and processes do not mix and nothing needs a lock.
 *
 * The file is opened by the first line. Applications that close every descriptor they do not know are common; ours
 * may then be somebody else's, so a line goes out only if the descriptor still leads to the file that we opened.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/identity.h"

enum { FD_CLOSED = -1, FD_REFUSED = -2, LINE_BYTES = 1024, HOST_BYTES = 64 };

static struct shunt_log_state own_state = {.fd = FD_CLOSED, .rank = -1, .subsystems = ~0u, .file = ""};
struct shunt_log_state *shunt_log = &own_state;

static const struct subsystem {
    const char *word, *about;
} subsystems[] = {
#define X(word, about) {#word, about},
    SHUNT_SUBSYSTEMS(X)
#undef X
};
enum { NSUBSYSTEMS = sizeof subsystems / sizeof subsystems[0] };

/* ---- where lines go ---- */

/* The node's name, without its domain. */
static void get_host(char host[HOST_BYTES])
{
    struct utsname system;
    if (uname(&system) != 0)
        strcpy(system.nodename, "unknown");
    snprintf(host, HOST_BYTES, "%.*s", (int)strcspn(system.nodename, "."), system.nodename);
}

/* The pattern with %h, %p, %r and %% replaced; cut at `size`. */
static void expand_pattern(const char *pattern, char *path, size_t size)
{
    size_t used = 0;
    for (const char *p = pattern; *p && used + 1 < size; p++) {
        char piece[HOST_BYTES] = {*p};
        if (p[0] == '%' && p[1] && strchr("hpr%", p[1])) {
            p++;
            if (*p == 'h')
                get_host(piece);
            else if (*p == 'p')
                snprintf(piece, sizeof piece, "%d", (int)getpid());
            else if (*p == 'r' && shunt_log->rank >= 0)
                snprintf(piece, sizeof piece, "%d", shunt_log->rank);
            else if (*p == 'r')
                strcpy(piece, "unknown");
        }
        int n = snprintf(path + used, size - used, "%s", piece);
        used += (size_t)n < size - used ? (size_t)n : size - used - 1;
    }
    path[used] = '\0';
}

static void write_once(int fd, const char *text, size_t bytes)
{
    while (write(fd, text, bytes) < 0 && errno == EINTR)
        ;
}

/* Open the file; when two threads do so at once, the second takes the first one's. Answers the descriptor to use. */
static int open_file(void)
{
    char path[4096];
    expand_pattern(shunt_log->file, path, sizeof path);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    struct stat status;
    int found = FD_CLOSED;
    if (fd < 0 || fstat(fd, &status) != 0) {
        int cause = errno;
        if (fd >= 0)
            close(fd);
        if (__atomic_compare_exchange_n(&shunt_log->fd, &found, FD_REFUSED, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            shunt_log_always("cannot write to SHUNT_DEBUG_FILE %s (%s); using stderr", path, strerror(cause));
        return STDERR_FILENO;
    }
    __atomic_store_n(&shunt_log->device, status.st_dev, __ATOMIC_RELAXED);
    __atomic_store_n(&shunt_log->inode, status.st_ino, __ATOMIC_RELAXED);
    /* release: who sees the descriptor sees device and inode too */
    if (!__atomic_compare_exchange_n(&shunt_log->fd, &found, fd, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        close(fd);
        return found >= 0 ? found : STDERR_FILENO;
    }
    return fd;
}

static bool leads_to_our_file(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_dev == __atomic_load_n(&shunt_log->device, __ATOMIC_RELAXED) &&
           status.st_ino == __atomic_load_n(&shunt_log->inode, __ATOMIC_RELAXED);
}

static int line_fd(void)
{
    if (!shunt_log->file[0])
        return STDERR_FILENO;
    int fd = __atomic_load_n(&shunt_log->fd, __ATOMIC_ACQUIRE);
    if (fd == FD_REFUSED)
        return STDERR_FILENO;
    if (fd >= 0 && leads_to_our_file(fd))
        return fd;
    /* not open yet, or closed behind our back: whatever `fd` is now, it is not ours to close */
    if (fd >= 0)
        __atomic_compare_exchange_n(&shunt_log->fd, &fd, FD_CLOSED, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return open_file();
}

/* ---- a line ---- */

struct line {
    size_t used;
    char text[LINE_BYTES];
};

static void add_list(struct line *line, const char *format, va_list arguments)
{
    size_t room = sizeof line->text - line->used;
    int n = vsnprintf(line->text + line->used, room, format, arguments);
    if (n > 0)
        line->used += (size_t)n < room ? (size_t)n : room - 1;
}

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_list(line, format, arguments);
    va_end(arguments);
}

static void add_prefix(struct line *line, bool node)
{
    char host[HOST_BYTES];
    get_host(host);
    if (node)
        add(line, "shunt [%s] ", host);
    else if (shunt_log->rank >= 0)
        add(line, "shunt [%s:%d rank %d] ", host, (int)getpid(), shunt_log->rank);
    else
        add(line, "shunt [%s:%d] ", host, (int)getpid());
}

static void send_line(struct line *line, int fd)
{
    if (line->used == sizeof line->text - 1)
        memcpy(line->text + line->used - 3, "...", 3);
    line->text[line->used] = '\n';
    write_once(fd, line->text, line->used + 1);
}

static bool subsystem_shown(const char *word)
{
    for (unsigned i = 0; i < NSUBSYSTEMS; i++)
        if (strcmp(word, subsystems[i].word) == 0)
            return shunt_log->subsystems >> i & 1;
    return true;
}

void shunt_log_line(int level, const char *subsystem, const char *format, ...)
{
    if (shunt_log->level < level || !subsystem_shown(subsystem))
        return;
    int saved = errno;
    struct line line = {.used = 0};
    add_prefix(&line, false);
    add(&line, "%s: ", subsystem);
    va_list arguments;
    va_start(arguments, format);
    add_list(&line, format, arguments);
    va_end(arguments);
    send_line(&line, line_fd());
    errno = saved;
}

/* Remember the line; false if it is known already or there are too many. */
static bool is_new(const struct line *line)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < line->used; i++)
        hash = (hash ^ (unsigned char)line->text[i]) * 0x100000001b3u;
    hash |= 1; /* 0 means free */
    for (int i = 0; i < SHUNT_LOG_LINES; i++) {
        uint64_t found = 0;
        if (__atomic_compare_exchange_n(&shunt_log->said[i], &found, hash, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return true;
        if (found == hash)
            return false;
    }
    return false;
}

void shunt_log_always(const char *format, ...)
{
    int saved = errno;
    struct line line = {.used = 0};
    add(&line, "shunt: ");
    va_list arguments;
    va_start(arguments, format);
    add_list(&line, format, arguments);
    va_end(arguments);
    if (is_new(&line))
        send_line(&line, line_fd());
    errno = saved;
}

void shunt_log_report(bool node, const char *format, ...)
{
    int saved = errno;
    struct line line = {.used = 0};
    add_prefix(&line, node);
    va_list arguments;
    va_start(arguments, format);
    add_list(&line, format, arguments);
    va_end(arguments);
    send_line(&line, line_fd());
    errno = saved;
}

void shunt_warn_once(enum shunt_reason reason, const char *format, ...)
{
    if (shunt_log->level < SHUNT_LOG_WARN || (unsigned)reason >= SHUNT_NREASONS)
        return;
    if (__atomic_exchange_n(&shunt_log->warned[reason], 1, __ATOMIC_RELAXED))
        return;
    int saved = errno;
    struct line line = {.used = 0};
    add_prefix(&line, false);
    add(&line, "%s: ", shunt_reason_text(reason));
    va_list arguments;
    va_start(arguments, format);
    add_list(&line, format, arguments);
    va_end(arguments);
    send_line(&line, line_fd());
    errno = saved;
}

/* ---- start ---- */

static int launcher_rank(void)
{
    struct shunt_identity identity = {.world_rank = -1};
    return shunt_identity_find(&identity) == SHUNT_OK ? identity.world_rank : -1;
}

static void print_help(void)
{
    shunt_log_report(true, "SHUNT_DEBUG=LEVEL, each level with those above it:");
    shunt_log_report(true, "  off    only what needs an answer: refused settings, mismatched collectives");
    shunt_log_report(true, "  warn   why something did not run on the GPUs, once per reason and process");
    shunt_log_report(true, "  info   what was found, opened, chosen");
    shunt_log_report(true, "  trace  every call");
    shunt_log_report(true, "SHUNT_DEBUG_SUBSYS=all, or some of these, separated by commas:");
    for (int i = 0; i < NSUBSYSTEMS; i++)
        shunt_log_report(true, "  %-6s %s", subsystems[i].word, subsystems[i].about);
}

static void refuse_subsystems(const char *value)
{
    struct line allowed = {.used = 0};
    add(&allowed, "all");
    for (int i = 0; i < NSUBSYSTEMS; i++)
        add(&allowed, " %s", subsystems[i].word);
    shunt_conf_refuse("SHUNT_DEBUG_SUBSYS", value, allowed.text);
}

/* The mask of a list of words, separated by commas. All, with a line that says so, if a word is not known. */
static unsigned parse_subsystems(const char *list)
{
    unsigned mask = 0;
    for (const char *word = list; *word;) {
        size_t length = strcspn(word, ",");
        int i = 0;
        while (i < NSUBSYSTEMS &&
               (strlen(subsystems[i].word) != length || strncmp(subsystems[i].word, word, length) != 0))
            i++;
        if (i < NSUBSYSTEMS) {
            mask |= 1u << i;
        } else if (length == 3 && strncmp(word, "all", 3) == 0) {
            mask = ~0u;
        } else {
            refuse_subsystems(list);
            return ~0u;
        }
        word += length + (word[length] == ',');
    }
    return mask;
}

void shunt_log_start(void)
{
    int saved = errno;
    shunt_log->rank = launcher_rank();
    shunt_log->file = shunt_conf->debug_file;
    shunt_log->subsystems = parse_subsystems(shunt_conf->debug_subsys);
    bool help = shunt_conf->debug > SHUNT_LOG_TRACE;
    shunt_log->level = help ? SHUNT_LOG_OFF : shunt_conf->debug;
    if (help && shunt_log->rank <= 0)
        print_help();
    errno = saved;
}

void shunt_log_use(struct shunt_log_state *state)
{
    shunt_log = state;
}

void shunt_log_set_rank(int rank)
{
    shunt_log->rank = rank;
}
