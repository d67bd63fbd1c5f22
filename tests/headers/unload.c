/* The shared library leaves a process in order: unloaded while workers are busy, and at exit while they are.
 *
 *     unload libaclgrad.so */
#define _DEFAULT_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"

static volatile int finished;

static void take_long(void *unused)
{
    (void)unused;
    usleep(100000);
    ++finished;
}

/* POSIX wants functions out of dlsym this way. */
#define FIND(library, name) (*(void **)&name##_found = dlsym(library, #name))

/* Opens the library, gives a worker two long tasks, waits until the first runs; the rest is up to the caller. */
static void *start(const char *path)
{
    int (*aclrtCreateStream_found)(aclrtStream *) = NULL;
    int (*aclrtLaunchHostFunc_found)(aclrtStream, aclrtHostFunc, void *) = NULL;
    aclrtStream stream;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library || !FIND(library, aclrtCreateStream) || !FIND(library, aclrtLaunchHostFunc)) {
        printf("%s\n", dlerror());
        exit(2);
    }
    if (aclrtCreateStream_found(&stream) != 0 || aclrtLaunchHostFunc_found(stream, take_long, NULL) != 0 ||
        aclrtLaunchHostFunc_found(stream, take_long, NULL) != 0) {
        exit(3);
    }
    usleep(20000);
    return library;
}

static int in_child(const char *path, int unloads)
{
    int status;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        void *library = start(path);
        if (unloads) {
            dlclose(library);
            usleep(200000); /* a worker that is still there would run into unmapped code */
            _exit(finished == 1 ? 0 : 4);
        }
        exit(0);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
    static char asynchronous[] = "ACLGRAD_ASYNC=1";
    if (argc != 2) {
        return 1;
    }
    putenv(asynchronous);
    const int unloaded = in_child(argv[1], 1), ended = in_child(argv[1], 0);
    printf("unload: %d, exit: %d\n", unloaded, ended);
    return unloaded != 0 || ended != 0;
}
