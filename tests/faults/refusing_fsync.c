/* Preloaded into a process, it lets the flushes of files fail from the one that REFUSE_FROM names on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

static long made;

static int refuses(void) {
    const char *from = getenv("REFUSE_FROM");
    return from && __sync_add_and_fetch(&made, 1) >= atol(from);
}

int fsync(int descriptor) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    if (refuses()) { errno = EIO; return -1; }
    return real(descriptor);
}

int fdatasync(int descriptor) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    if (refuses()) { errno = EIO; return -1; }
    return real(descriptor);
}
