/* SPDX-License-Identifier: MIT */
/*
 * What people write to join a fleet: URLs, names, options, limits.
 */
#include "check.h"
#include "fleet/member.h"
#include "fleet/options.h"

static struct weir_error err;
static struct server_url url;

static bool read_url(const char *text)
{
    memset(&err, 0, sizeof err);
    return weir_url_read(&url, text, &err);
}

TEST(a_url_is_taken_apart)
{
    if (!CHECK(read_url("zookeeper://ann:s%40c%3Aret@zk1,zk2:2182,[::1]:2183/weir/a/?nodes=5&base=10")))
        return;
    CHECK_STR(url.scheme, "zookeeper");
    CHECK_STR(url.user, "ann");
    CHECK_STR(url.password, "s@c:ret");
    CHECK_EQ(url.host_count, 3);
    CHECK_STR(url.hosts[0].name, "zk1");
    CHECK_EQ(url.hosts[0].port, 2181);
    CHECK_EQ(url.hosts[1].port, 2182);
    CHECK_STR(url.hosts[2].name, "::1");
    CHECK_EQ(url.hosts[2].port, 2183);
    CHECK_STR(url.path, "/weir/a");
    CHECK_STR(url.query, "nodes=5&base=10");
    CHECK_STR(url.shown, "zookeeper://zk1:2181,zk2:2182,[::1]:2183/weir/a?nodes=5&base=10");
}

TEST(each_scheme_has_its_port_and_path)
{
    CHECK(read_url("redis://:secret@r1/3"));
    CHECK_STR(url.user, "");
    CHECK_STR(url.password, "secret");
    CHECK_EQ(url.hosts[0].port, 6379);
    CHECK_STR(url.path, "/3");
    CHECK(read_url("REDIS+cluster://r1,r2"));
    CHECK_STR(url.scheme, "redis+cluster");
    CHECK_EQ(url.hosts[1].port, 6379);
    CHECK(read_url("weir://w1"));
    CHECK_EQ(url.hosts[0].port, 9049);
    CHECK(read_url("local:"));
    CHECK_EQ(url.host_count, 0);
    CHECK_STR(url.path, "");
    CHECK_STR(url.shown, "local:");
    CHECK(read_url("local:group-1?base=5"));
    CHECK_STR(url.path, "/group-1");
    CHECK_STR(url.shown, "local:group-1?base=5");
    CHECK(read_url("zookeeper://zk1/"));
    CHECK_STR(url.path, "");
}

static bool read_server(const char *text)
{
    memset(&err, 0, sizeof err);
    return weir_url_read_server(&url, text, &err);
}

TEST(a_server_is_named_by_redis_or_unix)
{
    CHECK(read_server("redis://ann:secret@h/0"));
    CHECK_STR(url.user, "ann");
    CHECK_STR(url.password, "secret");
    CHECK_EQ(url.hosts[0].port, 9049);
    CHECK_STR(url.shown, "redis://h:9049");
    CHECK(read_server("redis://secret@[::1]:7000/"));
    CHECK_STR(url.user, "");
    CHECK_STR(url.password, "secret");
    CHECK_STR(url.shown, "redis://[::1]:7000");
    CHECK(read_server("unix://ann:p%40ss@/run/we%20ir:1.sock"));
    CHECK_STR(url.password, "p@ss");
    CHECK_STR(url.hosts[0].name, "/run/we ir:1.sock");
    CHECK_EQ(url.hosts[0].port, 0);
    CHECK_STR(url.shown, "unix:///run/we ir:1.sock");
    CHECK(read_server("redis://ann:why?@h")); /* a server has no options */
    CHECK_STR(url.password, "why?");
    CHECK(read_server("unix:///run/what?.sock"));
    CHECK_STR(url.hosts[0].name, "/run/what?.sock");
    char token[255 + 1] = "", text[300];
    memset(token, 't', sizeof token - 1);
    (void)snprintf(text, sizeof text, "redis://%s@h", token);
    CHECK(read_server(text));
    CHECK_STR(url.password, token);
    static const char *const others[] = {
        "redis://a,b", "redis://a/1",    "redis://a?base=1", "weir://a", "unix://run/s",  "redis://a:port",
        "redis://a:",  "localhost:9049", "redis:",           "unix:",    "redis://ann:@a"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (!CHECK(!read_server(others[i])))
            printf("# %s\n", others[i]);
    CHECK_STR(err.text,
              "not the address of a server; write redis://[user:password@]host:port, rediss:// with TLS, or "
              "unix:///path");
    CHECK(read_server("rediss://u:p@h") && url.tls.on && !url.tls.insecure);
    CHECK_STR(url.shown, "rediss://h:9449");
    CHECK(read_server("redis://h") && !url.tls.on);
}

TEST(tls_is_a_scheme_and_has_options)
{
    CHECK(read_url("rediss://u:p@a,b:7/3?base=5&cacert=%2fetc%2fca.pem&cert=c&key=k&insecure=yes&nodes=2"));
    CHECK(url.tls.on && url.tls.insecure);
    CHECK_STR(url.scheme, "redis");
    CHECK_STR(url.tls.cacert, "/etc/ca.pem");
    CHECK_STR(url.tls.cert, "c");
    CHECK_STR(url.tls.key, "k");
    CHECK_STR(url.query, "base=5&nodes=2"); /* what is left is the coordinator's */
    CHECK_STR(url.shown, "rediss://a:6379,b:7/3?base=5&nodes=2");
    CHECK(read_url("rediss+cluster://a"));
    CHECK_STR(url.scheme, "redis+cluster");
    CHECK_STR(url.shown, "rediss+cluster://a:6379");
    CHECK(read_url("weirs://a?cacert=x"));
    CHECK_STR(url.shown, "weirs://a:9449");
    static const char *const wrong[] = {
        "weirs://a?cacert=",   "weirs://a?cacert=x&cacert=y", "weirs://a?insecure=no",
        "weirs://a?insecure=", "weirs://a?cert=%00",          "weirs://a?key=%4"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (!CHECK(!read_url(wrong[i]) && strstr(err.text, "with TLS a URL has cacert=PATH")))
            printf("# %s\n", wrong[i]);
    char longer[400] = "weirs://a?cacert=";
    memset(longer + strlen(longer), 'x', URL_PATH_MAX);
    CHECK(!read_url(longer));
    longer[strlen(longer) - 1] = '\0';
    CHECK(read_url(longer) && strlen(url.tls.cacert) == URL_PATH_MAX - 1);
}

TEST(what_is_no_url_is_refused_with_a_sentence)
{
    static const char *const wrong[] = {"",
                                        ":",
                                        "zookeeper",
                                        "zookeeper:zk1",
                                        "zookeeper:/zk1",
                                        "zookeeper://",
                                        "zookeeper://zk1,,zk2",
                                        "zookeeper://zk1,",
                                        "zookeeper://zk1:0",
                                        "zookeeper://zk1:65536",
                                        "zookeeper://zk1:99999999999999999999",
                                        "zookeeper://zk1:",
                                        "zookeeper://zk 1",
                                        "zookeeper://zk1/a//b",
                                        "zookeeper://zk1/a/../b",
                                        "zookeeper://zk1/./b",
                                        "zookeeper://zk1/a\nb",
                                        "zookeeper://zk1/%41",
                                        "zookeeper://[::1",
                                        "redis://r1/db",
                                        "redis://r1/0/1",
                                        "redis://r1/123456",
                                        "redis+cluster://r1/0",
                                        "weir://w1/x",
                                        "local:a/b",
                                        "local://x",
                                        "zookeeper://u%zz@zk1",
                                        "zookeeper://u:p%4@zk1",
                                        "zookeeper://u:p%00@zk1",
                                        "1redis://r1",
                                        "averyveryverylongscheme://h",
                                        "redis://r1?a b"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (!CHECK(!read_url(wrong[i])) || !CHECK(err.text[0] != '\0'))
            printf("# '%s'\n", wrong[i]);
    CHECK(!read_url(NULL));
    char longest[2 * URL_TEXT_MAX];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    memcpy(longest, "redis://", 8);
    CHECK(!read_url(longest));
    char many[512] = "redis://h";
    for (int i = 0; i < URL_HOSTS_MAX; i++)
        strncat(many, ",h", sizeof many - strlen(many) - 1);
    CHECK(!read_url(many));
    CHECK_STR(err.text, "a URL has at most 16 hosts");
}

TEST(no_message_and_nothing_shown_has_the_password)
{
    static const char *const texts[] = {"redis://ann:hunter2@r1/0",
                                        "redis://ann:hunter2@r1:99999",
                                        "redis://ann:hun/ter2@r1",
                                        "zookeeper://ann:12/hunter2@zk1",
                                        "redis://ann:hunter2?@r1",
                                        "zookeeper://ann:hunter2%zz@zk1",
                                        "redis://ann:hunter2@@r1",
                                        "redis:ann:hunter2@r1",
                                        "zookeeper://ann:1/hunter2@zk/x",
                                        "redis://ann:hunter2",
                                        "redis://hunter2@",
                                        "zookeeper://ann:1?x=hunter2@zk1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        bool good = read_url(texts[i]);
        if (!CHECK(!strstr(err.text, "ter2")) || !CHECK(!good || !strstr(url.shown, "ter2")) ||
            !CHECK(good || !strstr(url.shown, "ter2")))
            printf("# '%s': %s %s\n", texts[i], err.text, url.shown);
    }
}

TEST(bytes_drawn_by_lot_are_read_within_bounds)
{
    static const char letters[] = "redis:/@?,[]%&=.-09az\x01\xff";
    struct rng rng = rng_new(1);
    for (int i = 0; i < 20000; i++) {
        char text[64];
        size_t len = (size_t)rng_between(&rng, 0, sizeof text - 1);
        for (size_t at = 0; at < len; at++)
            text[at] = letters[rng_between(&rng, 0, sizeof letters - 2)];
        text[len > 0 ? len - 1 : 0] = '\0';
        char whole[96];
        (void)snprintf(whole, sizeof whole, "%s%s", i % 2 ? "redis://" : "", text);
        if (read_url(whole))
            CHECK(url.host_count <= URL_HOSTS_MAX);
        else
            CHECK(err.text[0] != '\0');
    }
}

/* ---- kinds and names ---- */

static const struct coordinator_ops *kind(const char *text)
{
    return read_url(text) ? weir_coordinator_kind(&url, &err) : NULL;
}

TEST(every_scheme_has_its_kind_and_others_are_told_which_there_are)
{
    CHECK(kind("zookeeper://a") == &weir_coordinator_zookeeper);
    CHECK(kind("redis://a") == &weir_coordinator_redis);
    CHECK(kind("redis+cluster://a") == &weir_coordinator_redis);
    CHECK(kind("weir://a") == &weir_coordinator_weir);
    CHECK(kind("local:") == &weir_coordinator_local);
    CHECK(!kind("zk://a"));
    CHECK_STR(
        err.text,
        "no coordinator has the scheme 'zk'; there are zookeeper://, redis://, redis+cluster://, "
        "weir:// and local:, with TLS rediss://, rediss+cluster:// and weirs://; did you mean zookeeper?");
    CHECK(!kind("zokeeper://a"));
    CHECK(strstr(err.text, "did you mean zookeeper?"));
    CHECK(!kind("etcd://a"));
    CHECK(!strstr(err.text, "did you mean"));
}

static struct weir_fleet_options options;

static bool read_options_of(const char *scheme, const char *query)
{
    memset(&url, 0, sizeof url);
    (void)snprintf(url.scheme, sizeof url.scheme, "%s", scheme);
    (void)snprintf(url.query, sizeof url.query, "%s", query);
    memset(&err, 0, sizeof err);
    return weir_fleet_options_read(&options, &url, &err);
}

TEST(who_asks_for_tls_is_not_led_to_a_line_without)
{
    CHECK(kind("rediss://u:p@a") == &weir_coordinator_redis && url.tls.on);
    CHECK(kind("rediss+cluster://u:p@a") == &weir_coordinator_redis && url.tls.on);
    CHECK(kind("weirs://u:p@a") == &weir_coordinator_weir && url.tls.on);
    static const char *const misspelt[] = {"redisss://u:p@a", "rediss+clster://u:p@a",
                                           "rediss+sentinel://u:p@a"};
    for (size_t i = 0; i < sizeof misspelt / sizeof misspelt[0]; i++)
        CHECK(!kind(misspelt[i]) && strstr(err.text, "with TLS rediss://") &&
              !strstr(err.text, "did you mean"));
    CHECK(read_options_of("redis", "") && !read_options_of("redis", "cacert=x"));
    CHECK_STR(err.text, "cacert is for rediss://, rediss+cluster:// and weirs:// only; leave it out");
}

TEST(names_are_those_that_every_coordinator_can_keep)
{
    char longest[FLEET_NAME_MAX + 2];
    memset(longest, 'a', sizeof longest);
    longest[FLEET_NAME_MAX + 1] = '\0';
    CHECK(!weir_fleet_name_check(longest, &err));
    CHECK_STR(err.text, "the name of a fleet's limit has at most 255 bytes");
    longest[FLEET_NAME_MAX] = '\0';
    CHECK(weir_fleet_name_check(longest, &err));
    CHECK(weir_fleet_name_check("egress:eu-1.a_b@c", &err));
    CHECK(!weir_fleet_name_check("a/b", &err));
    CHECK(strstr(err.text, "write : where / stands"));
    CHECK_EQ(err.column, 2);
    CHECK(!weir_fleet_name_check(".", &err) && !weir_fleet_name_check("..", &err));
    CHECK(!weir_fleet_name_check("", &err) && !weir_fleet_name_check(NULL, &err));
    CHECK(!weir_fleet_name_check("a b", &err) && !weir_fleet_name_check("a\xc3\xa4", &err));
}

/* ---- options ---- */

static bool read_options(const char *query)
{
    memset(&options, 0, sizeof options);
    return read_options_of("redis", query);
}

TEST(options_have_defaults)
{
    CHECK(read_options(""));
    CHECK_EQ(options.base, 0);
    CHECK_EQ(options.nodes, 1);
    CHECK_EQ(options.prefetch, 20);
    CHECK_EQ(options.above, 200);
    CHECK_EQ(options.rho, 1000);
    CHECK_EQ(options.return_every_ns, 15 * WEIR_SEC);
    CHECK_EQ(options.lost_after_ns, 3 * WEIR_SEC);
    CHECK_EQ(options.connect_ns, 5 * WEIR_SEC);
    CHECK_EQ(options.answer_ns, 2 * WEIR_SEC);
    CHECK_EQ(options.session_ns, 10 * WEIR_SEC);
    CHECK_EQ(options.leave_ns, WEIR_SEC);
    CHECK_EQ(options.clock, WEIR_FLEET_CLOCK_TRUSTED);
    CHECK_EQ(options.guard_ns, 100 * WEIR_MS);
    CHECK_EQ(options.flight, 4);
    CHECK_EQ(options.most_held, 0);
    CHECK_EQ(options.ready_ns, 10 * WEIR_SEC);
}

TEST(options_are_read_from_a_query)
{
    CHECK(read_options("base=1k&nodes=500&on_loss=share&prefetch=30&above=300&rho=2000&return_every=5s&"
                       "lost_after=250ms&connect_ns=1s&answer=1s&session=20s&leave=2s&"
                       "clock=unused&guard=250ms&flight=2&most_held=5k&ready=1m&"
                       "failover=trust"));
    CHECK_EQ(options.base, 1000);
    CHECK_EQ(options.nodes, 500);
    CHECK_EQ(options.on_loss, WEIR_FLEET_SHARE);
    CHECK_EQ(options.prefetch, 30);
    CHECK_EQ(options.above, 300);
    CHECK_EQ(options.rho, 2000);
    CHECK_EQ(options.return_every_ns, 5 * WEIR_SEC);
    CHECK_EQ(options.lost_after_ns, 250 * WEIR_MS);
    CHECK_EQ(options.connect_ns, WEIR_SEC);
    CHECK_EQ(options.session_ns, 20 * WEIR_SEC);
    CHECK_EQ(options.leave_ns, 2 * WEIR_SEC);
    CHECK_EQ(options.clock, WEIR_FLEET_CLOCK_UNUSED);
    CHECK_EQ(options.guard_ns, 250 * WEIR_MS);
    CHECK_EQ(options.flight, 2);
    CHECK_EQ(options.most_held, 5000);
    CHECK_EQ(options.ready_ns, 60 * WEIR_SEC);
}

TEST(options_that_make_no_sense_say_what_to_write)
{
    static const struct {
        const char *query, *part;
    } wrong[] = {{"base=0", "base=1000"},
                 {"base=-1", "base=1000"},
                 {"base=", "base=1000"},
                 {"base=1.5", "base=1000"},
                 {"base=99999999999999999999", "base=1000"},
                 {"prefetch=101", "prefetch=20"},
                 {"above=99", "above=200"},
                 {"rho=100001", "rho=1000"},
                 {"connect=5", "connect=5s"},
                 {"connect=1h", "connect=5s"},
                 {"on_loss=maybe", "refuse or share"},
                 {"on_loss=share", "nodes=500"},
                 {"clock=1s", "trusted or unused"},
                 {"wait=1", "no option 'wait'"}, /* it is the server's patience, in `fleet:` */
                 {"guard=0ms", "guard=100ms"},
                 {"guard=25h", "guard=100ms"},
                 {"flight=0", "flight=4"},
                 {"flight=5", "flight=4"},
                 {"most_held=-1", "most_held=5000"},
                 {"ready=2d", "ready=10s"},
                 {"bsae=5", "did you mean base?"},
                 {"optimistic=7",
                  "no option 'optimistic': a member lets pass what it has leased; for more at hand "
                  "write a larger prefetch= or ready="},
                 {"base", "name=value"},
                 {"=5", "name=value"},
                 {"base=5&base=6", "written twice"},
                 {"base=5&&nodes=2", "name=value"},
                 {"xyzzyxyzzy=5", "no option 'xyzzyxyzzy'"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (!CHECK(!read_options(wrong[i].query)) || !CHECK(strstr(err.text, wrong[i].part)))
            printf("# '%s': %s\n", wrong[i].query, err.text);
    options = (struct weir_fleet_options){.leave_ns = -1};
    CHECK(!read_options_of("local", ""));
    options = (struct weir_fleet_options){.flight = 5};
    CHECK(!read_options_of("local", ""));
    options = (struct weir_fleet_options){.guard_ns = -1};
    CHECK(!read_options_of("local", ""));
    options = (struct weir_fleet_options){.most_held = -1};
    CHECK(!read_options_of("local", ""));
    options = (struct weir_fleet_options){.clock = 2};
    CHECK(!read_options_of("local", ""));
}

/* What a coordinator of this kind would never look at is refused, not passed over in silence. */
TEST(words_of_one_kind_of_coordinator)
{
    static const struct {
        const char *scheme, *query, *part; /* NULL: it is right */
    } words[] = {{"redis", "failover=trust", NULL},
                 {"redis+cluster", "failover=wait&writes=5", NULL},
                 {"zookeeper", "acl=private&writes=5", NULL},
                 {"weir", "writes=5", NULL},
                 {"zookeeper", "failover=trust", "failover is for redis:// and redis+cluster:// only"},
                 {"weir", "failover=trust", "failover is for redis:"},
                 {"local", "acl=private", "acl is for zookeeper:// only"},
                 {"redis", "acl=private", "acl is for zookeeper:// only"},
                 {"redis+cluster", "acl=private", "acl is for zookeeper:// only"},
                 {"redis", "exact=1", "no option 'exact'"},
                 {"redis", "Failover=trust", "did you mean failover?"},
                 {"redis", "fail_over=trust", "did you mean failover?"},
                 {"redis", "writs=5", "did you mean writes?"},
                 {"zookeeper", "alc=private", "did you mean acl?"},
                 {"redis", "failover=wait&failover=trust", "written twice"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        memset(&options, 0, sizeof options);
        bool good = read_options_of(words[i].scheme, words[i].query);
        if (!CHECK(good == !words[i].part) || (!good && !CHECK(strstr(err.text, words[i].part))))
            printf("# %s?%s: %s\n", words[i].scheme, words[i].query, err.text);
    }
}

/* ---- terms ---- */

static struct lease_terms terms;

static bool read_terms(const char *spec)
{
    CHECK(read_options(""));
    return weir_fleet_terms(spec, &options, &terms, &err);
}

TEST(a_quota_and_a_bucket_have_terms)
{
    CHECK(read_terms("50M/m algo=quota"));
    CHECK_EQ(terms.kind, LEASE_QUOTA);
    CHECK_EQ(terms.total, 50000000);
    CHECK_EQ(terms.window_ns, 60 * WEIR_SEC);
    CHECK(terms.base > 0 && terms.chunk > 0);
    CHECK(read_terms("10k/s burst=20k"));
    CHECK_EQ(terms.kind, LEASE_BUCKET);
    CHECK_EQ(terms.total, 10000);
    CHECK_EQ(terms.burst, 20000);
}

TEST(other_limits_are_refused_with_what_to_write)
{
    static const char *const wrong[] = {
        "100/s algo=fixed-window", "100/s, 1000/h",          "unlimited", "blocked",
        "100/s initial=5",         "100/s algo=leaky-bucket"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (!CHECK(!read_terms(wrong[i])) || !CHECK(strstr(err.text, "algo=quota")))
            printf("# '%s': %s\n", wrong[i], err.text);
    CHECK(!read_terms("100/s algo=fixed-window"));
    CHECK_STR(err.text,
              "100/s algo=fixed-window: a fleet has no such limit; write 100/s algo=quota for a total in "
              "each window, or 100/s burst=200 for a bucket");
    CHECK(!read_terms("nonsense"));
    CHECK(!read_terms(NULL));
    CHECK(!read_terms("1/ns algo=quota"));
}
