"""Clusters of articles: followed from the output topics, kept in a store on disk, published on a topic.

    model      clusters, their articles, windows, the ids of clusters, and output records
    schema     the stored format of a store, opened and checked
    union      adds the outputs of one batch, and unites the clusters that they join
    store      applies batches, forgets old articles; answers from any thread by ``queries``
    follow     reads the output topics on into the store
    publish    writes the clusters that changed to ``topics.clusters``, exactly once

The cluster of an article is that of its match; an article without a match begins one. A cluster is therefore a tree,
and its first article is the root. The outputs may arrive in any order, and more than once: the store comes to the same
clusters. It is made of the outputs alone, and can be deleted and built from them again.
"""
