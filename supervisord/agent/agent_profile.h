/* agent_profile.h: an agent that is described by configuration instead of code: which program, what
 * it is given, which services it needs. A driver that speaks the protocol of several agents starts
 * any of them by its profile. Plain data, borrowed. */
#ifndef AGENT_AGENT_PROFILE_H
#define AGENT_AGENT_PROFILE_H

#include <stddef.h>

/* What becomes of an agent's requests for permission. The sandbox is the boundary either way. */
enum agent_permissions {
    AGENT_PERMISSIONS_ALLOW,  /* each is granted, once */
    AGENT_PERMISSIONS_ASK,    /* the run waits for a person's answer */
    AGENT_PERMISSIONS_REJECT, /* each is refused */
};

/* TARGET is absolute (read-only then) or begins with "~/" (the agent may change it). TEXT is a
 * template. */
struct agent_profile_file {
    const char *target;
    const char *text;
};

/* Templates know {token}, {model}, {provider}, {baseUrl}, {serviceUrl}, {home}, {directory} and
 * {opencodeConfig}; docs/agents.md explains them. */
struct agent_profile {
    const char *name;    /* as runs name it: "claude-code" */
    const char *driver;  /* "acp" */
    const char *program; /* a command's name, or an absolute path */
    /* npm packages of which any holds the program, in the order they are looked for. */
    const char *const *packages;
    size_t package_count;
    const char *const *arguments; /* templates */
    size_t argument_count;
    const char *const *environment; /* "NAME=template" */
    size_t environment_count;
    const struct agent_profile_file *files;
    size_t file_count;
    const char *before; /* a shell command that runs inside before the agent; "": none */
    /* Model services that it can use; none: any. */
    const char *const *services;
    size_t service_count;
    const char *model;     /* "openai/gpt-5.4": for runs that name none; "": the default model */
    const char *set_model; /* template of the model id that it is told after its start; "": it gets
                              to know its model otherwise */
    const char *set_mode;  /* of its own modes; "": the one it begins with */
    const char *install;   /* how a person installs it, for messages */
    enum agent_permissions permissions;
};

#endif
