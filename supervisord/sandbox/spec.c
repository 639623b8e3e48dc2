#include "sandbox/spec.h"

#include "common/mem.h"

void sandbox_spec_init(struct sandbox_spec *spec)
{
    memset(spec, 0, sizeof(*spec));
}

void sandbox_spec_finish(struct sandbox_spec *spec)
{
    for (size_t i = 0; i < spec->mount_count; i++) {
        free(spec->mounts[i].source);
        free(spec->mounts[i].target);
    }
    for (size_t i = 0; i < spec->overlay_count; i++) {
        free(spec->overlays[i].lower);
        free(spec->overlays[i].upper);
        free(spec->overlays[i].work);
        free(spec->overlays[i].target);
    }
    for (size_t i = 0; i < spec->file_count; i++) {
        free(spec->files[i].target);
        free(spec->files[i].data);
    }
    for (size_t i = 0; i < spec->frozen_dir_count; i++)
        free(spec->frozen_dirs[i]);
    free(spec->id);
    free(spec->runtime_dir);
    free(spec->hostname);
    memset(spec, 0, sizeof(*spec));
}

void sandbox_spec_add_mount(struct sandbox_spec *spec, const char *source, const char *target,
                            enum sandbox_access access)
{
    BUG_ON(spec->mount_count == ARRAY_LEN(spec->mounts));
    spec->mounts[spec->mount_count++] =
        (struct sandbox_mount){ mem_strdup(source), mem_strdup(target), access };
}

void sandbox_spec_add_overlay(struct sandbox_spec *spec, const char *lower, const char *upper,
                              const char *work, const char *target)
{
    BUG_ON(spec->overlay_count == ARRAY_LEN(spec->overlays));
    spec->overlays[spec->overlay_count++] =
        (struct sandbox_overlay){ mem_strdup(lower), mem_strdup(upper), mem_strdup(work),
                                  mem_strdup(target) };
}

void sandbox_spec_add_file(struct sandbox_spec *spec, const char *target, const void *data,
                           size_t len, uint32_t mode)
{
    struct sandbox_file *file = &spec->files[spec->file_count];

    BUG_ON(spec->file_count == ARRAY_LEN(spec->files));
    file->target = mem_strdup(target);
    file->data = mem_new_zero(len + 1, 1);
    if (len)
        memcpy(file->data, data, len);
    file->len = len;
    file->mode = mode;
    spec->file_count++;
}

void sandbox_spec_add_frozen_dir(struct sandbox_spec *spec, const char *target)
{
    BUG_ON(spec->frozen_dir_count == ARRAY_LEN(spec->frozen_dirs));
    spec->frozen_dirs[spec->frozen_dir_count++] = mem_strdup(target);
}
