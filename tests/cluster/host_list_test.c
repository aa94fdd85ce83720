/* Lists of hosts, as resource managers write them. */
#include <stdio.h>
#include <string.h>

#include "cluster/host_list.h"
#include "tests/test.h"

static void assert_hosts(const char *list, const char *expected)
{
    struct coxi_host_list hosts = {0};
    char text[1024] = "";
    size_t len = 0;
    assert_code(0, coxi_host_list_read(list, &hosts));
    for (size_t i = 0; i < hosts.n; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s:%u",
                                i > 0 ? " " : "", hosts.names[i], hosts.tasks[i]);
    }
    assert_string_equal(expected, text);
    coxi_host_list_fini(&hosts);
}

TEST(host_list_reads_compressed_lists_in_their_order)
{
    assert_hosts("n1", "n1:1");
    assert_hosts("n[1-3,07-09],m5", "n1:1 n2:1 n3:1 n07:1 n08:1 n09:1 m5:1");
    assert_hosts("n10,n2", "n10:1 n2:1");
    assert_hosts("r[0-1]n[8-10].x",
                 "r0n8.x:1 r0n9.x:1 r0n10.x:1 r1n8.x:1 r1n9.x:1 r1n10.x:1");
    assert_hosts("n[098-101]", "n098:1 n099:1 n100:1 n101:1");
    assert_hosts("a:4,b[1-2]:3,c", "a:4 b1:3 b2:3 c:1");
}

TEST(host_list_says_what_is_wrong_with_a_list)
{
    static const char *const cases[] = {
        "",
        ",",
        "a,",
        "a,,b",
        "n[1-3",
        "n[]",
        "n[3-1]",
        "n[a]",
        "n[1-2,]",
        "n[1;2]",
        "a:",
        "a:x",
        "a:4x",
        "n[1-]",
        "n[-1]",
        "n[1-2]]:",
        "n[0-99999999999]",
        "n[[1]]",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct coxi_host_list hosts = {0};
        int r = coxi_host_list_read(cases[i], &hosts);
        if (r != COX_EINVAL) {
            fail_msg("'%s' is taken: %d", cases[i], r);
        }
        coxi_host_list_fini(&hosts);
    }
}

TEST(host_list_is_bounded)
{
    struct coxi_host_list hosts = {0};
    char name[400] = "";
    assert_code(COX_ELIMIT, coxi_host_list_read("n[0-999999999]", &hosts));
    coxi_host_list_fini(&hosts);
    assert_code(COX_ELIMIT, coxi_host_list_read("n[0-999][0-999][0-999]", &hosts));
    coxi_host_list_fini(&hosts);
    memset(name, 'n', sizeof(name) - 1);
    assert_code(COX_EINVAL, coxi_host_list_read(name, &hosts));
    coxi_host_list_fini(&hosts);
}

TEST(host_list_has_as_many_tasks_as_counted)
{
    struct coxi_host_list hosts = {0};
    assert_code(0, coxi_host_list_read("n[1-4]", &hosts));
    assert_code(0, coxi_host_list_read_tasks("5,1(x3)", &hosts));
    assert_int_equal(5, hosts.tasks[0]);
    assert_int_equal(1, hosts.tasks[3]);
    assert_int_equal(8, coxi_host_list_tasks(&hosts));
    static const char *const cases[] = {"",         "5",       "5,1(x4)", "5,1(x3",
                                        "5,1(x3)x", "5;1(x3)", "1(x)",    "1(x4),",
                                        "4(x-1)",   "1(x5)"};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_code(COX_EINVAL, coxi_host_list_read_tasks(cases[i], &hosts));
    }
    assert_int_equal(2, coxi_host_list_find(&hosts, "n3"));
    assert_int_equal(4, coxi_host_list_find(&hosts, "n5"));
    coxi_host_list_fini(&hosts);
}
