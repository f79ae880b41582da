"""The twelve measurements of the ReasoningBank report (2025-10-10, version 1.0.0), and what ours measure instead."""

from typing import NamedTuple


class Measurement(NamedTuple):
    """One row of that table."""

    key: str
    published: str
    """Its name there."""
    published_ms: float
    per: str
    """What the published time is for."""
    theirs: str
    """What it measured, as far as the report tells."""
    ours: str
    """What is measured here."""


MEASUREMENTS = (
    Measurement("open", "Database Connection", 0.000, "call", "handing out a connection that is open",
                "opening the file: checks, schema, indexes, and closing it"),
    Measurement("configuration", "Configuration Loading", 0.000, "call", "handing out what was read before",
                "reading files and environment, checking every value"),
    Measurement("insert", "Memory Insertion (Single)", 1.190, "memory", "JSON and vector written, vector given",
                "embedding, tokens, row, vector and keyword index, one durable transaction"),
    Measurement("batch", "Batch Insertion (100)", 116.7, "100 memories", "100 single insertions",
                "100 memories embedded and written in one durable transaction"),
    Measurement("retrieve", "Memory Retrieval (No Filter)", 24.009, "call", "fetching every candidate",
                "all of it: embedding, two legs, fusion, diversity, the record"),
    Measurement("retrieve_domain", "Memory Retrieval (Domain Filter)", 5.870, "call", "fetching a domain's candidates",
                "the same within a domain that a quarter of the items has"),
    Measurement("usage", "Usage Increment", 0.052, "call", "one UPDATE",
                "recording a retrieval of three: event, figures, three counts, written durably"),
    Measurement("metric", "Metrics Logging", 0.108, "call", "one INSERT", "one event of the audit trail, durably"),
    Measurement("cosine", "Cosine Similarity (1024-dim)", 0.005, "pair", "one pair in JavaScript",
                "one pair as the index computes it, of a block of 1,000"),
    Measurement("statistics", "View Queries", 0.758, "call", "reading the views", "all counts of the bank's status"),
    Measurement("all_active", "Get All Active Memories", 7.693, "call", "every row",
                "every item, checked as a model"),
    Measurement("insert_1000", "Scalability Test (1000)", 1.185, "memory", "1,000 single insertions",
                "1,000 single durable insertions, one after the other"),
)  # fmt: skip
"""In the order of the report; its Operations/second are the inverse of these times."""

ITEMS, DIMENSIONS = 2431, 1024
BYTES_PER_MEMORY = 5.32 * 1024
GROWTH_MS = {1000: 63.52, 2431: 24.01}
"""Retrieval by size. That 1,000 take longer than 2,431 is in the report itself, which calls it linear."""
