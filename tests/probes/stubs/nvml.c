/* Just enough of NVML to drive the real Python binding without a GPU: values and failures are set from the test. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MOST 16
#define NAMES 64

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

typedef struct { char name[64]; double value; } Value;
typedef struct { char name[64]; int code; } Failure;
typedef struct { int index; Value values[NAMES]; Failure failures[NAMES]; } Gpu;

static Gpu gpus[MOST];
static int count, opened, init_code;
static long calls;

void stub_reset(int gpus_there) {
    memset(gpus, 0, sizeof gpus);
    for (int i = 0; i < MOST; i++) gpus[i].index = i;
    count = gpus_there;
    opened = init_code = 0;
    calls = 0;
}

void stub_init_fails(int code) { init_code = code; }
int stub_opened(void) { return opened; }
long stub_calls(void) { return calls; }

void stub_set(int gpu, const char *name, double value) {
    for (int i = 0; i < NAMES; i++) {
        Value *slot = &gpus[gpu].values[i];
        if (!slot->name[0] || !strcmp(slot->name, name)) {
            snprintf(slot->name, sizeof slot->name, "%s", name);
            slot->value = value;
            return;
        }
    }
}

/* "*" fails every call for the GPU; code 0 lets it succeed again. */
void stub_fail(int gpu, const char *name, int code) {
    for (int i = 0; i < NAMES; i++) {
        Failure *slot = &gpus[gpu].failures[i];
        if (!slot->name[0] || !strcmp(slot->name, name)) {
            snprintf(slot->name, sizeof slot->name, "%s", name);
            slot->code = code;
            return;
        }
    }
}

static int get(Gpu *gpu, const char *name, double *out) {
    calls++;
    if (!opened) return UNINITIALIZED;
    for (int i = 0; i < NAMES && gpu->failures[i].name[0]; i++)
        if (gpu->failures[i].code && (!strcmp(gpu->failures[i].name, name) || !strcmp(gpu->failures[i].name, "*")))
            return gpu->failures[i].code;
    for (int i = 0; i < NAMES && gpu->values[i].name[0]; i++)
        if (!strcmp(gpu->values[i].name, name)) {
            *out = gpu->values[i].value;
            return SUCCESS;
        }
    return NOT_SUPPORTED;
}

static int get32(Gpu *gpu, const char *name, unsigned *out) {
    double value;
    int code = get(gpu, name, &value);
    if (!code) *out = (unsigned)value;
    return code;
}

static int get64(Gpu *gpu, const char *name, unsigned long long *out) {
    double value;
    int code = get(gpu, name, &value);
    if (!code) *out = (unsigned long long)value;
    return code;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (init_code) return init_code;
    opened++;
    return SUCCESS;
}

int nvmlShutdown(void) {
    if (!opened) return UNINITIALIZED;
    opened--;
    return SUCCESS;
}

const char *nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : "stub error"; }

int nvmlDeviceGetCount_v2(unsigned *out) { *out = (unsigned)count; return opened ? SUCCESS : UNINITIALIZED; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu **out) {
    if ((int)index >= count) return NOT_FOUND;
    double none;
    int code = get(&gpus[index], "handle", &none);
    if (code && code != NOT_SUPPORTED) return code;
    *out = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetName(Gpu *gpu, char *out, unsigned length) {
    (void)gpu;
    snprintf(out, length, "NVIDIA H100 80GB HBM3");
    return SUCCESS;
}

int nvmlDeviceGetUUID(Gpu *gpu, char *out, unsigned length) {
    snprintf(out, length, "GPU-0000000%d-0000-0000-0000-000000000000", gpu->index);
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(Gpu *gpu, int type, unsigned *out) { return type == 1 ? get32(gpu, "clock", out) : INVALID_ARGUMENT; }
int nvmlDeviceGetMaxClockInfo(Gpu *gpu, int type, unsigned *out) { return type == 1 ? get32(gpu, "max_clock", out) : INVALID_ARGUMENT; }
int nvmlDeviceGetTemperature(Gpu *gpu, int sensor, unsigned *out) { (void)sensor; return get32(gpu, "temperature", out); }
int nvmlDeviceGetTemperatureThreshold(Gpu *gpu, int which, unsigned *out) { return which == 1 ? get32(gpu, "temp_slowdown", out) : INVALID_ARGUMENT; }
int nvmlDeviceGetPowerUsage(Gpu *gpu, unsigned *out) { return get32(gpu, "power", out); }
int nvmlDeviceGetTotalEnergyConsumption(Gpu *gpu, unsigned long long *out) { return get64(gpu, "energy", out); }
int nvmlDeviceGetEnforcedPowerLimit(Gpu *gpu, unsigned *out) { return get32(gpu, "power_limit", out); }
int nvmlDeviceGetPowerManagementLimit(Gpu *gpu, unsigned *out) { return get32(gpu, "managed_limit", out); }
int nvmlDeviceGetFanSpeed(Gpu *gpu, unsigned *out) { return get32(gpu, "fan", out); }
int nvmlDeviceGetNumGpuCores(Gpu *gpu, unsigned *out) { return get32(gpu, "cores", out); }
int nvmlDeviceGetCurrentClocksEventReasons(Gpu *gpu, unsigned long long *out) { return get64(gpu, "reasons", out); }
int nvmlDeviceGetCurrentClocksThrottleReasons(Gpu *gpu, unsigned long long *out) { return get64(gpu, "old_reasons", out); }

int nvmlDeviceGetUtilizationRates(Gpu *gpu, unsigned *out) {
    int code = get32(gpu, "gpu_util", &out[0]);
    return code ? code : get32(gpu, "mem_util", &out[1]);
}

typedef struct { unsigned long long total, free, used; } Memory;
int nvmlDeviceGetMemoryInfo(Gpu *gpu, Memory *out) {
    int code = get64(gpu, "dram_total", &out->total);
    if (!code) code = get64(gpu, "dram_free", &out->free);
    out->used = out->total - out->free;
    return code;
}

typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
int nvmlDeviceGetMemoryInfo_v2(Gpu *gpu, MemoryV2 *out) { return get64(gpu, "reserved", &out->reserved); }

int nvmlDeviceGetEccMode(Gpu *gpu, unsigned *now, unsigned *pending) { *pending = 0; return get32(gpu, "ecc", now); }
int nvmlDeviceGetTotalEccErrors(Gpu *gpu, int kind, int counter, unsigned long long *out) {
    (void)counter;
    return get64(gpu, kind ? "ecc_uncorrected" : "ecc_corrected", out);
}

int nvmlDeviceGetCudaComputeCapability(Gpu *gpu, int *major, int *minor) {
    unsigned value;
    int code = get32(gpu, "capability", &value);
    if (!code) { *major = (int)value / 10; *minor = (int)value % 10; }
    return code;
}

int nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 12080; return SUCCESS; }

int nvmlDeviceGetPcieThroughput(Gpu *gpu, int which, unsigned *out) { return get32(gpu, which ? "slow_pcie_rx" : "slow_pcie_tx", out); }

typedef struct {
    uint32_t field, scope;
    int64_t timestamp, latency;
    uint32_t type, code;
    union { double d; unsigned ui; unsigned long long ull; } value;
} Field;

int nvmlDeviceGetFieldValues(Gpu *gpu, int length, Field *fields) {
    double none;
    int code = get(gpu, "fields", &none);
    if (code && code != NOT_SUPPORTED) return code;
    for (int i = 0; i < length; i++) {
        Field *field = &fields[i];
        const char *name = field->field == 198 ? "pcie_rx" : field->field == 197 ? "pcie_tx"
            : field->field == 139 ? "nvlink_rx" : field->field == 138 ? "nvlink_tx" : "";
        if (field->field == 138 || field->field == 139)
            if (field->scope != 0xFFFFFFFFu) { field->code = INVALID_ARGUMENT; continue; }
        field->type = 3;
        field->code = (uint32_t)get64(gpu, name, &field->value.ull);
    }
    return SUCCESS;
}
