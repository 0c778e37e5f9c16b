"""Where the event log is delivered to: Kafka, an address, a table. One file each; `opening` makes them of documents."""
