/* The profile that the stand-in answers from: a file of `key=value` lines, read once (or at every call, where it says
   `reread=1`: then a test may replace it, and the figures move), and the faults in it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, UNKNOWN = 999 };
enum { MOST_GPUS = 64, NO_CARD = -1 };

typedef struct { int index; } Device;
typedef unsigned long long u64;

static char *profile;
static int started;
static Device devices[MOST_GPUS];

static void read_profile(void) {
    const char *path = getenv("KIT_STANDIN_PROFILE");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) {
        fprintf(stderr, "stand-in NVML: KIT_STANDIN_PROFILE names no readable file\n");
        return;
    }
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    free(profile);
    profile = calloc(1, (size_t)size + 2);
    profile[0] = '\n'; /* so that every key stands behind a newline */
    if (fread(profile + 1, 1, (size_t)size, file) != (size_t)size)
        profile[1] = 0;
    fclose(file);
}

/* The value of a key, up to its newline, in a buffer that lives until the next call; NULL when there is none. */
static const char *look(const char *key) {
    static char value[4096];
    char wanted[256];
    snprintf(wanted, sizeof wanted, "\n%s=", key);
    const char *at = profile ? strstr(profile, wanted) : NULL;
    if (!at)
        return NULL;
    at += strlen(wanted);
    size_t length = strcspn(at, "\n");
    if (length >= sizeof value)
        length = sizeof value - 1;
    memcpy(value, at, length);
    value[length] = 0;
    return value;
}

static const char *look_at(const char *kind, const char *what, int gpu, int peer) {
    char key[200];
    const char *found;
    if (peer != NO_CARD) {
        snprintf(key, sizeof key, "%s.%s.%d.%d", kind, what, gpu, peer);
        if ((found = look(key)))
            return found;
    }
    if (gpu != NO_CARD) {
        snprintf(key, sizeof key, "%s.%s.%d", kind, what, gpu);
        if ((found = look(key)))
            return found;
    }
    snprintf(key, sizeof key, "%s.%s", kind, what);
    return look(key);
}

/* What the profile does to a call before it may answer: hang, crash, fail. */
static int fault(const char *function, int gpu, int peer) {
    if (look("reread"))
        read_profile();
    if (look_at("hang", function, gpu, peer))
        for (;;)
            pause();
    if (look_at("crash", function, gpu, peer))
        raise(SIGSEGV);
    const char *delay = look("delay_us");
    if (delay)
        usleep((useconds_t)strtoul(delay, NULL, 10));
    const char *code = look_at("error", function, gpu, peer);
    if (!code && gpu != NO_CARD && strcmp(function, "nvmlDeviceGetHandleByIndex_v2")) {
        char key[40];
        snprintf(key, sizeof key, "error.*.%d", gpu);
        code = look(key);
        if (!code && peer != NO_CARD) {
            snprintf(key, sizeof key, "error.*.%d", peer);
            code = look(key);
        }
    }
    if (code)
        return atoi(code);
    return started || !strncmp(function, "nvmlInit", 8) ? SUCCESS : UNINITIALIZED;
}
