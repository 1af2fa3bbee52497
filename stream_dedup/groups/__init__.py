"""Groups of articles: followed from the output topics, kept in a store on disk, published on a topic.

    model      groups, their articles, windows, the ids of groups, and output records
    schema     the stored format of a store, opened and checked
    union      the groups of one batch of outputs, in memory
    store      applies batches, forgets old articles; answers from any thread by ``queries``
    follow     reads the output topics on into the store
    publish    writes the groups that changed to ``topics.groups``, exactly once

The group of an article is that of its match; an article without a match begins one. A group is therefore a tree, and
its first article is the root. The outputs may arrive in any order, and more than once: the store comes to the same
groups. It is made of the outputs alone, and can be deleted and made again from them.
"""

from stream_dedup.groups.model import (
    ArticleGroup,
    GroupedArticle,
    MemberPage,
    MissingOutputs,
    VerdictCounts,
    Window,
    group_id_of,
    parse_group_id,
)
from stream_dedup.groups.store import GroupStore

__all__ = [
    "ArticleGroup",
    "GroupStore",
    "GroupedArticle",
    "MemberPage",
    "MissingOutputs",
    "VerdictCounts",
    "Window",
    "group_id_of",
    "parse_group_id",
]
