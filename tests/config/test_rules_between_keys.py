"""Problems between keys that are each valid alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_dedup.config.load import load_config
from tests.config.files import problems_of, write


def test_security_settings_that_would_not_be_used_are_refused(tmp_path: Path) -> None:
    """TLS and SASL keys without their protocol would look safer than they are."""
    told = problems_of(tmp_path, '[kafka]\nsasl_username = "me"\nssl_cafile = "/nope"\n')
    assert [line for line in told if "PLAINTEXT does not use it" in line] == told[:2]


def test_sasl_needs_its_keys(tmp_path: Path) -> None:
    """A SASL protocol without mechanism, name and password names all three."""
    told = problems_of(tmp_path, '[kafka]\nsecurity_protocol = "SASL_SSL"\n')
    assert [line.partition(":")[0] for line in told] == [
        "kafka.sasl_mechanism",
        "kafka.sasl_username",
        "kafka.sasl_password_file",
    ]


def test_a_token_takes_the_place_of_name_and_password(tmp_path: Path) -> None:
    """OAUTHBEARER needs its file and nothing else; a name or a token that is not used is a problem."""
    token = tmp_path / "token"
    token.write_text("x")
    sasl = '[kafka]\nsecurity_protocol = "SASL_SSL"\nsasl_mechanism = '
    load_config(write(tmp_path, f'{sasl}"OAUTHBEARER"\nsasl_token_file = "{token}"\n'), {}, {})
    told = problems_of(tmp_path, f'{sasl}"OAUTHBEARER"\nsasl_username = "me"\n')
    assert [line.partition(";")[0] for line in told] == [
        "kafka.sasl_token_file: required by OAUTHBEARER",
        "kafka.sasl_username, kafka.sasl_mechanism: OAUTHBEARER does not use it",
    ]
    told = problems_of(
        tmp_path, f'{sasl}"PLAIN"\nsasl_username = "me"\nsasl_password_file = "{token}"\nsasl_token_file = "{token}"\n'
    )
    assert told == ["kafka.sasl_token_file, kafka.sasl_mechanism: PLAIN does not use it; remove kafka.sasl_token_file"]


@pytest.mark.parametrize("role", ["unique", "duplicate", "rejected", "clusters"])
def test_a_topic_has_one_role(tmp_path: Path, role: str) -> None:
    """An output that is an input would feed itself; an output that is the log would break it."""
    for name in ("articles", "stream-dedup.fingerprints"):
        assert repr(name) in problems_of(tmp_path, f'[topics]\n{role} = "{name}"\n')[0]


def test_articles_stay_in_their_clusters_for_a_week_and_for_the_window(tmp_path: Path) -> None:
    """A shorter time is refused: a window of clusters, or of the log, would reach further back than they do."""
    assert load_config(write(tmp_path, '[clusters]\nkeep = "7d"\n[match]\nwindow = "7d"\n')).clusters.keep == "7d"
    (told,) = problems_of(tmp_path, '[clusters]\nkeep = "167h"\n')
    assert told == "clusters.keep: clusters are counted in windows of up to a week; set at least 7d"
    (told,) = problems_of(tmp_path, '[clusters]\nkeep = "10d"\n[match]\nwindow = "11d"\n')
    assert told.startswith("clusters.keep, match.window: ")


@pytest.mark.parametrize(
    ("text", "keys", "word"),
    [
        ('[input]\nhtml_fields = ["body"]\n', "input.html_fields", "'body' is not a field of the text"),
        ("[input]\nfields = { title = 2 }\ntext_field = 'body'\n", "input.text_field", "input.fields"),
        ('[input]\nformat = "text"\nscope_field = "site"\n', "input.scope_field", "plain text has no fields"),
        ("[input]\nfields = { title = 99 }\n", "input.fields", "1 to 16"),
        (
            "[input]\nid_field = 'a..b'\n",
            "input.id_field = 'a..b'",
            "at character 3: a step without a name; remove",
        ),
        (
            "[input]\nid_field = 'ids[]'\n",
            "input.id_field = 'ids[]'",
            "at character 4: all elements are several",
        ),
        ("[input]\nscope_field = 'a[].b'\n", "input.scope_field = 'a[].b'", "at character 2: all elements are several"),
        (
            "[input]\ntext_field = 'a.0'\n",
            "input.text_field = 'a.0'",
            "at character 3: 0 can be an element",
        ),
        ("[input]\ntext_field = ''\n", "input.text_field = ''", "at character 1: a field without a name"),
        ("[input]\nfields = { a = 1, 'b[' = 2 }\n", "input.fields", "field 'b[', at character 2: a [ without a ]"),
        ("[input]\ndelete_field = 'op'\n", "input.delete_field, input.deletes", "no record is a delete"),
        (
            "[input]\ndeletes = 'withdraw'\ndelete_id_field = 'before.id'\n",
            "input.delete_id_field, input.delete_field",
            "set input.delete_field, or remove input.delete_id_field",
        ),
        (
            "[input]\ndeletes = 'withdraw'\ndelete_value = 'REMOVE'\n",
            "input.delete_value, input.delete_field",
            "no field has the operation",
        ),
        (
            "[input]\nformat = 'text'\ndeletes = 'withdraw'\ndelete_field = 'op'\n",
            "input.delete_field, input.format",
            "plain text has no fields",
        ),
        ("[input]\nkey_field = 'ids[]'\n", "input.key_field = 'ids[]'", "at character 4: all elements are several"),
        ("[topics]\ninput = ['^a(']\n", "topics.input", "not a regular expression: missing )"),
        ("[topics]\ninput = ['^(news|[a-z]+)+$']\n", "topics.input", "one name could take hours: a group is repeated"),
        ("[topics]\ninput = ['a*']\n", "topics.input", "not a topic name"),
        ("[topics]\nunique = '^a'\n", "topics.unique", "not a topic name"),
    ],
)
def test_what_is_wrong_between_keys_is_named(tmp_path: Path, text: str, keys: str, word: str) -> None:
    """With the key to change and what to do."""
    told = [line for line in problems_of(tmp_path, text) if line.startswith(keys)]
    assert told
    assert word in told[0]


def test_a_registry_has_an_address_and_one_way_to_say_who_asks(tmp_path: Path) -> None:
    """Avro and Protobuf need one; a password is in no address, and in no message."""
    avro = '[input]\nformat = "avro"\n'
    assert problems_of(tmp_path, avro) == ["registry.url, input.format: required by avro; set it"]
    load_config(write(tmp_path, '[input]\nformat = "json-schema"\n'), {}, {})
    (told,) = problems_of(tmp_path, avro + '[registry]\nurl = "http://me:hidden@registry:8081"\n')
    assert told.startswith("registry.url = 'http://…@registry:8081' (")
    assert "registry.username" in told
    no_servers = ["registry:8081", "ftp://registry", "http://", "http://registry:99999", "http://registry/?a=1"]
    no_servers += [f"http://{text}" for text in ("a..b:8081", "a" * 70, "a b", "registry/a b", "registry/ü")]
    for url in no_servers:
        (told,) = problems_of(tmp_path, f'{avro}[registry]\nurl = "{url}"\n')
        assert "not the address of a server" in told
    secret = tmp_path / "secret"
    secret.write_text("x")
    told_of = {
        'username = "me"': "a user name and a password go together",
        f'password_file = "{secret}"': "a user name and a password go together",
        f'username = "me"\npassword_file = "{secret}"\ntoken_file = "{secret}"': "exclude each other",
        f'ssl_cafile = "{secret}"': "the connection is not encrypted",
        'token_file = "/nope"': "registry.token_file: not the path of a readable file",
    }
    for keys, said in told_of.items():
        (told,) = problems_of(tmp_path, f'{avro}[registry]\nurl = "http://registry:8081/api"\n{keys}\n')
        assert said in told
        assert "hidden" not in told
