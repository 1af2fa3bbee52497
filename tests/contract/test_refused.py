"""What a missing right becomes, on a real broker with an authorizer: ``RefusedByBrokerError`` at once, with the reason.

Here the members of groups may do everything except what a test denies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from time import process_time

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from stream_dedup.config.model import KafkaConfig
from stream_dedup.core.model import LogOffset
from stream_dedup.kafka.connection import make_admin
from stream_dedup.ports import Membership, Partition, PassingError, PortError, RefusedByBrokerError, WorkerPorts
from tests.contract.kafka_world import CLIENTS, WAIT_LIMIT_S, KafkaWorld
from tests.contract.members import join, start_at
from tests.contract.test_sink import begun, output, send_and_flush
from tests.contract.world import World
from tests.logs import rules
from tests.secured import MEMBERS, Secured, login
from tests.waiting import wait_until

KINDS = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
MOST_PROCESSOR_S = 2.0
"""Far below what a loop without pauses takes until a time-out."""

START = start_at(0)
Deny = Callable[[ResourceType, str, ACLOperation], None]


@pytest.fixture(scope="module")
def admitted(secured: Secured) -> Iterator[KafkaAdminClient]:
    """Allow the members everything; return the client of an administrator."""
    rights = [acl(kind, "*", ACLOperation.ALL, ACLPermissionType.ALLOW) for kind in KINDS]
    with closing(make_admin(KafkaConfig(brokers=secured.plain))) as admin:
        admin.create_acls(rights)
        wait_until(lambda: all(knows(admin, right) for right in rights), WAIT_LIMIT_S, "the broker knows the rights")
        yield admin


@pytest.fixture(params=CLIENTS)
def world(request: pytest.FixtureRequest, secured: Secured) -> Iterator[World]:
    """Return a world whose members come in by password."""
    with ExitStack() as stack:
        yield KafkaWorld(secured.plain, stack, brokers=secured.users, client=request.param, **login(secured, MEMBERS))


@pytest.fixture
def deny(admitted: KafkaAdminClient) -> Deny:
    """Return a function that denies the members one operation on one resource, and allows all others."""

    def denied(kind: ResourceType, name: str, operation: ACLOperation) -> None:
        admitted.create_acls([acl(kind, name, operation, ACLPermissionType.DENY)])

    return denied


def acl(kind: ResourceType, name: str, operation: ACLOperation, permission: ACLPermissionType) -> ACL:
    return ACL(f"User:{MEMBERS}", "*", operation, permission, ResourcePattern(kind, name))


def knows(admin: KafkaAdminClient, right: ACL) -> bool:
    found, _ = admin.describe_acls(right)
    return bool(found)


def refused(world: World, call: Callable[[], object]) -> RefusedByBrokerError:
    """Repeat a call until the broker has heard of the right that is missing; return the error."""
    errors: list[PortError] = []

    def raises() -> bool:
        try:
            call()
        except PassingError:
            return False
        except PortError as error:
            errors.append(error)
        return bool(errors)

    world.wait_until(raises, "the call is refused")
    assert isinstance(errors[0], RefusedByBrokerError)
    return errors[0]


@pytest.fixture
def ports(world: World) -> WorkerPorts:
    """The ports of a worker; its group is as its topics are named."""
    group = world.name("group")
    world.make_log(group)
    world.make_topic(world.name("articles"))
    return world.ports(group, world.name("group-member"))


def test_a_transactional_id_that_may_not_be_used(world: World, ports: WorkerPorts, deny: Deny) -> None:
    """No busy loop: the broker's reason comes with the first answer."""
    deny(ResourceType.TRANSACTIONAL_ID, world.name("group-member"), ACLOperation.WRITE)
    assert "TransactionalIdAuthorizationFailedError" in str(refused(world, ports.sink.renew))
    before = process_time()
    with pytest.raises(RefusedByBrokerError):
        ports.sink.renew()
    assert process_time() - before < MOST_PROCESSOR_S


def test_an_output_topic_that_may_not_be_written(world: World, ports: WorkerPorts, deny: Deny) -> None:
    topic = world.name("unique")
    world.make_topic(topic)
    deny(ResourceType.TOPIC, topic, ACLOperation.WRITE)
    error = refused(world, lambda: send_and_flush(begun(ports.sink), output(topic, b"0")))
    assert "TopicAuthorizationFailedError" in str(error)


@pytest.mark.parametrize("operation", [ACLOperation.READ, ACLOperation.DESCRIBE])
def test_an_article_topic_that_may_not_be_read(
    world: World, ports: WorkerPorts, deny: Deny, operation: ACLOperation
) -> None:
    """Without the right to describe it the client would be given an empty assignment, and be silent."""
    at = Partition(world.name("articles"), 0)
    deny(ResourceType.TOPIC, at.topic, operation)
    ports.source.join([at.topic])
    begun_under: list[Membership] = []

    def poll() -> None:
        ports.source.poll(0.1)
        membership = ports.source.membership()
        if membership is not None and at in membership.partitions and membership not in begun_under:
            ports.source.begin(at, START)
            begun_under.append(membership)

    assert "TopicAuthorizationFailedError" in str(refused(world, poll))


def test_a_group_that_may_not_be_joined(world: World, ports: WorkerPorts, deny: Deny) -> None:
    deny(ResourceType.GROUP, world.name("group"), ACLOperation.READ)
    ports.source.join([world.name("articles")])
    assert "GroupAuthorizationFailedError" in str(refused(world, lambda: ports.source.poll(0.1)))


def test_offsets_that_may_not_be_committed(world: World, ports: WorkerPorts, deny: Deny) -> None:
    """In a transaction, by a member that has just lost the right."""
    at = Partition(world.name("articles"), 0)
    membership = join(world, ports.source, [at])
    deny(ResourceType.GROUP, world.name("group"), ACLOperation.READ)
    error = refused(world, lambda: begun(ports.sink).send_offsets({at: START}, membership))
    assert "GroupAuthorizationFailedError" in str(error)


def test_a_log_that_may_not_be_cut_described_or_written(world: World, ports: WorkerPorts, deny: Deny) -> None:
    topic = world.log_topic(world.name("group"))
    deny(ResourceType.TOPIC, topic, ACLOperation.DELETE)
    refused(world, lambda: ports.log.cut(LogOffset(0)))
    deny(ResourceType.TOPIC, topic, ACLOperation.WRITE)
    refused(world, lambda: ports.log.append(rules()).wait(60))
    deny(ResourceType.TOPIC, topic, ACLOperation.DESCRIBE)
    refused(world, lambda: ports.offsets.topic_ids([topic]))
