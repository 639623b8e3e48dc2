#include "sandbox/facts.h"

#include <string.h>
#include <unistd.h>

#include "harness/test.h"
#include "sandbox/bwrap/bwrap.h"
#include "sandbox/layer.h"

#define BIT(layer) (UINT32_C(1) << (layer))

static const char good[] = "Name:\tsandbox-init\n"
                           "Uid:\t100001\t100001\t100001\t100001\n"
                           "NSpid:\t4711\t1\n"
                           "CapInh:\t0000000000000000\n"
                           "CapPrm:\t0000000000000000\n"
                           "CapEff:\t0000000000000000\n"
                           "CapBnd:\t0000000000000000\n"
                           "CapAmb:\t0000000000000000\n"
                           "NoNewPrivs:\t1\n"
                           "Seccomp:\t2\n"
                           "Seccomp_filters:\t1\n";

#define NAMESPACES                                                                                 \
    (BIT(SANDBOX_LAYER_USER_NAMESPACE) | BIT(SANDBOX_LAYER_PID_NAMESPACE) |                        \
     BIT(SANDBOX_LAYER_NETWORK_NAMESPACE) | BIT(SANDBOX_LAYER_IPC_NAMESPACE) |                     \
     BIT(SANDBOX_LAYER_UTS_NAMESPACE) | BIT(SANDBOX_LAYER_MOUNT_NAMESPACE))

#define REST                                                                                       \
    (BIT(SANDBOX_LAYER_NO_CAPABILITIES) | BIT(SANDBOX_LAYER_NO_NEW_PRIVILEGES) |                   \
     BIT(SANDBOX_LAYER_SECCOMP))

static struct sandbox_facts good_facts(void)
{
    struct sandbox_facts facts;

    CHECK_EQ(facts_parse(good, &facts), 0);
    facts.own_namespaces = NAMESPACES;
    return facts;
}

/* The good text with FROM replaced by TO of the same length. */
static struct sandbox_facts with(const char *from, const char *to)
{
    struct sandbox_facts facts;
    char text[sizeof(good)];
    char *at;

    memcpy(text, good, sizeof(good));
    at = strstr(text, from);
    CHECK(at != NULL && strlen(from) == strlen(to));
    memcpy(at, to, strlen(to));
    CHECK_EQ(facts_parse(text, &facts), 0);
    facts.own_namespaces = NAMESPACES;
    return facts;
}

TEST(what_the_kernel_says_becomes_facts)
{
    struct sandbox_facts facts = good_facts();

    CHECK_EQ(facts.uid, 100001u);
    CHECK(facts.one_uid && facts.first && facts.filtered);
    CHECK(facts.no_new_privs && facts.no_capabilities);
    CHECK_EQ(facts_parse("Name:\tx\n", &facts), -1);
    CHECK_EQ(facts_parse("Uid:\t1\t2\n", &facts), -1);
    CHECK_EQ(facts_parse("", &facts), -1);
}

TEST(facts_become_layers)
{
    struct sandbox_facts facts = good_facts();

    CHECK_EQ(facts_layers(&facts, 0, 0), NAMESPACES | REST | BIT(SANDBOX_LAYER_OWN_UID));
    CHECK_EQ(facts_layers(&facts, 100001, 0), NAMESPACES | REST);
    CHECK_EQ(facts_layers(&facts, 100001, 7), NAMESPACES | REST | BIT(SANDBOX_LAYER_LANDLOCK));
    facts.own_namespaces = 0;
    CHECK_EQ(facts_layers(&facts, 100001, 0), REST);
    facts = (struct sandbox_facts){ .uid = 5, .one_uid = true };
    CHECK_EQ(facts_layers(&facts, 5, 0), 0u);
    /* The kernel takes no rules from a process that could still gain privileges. */
    CHECK_EQ(facts_layers(&facts, 5, 7), 0u);
}

TEST(uids_that_differ_or_are_roots_own_nothing)
{
    struct sandbox_facts facts = with("100001\t100001\n", "100001\t100002\n");

    CHECK(!facts.one_uid);
    CHECK((facts_layers(&facts, 0, 0) & BIT(SANDBOX_LAYER_OWN_UID)) == 0);
    facts = (struct sandbox_facts){ .uid = 0, .one_uid = true };
    CHECK((facts_layers(&facts, 1000, 0) & BIT(SANDBOX_LAYER_OWN_UID)) == 0);
}

TEST(any_set_of_capabilities_that_is_not_empty_counts)
{
    static const char *const sets[] = { "CapInh:\t0", "CapPrm:\t0", "CapEff:\t0", "CapBnd:\t0",
                                        "CapAmb:\t0" };

    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        char changed[16];
        struct sandbox_facts facts;

        memcpy(changed, sets[i], strlen(sets[i]) + 1);
        changed[strlen(changed) - 1] = '8';
        facts = with(sets[i], changed);
        CHECK(!facts.no_capabilities);
    }
}

TEST(only_the_first_of_a_nested_pid_namespace_is_first)
{
    CHECK(!with("NSpid:\t4711\t1\n", "NSpid:\t4711\t2\n").first);
    CHECK(!with("NSpid:\t4711\t1\n", "NSpid:\t1     \n").first);
}

TEST(bubblewrap_keeps_its_whole_promise_or_is_refused_by_name)
{
    struct sandbox_facts facts = good_facts();
    struct error err = ERROR_INIT;

    CHECK_EQ(bwrap_verify(&facts, &err), 0);
    facts.own_namespaces &= ~BIT(SANDBOX_LAYER_NETWORK_NAMESPACE);
    facts.filtered = false;
    CHECK_EQ(bwrap_verify(&facts, &err), -1);
    CHECK_EQ(err.code, ERR_DENIED);
    CHECK_HAS(err.text, "network-namespace, seccomp");
    facts.first = false;
    CHECK_EQ(bwrap_verify(&facts, &err), -1);
    CHECK_EQ(err.code, ERR_UNAVAILABLE);
}

TEST(a_process_of_our_own_has_no_namespace_of_its_own)
{
    struct sandbox_facts facts;
    struct error err = ERROR_INIT;

    CHECK_EQ(facts_read(getpid(), &facts, &err), 0);
    CHECK_EQ(facts.own_namespaces, 0u);
    CHECK(facts.one_uid && !facts.first);
    CHECK_EQ(facts_read(999999999, &facts, &err), -1);
    CHECK_EQ(err.code, ERR_UNAVAILABLE);
}
