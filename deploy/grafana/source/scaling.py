"""Kafka and scaling: who owns what, how far behind, how many pods."""

from .panels import dashboard, graph, quantiles, row, selector

AUTOSCALERS = '{horizontalpodautoscaler=~".*mailrail.*", namespace=~"$namespace"}'
SCALERS = '{scaledObject=~".*mailrail.*"}'


def build():
    return dashboard(
        "mailrail-scaling",
        "mailrail / Kafka and scaling",
        "Partitions, takeovers, backlog and pods. Lag as KEDA sees it; what waits for a retry is no lag.",
        [
            row(
                "Pods",
                graph(
                    "Pods wanted and most",
                    "From kube-state-metrics.",
                    "short",
                    (
                        f"max by (horizontalpodautoscaler) (kube_horizontalpodautoscaler_status_desired_replicas{AUTOSCALERS})",
                        "{{horizontalpodautoscaler}} wanted",
                    ),
                    (
                        f"max by (horizontalpodautoscaler) (kube_horizontalpodautoscaler_spec_max_replicas{AUTOSCALERS})",
                        "{{horizontalpodautoscaler}} most",
                    ),
                ),
                graph(
                    "Lag that KEDA sees",
                    "From KEDA: records behind the group, as it gives them to the autoscaler.",
                    "short",
                    (f"max by (scaledObject) (keda_scaler_metrics_value{SCALERS})", "{{scaledObject}}"),
                ),
                graph(
                    "KEDA errors",
                    "From KEDA: questions to Kafka that failed.",
                    "ops",
                    (
                        f"sum by (scaledObject) (rate(keda_scaler_detail_errors_total{SCALERS}[$__rate_interval]))",
                        "{{scaledObject}}",
                    ),
                ),
            ),
            row(
                "Partitions",
                graph(
                    "Owned, match",
                    "Partitions of the events topic, by process.",
                    "short",
                    (f"sum by (instance) (mailrail_match_partitions{selector(component='match')})", "{{instance}}"),
                ),
                graph(
                    "Owned, deliver",
                    "Partitions of the deliveries topic, by process.",
                    "short",
                    (f"sum by (instance) (mailrail_deliver_partitions{selector(component='deliver')})", "{{instance}}"),
                ),
                graph(
                    "All owned",
                    "Below the number of partitions: some have no owner.",
                    "short",
                    ('mailrail:match_partitions:sum{pipeline=~"$pipeline"}', "match {{pipeline}}"),
                    ('mailrail:deliver_partitions:sum{pipeline=~"$pipeline"}', "deliver {{pipeline}}"),
                ),
            ),
            row(
                "Takeovers",
                graph(
                    "Takeovers",
                    "Partitions that got a new owner.",
                    "short",
                    (
                        f"sum by (pipeline) (increase(mailrail_deliver_takeover_seconds_count{selector()}[$__rate_interval]))",
                        "{{pipeline}}",
                    ),
                ),
                graph(
                    "Time of a takeover",
                    "From an assignment to the first delivery that may start.",
                    "s",
                    *quantiles("mailrail_deliver_takeover_seconds"),
                ),
                graph(
                    "After killed owners",
                    "Partitions taken over without a last word, and deliveries that may have been sent twice.",
                    "short",
                    (
                        f"sum(increase(mailrail_deliver_unclean_takeovers_total{selector()}[$__rate_interval]))",
                        "unclean takeovers",
                    ),
                    (
                        f"sum(increase(mailrail_deliver_duplicates_suspected_total{selector()}[$__rate_interval]))",
                        "suspected duplicates",
                    ),
                ),
            ),
            row(
                "Commits",
                graph(
                    "Lease left",
                    "Time until no attempt may start unless a commit is accepted before.",
                    "s",
                    (
                        f"min by (instance) (mailrail_deliver_lease_margin_seconds{selector(component='deliver')})",
                        "{{instance}}",
                    ),
                ),
                graph(
                    "Age of what holds a commit",
                    "The oldest record that is not done, as looked at.",
                    "s",
                    *quantiles("mailrail_deliver_prefix_seconds"),
                ),
                graph(
                    "Journal",
                    "Entries from the first that is still needed.",
                    "short",
                    (f"sum by (pipeline) (mailrail_deliver_journal_pinned_entries{selector()})", "{{pipeline}}"),
                ),
            ),
            row(
                "Mailboxes",
                graph(
                    "With something waiting",
                    "Mailboxes, as control counts them once a minute.",
                    "short",
                    (f"max by (queue) (mailrail_mailbox_waiting{selector()})", "{{queue}}"),
                ),
                graph(
                    "Depth of the deepest",
                    "Records in one mailbox, by class.",
                    "short",
                    (f"max by (queue, class) (mailrail_mailbox_depth{selector(quantile='1')})", "{{queue}} {{class}}"),
                ),
                graph(
                    "Routing by reason",
                    "Why a payload went to which bucket; sizing_unavailable: Redis did not answer.",
                    "ops",
                    (
                        f"sum by (surface, reason) (rate(mailrail_mailbox_routing_total{selector()}[$__rate_interval]))",
                        "{{surface}} {{reason}}",
                    ),
                ),
            ),
        ],
    )
