/* Preloaded into processes, it notes in RECORD_LOG all that they do to files below RECORD_FOLDER, in one order for all.

   A record is a head, a path, another path and data. Flushes are noted and not done: the disk that counts is made of the
   log. What is not seen (writes through mapped memory, stdio) is found by comparing the log's end with the folder. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct head { uint32_t kind, path, other, data; uint64_t inode; int64_t place; };

static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;
static unsigned char watched[65536];
static int log_file = -1;
static pid_t log_owner;

#define REAL(name, result, ...) result (*real)(__VA_ARGS__) = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static void fail(const char *what) { perror(what); abort(); }

/* One at a time among all threads and processes: what is noted has the order in which it was done. */
static void begin(void) {
    pthread_mutex_lock(&threads);
    if (log_owner != getpid()) { /* a lock of flock(2) is shared over a fork */
        REAL("open", int, const char *, int, ...);
        log_file = real(getenv("RECORD_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        log_owner = getpid();
    }
    if (log_file < 0 || flock(log_file, LOCK_EX)) fail("the log of the recording disk");
}

static void end(void) {
    flock(log_file, LOCK_UN);
    pthread_mutex_unlock(&threads);
}

static void note(char kind, int descriptor, int64_t place, const char *path, const char *other, const void *data,
                 size_t size) {
    struct stat about = {0};
    if (descriptor >= 0 && fstat(descriptor, &about)) fail("fstat");
    struct head head = {(uint32_t)kind, path ? strlen(path) : 0, other ? strlen(other) : 0, size, about.st_ino, place};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)path, head.path}, {(void *)other, head.other},
                            {(void *)data, size}};
    ssize_t whole = sizeof head + head.path + head.other + size;
    if (writev(log_file, parts, 4) != whole) fail("the log of the recording disk");
}

static int inside(const char *path, char *full) {
    const char *folder = getenv("RECORD_FOLDER");
    if (!folder || !path) return 0;
    if (path[0] == '/') snprintf(full, PATH_MAX, "%s", path);
    else {
        char here[PATH_MAX];
        if (!getcwd(here, sizeof here) || snprintf(full, PATH_MAX, "%s/%s", here, path) >= PATH_MAX) return 0;
    }
    size_t length = strlen(folder);
    return strncmp(full, folder, length) == 0 && (full[length] == '/' || !full[length]);
}

static int is_watched(int descriptor) { return descriptor >= 0 && descriptor < 65536 && watched[descriptor]; }

static int opening(const char *name, const char *path, int flags, mode_t mode) {
    REAL(name, int, const char *, int, ...);
    char full[PATH_MAX];
    struct stat about;
    if (!inside(path, full)) return real(path, flags, mode);
    begin();
    int made = lstat(full, &about) != 0;
    int descriptor = real(path, flags, mode), fault = errno;
    if (descriptor >= 65536) fail("too many files");
    if (descriptor >= 0) {
        watched[descriptor] = 1;
        note('o', descriptor, made, full, NULL, NULL, 0);
        if (!made && flags & O_TRUNC) note('t', descriptor, 0, NULL, NULL, NULL, 0);
    }
    end();
    errno = fault;
    return descriptor;
}

#define MODE(flags) mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, int); va_end(rest); }

int open(const char *path, int flags, ...) { MODE(flags) return opening("open", path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opening("open64", path, flags, mode); }

int close(int descriptor) {
    REAL("close", int, int);
    if (is_watched(descriptor)) watched[descriptor] = 0;
    return real(descriptor);
}

ssize_t write(int descriptor, const void *data, size_t size) {
    REAL("write", ssize_t, int, const void *, size_t);
    if (!is_watched(descriptor)) return real(descriptor, data, size);
    begin();
    ssize_t done = real(descriptor, data, size);
    int fault = errno;
    if (done > 0) note('w', descriptor, lseek(descriptor, 0, SEEK_CUR) - done, NULL, NULL, data, done);
    end();
    errno = fault;
    return done;
}

static ssize_t placing(const char *name, int descriptor, const void *data, size_t size, off64_t place) {
    REAL(name, ssize_t, int, const void *, size_t, off64_t);
    if (!is_watched(descriptor)) return real(descriptor, data, size, place);
    begin();
    ssize_t done = real(descriptor, data, size, place);
    int fault = errno;
    if (done > 0) note('w', descriptor, place, NULL, NULL, data, done);
    end();
    errno = fault;
    return done;
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t place) {
    return placing("pwrite", descriptor, data, size, place);
}
ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t place) {
    return placing("pwrite64", descriptor, data, size, place);
}

static int cutting(const char *name, int descriptor, off64_t size) {
    REAL(name, int, int, off64_t);
    if (!is_watched(descriptor)) return real(descriptor, size);
    begin();
    int failed = real(descriptor, size), fault = errno;
    if (!failed) note('t', descriptor, size, NULL, NULL, NULL, 0);
    end();
    errno = fault;
    return failed;
}

int ftruncate(int descriptor, off_t size) { return cutting("ftruncate", descriptor, size); }
int ftruncate64(int descriptor, off64_t size) { return cutting("ftruncate64", descriptor, size); }

static int flushing(const char *name, int descriptor) {
    REAL(name, int, int);
    if (!is_watched(descriptor)) return real(descriptor);
    begin();
    note('f', descriptor, 0, NULL, NULL, NULL, 0);
    end();
    return 0;
}

int fsync(int descriptor) { return flushing("fsync", descriptor); }
int fdatasync(int descriptor) { return flushing("fdatasync", descriptor); }

static int naming(const char *name, char kind, const char *path, const char *other) {
    REAL(name, int, const char *, const char *);
    char full[PATH_MAX], second[PATH_MAX];
    if (!inside(path, full) || !inside(other, second)) return real(path, other);
    begin();
    int failed = real(path, other), fault = errno;
    if (!failed) note(kind, -1, 0, full, second, NULL, 0);
    end();
    errno = fault;
    return failed;
}

int rename(const char *path, const char *other) { return naming("rename", 'r', path, other); }
int link(const char *path, const char *other) { return naming("link", 'l', path, other); }

static int dropping(const char *name, const char *path) {
    REAL(name, int, const char *);
    char full[PATH_MAX];
    if (!inside(path, full)) return real(path);
    begin();
    int failed = real(path), fault = errno;
    if (!failed) note('u', -1, 0, full, NULL, NULL, 0);
    end();
    errno = fault;
    return failed;
}

int unlink(const char *path) { return dropping("unlink", path); }
int rmdir(const char *path) { return dropping("rmdir", path); }

int mkdir(const char *path, mode_t mode) {
    REAL("mkdir", int, const char *, mode_t);
    char full[PATH_MAX];
    if (!inside(path, full)) return real(path, mode);
    begin();
    int failed = real(path, mode), fault = errno;
    if (!failed) note('m', -1, 0, full, NULL, NULL, 0);
    end();
    errno = fault;
    return failed;
}
