"""Where settings come from, what wins, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakegc_core.config.settings import (
    LakegcYaml,
    NeighbourSettings,
    RepositoryPolicy,
    ScaleSettings,
    ServerSettings,
    Settings,
)
from lakegc_core.config.stores import StoreMapping
from lakegc_core.config.urls import normalise_endpoint
from lakegc_core.errors import SettingsError
from tests.core.config.conftest import LAKECTL, SECRET, load


def test_without_any_file_the_defaults_hold(home: Path) -> None:
    settings = load(home)
    assert settings == Settings(server=ServerSettings("", "", ""))
    assert (settings.server.connection_timeout, settings.server.read_timeout) == (10.0, 60.0)
    assert settings.server.compaction == "assume"
    assert settings.spark.master == "local[*]"
    assert settings.lease == "internal"
    assert settings.policy_for("anything") == RepositoryPolicy(match="*")
    assert settings.policy_for("anything").min_age is None
    assert settings.policy_for("anything").protect_tags is None
    assert settings.policy_for("anything").rules is None
    assert settings.policy_for("anything").collect_unknown_names is False
    assert settings.policy_for("anything").safety is None


def test_lakegc_yaml_wins_over_lakectls_environment(home: Path) -> None:
    (home / ".lakectl.yaml").write_text(LAKECTL)
    config = "server: {endpoint_url: https://yaml.example, connection_timeout: 5s, read_timeout: 2m, compaction: never,"
    config += " task_timeout: 1h}"
    server = load(home, config, LAKECTL_SERVER_ENDPOINT_URL="https://env.example").server
    assert server.endpoint_url == "https://yaml.example"
    assert (server.access_key_id, server.secret_access_key) == ("AKIALAKECTL", SECRET)
    assert (server.connection_timeout, server.read_timeout, server.compaction) == (5.0, 120.0, "never")
    assert server.task_timeout == 3600.0


def test_the_configuration_is_the_named_file_else_the_variables_else_the_one_in_the_folder(
    home: Path,
) -> None:
    (home / "work" / "lakegc.yaml").write_text("spark: {master: here}")
    (home / "variable.yaml").write_text("spark: {master: variable}")
    assert load(home).spark.master == "here"
    variable = {"LAKEGC_CONFIG": str(home / "variable.yaml")}
    assert load(home, **variable).spark.master == "variable"
    assert load(home, "spark: {master: named}", **variable).spark.master == "named"


@pytest.mark.parametrize("by", ["option", "variable"])
def test_a_named_file_that_is_missing_is_an_error(home: Path, by: str) -> None:
    missing = str(home / "nowhere.yaml")
    env = {"HOME": str(home), **({"LAKEGC_CONFIG": missing} if by == "variable" else {})}
    with pytest.raises(SettingsError, match=r"nowhere\.yaml does not exist"):
        Settings.load(missing if by == "option" else None, env)


@pytest.mark.parametrize("what", ["a folder", "a link to nothing", "a link to itself"])
def test_a_file_of_the_folder_that_cannot_be_read_is_not_passed_over(home: Path, what: str) -> None:
    """Its holds would not count. Docker makes a folder where a file that is to be mounted is not there."""
    file = home / "work" / "lakegc.yaml"
    if what == "a folder":
        file.mkdir()
    else:
        file.symlink_to("nowhere.yaml" if what == "a link to nothing" else file.name)
    with pytest.raises(SettingsError, match=r"lakegc\.yaml (is a folder|does not exist|cannot be read)"):
        load(home)


def test_every_documented_key_is_read(home: Path) -> None:
    settings = load(
        home,
        """
server:       {endpoint_url: "http://x:1", connection_timeout: 10s, read_timeout: 60s}
stores:
  - {match: "https://acc.blob.core.windows.net/", endpoint: "http://127.0.0.1:10000/acc"}
  - {match: "local://", root: /srv/lakefs}
spark:
  master: "local[2]"
  conf: {spark.driver.memory: 2g, spark.ui.enabled: false, spark.cores.max: 4}
scale:        {range_num_partitions: 50, address_num_partitions: 200, listing_parallelism: 8,
               delete_parallelism: 4, delete_rate: 3500}
lease:        external
repositories:
  - {match: "prod-*", safety: standard, min_age: 48h, protect_tags: false,
     holds: ["tag:release-*", "path:legal/**"], sweep: true, workspace: "s3://ops/lakegc", backup_to: "s3://spare",
     keep_marks: 30}
  - {match: "scratch-*", mark: false}
  - {match: "*", safety: full, min_age: 25h, rules: keep-all-commits, sweep: false}
""",
    )
    azure, local = settings.stores
    assert azure == StoreMapping("https://acc.blob.core.windows.net/", "http://127.0.0.1:10000/acc", None)
    assert local == StoreMapping("local://", None, "/srv/lakefs")
    assert settings.store_for("local://q/ns") == local
    assert settings.store_for("s3://lake/ns") is None
    assert settings.spark.master == "local[2]"
    assert settings.spark.conf == {
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.cores.max": "4",
    }
    assert settings.scale == ScaleSettings(50, 200, 8, 4, 3500)
    assert settings.lease == "external"
    assert settings.policy_for("prod-eu") == RepositoryPolicy(
        match="prod-*",
        safety="standard",
        min_age=timedelta(hours=48),
        protect_tags=False,
        holds=("tag:release-*", "path:legal/**"),
        sweep=True,
        workspace="s3://ops/lakegc",
        backup_to="s3://spare",
        keep_marks=30,
    )
    assert not settings.policy_for("scratch-1").mark
    assert settings.policy_for("dev").rules == "keep-all-commits"
    assert settings.policy_for("dev").min_age == timedelta(hours=25)


@pytest.mark.parametrize("field", ["quarantine", "drill_within"])
def test_a_time_of_days_that_is_a_small_number_needs_its_unit(home: Path, field: str) -> None:
    for right in ("7s", "90000"):
        assert getattr(load(home, f"repositories: [{{match: a, {field}: {right}}}]").policy_for("a"), field)
    for wrong in ("7", "'7'", "0.5"):
        with pytest.raises(SettingsError, match="has no unit: did you mean"):
            load(home, f"repositories: [{{match: a, {field}: {wrong}}}]")


def test_the_first_policy_that_matches_wins_and_case_counts(home: Path) -> None:
    config = 'repositories: [{match: "a-*c", sweep: true}, {match: "a-b*", safety: none}]'
    settings = load(home, config)
    assert settings.policy_for("a-bc").sweep is True
    assert settings.policy_for("a-bc").safety is None
    assert settings.policy_for("a-bd").safety == "none"
    assert settings.policy_for("A-bc") == RepositoryPolicy(match="*")


@pytest.mark.parametrize(
    ("match", "fits", "does_not"),
    [
        ("s3://bucket", ["s3://bucket", "s3://bucket/", "s3://bucket/pre"], ["s3://bucket2", "s3://bucket2/pre"]),
        ("s3://bucket/pre", ["s3://bucket/pre", "s3://bucket/pre/a"], ["s3://bucket/prefix2", "s3://bucket"]),
        ("s3://bucket/pre/", ["s3://bucket/pre", "s3://bucket/pre/a"], ["s3://bucket/prefix2", "s3://bucket/"]),
        ("local://", ["local://lake", "local://lake/a"], ["s3://lake"]),
        ("https://acc.blob.core.windows.net/", ["https://acc.blob.core.windows.net/c/a"], ["https://acc.blob.other/c"]),
    ],
)
def test_a_store_is_matched_by_whole_segments(match: str, fits: list[str], does_not: list[str]) -> None:
    mapping = StoreMapping(match, "http://there")
    settings = Settings(ServerSettings("http://x", "a", "b"), stores=(mapping,))
    assert [settings.store_for(each) for each in fits] == [mapping] * len(fits)
    assert [settings.store_for(each) for each in does_not] == [None] * len(does_not)


@pytest.mark.parametrize(
    "url", ["pushgateway:9091", "http://", "http://a:b@c", "http://a?b=c", "ftp://a", "http://a:x"]
)
def test_a_pushgateway_without_a_plain_url_is_refused_and_its_password_not_repeated(home: Path, url: str) -> None:
    with pytest.raises(SettingsError, match=r"metrics\.pushgateway.*without credentials") as caught:
        load(home, f"metrics: {{pushgateway: '{url}'}}\n")
    assert "a:b@" not in str(caught.value)
    assert load(home, "metrics: {pushgateway: 'https://push/x'}\n").metrics.pushgateway == "https://push/x"


@pytest.mark.parametrize("config", ["", "server:\nspark:\nscale:\nstores:\nrepositories:\n", "# only a comment\n"])
def test_empty_sections_read_as_absent(home: Path, config: str) -> None:
    assert load(home, config) == load(home)


@pytest.mark.parametrize(
    ("config", "key", "allowed"),
    [
        ("sevrer: {}", "sevrer", "server, spark, scale, stores, lease, price, metrics, neighbours, repositories"),
        ("server: {url: x}", "url", "endpoint_url, connection_timeout, read_timeout"),
        ("stores: [{match: a, root: b, path: c}]", "path", "match, endpoint, root, versions, etags"),
        ("spark: {cores: 2}", "cores", "master, conf"),
        ("scale: {num_partitions: 9}", "num_partitions", "range_num_partitions, address_num_partitions"),
        ("repositories: [{match: a, minage: 1h}]", "minage", "min_age"),
    ],
)
def test_an_unknown_key_is_named_with_the_allowed_ones(home: Path, config: str, key: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(home, config)
    assert f"unknown key `{key}`" in str(caught.value)
    assert allowed in str(caught.value)


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ("quarantine: 7d", "it belongs into the entries of `repositories`"),
        ("spark: {connection_timeout: 5s}", "it belongs below `server`"),
        ("repositories: [{match: a, per_gb_month: 0.02}]", "it belongs below `price`"),
        ("stores: [{match: a, quarantine: 7d}]", "it belongs into the entries of `repositories`"),
    ],
)
def test_a_key_in_the_wrong_place_is_told_where_it_belongs(home: Path, config: str, place: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(home, config)
    assert f" ({place}); allowed are" in str(caught.value)


def test_all_problems_are_told_at_once_and_a_key_that_is_nearly_right_is_recognised(home: Path) -> None:
    config = "repositories: [{match: a}, {match: b, min_agee: 1h, min_age: soon}]\nlease: shared"
    with pytest.raises(SettingsError) as caught:
        load(home, config)
    lines = str(caught.value).splitlines()
    assert [line.partition("named.yaml: ")[2].partition(";")[0] for line in lines] == [
        "`lease` must be one of internal, external, not 'shared'",
        "`repositories[1].min_age`: 'soon' is no duration",
        "`repositories[1]`: unknown key `min_agee` (did you mean `min_age`?)",
    ]


def test_the_schema_of_the_file_describes_every_key() -> None:
    schema = LakegcYaml.model_json_schema()
    sections = [schema, *schema["$defs"].values()]
    assert all("description" in section for section in sections)
    told = [key for section in sections for key, field in section["properties"].items() if "description" in field]
    assert {"within", "delete_rate", "versions", "per_gb_month", "min_age", "read_timeout", "root"} <= set(told)
    silent = {key for section in sections for key in section["properties"]} - set(told)
    assert silent == {"server", "spark", "scale", "metrics", "neighbours"}, "their own sections are described"


@pytest.mark.parametrize("key", ["secret_access_key", "access_key_id", "credentials"])
def test_a_secret_in_lakegc_yaml_is_an_unknown_key_and_not_repeated(home: Path, key: str) -> None:
    with pytest.raises(SettingsError, match=f"unknown key `{key}`") as caught:
        load(home, f"server: {{{key}: '{SECRET}'}}")
    assert SECRET not in str(caught.value)
    assert "lakectl" in str(caught.value)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("[1, 2]", "keys and values"),
        ("server: here", "`server` must be keys and values, not a text"),
        ("stores: {match: a}", "`stores` must be a list"),
        ("stores: [{root: b}]", "`match` is missing"),
        ("stores: [{match: a}]", "neither `endpoint` nor `root`"),
        ("stores: [{match: a, root: /b}]", "`match` is the beginning of addresses, such as s3://lake/"),
        ('stores: [{match: "s3://lake/*", etags: md5}]', "`match` is the beginning of addresses, such as s3://lake/"),
        ('stores: [{match: "s3://a", endpoint: "minio:9000"}]', "`endpoint` must be a URL with http:// or https://"),
        ('stores: [{match: "s3://a", root: /b}]', "`root` is for addresses of blockstore local"),
        ("stores: [{match: 's3://a', etags: sha256}]", r"`stores\[0\].etags` must be md5, not 'sha256'"),
        ("stores: [{match: 's3://a', etags: true}]", r"`stores\[0\].etags` must be md5, not True"),
        ('stores: [{match: "s3://a", endpoint: "http://key:hunter2@minio:9000"}]', "`endpoint` .* without credentials"),
        ('stores: [{match: "https://a/", endpoint: "https://a.example?sig=hunter2"}]', "`endpoint` .* without cred"),
        ('stores: [{match: "s3://a", endpoint: "http://"}]', "`endpoint` must be a URL with http:// or https://"),
        (
            'stores: [{match: "local://", root: lakefs/data}]',
            "`root` is a folder from the root on, such as /srv/lakefs",
        ),
        (
            'stores: [{match: "S3://a", etags: md5}]',
            "`match` must begin with one of s3://, gs://, http://, https://, l",
        ),
        ('stores: [{match: "s3a://a", endpoint: "http://b"}]', "`match` must begin with one of s3://"),
        ("spark: {conf: {spark.master: 'yarn'}}", r"`spark.conf.spark.master`: this belongs into `spark.master`"),
        ("spark: {conf: {spark.remote: 'sc://a'}}", r"`spark.conf.spark.remote`: this belongs into `spark.master`"),
        ("repositories: [{match: a, keep_marks: 014}]", "counts it in eights; leave the 0 out"),
        ("repositories: [{match: a, min_age: " + "9" * 400 + "}]", "a number has more digits than"),
        ("repositories: [{match: a, budget: {most_bytes: '" + "9" * 5000 + "'}}]", "no amount of bytes"),
        ("lease: internal\n---\nlease: external\n", "line 2.*a second document begins there"),
        ("lease: internal\x00", "a character that YAML does not take"),
        ("server: " + "[" * 3000, "nested too deeply"),
        ("server: {endpoint_url: 'https://lake fs.example'}", "must read like https://lakefs.example.com"),
        ("stores: [{match: 'gs://a', etags: md5}]", "`etags: md5` is for addresses on S3: `match` must begin with s3:"),
        ("stores: [{match: 'local://', root: /b, etags: md5}]", "`etags: md5` is for addresses on S3"),
        ("lease: shared", "one of internal, external"),
        ("repositories: [{sweep: true}]", "`match` is missing"),
        ("repositories: [{match: a, safety: paranoid}]", "one of full, standard, none"),
        ("repositories: [{match: a, rules: none}]", "one of required, keep-all-commits"),
        ("repositories: [{match: a, sweep: 'yes'}]", r"`repositories\[0\].sweep` must be true or false, not "),
        (
            "repositories: [{match: a, protect_tags: 0}]",
            r"`repositories\[0\].protect_tags` must be true or false, not ",
        ),
        (
            "repositories: [{match: a, collect_unknown_names: all}]",
            r"`repositories\[0\].collect_unknown_names` must be true or false, not ",
        ),
        ("repositories: [{match: a, min_age: -1h}]", "negative"),
        ("repositories: [{match: a, min_age: soon}]", "no duration"),
        ("repositories: [{match: a, holds: [release]}]", "is no hold"),
        (
            "repositories: [{match: a, keep_marks: 1}]",
            r"`repositories\[0\].keep_marks` must be a whole number of at least 2, not 1",
        ),
        ("repositories: [{match: a, mark: nightly}]", r"`repositories\[0\].mark` must be true or false, not "),
        ("repositories: [{match: a, holds: ['tags:x']}]", "write tag:PATTERN or commit:PATTERN or branch:PATTERN or"),
        ("repositories: [{match: a, holds: 'tag:x'}]", r"`repositories\[0\].holds` must be a list"),
        ("repositories: [{match: a, holds: ['path:/legal/**']}]", "begins or ends with a slash.*'path:legal/\\*\\*'"),
        ("repositories: [{match: a, holds: ['path:legal/']}]", "begins or ends with a slash"),
        ("repositories: [{match: a, holds: ['path:']}]", "is no hold"),
        ("repositories: [{match: a, holds: ['commit:9F2C']}]", "lower-case.*write 'commit:9f2c'"),
        ("repositories: [{match: a, holds: ['commit:main']}]", "is no id of a commit"),
        ("repositories: [{match: a, holds: ['tag: v1']}]", "white space around"),
        ("server: {read_timeout: 0}", "more than 0"),
        ("server: {endpoint_url: 7}", "must be a text"),
        ("scale: {delete_rate: 0}", "`scale.delete_rate` must be a whole number of at least 1, not 0"),
        ("scale: {delete_parallelism: -2}", "at least 1, not -2"),
        ("scale: {listing_parallelism: 2.5}", "a whole number of at least 1, not 2.5"),
        ("scale: {range_num_partitions: true}", "not True; leave it out for the default"),
        ("scale: {address_num_partitions: '200'}", "not '200'"),
        ("spark: {conf: {a: [1]}}", "`spark.conf.a` must be a text, a number or true or false, not a list"),
        (
            "spark: {conf: {spark.driver.memory: lots}}",
            r"`spark.conf.spark.driver.memory`: this is no amount of memory; write .* such as 4g",
        ),
        ("spark: {conf: {spark.driver.memory: 4096}}", r"`spark.conf.spark.driver.memory`: .* such as 4g"),
        ("spark: {conf: {spark.driver.memory: 4gb}}", r"`spark.conf.spark.driver.memory`: .* such as 4g"),
        ("spark: {conf: {spark.executor.memory: 0g}}", r"`spark.conf.spark.executor.memory`: .* such as 4g"),
        ("spark: {conf: {driver.memory: 4g}}", r"`spark.conf.driver.memory`: .*did you mean spark.driver.memory\?"),
        ("repositories: [{match: a, budget: {until: 22:00}}]", "in sixties; write 48h, or put a time of day in quotes"),
        ("lease: internal\nlease: external\n", "'lease' twice"),
        ("server: {a: [}", r"not valid YAML \(line 1\)"),
    ],
)
def test_a_value_that_is_none_says_where_and_what_is_expected(home: Path, config: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says) as caught:
        load(home, config)
    assert "named.yaml" in str(caught.value) and "hunter2" not in str(caught.value)


def test_amounts_of_memory_that_spark_takes_are_read_as_they_are(home: Path) -> None:
    config = "spark: {conf: {spark.driver.memory: 512M, spark.executor.memory: 4096}}"
    assert load(home, config).spark.conf == {"spark.driver.memory": "512M", "spark.executor.memory": "4096"}


def test_no_repr_shows_a_secret(home: Path) -> None:
    (home / ".lakectl.yaml").write_text(LAKECTL)
    settings = load(home, f"spark: {{conf: {{spark.hadoop.fs.s3a.secret.key: {SECRET}}}}}")
    assert settings.server.secret_access_key == SECRET
    assert SECRET not in repr(settings)
    assert SECRET not in str(settings.server)


def test_missing_credentials_are_an_error_only_when_a_server_is_needed(home: Path) -> None:
    settings = load(home)
    with pytest.raises(SettingsError) as caught:
        settings.server.require()
    for place in (
        ".lakectl.yaml",
        "LAKECTL_SERVER_ENDPOINT_URL",
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID",
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY",
    ):
        assert place in str(caught.value)
    assert caught.value.exit_code == 2


def test_only_what_is_missing_is_asked_for() -> None:
    with pytest.raises(SettingsError) as caught:
        ServerSettings("http://x", "key", "").require()
    assert "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY" in str(caught.value)
    assert "LAKECTL_SERVER_ENDPOINT_URL" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://h:8000",
        "http://h:8000/",
        "http://h:8000/api/v1",
        "http://h:8000/api/v1/",
        " http://h:8000/api/v1// ",
    ],
)
def test_an_endpoint_may_end_in_a_slash_or_in_the_apis_path(url: str) -> None:
    assert normalise_endpoint(url) == "http://h:8000"
    assert ServerSettings(url, "a", "b").endpoint_url == "http://h:8000"


def test_an_endpoint_below_a_path_keeps_it() -> None:
    assert normalise_endpoint("https://h/lakefs/api/v1") == "https://h/lakefs"


@pytest.mark.parametrize("url", ["lakefs.example.com", "s3://b", "http://", "http://h:port", "http://h?x=1"])
def test_an_endpoint_that_is_no_http_url_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="endpoint"):
        normalise_endpoint(url)


def test_credentials_inside_the_endpoint_are_refused_and_not_repeated() -> None:
    with pytest.raises(SettingsError, match="must not hold credentials") as caught:
        normalise_endpoint("http://user:hunter2@h")
    assert "hunter2" not in str(caught.value)


def test_what_has_to_be_known_of_neighbours_can_be_said(home: Path) -> None:
    assert load(home).neighbours == NeighbourSettings(timedelta(days=7), False, ())
    found = load(home, "neighbours: {within: 2d, strict: true, ignore: [archive-*, old]}").neighbours
    assert found == NeighbourSettings(timedelta(days=2), True, ("archive-*", "old"))
    for odd in ("{within: 0d}", "{ignore: old}", "{ignore: [1]}", "{strict: maybe}", "{days: 2}"):
        with pytest.raises(SettingsError, match="neighbours"):
            load(home, f"neighbours: {odd}")


@pytest.mark.parametrize("place", ["backups", "local://spare"])
def test_a_relative_folder_and_a_namespace_of_lakefs_are_no_places_of_backups(home: Path, place: str) -> None:
    with pytest.raises(SettingsError, match=f"'{place}' is no place: give a URI"):
        load(home, f"repositories: [{{match: '*', backup_to: '{place}'}}]")


@pytest.mark.parametrize("written", ["{repo}", "{repository", "repository}", "{{repository}}", "{ repository }"])
def test_a_placeholder_that_stands_for_nothing_is_no_place_of_backups(home: Path, written: str) -> None:
    """Else the backups of all repositories would lie in one folder of that name."""
    with pytest.raises(SettingsError, match=r"has braces that stand for nothing; \{repository\} stands for the name"):
        load(home, f"repositories: [{{match: '*', backup_to: 's3://spare/{written}'}}]")


def test_the_place_of_backups_may_hold_the_name_of_the_repository(home: Path) -> None:
    found = load(home, "repositories: [{match: '*', backup_to: 's3://spare/{repository}'}]")
    assert found.policy_for("lake").backups_of("lake") == "s3://spare/lake"
    assert load(home, "repositories: [{match: '*'}]").policy_for("lake").backups_of("lake") is None
