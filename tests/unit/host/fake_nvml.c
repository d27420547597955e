/* A fake of NVIDIA's libnvidia-ml.so.1: answers from the tables in devices.h, which the test writes. */
#include <string.h>

typedef struct { const char *name, *uuid; int major, minor, mig_parent; } device;
#include "devices.h" /* INIT_CODE, DRIVER, DEVICES: whole GPUs first, then the slices of the one at mig_parent */

static const device devices[] = DEVICES;
enum { LISTED = sizeof devices / sizeof *devices, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

static int put(const char *text, char *buffer, unsigned size) {
    if (strlen(text) >= size) return 7; /* NVML_ERROR_INSUFFICIENT_SIZE */
    strcpy(buffer, text);
    return 0;
}
static int whole(void) {
    int count = 0;
    while (count < LISTED && devices[count].mig_parent < 0 && devices[count].name) count++;
    return count;
}
static int slices(const device *gpu) {
    int count = 0;
    for (int i = whole(); i < LISTED; i++) count += devices[i].name && devices[i].mig_parent == gpu - devices;
    return count;
}
int nvmlInit_v2(void) { return INIT_CODE; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *buffer, unsigned size) { return put(DRIVER, buffer, size); }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = whole(); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, const device **handle) { *handle = &devices[index]; return 0; }
int nvmlDeviceGetName(const device *gpu, char *buffer, unsigned size) { return put(gpu->name, buffer, size); }
int nvmlDeviceGetUUID(const device *gpu, char *buffer, unsigned size) { return put(gpu->uuid, buffer, size); }
int nvmlDeviceGetCudaComputeCapability(const device *gpu, int *major, int *minor) {
    *major = gpu->major;
    *minor = gpu->minor;
    return 0;
}
int nvmlDeviceGetMigMode(const device *gpu, unsigned *current, unsigned *pending) {
    *current = *pending = slices(gpu) > 0;
    return gpu->major < 8 ? NOT_SUPPORTED : 0;
}
int nvmlDeviceGetMaxMigDeviceCount(const device *gpu, unsigned *count) { (void)gpu; *count = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(const device *gpu, unsigned index, const device **handle) {
    for (int i = whole(); i < LISTED; i++)
        if (devices[i].name && devices[i].mig_parent == gpu - devices && index-- == 0) return *handle = &devices[i], 0;
    return NOT_FOUND;
}
