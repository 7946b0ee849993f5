"""Deliver from inside: what it uses, what is full, what waits for what."""

from .panels import dashboard, graph, quantiles, row, selector

DELIVER = {"component": "deliver"}


def build():
    per_process = lambda metric, legend="{{instance}}", how="sum": (
        f"{how} by (instance) ({metric}{selector(**DELIVER)})",
        legend,
    )
    by_reason = lambda metric: (f"sum by (reason) ({metric}{selector()})", "{{reason}}")
    return dashboard(
        "mailrail-deliver",
        "mailrail / Deliver",
        "Use, saturation and errors of stage two.",
        [
            row(
                "Use",
                graph(
                    "Attempts in flight",
                    "Open requests, by process; at most deliver.attempts_in_flight_max.",
                    "short",
                    per_process("mailrail_deliver_in_flight"),
                ),
                graph(
                    "CPU",
                    "Cores, by pod; from the cluster.",
                    "short",
                    (
                        'sum by (pod) (rate(container_cpu_usage_seconds_total{namespace=~"$namespace", pod=~".*mailrail.*-deliver-.*", container="mailrail"}[$__rate_interval]))',
                        "{{pod}}",
                    ),
                ),
                graph(
                    "Memory",
                    "Working set, by pod; from the cluster.",
                    "bytes",
                    (
                        'sum by (pod) (container_memory_working_set_bytes{namespace=~"$namespace", pod=~".*mailrail.*-deliver-.*", container="mailrail"})',
                        "{{pod}}",
                    ),
                ),
            ),
            row(
                "Saturation",
                graph(
                    "Fullest window",
                    "At 1 its partition is not read any further.",
                    "percentunit",
                    per_process("mailrail_deliver_window_fill", how="max"),
                    defaults={"min": 0, "max": 1},
                ),
                graph(
                    "Records in windows",
                    "Deliveries that are neither done nor parked.",
                    "short",
                    per_process("mailrail_deliver_window_records"),
                ),
                graph(
                    "Bytes in windows",
                    "Their size; at most 256 MiB a process.",
                    "bytes",
                    per_process("mailrail_deliver_window_bytes"),
                ),
            ),
            row(
                "Waiting",
                graph(
                    "Parked deliveries by reason",
                    "What they wait for; behind_head waits for another one of its mailbox.",
                    "short",
                    by_reason("mailrail_deliver_held_by_reason"),
                ),
                graph(
                    "Mailboxes by reason",
                    "What the first of a mailbox waits for.",
                    "short",
                    by_reason("mailrail_deliver_held_mailboxes"),
                ),
                graph(
                    "Longest wait",
                    "Of a parked delivery that is first in its mailbox, and of a mailbox that its first delivery holds up.",
                    "s",
                    (f"max(mailrail_deliver_oldest_held_seconds{selector()})", "held"),
                    (f"max(mailrail_deliver_lane_blocked_seconds{selector()})", "mailbox blocked"),
                ),
            ),
            row(
                "Limits over all processes",
                graph(
                    "Processes on their share",
                    "Redis is away or may have forgotten: limits are not shared.",
                    "short",
                    (f"sum(mailrail_limits_on_share{selector(**DELIVER)})", "on their share"),
                    (f"max(mailrail_limits_processes{selector(**DELIVER)})", "processes that take leases"),
                ),
                graph(
                    "Redis errors",
                    "Exchanges and signs of life that failed, by code.",
                    "ops",
                    (
                        f"sum by (reason) (rate(mailrail_limits_store_failures_total{selector()}[$__rate_interval]))",
                        "{{reason}}",
                    ),
                ),
                graph(
                    "Asks for leases",
                    "How deliveries got theirs; refused ones are held.",
                    "ops",
                    (
                        f"sum by (outcome) (rate(mailrail_limits_lease_asks_total{selector()}[$__rate_interval]))",
                        "{{outcome}}",
                    ),
                ),
                graph(
                    "Leases",
                    "In use or kept for a moment, by process.",
                    "short",
                    per_process("mailrail_limits_leases"),
                    width=12,
                ),
                graph(
                    "Leases lost",
                    "Redis had forgotten them, or they are left to expire.",
                    "short",
                    (
                        f"sum(increase(mailrail_limits_leases_lost_total{selector()}[$__rate_interval]))",
                        "forgotten while in use",
                    ),
                    (
                        f"sum(increase(mailrail_limits_leases_left_to_expire_total{selector()}[$__rate_interval]))",
                        "left to expire",
                    ),
                    width=12,
                ),
            ),
            row(
                "Processes that die",
                graph(
                    "Isolated partitions",
                    "One delivery is tried at a time, since processes died while they owned them.",
                    "short",
                    per_process("mailrail_deliver_isolated_partitions"),
                    width=12,
                ),
                graph(
                    "Quarantine",
                    "Records that could not be read, or that kill the process.",
                    "short",
                    (
                        f"sum(increase(mailrail_deliver_quarantined_total{selector()}[$__rate_interval]))",
                        "deliver",
                    ),
                    width=12,
                ),
            ),
            row(
                "Errors",
                graph(
                    "Share of attempts that fail",
                    "Of all attempts.",
                    "percentunit",
                    (
                        f"1 - (sum(rate(mailrail_deliver_attempts_total{selector(outcome='delivered')}[$__rate_interval])) or vector(0)) / sum(rate(mailrail_deliver_attempts_total{selector()}[$__rate_interval]))",
                        "not delivered",
                    ),
                    defaults={"min": 0, "max": 1},
                ),
                graph(
                    "Attempts by time",
                    "Attempts that took at most so long.",
                    "ops",
                    (
                        f"sum by (le) (rate(mailrail_deliver_attempt_seconds_bucket{selector()}[$__rate_interval]))",
                        "{{le}} s",
                    ),
                ),
                graph(
                    "Attempts of a delivery",
                    "How many it took until a delivery ended.",
                    "short",
                    *quantiles("mailrail_deliver_attempts_per_delivery"),
                    width=12,
                ),
                graph(
                    "Dead letters by reason",
                    "Why deliveries are given up.",
                    "short",
                    (
                        f"sum by (reason) (increase(mailrail_deliver_dead_letters_total{selector()}[$__rate_interval]))",
                        "{{reason}}",
                    ),
                    width=12,
                ),
            ),
            row(
                "By kind",
                graph(
                    "Delivered by event type",
                    "Each process names the first few event types; other is the rest.",
                    "ops",
                    (
                        f"sum by (event_type) (rate(mailrail_deliver_settled_total{selector(outcome='delivered')}[$__rate_interval]))",
                        "{{event_type}}",
                    ),
                    width=12,
                ),
                graph(
                    "Time of an attempt by class",
                    "What 99 of 100 attempts take at most, by the class of the recipient's mailbox.",
                    "s",
                    (
                        f"histogram_quantile(0.99, sum by (le, class) (rate(mailrail_deliver_attempt_seconds_bucket{selector()}[$__rate_interval])))",
                        "{{class}}",
                    ),
                    width=12,
                ),
            ),
        ],
    )
