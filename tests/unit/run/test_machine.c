#include "run/machine.h"

#include <sys/stat.h>

#include "harness/test.h"
#include "harness/tmp.h"

TEST(what_the_kernel_writes_is_read)
{
    uint64_t mib = 0;
    uint32_t percent = 0;

    CHECK(machine_parse_meminfo("MemTotal:       24684424 kB\nMemFree:        23000000 kB\n"
                                "MemAvailable:     307200 kB\n",
                                &mib));
    CHECK_EQ(mib, 300);
    CHECK(machine_parse_pressure("some avg10=23.91 avg60=1.00 avg300=0.00 total=5\n"
                                 "full avg10=99.00 avg60=0.00 avg300=0.00 total=0\n",
                                 &percent));
    CHECK_EQ(percent, 23);
    CHECK(!machine_parse_meminfo("", &mib));
    CHECK(!machine_parse_meminfo("MemTotal: 5 kB\n", &mib));
    CHECK(!machine_parse_meminfo("MemAvailable: x kB\n", &mib));
    CHECK(!machine_parse_meminfo("MemAvailable: 5\n", &mib));
    CHECK(!machine_parse_pressure("full avg10=1.00\n", &percent));
    CHECK(!machine_parse_pressure("some avg10=\n", &percent));
    CHECK(!machine_parse_pressure("some avg10=101.0\n", &percent));
}

TEST(a_machine_carries_what_its_limits_allow_and_says_why_not)
{
    struct machine_limits limits = { .free_memory_mib = 512,
                                     .free_disk_mib = 1024,
                                     .memory_pressure_percent = 20 };
    struct machine_reading reading = { .memory_known = true,
                                       .free_memory_mib = 512,
                                       .pressure_known = true,
                                       .pressure_percent = 19,
                                       .disk_known = true,
                                       .free_disk_mib = 1024 };
    char reason[200] = "";

    CHECK(machine_can_carry(&limits, &reading, reason, sizeof(reason)));
    reading.free_memory_mib = 300;
    CHECK(!machine_can_carry(&limits, &reading, reason, sizeof(reason)));
    CHECK_STR(reason, "the machine has 300 MiB of memory to spare, limits.freeMemoryMiB is 512");
    reading.free_memory_mib = 4096;
    reading.pressure_percent = 20;
    CHECK(!machine_can_carry(&limits, &reading, reason, sizeof(reason)));
    CHECK_HAS(reason, "limits.memoryPressurePercent is 20");
    reading.pressure_known = false;
    reading.free_disk_mib = 1023;
    CHECK(!machine_can_carry(&limits, &reading, reason, sizeof(reason)));
    CHECK_HAS(reason, "1023 MiB free, limits.freeDiskMiB is 1024");
    limits = (struct machine_limits){ 0 };
    reading = (struct machine_reading){
        .memory_known = true, .pressure_known = true, .pressure_percent = 100, .disk_known = true
    };
    CHECK(machine_can_carry(&limits, &reading, reason, sizeof(reason)));
}

TEST(what_is_not_there_is_unknown)
{
    struct machine_reading reading;

    machine_read(tmp_dir(), "/no/such/folder", &reading);
    CHECK(!reading.memory_known && !reading.pressure_known && !reading.disk_known);
    tmp_subdir("proc");
    tmp_file("proc/meminfo", "MemAvailable: 2048 kB\n", 22, 0600);
    machine_read(tmp_dir(), tmp_dir(), &reading);
    CHECK(reading.memory_known && reading.free_memory_mib == 2);
    CHECK(reading.disk_known && reading.free_disk_mib > 0);
    machine_read("", tmp_dir(), &reading);
    CHECK(reading.memory_known && reading.free_memory_mib > 0);
}
