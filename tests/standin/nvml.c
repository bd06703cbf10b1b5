/* A stand-in for NVIDIA's libnvidia-ml.so.1: answers the calls of nvidia-ml-py from a flat text file.
 *
 * KIT_STANDIN_PROFILE names the file: one `key=value` a line, as written by standin.py from a YAML profile.
 *   system.NAME=VALUE             driver, nvml, cuda, count
 *   gpu.I.NAME=VALUE              what card I answers; a key that is not there is "not supported"
 *   pair.NAME[.I[.J]]=VALUE       ancestor, p2p_INDEX: what card I answers of card J
 *   error.FUNCTION[.I[.J]]=CODE   FUNCTION fails with this nvmlReturn_t (on card I, towards card J)
 *   error.*.I=CODE                so does every function on card I but the one that gives its handle
 *   hang.FUNCTION[.I[.J]]=1       FUNCTION never returns
 *   crash.FUNCTION[.I[.J]]=1      FUNCTION ends the process, as a broken driver library can
 *   delay_us=N                    every call takes N microseconds
 * Layouts of structures follow NVIDIA's public nvml.h.
 */
#include "profile.h"

static const char *of_gpu(Device *device, const char *name) {
    char key[120];
    snprintf(key, sizeof key, "gpu.%d.%s", device->index, name);
    return look(key);
}

static u64 as_number(const char *value) { return strtoull(value, NULL, 0); }

static int put_text(const char *value, char *out, unsigned length) {
    if (!value)
        return NOT_SUPPORTED;
    if (strlen(value) >= length)
        return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

#define CHECK(function, gpu, peer)              \
    int fault_code = fault(function, gpu, peer); \
    if (fault_code != SUCCESS)                  \
        return fault_code

static int put_number(const char *value, unsigned *out) {
    if (!value)
        return NOT_SUPPORTED;
    *out = (unsigned)as_number(value);
    return SUCCESS;
}

static int put_long(const char *value, u64 *out) {
    if (!value)
        return NOT_SUPPORTED;
    *out = as_number(value);
    return SUCCESS;
}

/* A call that answers one unsigned number of the card. */
#define NUMBER(function, name)                            \
    int function(Device *device, unsigned *out) {         \
        CHECK(#function, device->index, NO_CARD);         \
        return put_number(of_gpu(device, name), out);     \
    }

/* A call that answers a text of the card. */
#define TEXT(function, name)                                          \
    int function(Device *device, char *out, unsigned length) {        \
        CHECK(#function, device->index, NO_CARD);                     \
        return put_text(of_gpu(device, name), out, length);           \
    }

/* A call that answers two unsigned numbers of the card. */
#define TWO_NUMBERS(function, first, second)                              \
    int function(Device *device, unsigned *one, unsigned *two) {          \
        CHECK(#function, device->index, NO_CARD);                         \
        const char *value = of_gpu(device, first);                        \
        if (!value)                                                       \
            return NOT_SUPPORTED;                                         \
        *one = (unsigned)as_number(value);                                \
        value = of_gpu(device, second);                                   \
        *two = value ? (unsigned)as_number(value) : *one;                 \
        return SUCCESS;                                                   \
    }

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    read_profile();
    for (int i = 0; i < MOST_GPUS; i++)
        devices[i].index = i;
    CHECK("nvmlInit", NO_CARD, NO_CARD);
    started = profile != NULL;
    return started ? SUCCESS : UNKNOWN;
}

int nvmlShutdown(void) {
    started = 0;
    return SUCCESS;
}

const char *nvmlErrorString(int code) {
    static char words[40];
    snprintf(words, sizeof words, "stand-in error %d", code);
    return words;
}

int nvmlSystemGetDriverVersion(char *out, unsigned length) {
    CHECK("nvmlSystemGetDriverVersion", NO_CARD, NO_CARD);
    return put_text(look("system.driver"), out, length);
}

int nvmlSystemGetNVMLVersion(char *out, unsigned length) {
    CHECK("nvmlSystemGetNVMLVersion", NO_CARD, NO_CARD);
    return put_text(look("system.nvml"), out, length);
}

int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    CHECK("nvmlSystemGetCudaDriverVersion_v2", NO_CARD, NO_CARD);
    return put_number(look("system.cuda"), (unsigned *)out);
}

int nvmlDeviceGetCount_v2(unsigned *out) {
    CHECK("nvmlDeviceGetCount_v2", NO_CARD, NO_CARD);
    const char *value = look("system.count");
    *out = value ? (unsigned)as_number(value) : 0;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **out) {
    CHECK("nvmlDeviceGetHandleByIndex_v2", (int)index, NO_CARD);
    const char *count = look("system.count");
    if (!count || index >= as_number(count) || index >= MOST_GPUS)
        return INVALID_ARGUMENT;
    *out = &devices[index];
    return SUCCESS;
}

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
NUMBER(nvmlDeviceGetMinorNumber, "minor")
NUMBER(nvmlDeviceGetArchitecture, "architecture")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.gen_max")
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie.gen_card")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.gen_now")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie.width_max")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width_now")
NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie.replays")
NUMBER(nvmlDeviceGetNumaNodeId, "numa_node")
NUMBER(nvmlDeviceGetPowerManagementLimit, "power.limit")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power.default")
NUMBER(nvmlDeviceGetPowerUsage, "power.usage")
NUMBER(nvmlDeviceGetPerformanceState, "performance_state")
NUMBER(nvmlDeviceGetPersistenceMode, "persistence")
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pages_pending")
TWO_NUMBERS(nvmlDeviceGetCudaComputeCapability, "capability.major", "capability.minor")
TWO_NUMBERS(nvmlDeviceGetEccMode, "ecc", "ecc_pending")
TWO_NUMBERS(nvmlDeviceGetMigMode, "mig", "mig_pending")
TWO_NUMBERS(nvmlDeviceGetPowerManagementLimitConstraints, "power.min", "power.max")

int nvmlDeviceGetUtilizationRates(Device *device, unsigned out[2]) {
    CHECK("nvmlDeviceGetUtilizationRates", device->index, NO_CARD);
    out[1] = 0; /* of the memory */
    return put_number(of_gpu(device, "utilization"), &out[0]);
}

int nvmlDeviceGetTemperature(Device *device, unsigned sensor, unsigned *out) {
    (void)sensor;
    CHECK("nvmlDeviceGetTemperature", device->index, NO_CARD);
    return put_number(of_gpu(device, "temperature"), out);
}

int nvmlDeviceGetCurrentClocksEventReasons(Device *device, u64 *out) {
    CHECK("nvmlDeviceGetCurrentClocksEventReasons", device->index, NO_CARD);
    return put_long(of_gpu(device, "throttle"), out);
}

int nvmlDeviceGetTotalEccErrors(Device *device, unsigned type, unsigned counter, u64 *out) {
    (void)type, (void)counter;
    CHECK("nvmlDeviceGetTotalEccErrors", device->index, NO_CARD);
    return put_long(of_gpu(device, "ecc_uncorrected"), out);
}

int nvmlDeviceGetRemappedRows(Device *device, unsigned *correctable, unsigned *uncorrectable, unsigned *pending,
                              unsigned *failed) {
    CHECK("nvmlDeviceGetRemappedRows", device->index, NO_CARD);
    const char *value = of_gpu(device, "remapped_rows"); /* four numbers with a space between */
    if (!value || sscanf(value, "%u %u %u %u", correctable, uncorrectable, pending, failed) != 4)
        return NOT_SUPPORTED;
    return SUCCESS;
}

typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} PciInfo;

static int put_pci(const char *bus_id, PciInfo *out) {
    if (!bus_id)
        return NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "%s", bus_id);
    if (sscanf(bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device) != 3)
        return UNKNOWN;
    snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "%04X:%02X:%02X.0", out->domain & 0xFFFF, out->bus & 0xFF,
             out->device & 0xFF);
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(Device *device, PciInfo *out) {
    CHECK("nvmlDeviceGetPciInfo_v3", device->index, NO_CARD);
    int code = put_pci(of_gpu(device, "bus_id"), out);
    const char *value;
    if (code == SUCCESS && (value = of_gpu(device, "pci_device_id")))
        out->pci_device_id = (unsigned)as_number(value);
    if (code == SUCCESS && (value = of_gpu(device, "pci_subsystem_id")))
        out->pci_subsystem_id = (unsigned)as_number(value);
    return code;
}

typedef struct { u64 total, free, used; } Memory;
typedef struct { unsigned version; u64 total, reserved, free, used; } MemoryV2;

static u64 mib_of_gpu(Device *device, const char *name) {
    const char *value = of_gpu(device, name);
    return value ? as_number(value) << 20 : 0;
}

int nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryV2 *out) {
    CHECK("nvmlDeviceGetMemoryInfo_v2", device->index, NO_CARD);
    if (!of_gpu(device, "memory.total"))
        return NOT_SUPPORTED;
    out->total = mib_of_gpu(device, "memory.total");
    out->reserved = mib_of_gpu(device, "memory.reserved");
    out->used = mib_of_gpu(device, "memory.used");
    out->free = out->total - out->reserved - out->used;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Device *device, Memory *out) {
    CHECK("nvmlDeviceGetMemoryInfo", device->index, NO_CARD);
    if (!of_gpu(device, "memory.total"))
        return NOT_SUPPORTED;
    out->total = mib_of_gpu(device, "memory.total");
    out->used = mib_of_gpu(device, "memory.used") + mib_of_gpu(device, "memory.reserved");
    out->free = out->total - out->used;
    return SUCCESS;
}

int nvmlDeviceGetBAR1MemoryInfo(Device *device, Memory *out) {
    CHECK("nvmlDeviceGetBAR1MemoryInfo", device->index, NO_CARD);
    if (!of_gpu(device, "bar1"))
        return NOT_SUPPORTED;
    out->total = mib_of_gpu(device, "bar1");
    out->used = 1703936;
    out->free = out->total - out->used;
    return SUCCESS;
}

/* A mask of 64-bit words, lowest first, in hex with a space between. */
static int put_mask(const char *value, unsigned words, u64 *out) {
    if (!value)
        return NOT_SUPPORTED;
    for (unsigned i = 0; i < words; i++) {
        char *end;
        out[i] = strtoull(value, &end, 16);
        value = end;
    }
    return SUCCESS;
}

int nvmlDeviceGetCpuAffinity(Device *device, unsigned words, u64 *out) {
    CHECK("nvmlDeviceGetCpuAffinity", device->index, NO_CARD);
    return put_mask(of_gpu(device, "cpu_affinity"), words, out);
}

int nvmlDeviceGetMemoryAffinity(Device *device, unsigned words, u64 *out, unsigned scope) {
    (void)scope;
    CHECK("nvmlDeviceGetMemoryAffinity", device->index, NO_CARD);
    return put_mask(of_gpu(device, "memory_affinity"), words, out);
}

typedef struct { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; } Process;

/* `pid MiB` pairs with a space between. */
static int put_processes(const char *value, unsigned *count, Process *out) {
    unsigned room = *count, found = 0, pid;
    u64 used;
    int taken;
    for (; value && sscanf(value, "%u %llu%n", &pid, &used, &taken) == 2; value += taken, found++)
        if (out && found < room)
            out[found] = (Process){pid, used << 20, 0xFFFFFFFF, 0xFFFFFFFF};
    *count = found;
    return found > room || (found && !out) ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, Process *out) {
    CHECK("nvmlDeviceGetComputeRunningProcesses_v3", device->index, NO_CARD);
    return put_processes(of_gpu(device, "processes"), count, out);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(Device *device, unsigned *count, Process *out) {
    CHECK("nvmlDeviceGetGraphicsRunningProcesses_v3", device->index, NO_CARD);
    return put_processes(NULL, count, out);
}

/* nvlinks: one letter a link: s to a switch, a digit to that card, - down. */
static char nvlink(Device *device, unsigned link) {
    const char *value = of_gpu(device, "nvlinks");
    return value && link < strlen(value) ? value[link] : 0;
}

int nvmlDeviceGetNvLinkState(Device *device, unsigned link, unsigned *out) {
    CHECK("nvmlDeviceGetNvLinkState", device->index, NO_CARD);
    char kind = nvlink(device, link);
    if (!kind)
        return of_gpu(device, "nvlinks") ? INVALID_ARGUMENT : NOT_SUPPORTED;
    *out = kind != '-';
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(Device *device, unsigned link, unsigned *out) {
    CHECK("nvmlDeviceGetNvLinkRemoteDeviceType", device->index, NO_CARD);
    *out = nvlink(device, link) == 's' ? 2 : 0;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device *device, unsigned link, PciInfo *out) {
    CHECK("nvmlDeviceGetNvLinkRemotePciInfo_v2", device->index, NO_CARD);
    char kind = nvlink(device, link);
    return put_pci(kind == 's' ? "00000000:C5:00.0" : of_gpu(&devices[kind - '0'], "bus_id"), out);
}

int nvmlDeviceGetTopologyCommonAncestor(Device *one, Device *other, unsigned *out) {
    CHECK("nvmlDeviceGetTopologyCommonAncestor", one->index, other->index);
    return put_number(look_at("pair", "ancestor", one->index, other->index), out);
}

int nvmlDeviceGetP2PStatus(Device *one, Device *other, unsigned index, unsigned *out) {
    CHECK("nvmlDeviceGetP2PStatus", one->index, other->index);
    char what[20];
    snprintf(what, sizeof what, "p2p_%u", index);
    return put_number(look_at("pair", what, one->index, other->index), out);
}
