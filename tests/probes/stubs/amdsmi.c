/* Two GPUs of AMD SMI for the real Python binding; what is not set is not supported. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define NAMES 64

enum { SUCCESS = 0, INVALID = 1, NOT_SUPPORTED = 2 };

typedef struct { char name[64]; double value; } Value;
static Value values[NAMES];
static int handles[2];

void stub_reset(void) { memset(values, 0, sizeof values); }

void stub_set(const char *name, double value) {
    for (int i = 0; i < NAMES; i++)
        if (!values[i].name[0] || !strcmp(values[i].name, name)) {
            snprintf(values[i].name, sizeof values[i].name, "%s", name);
            values[i].value = value;
            return;
        }
}

static int get(const char *name, double *out) {
    for (int i = 0; i < NAMES && values[i].name[0]; i++)
        if (!strcmp(values[i].name, name)) { *out = values[i].value; return SUCCESS; }
    return NOT_SUPPORTED;
}

int amdsmi_init(uint64_t flags) {
    double code;
    (void)flags;
    return get("init", &code) ? SUCCESS : (int)code;
}
int amdsmi_shut_down(void) { return SUCCESS; }

int amdsmi_get_socket_handles(uint32_t *count, void **out) {
    *count = 1;
    if (out) out[0] = handles;
    return SUCCESS;
}

int amdsmi_get_processor_handles(void *socket, uint32_t *count, void **out) {
    (void)socket;
    *count = 2;
    if (out) { out[0] = &handles[0]; out[1] = &handles[1]; }
    return SUCCESS;
}

typedef struct { uint32_t clk, min_clk, max_clk; uint8_t locked, sleep, padding[2]; uint32_t reserved[4]; } Clock;
int amdsmi_get_clock_info(void *gpu, int type, Clock *out) {
    double value;
    int code = get("clk", &value);
    if (code || type) return NOT_SUPPORTED;
    out->clk = (uint32_t)value;
    out->max_clk = get("max_clk", &value) ? 0xFFFFFFFFu : (uint32_t)value;
    return SUCCESS;
}

typedef struct { uint32_t gfx, umc, mm, reserved[13]; } Usage;
int amdsmi_get_gpu_activity(void *gpu, Usage *out) {
    double value;
    int code = get("gfx", &value);
    if (code) return code;
    out->gfx = (uint32_t)value;
    out->umc = get("umc", &value) ? 0xFFFF : (uint32_t)value;
    out->mm = 0xFFFF;
    return SUCCESS;
}

typedef struct { uint64_t socket; uint32_t current, average; uint64_t gfx, soc, mem; uint32_t limit, padding; uint64_t reserved[18]; } Power;
int amdsmi_get_power_info(void *gpu, Power *out) {
    double value;
    int code = get("power", &value);
    if (code) return code;
    out->current = (uint32_t)value;
    out->average = 0xFFFF;
    out->limit = get("limit", &value) ? 0 : (uint32_t)value;
    return SUCCESS;
}

typedef struct { uint32_t total, used, reserved[2]; } Vram;
int amdsmi_get_gpu_vram_usage(void *gpu, Vram *out) {
    double value;
    int code = get("vram_total", &value);
    if (code) return code;
    out->total = (uint32_t)value;
    out->used = get("vram_used", &value) ? 0 : (uint32_t)value;
    return SUCCESS;
}

int amdsmi_get_energy_count(void *gpu, uint64_t *energy, float *resolution, uint64_t *timestamp) {
    double value;
    int code = get("energy", &value);
    if (code) return code;
    *energy = (uint64_t)value;
    *resolution = 15.3f;
    *timestamp = 0;
    return SUCCESS;
}

int amdsmi_get_temp_metric(void *gpu, int type, int metric, int64_t *out) {
    double value;
    int code = get(metric ? "critical" : "temperature", &value);
    if (!code) *out = (int64_t)value;
    return type == 1 ? code : NOT_SUPPORTED;
}

int amdsmi_get_gpu_fan_speed(void *gpu, uint32_t sensor, int64_t *out) {
    double value;
    int code = get("fan", &value);
    if (!code) *out = (int64_t)value;
    return code;
}

int amdsmi_get_gpu_fan_speed_max(void *gpu, uint32_t sensor, uint64_t *out) { *out = 255; return SUCCESS; }

typedef struct { uint64_t correctable, uncorrectable, deferred, reserved[5]; } Errors;
int amdsmi_get_gpu_total_ecc_count(void *gpu, Errors *out) {
    double value;
    int code = get("ecc", &value);
    if (!code) { out->correctable = (uint64_t)value; out->uncorrectable = 0; }
    return code;
}

typedef struct {
    char market[256]; uint32_t vendor; char vendor_name[256]; uint32_t subvendor; uint64_t device; uint32_t rev;
    char serial[256]; uint32_t oam, units, padding; uint64_t graphics; uint32_t subsystem, reserved[21];
} __attribute__((packed)) Asic;
int amdsmi_get_gpu_asic_info(void *gpu, Asic *out) {
    double value;
    int code = get("units", &value);
    if (code) return code;
    memset(out, 0, sizeof *out);
    strcpy(out->market, "AMD Instinct MI300X");
    strcpy(out->serial, "1f");
    out->units = (uint32_t)value;
    out->graphics = 0x942;
    return SUCCESS;
}

int amdsmi_get_gpu_device_uuid(void *gpu, uint32_t *length, char *out) {
    snprintf(out, *length, "ff%d", (int)((int *)gpu - handles));
    return SUCCESS;
}

/* Up to what the probe reads; the rest stays as it was handed in. What is not set is the largest number: "N/A". */
typedef struct {
    uint16_t size; uint8_t format, content; uint16_t before[10]; uint64_t energy, counter; uint16_t clocks[14];
    uint32_t throttle_status; uint16_t fan, width, speed, padding0; uint32_t activity[2]; uint16_t hbm[4]; uint64_t timestamp;
    uint16_t voltages[3], padding1; uint64_t indep_throttle_status; uint16_t power, vcn[4], padding2; uint32_t lock;
    uint16_t xgmi_width, xgmi_speed; uint32_t padding3; uint64_t pcie[5], xgmi_read[8], xgmi_write[8]; uint16_t current[20];
    uint16_t jpeg[32]; uint32_t naks[2]; uint64_t accumulation, prochot, ppt, socket_thm, vr_thm, hbm_thm;
} __attribute__((packed)) Metrics;
int amdsmi_get_gpu_metrics_info(void *gpu, Metrics *out) {
    double value;
    if (get("metrics", &value)) return NOT_SUPPORTED;
    memset(out, 0xFF, sizeof *out);
    if (!get("throttle_status", &value)) out->throttle_status = (uint32_t)value;
    if (!get("indep_throttle_status", &value)) out->indep_throttle_status = (uint64_t)value;
    for (int i = 0; i < 2; i++) {
        if (!get("xgmi_read", &value)) out->xgmi_read[i] = (uint64_t)value;
        if (!get("xgmi_write", &value)) out->xgmi_write[i] = (uint64_t)value;
    }
    if (!get("prochot", &value)) out->prochot = (uint64_t)value;
    if (!get("ppt", &value)) out->ppt = (uint64_t)value;
    if (!get("socket_thm", &value)) out->socket_thm = (uint64_t)value;
    if (!get("vr_thm", &value)) out->vr_thm = (uint64_t)value;
    if (!get("hbm_thm", &value)) out->hbm_thm = (uint64_t)value;
    return SUCCESS;
}

typedef struct {
    uint16_t max_width, padding0; uint32_t max_speed, version, slot, max_version, padding1; uint64_t reserved0[9];
    uint16_t width, padding2; uint32_t speed, bandwidth, padding3;
} __attribute__((packed)) Pcie;
int amdsmi_get_pcie_info(void *gpu, Pcie *out) {
    double value;
    int code = get("pcie", &value);
    if (!code) out->bandwidth = (uint32_t)value;
    return code;
}
