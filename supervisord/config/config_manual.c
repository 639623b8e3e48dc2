#include "common/manual.h"
#include "common/mem.h"
#include "config/config_internal.h"

/* What it may be and what it is when nothing is said. */
static void append_values(struct buf *out, const struct setting *setting)
{
    switch (setting->kind) {
    case SETTING_STRING:
        if (setting->text != NULL && setting->text[0] != '\0')
            buf_printf(out, "Default: %s. ", setting->text);
        break;
    case SETTING_U32:
        buf_printf(out, "A number from %llu to %llu. Default: %llu. ",
                   (unsigned long long)setting->min, (unsigned long long)setting->max,
                   (unsigned long long)setting->number);
        break;
    case SETTING_BOOL:
        buf_printf(out, "Default: %s. ", setting->number != 0 ? "true" : "false");
        break;
    case SETTING_LIST:
        buf_append_str(out, "A list. ");
        break;
    }
    if (setting->env != NULL)
        buf_printf(out, "Environment: %s.", setting->env);
}

void config_manual(struct buf *out)
{
    for (size_t i = 0; i < config_setting_count; i++) {
        AUTO_BUF struct buf values = BUF_INIT(4096);

        manual_item(out, config_settings[i].name, config_settings[i].help);
        append_values(&values, &config_settings[i]);
        if (values.len > 0)
            manual_more(out, buf_text(&values));
    }
}
